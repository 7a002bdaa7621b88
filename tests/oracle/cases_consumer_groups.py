"""Groups of the consumer protocol: heartbeats that join, stay, give back and leave, and what is asked about them.

Which members get which partitions is compared where one member gets everything or one of two gives up its half.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from kit.brokers.brokers import SETTINGS
from kit.brokers.processes import until
from kit.wire.messages import Answer
from oracle.cases import Case, Step
from oracle.groups import coordinated, join_fields
from oracle.groups import stable as classic
from oracle.sides import Side

Given = Callable[[Side], None]
PARTITIONS = 4
JOIN = {"member_epoch": 0, "rebalance_timeout": 60_000, "topic_partitions": []}


def beat_fields(side: Side, **more: Any) -> dict[str, Any]:
    """A heartbeat of member m1, which says nothing but that it is there."""
    fields: dict[str, Any] = {
        "group_id": side.name("g"), "member_id": "m1", "member_epoch": 1, "instance_id": None, "rack_id": None,
        "rebalance_timeout": -1, "subscribed_topic_names": None, "server_assignor": None, "topic_partitions": None,
    }  # fmt: skip
    return {**fields, **more}


def beat(side: Side, **more: Any) -> Answer:
    answer = side.ask("consumer_group_heartbeat", 1, **beat_fields(side, **more))
    assert answer["error_code"] == "none", f"{side.broker.name}: {answer}"
    return answer


def joins(side: Side, member: str = "m1", **more: Any) -> Answer:
    return beat(side, **{**JOIN, "member_id": member, "subscribed_topic_names": [side.name("t")], **more})


def topic(side: Side) -> None:
    """A topic that the coordinator knows: another group of the same partition of offsets can be assigned it.

    Kafka tells new topics to each such partition's groups for themselves, one sooner than the other.
    """
    partition = _partition_of_offsets(side.name("g"))
    shorts = (f"probe{number}" for number in count())
    probe = next(short for short in shorts if _partition_of_offsets(side.name(short)) == partition)
    coordinated(side)
    coordinated(side, probe)
    side.create("t", partitions=PARTITIONS)
    until(lambda: bool(joins(side, group_id=side.name(probe))["assignment"]["topic_partitions"]), "the topic")
    beat(side, group_id=side.name(probe), member_epoch=-1)


def _partition_of_offsets(group: str) -> int:
    """Where Kafka keeps a group: Java's hash of its name, without the sign, in so many partitions."""
    hashed = 0
    for character in group:
        hashed = (31 * hashed + ord(character)) & 0xFFFFFFFF
    magnitude = hashed if hashed < 1 << 31 else (1 << 32) - hashed
    return magnitude % int(SETTINGS["offsets.topic.num.partitions"])


def one(side: Side) -> None:
    """A group of m1, which has everything."""
    topic(side)
    joins(side)


def static(side: Side) -> None:
    topic(side)
    joins(side, instance_id="i")


def static_away(side: Side) -> None:
    """A static member that has said it will be back."""
    static(side)
    beat(side, member_epoch=-2, instance_id="i")


def empty(side: Side) -> None:
    one(side)
    beat(side, member_epoch=-1)


def by_pattern(side: Side) -> None:
    """A group of m1, whose pattern is resolved."""
    topic(side)
    joins(side, subscribed_topic_names=None, subscribed_topic_regex=f"{side.name('t')}.*")
    until(lambda: _epoch(side) == 2, "the pattern is resolved")


def _epoch(side: Side) -> int:
    (group,) = side.ask("consumer_group_describe", 1, group_ids=[side.name("g")])["groups"]
    return int(group["group_epoch"])


def _pattern(name: str, given: Given, pattern: str = "", **more: Any) -> Case:
    """A heartbeat with a pattern, in the version that has patterns."""

    def fields(side: Side) -> dict[str, Any]:
        regex = f"{side.name('t')}{pattern}" if pattern else None
        return beat_fields(side, **{"subscribed_topic_regex": regex, **more})

    return Case(name, "consumer_group_heartbeat", fields, given=given, versions=[1])


DESCRIBED = Step(
    "consumer_group_describe", 1, lambda s: {"group_ids": [s.name("g")], "include_authorized_operations": True}
)


def _beating(name: str, given: Given = topic, **more: Any) -> Case:
    return Case(name, "consumer_group_heartbeat", lambda s: beat_fields(s, **more), given=given, then=[DESCRIBED])


def _joining(name: str, given: Given = topic, topics: tuple[str, ...] | None = ("t",), **more: Any) -> Case:
    def fields(side: Side) -> dict[str, Any]:
        names = None if topics is None else [side.name(short) for short in topics]
        return beat_fields(side, **{**JOIN, "subscribed_topic_names": names, **more})

    return Case(name, "consumer_group_heartbeat", fields, given=given, then=[DESCRIBED])


