"""Classic groups: coordinators, joining, synchronising, heartbeats, leaving, and what administrators ask of groups.

A join that names a protocol twice is not compared: Kafka never answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from oracle import groups
from oracle.cases import Case, Step
from oracle.groups import coordinated, join_fields, subscription, sync_fields
from oracle.sides import Side

Given = Callable[[Side], None]
STATIC = range(5, 10)  # versions of JoinGroup that know static members


def _group(side: Side, **more: Any) -> dict[str, Any]:
    return {"group_id": side.name("g"), **more}


DESCRIBED = Step("describe_groups", 5, lambda s: {"groups": [s.name("g")]})


def _finding(name: str, versions: range | None = None, *keys: str, kind: int = 0) -> Case:
    """Both shapes of the request: one key before version 4, several from then on."""
    return Case(name, "find_coordinator",
                lambda s: {"key": s.name(keys[0]) if keys and keys[0] else "", "key_type": kind,
                           "coordinator_keys": _names(s, keys)},
                given=coordinated, versions=versions)  # fmt: skip


FINDING = (
    _finding("find a group's coordinator", None, "g"),
    _finding("find the coordinators of three groups", range(4, 7), "g", "h", "i"),
    _finding("find the coordinator of a group without a name", None, ""),
    _finding("find no coordinator at all", range(4, 7)),
    _finding("find a coordinator of an unknown kind", range(1, 7), "g", kind=9),
    _finding("find a coordinator of a negative kind", range(1, 7), "g", kind=-1),
)


def _joining(name: str, given: Given = coordinated, versions: Any = None, member: str = "", **more: Any) -> Case:
    # A member that has no time to take its assignment is gone at once or a moment later: nobody looks at that.
    then = [] if more.get("rebalance_timeout", 1) <= 0 else [DESCRIBED]
    return Case(name, "join_group", lambda s: join_fields(s, member, **more), given=given, then=then,
                versions=versions)  # fmt: skip


def _protocols(*names: str, metadata: bytes = b"m") -> list[dict[str, Any]]:
    return [{"name": name, "metadata": metadata} for name in names]


JOINING = (
    _joining("join without an id"),
    _joining("join with the id that was given", groups.member_id, member="a"),
    _joining("join with an id nobody has", member="nobody"),
    _joining("join with an id nobody has in a group with members", groups.stable, member="nobody"),
    _joining("join a group without a name", group_id=""),
    _joining("join with too short a session", session_timeout=10),
    _joining("join with too long a session", session_timeout=2_000_000),
    _joining("join with a session of no time", session_timeout=0),
    _joining("join with a negative session", session_timeout=-1),
    _joining("join with no time to rebalance", groups.member_id, member="a", rebalance_timeout=0),
    _joining("join with a negative time to rebalance", groups.member_id, range(4, 10), "a", rebalance_timeout=-1),
    _joining("join without protocols", protocols=[]),
    _joining("join without a type of protocol", protocol_type=""),
    _joining("join with the id that was given, without protocols", groups.member_id, member="a", protocols=[]),
    _joining("join with a type of protocol of one's own", groups.member_id, range(4, 10), member="a",
             protocol_type="connect"),
    _joining("join a group of another type of protocol", groups.stable, protocol_type="connect"),
    _joining("join with another type of protocol as a member", groups.stable, member="a", protocol_type="connect"),
    _joining("join with protocols that no member speaks", groups.stable, protocols=_protocols("other")),
    _joining("join with protocols of one's own as the only member", groups.stable, member="a",
             protocols=_protocols("other", "range")),
    _joining("join with two protocols", groups.member_id, member="a", protocols=_protocols("sticky", "range")),
    _joining("join with metadata that is no subscription", groups.member_id, member="a",
             protocols=_protocols("range", metadata=b"\xff")),
    # Newer versions could say that there is no protocol, and Kafka then says it of this one too.
    _joining("join with a protocol without a name", groups.member_id, range(7), "a", protocols=_protocols("")),
    _joining("join again as the leader", groups.stable, member="a"),
    _joining("join again with another subscription", groups.stable, member="a",
             protocols=[{"name": "range", "metadata": subscription("elsewhere")}]),
    _joining("join again before synchronising", groups.alone, member="a"),
    _joining("join with a reason", groups.member_id, range(8, 10), member="a", reason="because"),
    _joining("join as a static member", versions=STATIC, group_instance_id="i"),
    _joining("join as a static member with an id nobody has", versions=STATIC, group_instance_id="i", member="nobody"),
    _joining("join as a static member that came back", groups.static, versions=STATIC, group_instance_id="i"),
    _joining("join as a static member with its id", groups.static, versions=STATIC, member="a", group_instance_id="i"),
    _joining("join as a static member with another's id", groups.static, versions=STATIC, member="nobody",
             group_instance_id="i"),
    _joining("join as a static member that came back with another subscription", groups.static, versions=STATIC,
             group_instance_id="i", protocols=[{"name": "range", "metadata": subscription("elsewhere")}]),
    _joining("join as a static member with an empty name", versions=STATIC, group_instance_id=""),
)  # fmt: skip


def _syncing(name: str, given: Given = groups.alone, member: str = "a", versions: Any = None, **more: Any) -> Case:
    def fields(side: Side) -> dict[str, Any]:
        side.members.setdefault("a", "a")  # a case may start without members
        return {**sync_fields(side, "a"), "member_id": side.members.get(member, member), **more}

    return Case(name, "sync_group", fields, given=given, then=[DESCRIBED], versions=versions)


SYNCING = (
    _syncing("synchronise as the leader"),
    _syncing("synchronise again", groups.stable),
    _syncing("synchronise again with another assignment", groups.stable,
             assignments=[{"member_id": "nobody", "assignment": b"x"}]),
    _syncing("synchronise without assignments", assignments=[]),
    _syncing("synchronise with an assignment for nobody", assignments=[{"member_id": "nobody", "assignment": b"x"}]),
    _syncing("synchronise as nobody", member="nobody"),
    _syncing("synchronise without an id", member=""),
    _syncing("synchronise in an older generation", generation_id=0),
    _syncing("synchronise in a generation to come", generation_id=7),
    _syncing("synchronise a group nobody knows", coordinated),
    _syncing("synchronise a group without a name", group_id=""),
    _syncing("synchronise with another type of protocol", versions=(5,), protocol_type="connect"),
    _syncing("synchronise with another protocol", versions=(5,), protocol_name="sticky"),
    _syncing("synchronise without naming the protocol", versions=(5,), protocol_type=None, protocol_name=None),
    _syncing("synchronise in the middle of a rebalance", groups.preparing),
    _syncing("synchronise an empty group", groups.empty),
    _syncing("synchronise as a static member", groups.static, versions=range(3, 6), group_instance_id="i"),
    _syncing("synchronise as a static member with another's id", groups.static, "nobody", range(3, 6),
             group_instance_id="i"),
    _syncing("synchronise as a static member nobody knows", groups.stable, versions=range(3, 6),
             group_instance_id="j"),
)  # fmt: skip


def _beating(name: str, given: Given = groups.stable, member: str = "a", versions: Any = None, **more: Any) -> Case:
    return Case(name, "heartbeat",
                lambda s: _group(s, generation_id=s.generation, member_id=s.members.get(member, member)) | more,
                given=given, versions=versions)  # fmt: skip


BEATING = (
    _beating("beat"),
    _beating("beat as one of two", groups.two, "b"),
    _beating("beat as nobody", member="nobody"),
    _beating("beat without an id", member=""),
    _beating("beat in an older generation", generation_id=0),
    _beating("beat in a generation to come", generation_id=9),
    _beating("beat in no generation", generation_id=-1),
    _beating("beat in a group nobody knows", coordinated),
    _beating("beat in a group without a name", group_id=""),
    _beating("beat before synchronising", groups.alone),
    _beating("beat before joining", groups.member_id),
    _beating("beat in the middle of a rebalance", groups.preparing),
    _beating("beat in an empty group", groups.empty),
    _beating("beat as a static member", groups.static, versions=(3, 4), group_instance_id="i"),
    _beating("beat as a static member with another's id", groups.static, "nobody", (3, 4), group_instance_id="i"),
    _beating("beat as a static member nobody knows", groups.stable, versions=(3, 4), group_instance_id="j"),
)


def _leaving(name: str, given: Given, *who: tuple[str, str | None], versions: Any = None, **more: Any) -> Case:
    """Both shapes of the request: one member before version 3, several from then on."""

    def fields(side: Side) -> dict[str, Any]:
        ids = [(side.members.get(member, member), instance) for member, instance in who]
        rows = [{"member_id": member, "group_instance_id": instance, "reason": "done"} for member, instance in ids]
        return _group(side, member_id=ids[0][0] if ids else "", members=rows) | more

    return Case(name, "leave_group", fields, given=given, then=[DESCRIBED], versions=versions)


SEVERAL = range(3, 6)
LEAVING = (
    _leaving("leave", groups.stable, ("a", None)),
    _leaving("leave as nobody", groups.stable, ("nobody", None)),
    _leaving("leave a group nobody knows", coordinated, ("nobody", None)),
    _leaving("leave a group without a name", groups.stable, ("a", None), group_id=""),
    _leaving("leave before joining", groups.member_id, ("a", None)),
    _leaving("leave before synchronising", groups.alone, ("a", None)),
    _leaving("leave an empty group", groups.empty, ("a", None)),
    _leaving("leave as one of two", groups.two, ("b", None)),
    _leaving("leave as both of two", groups.two, ("a", None), ("b", None), versions=SEVERAL),
    _leaving("leave as a member and as nobody", groups.stable, ("nobody", None), ("a", None), versions=SEVERAL),
    _leaving("leave as no one at all", groups.stable, versions=SEVERAL),
    _leaving("leave by instance", groups.static, ("", "i"), versions=SEVERAL),
    _leaving("leave by instance and id", groups.static, ("a", "i"), versions=SEVERAL),
    _leaving("leave by instance with another's id", groups.static, ("nobody", "i"), versions=SEVERAL),
    _leaving("leave by an instance nobody knows", groups.static, ("", "j"), versions=SEVERAL),
    _leaving("leave in the middle of a rebalance", groups.preparing, ("a", None)),
)


def _with_states(side: Side) -> None:
    """Beside the case's stable group, one that only holds offsets."""
    side.create("t")
    groups.stable(side)
    rows = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
    topic = {"name": side.name("t"), "partitions": rows}
    coordinated(side, "h")
    answer = side.ask("offset_commit", 8, group_id=side.name("h"), generation_id_or_member_epoch=-1, topics=[topic])
    assert answer["topics"][0]["partitions"][0]["error_code"] == "none", answer