JOINING = (
    _joining("join a consumer group"),
    _joining("join a consumer group for a topic that is not there", topics=("nowhere",)),
    _joining("join a consumer group for nothing", topics=()),
    _joining("join a consumer group without saying for what", topics=None),
    _joining("join a consumer group without a name", group_id=""),
    _joining("join a consumer group with an instance id without a name", instance_id=""),
    _joining("join a consumer group in a rack without a name", rack_id=""),
    _joining("join a consumer group in a rack", rack_id="r"),
    _joining("join a consumer group with no time to rebalance", rebalance_timeout=-1),
    _joining("join a consumer group with partitions", topic_partitions=None),
    _joining("join a consumer group with the range assignor", server_assignor="range"),
    _joining("join a consumer group with an assignor nobody knows", server_assignor="nix"),
    _joining("join a consumer group again", one),
    _joining("join a consumer group again for something else", one, topics=("t", "u")),
    _joining("join a consumer group as a static member", instance_id="i"),
    _joining("join a consumer group with an instance id in use", static, member_id="m2", instance_id="i"),
    _joining("join a consumer group again with one's own instance id", static, instance_id="i"),
    _joining("come back to a consumer group as a static member", static_away, member_id="m2", instance_id="i"),
    _joining("join an empty consumer group", empty),
    _joining("join a consumer group with a blank name", group_id=" "),
    _joining("join a consumer group with a blank id", member_id=" "),
    _joining("join a consumer group with a blank instance id", instance_id=" "),
    _joining("join a consumer group in a blank rack", rack_id=" "),
    _joining("join a consumer group for a topic named twice", topics=("t", "t")),
    _joining("join a consumer group by a pattern that is none", topics=None, subscribed_topic_regex="["),
)

PATTERNS = (
    _pattern("join a consumer group by a pattern", topic, ".*", **JOIN),
    _pattern("join a consumer group by a pattern without topics", topic, "-nothing.*", **JOIN),
    _pattern("a heartbeat after joining by a pattern", by_pattern),
    _pattern("join a consumer group by a pattern of another", by_pattern, ".*", member_id="m2", **JOIN),
)

BEATING = (
    _beating("a heartbeat in a group that is not there"),
    _beating("a heartbeat of nobody", one, member_id="nobody"),
    _beating("a heartbeat of an epoch to come", one, member_epoch=9),
    _beating("a heartbeat of an epoch long past", one, member_epoch=1),
    _beating("a heartbeat of the present epoch", one, member_epoch=2),
    _beating("a heartbeat of an impossible epoch", one, member_epoch=-3),
    _beating("a heartbeat for another topic", one, member_epoch=2, subscribed_topic_names=["nowhere"]),
    _beating("a heartbeat with another assignor", one, member_epoch=2, server_assignor="range"),
    _beating("a heartbeat that holds nothing", one, member_epoch=2, topic_partitions=[]),
    _beating("a heartbeat without its instance id", static, member_epoch=2),
    _beating("a heartbeat with somebody's instance id", static, member_id="m2", member_epoch=2, instance_id="i"),
    _beating("a heartbeat with nobody's instance id", static, member_epoch=2, instance_id="nobody"),
    _beating("a heartbeat in a classic group", classic),
    _beating("a heartbeat without an id", one, member_id="", member_epoch=2),
    _beating("a heartbeat from another rack", one, member_epoch=2, rack_id="r"),
    _beating("a heartbeat with an assignor nobody knows", one, member_epoch=2, server_assignor="nix"),
    _beating(
        "a heartbeat that says everything anew", one, member_epoch=2, rebalance_timeout=45_000, topic_partitions=[]
    ),
)

LEAVING = (
    _beating("leave a consumer group that is not there", member_epoch=-1),
    _beating("leave a consumer group", one, member_epoch=-1),
    _beating("leave a consumer group as nobody", one, member_id="nobody", member_epoch=-1),
    _beating("leave a consumer group for now without an instance id", one, member_epoch=-2),
    _beating("leave a consumer group for now", static, member_epoch=-2, instance_id="i"),
    _beating("leave a consumer group for good", static, member_epoch=-1, instance_id="i"),
    _beating("leave a consumer group for now as nobody", static, member_epoch=-2, instance_id="nobody"),
    _beating("leave a classic group by a heartbeat", classic, member_epoch=-1),
)


def _describing(name: str, given: Given, api: str = "consumer_group_describe", versions: Any = None) -> Case:
    key = "group_ids" if api == "consumer_group_describe" else "groups"
    fields: Callable[[Side], dict[str, Any]] = lambda s: {  # noqa: E731
        key: [s.name("g")], "include_authorized_operations": True,
    }  # fmt: skip
    return Case(name, api, fields, given=given, versions=versions)


def _listed(name: str, given: Given, **filters: Any) -> Case:
    return Case(name, "list_groups", lambda s: dict(filters), given=given, versions=[5], only_own=True)


def _committing(name: str, given: Given, member: str, epoch: int) -> Case:
    def fields(side: Side) -> dict[str, Any]:
        partitions = [
            {"partition_index": number, "committed_offset": 3, "committed_leader_epoch": -1, "committed_metadata": ""}
            for number in range(2)
        ]
        row = {"name": side.name("t"), "topic_id": side.id("t"), "partitions": partitions}
        return {
            "group_id": side.name("g"), "generation_id_or_member_epoch": epoch, "member_id": member,
            "group_instance_id": None, "topics": [row],
        }  # fmt: skip

    return Case(name, "offset_commit", fields, given=given, versions=range(7, 11))


def _fetching(name: str, given: Given, member: str | None, epoch: int) -> Case:
    def fields(side: Side) -> dict[str, Any]:
        row = {"name": side.name("t"), "topic_id": side.id("t"), "partition_indexes": [0, 1]}
        group = {"group_id": side.name("g"), "member_id": member, "member_epoch": epoch, "topics": [row]}
        return {"groups": [group], "require_stable": False}

    return Case(name, "offset_fetch", fields, given=given, versions=range(9, 11))


def _removing(name: str, given: Given, *members: tuple[str, str | None]) -> Case:
    rows = [{"member_id": member, "group_instance_id": instance, "reason": None} for member, instance in members]
    return Case(name, "leave_group", lambda s: {"group_id": s.name("g"), "members": rows}, given=given,
                versions=range(3, 6), then=[DESCRIBED])  # fmt: skip


ASKING = (
    _describing("describe a consumer group", one),
    _describing("describe a consumer group that is not there", topic),
    _describing("describe an empty consumer group", empty),
    _describing("describe a classic group as a consumer group", classic),
    _describing("describe a consumer group as a classic one", one, "describe_groups", range(3, 7)),
    _listed("list consumer groups", one, states_filter=[], types_filter=["consumer"]),
    _listed("list classic groups, of which this is none", one, states_filter=[], types_filter=["Classic"]),
    _listed("list stable groups of the consumer protocol", one, states_filter=["stable"], types_filter=[]),
    _listed("list empty groups of the consumer protocol", empty, states_filter=["Empty"], types_filter=[]),
    Case("delete a consumer group with a member", "delete_groups", lambda s: {"groups_names": [s.name("g")]},
         given=one),
    Case("delete an empty consumer group", "delete_groups", lambda s: {"groups_names": [s.name("g")]}, given=empty,
         then=[DESCRIBED]),
    Case("delete offsets of a topic that a consumer group reads", "offset_delete",
         lambda s: {"group_id": s.name("g"), "topics": [{"name": s.name("t"), "partitions": [{"partition_index": 0}]}]},
         given=one),
    _committing("commit as a member of a consumer group", one, "m1", 2),
    _committing("commit as a member of a consumer group from the past", one, "m1", 1),
    _committing("commit as a member of a consumer group from the future", one, "m1", 3),
    _committing("commit to a consumer group as nobody", one, "nobody", 2),
    _committing("commit to a consumer group without being a member", one, "", -1),
    _committing("commit to an empty consumer group", empty, "", -1),
    _fetching("fetch offsets as a member of a consumer group", one, "m1", 2),
    _fetching("fetch offsets of a consumer group from the past", one, "m1", 1),
    _fetching("fetch offsets of a consumer group as nobody", one, "nobody", 2),
    _fetching("fetch offsets of a consumer group without being a member", one, None, -1),
    _removing("remove a member of a consumer group", one, ("m1", None)),
    _removing("remove nobody from a consumer group", one, ("nobody", None), ("", "i")),
    _removing("remove a static member of a consumer group", static, ("", "i")),
    Case("a classic heartbeat in a consumer group", "heartbeat",
         lambda s: {"group_id": s.name("g"), "generation_id": 2, "member_id": "m1"}, given=one),
    Case("a classic synchronisation in a consumer group", "sync_group",
         lambda s: {"group_id": s.name("g"), "generation_id": 2, "member_id": "m1"}, given=one),
    Case("a classic join of another type to a consumer group", "join_group",
         lambda s: join_fields(s, protocol_type="connect"), given=one),
    Case("a classic leave from a consumer group", "leave_group",
         lambda s: {"group_id": s.name("g"), "member_id": "m1"}, given=one, versions=range(3)),
)  # fmt: skip

CASES = (*JOINING, *PATTERNS, *BEATING, *LEAVING, *ASKING)