def _listing(name: str, versions: range | None = None, **filters: list[str]) -> Case:
    return Case(name, "list_groups", lambda s: filters, given=_with_states, versions=versions, only_own=True)


LISTING = (
    _listing("list groups"),
    _listing("list stable groups", range(4, 6), states_filter=["Stable"]),
    _listing("list groups in a state in small letters", range(4, 6), states_filter=["empty"]),
    _listing("list groups in either state", range(4, 6), states_filter=["Empty", "Stable"]),
    _listing("list groups in an unknown state", range(4, 6), states_filter=["Tired"]),
    _listing("list groups in a rebalance", range(4, 6), states_filter=["PreparingRebalance", "CompletingRebalance"]),
    _listing("list classic groups", range(5, 6), types_filter=["classic"]),
    _listing("list groups of a type in capitals", range(5, 6), types_filter=["CLASSIC"]),
    _listing("list groups of the consumer protocol", range(5, 6), types_filter=["consumer"]),
    _listing("list groups of an unknown type", range(5, 6), types_filter=["tired"]),
    _listing("list stable classic groups", range(5, 6), types_filter=["classic"], states_filter=["Stable"]),
)


def _names(side: Side, shorts: Iterable[str]) -> list[str]:
    return [side.name(each) if each else "" for each in shorts]


def _describing(name: str, given: Given, *shorts: str, **more: Any) -> Case:
    return Case(name, "describe_groups", lambda s: {"groups": _names(s, shorts), **more}, given=given)


DESCRIBING = (
    _describing("describe a stable group", groups.stable, "g"),
    _describing("describe a group of two", groups.two, "g"),
    _describing("describe a group before its leader has spoken", groups.alone, "g"),
    _describing("describe a group in the middle of a rebalance", groups.preparing, "g"),
    _describing("describe a group of a member that has not joined", groups.member_id, "g"),
    _describing("describe an empty group", groups.empty, "g"),
    _describing("describe a static member", groups.static, "g"),
    _describing("describe a group nobody knows", coordinated, "absent"),
    _describing("describe two groups and one nobody knows", _with_states, "g", "h", "absent"),
    _describing("describe a group without a name", coordinated, ""),
    _describing("describe no group", coordinated),
    _describing("describe a group twice", groups.empty, "g", "g"),
    _describing("describe what one may do", groups.empty, "g", include_authorized_operations=True),
)


def _deleting(name: str, given: Given, *shorts: str) -> Case:
    return Case(name, "delete_groups", lambda s: {"groups_names": _names(s, shorts)}, given=given, then=[DESCRIBED])


DELETING = (
    _deleting("delete an empty group", groups.empty, "g"),
    _deleting("delete a group with a member", groups.stable, "g"),
    _deleting("delete a group of a member that has not joined", groups.member_id, "g"),
    _deleting("delete a group in the middle of a rebalance", groups.preparing, "g"),
    _deleting("delete a group nobody knows", coordinated, "absent"),
    _deleting("delete a group without a name", coordinated, ""),
    _deleting("delete a group with a member and one without", _with_states, "g", "h"),
    _deleting("delete a group twice", groups.empty, "g", "g"),
    _deleting("delete no group", coordinated),
)

CASES = (*FINDING, *JOINING, *SYNCING, *BEATING, *LEAVING, *LISTING, *DESCRIBING, *DELETING)
