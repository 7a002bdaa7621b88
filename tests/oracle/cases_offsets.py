"""Offsets of groups: committing, fetching and deleting them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.wire.messages import ZERO_ID
from oracle import groups
from oracle.cases import Case, Step
from oracle.sides import UNKNOWN_ID, Side

Given = Callable[[Side], None]
FENCED = range(7, 11)  # versions of OffsetCommit that know static members
TOO_LONG = "x" * 4097


def _committed(partition: int = 0, offset: int = 5, metadata: str | None = "a note", epoch: int = -1) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_leader_epoch": epoch,
        "committed_metadata": metadata,
    }


def _topic(side: Side, *rows: dict[str, Any], name: str = "t", topic_id: Any = None) -> dict[str, Any]:
    identifier = side.id(name) if topic_id is None else topic_id
    return {"name": side.name(name), "topic_id": identifier, "partitions": list(rows)}


def _commit(side: Side, *topics: dict[str, Any], member: str = "", **more: Any) -> dict[str, Any]:
    return {
        "group_id": side.name("g"),
        "generation_id_or_member_epoch": side.generation if member else -1,
        "member_id": side.members.get(member, member),
        "retention_time": -1,
        "topics": list(topics),
        **more,
    }


def _group_row(side: Side, group: str, topics: Any, **more: Any) -> dict[str, Any]:
    if topics is not None:
        topics = [
            {"name": side.name(name), "topic_id": side.id(name), "partition_indexes": list(partitions)}
            for name, partitions in topics
        ]
    return {"group_id": side.name(group) if group else "", "topics": topics, **more}


def _fetch(side: Side, group: str, topics: Any, **more: Any) -> dict[str, Any]:
    """Both shapes of the request: one group before version 8, several from then on."""
    row = _group_row(side, group, topics)
    of_group = {key: more.pop(key) for key in ("member_id", "member_epoch") if key in more}
    return {**row, "groups": [{**row, **of_group}], **more}


FETCHED = Step("offset_fetch", 9, lambda s: _fetch(s, "g", None))


def _with_topics(given: Given) -> Given:
    def prepare(side: Side) -> None:
        side.create("t", 2)
        side.create("u", 2)
        given(side)

    return prepare


def _committing(
    name: str,
    *rows: dict[str, Any],
    given: Given = groups.coordinated,
    member: str = "",
    versions: Any = None,
    **more: Any,
) -> Case:
    """Commits to the case's topic; afterwards, every offset of the group."""
    return Case(name, "offset_commit", lambda s: _commit(s, _topic(s, *rows), member=member, **more),
                given=_with_topics(given), then=[FETCHED], versions=versions)  # fmt: skip


def _sending(name: str, fields: Callable[[Side], dict[str, Any]], **more: Any) -> Case:
    return Case(name, "offset_commit", fields, given=_with_topics(groups.coordinated), then=[FETCHED], **more)


COMMITTING = (
    _committing("commit an offset", _committed()),
    _committing("commit two offsets", _committed(), _committed(1, 7)),
    _committing("commit an offset twice in a request", _committed(0, 5), _committed(0, 6)),
    _committing("commit an offset with its leader's epoch", _committed(epoch=3)),
    _committing("commit an offset with a strange leader's epoch", _committed(epoch=-7)),
    _committing("commit an offset without metadata", _committed(metadata="")),
    _committing("commit an offset with null for metadata", _committed(metadata=None)),
    _committing("commit an offset with the longest metadata", _committed(metadata=TOO_LONG[1:])),
    _committing("commit an offset with metadata that is too long", _committed(metadata=TOO_LONG), _committed(1)),
    _committing("commit the offset zero", _committed(offset=0)),
    _committing("commit the offset minus one", _committed(offset=-1)),
    _committing("commit the offset minus two", _committed(offset=-2)),
    _committing("commit an offset beyond the end", _committed(offset=2**62)),
    _committing("commit to an unknown partition", _committed(9), _committed()),
    _committing("commit to a negative partition", _committed(-1)),
    _committing("commit to no partition"),
    _committing("commit for a time of one's own", _committed(), retention_time=60_000, versions=(2, 3, 4)),
    _sending("commit to an unknown topic", lambda s: _commit(s, _topic(s, _committed(), name="absent",
                                                                      topic_id=ZERO_ID))),
    _sending("commit to an unknown topic id", lambda s: _commit(s, _topic(s, _committed(), topic_id=UNKNOWN_ID)),
             versions=(10,)),
    _sending("commit to two topics", lambda s: _commit(s, _topic(s, _committed()), _topic(s, _committed(), name="u"))),
    _sending("commit to a known and an unknown topic",
             lambda s: _commit(s, _topic(s, _committed(), name="absent", topic_id=UNKNOWN_ID),
                               _topic(s, _committed()))),
    _sending("commit to no topic", _commit),
    _sending("commit to a group without a name", lambda s: _commit(s, _topic(s, _committed()), group_id="")),
    _committing("commit as a member", _committed(), given=groups.stable, member="a"),
    _committing("commit as one of two", _committed(), given=groups.two, member="b"),
    _committing("commit as nobody", _committed(), given=groups.stable, member="nobody"),
    _committing("commit in an older generation", _committed(), given=groups.stable, member="a",
                generation_id_or_member_epoch=0),
    _committing("commit in a generation to come", _committed(), given=groups.stable, member="a",
                generation_id_or_member_epoch=9),
    _committing("commit as a member in no generation", _committed(), given=groups.stable, member="a",
                generation_id_or_member_epoch=-1),
    _committing("commit from outside to a group with members", _committed(), given=groups.stable),
    _committing("commit from outside to an empty group", _committed(), given=groups.empty),
    _committing("commit as a member of a group nobody knows", _committed(), member="nobody",
                generation_id_or_member_epoch=1),
    _committing("commit as a member without an id", _committed(), given=groups.stable,
                generation_id_or_member_epoch=1),
    _committing("commit before synchronising", _committed(), given=groups.alone, member="a"),
    _committing("commit in the middle of a rebalance", _committed(), given=groups.preparing, member="a"),
    _committing("commit as a static member", _committed(), given=groups.static, member="a", versions=FENCED,
                group_instance_id="i"),
    _committing("commit as a static member with another's id", _committed(), given=groups.static, member="nobody",
                versions=FENCED, group_instance_id="i"),
    _committing("commit as a static member nobody knows", _committed(), given=groups.stable, member="a",
                versions=FENCED, group_instance_id="j"),
)  # fmt: skip


def _with_offsets(side: Side) -> None:
    side.create("t", 3)
    side.create("u")
    groups.coordinated(side)
    rows = (_committed(0, 5, "a note", 2), _committed(2, 0, "", -1))
    side.ask("offset_commit", 8, **_commit(side, _topic(side, *rows), _topic(side, _committed(), name="u")))


def _with_offsets_and_a_member(side: Side) -> None:
    _with_offsets(side)
    groups.stable(side)


def _with_offsets_in_a_rebalance(side: Side) -> None:
    _with_offsets(side)
    groups.preparing(side)


def _fetching(name: str, topics: Any, group: str = "g", given: Given = _with_offsets, versions: Any = None,
              **more: Any) -> Case:  # fmt: skip
    return Case(name, "offset_fetch", lambda s: _fetch(s, group, topics, **more), given=given, versions=versions)


FETCHING = (
    _fetching("fetch an offset", [("t", [0])]),
    _fetching("fetch three offsets, one never committed", [("t", [0, 1, 2])]),
    _fetching("fetch offsets of two topics", [("u", [0]), ("t", [2])]),
    _fetching("fetch an offset twice", [("t", [0, 0])]),
    _fetching("fetch every offset", None, versions=range(2, 11)),
    _fetching("fetch every offset of a group nobody knows", None, "absent", versions=range(2, 11)),
    _fetching("fetch an offset of a group nobody knows", [("t", [0])], "absent"),
    _fetching("fetch an offset of a group without a name", [("t", [0])], ""),
    _fetching("fetch no offset", []),
    _fetching("fetch no offset of a topic", [("t", [])]),
    _fetching("fetch the offset of an unknown partition", [("t", [9, -1])]),
    _fetching("fetch the offset of an unknown topic", [("absent", [0])], versions=range(1, 10)),
    _fetching("fetch stable offsets", [("t", [0, 1])], versions=range(7, 11), require_stable=True),
    _fetching("fetch every stable offset", None, versions=range(7, 11), require_stable=True),
    _fetching("fetch an offset of a group with a member", [("t", [0])], given=_with_offsets_and_a_member),
    _fetching("fetch an offset as nobody", [("t", [0])], given=_with_offsets_and_a_member, versions=(9, 10),
              member_id="nobody", member_epoch=1),
    _fetching("fetch an offset as nobody of a group without members", [("t", [0])], versions=(9, 10),
              member_id="nobody", member_epoch=1),
    Case("fetch the offset of an unknown topic id", "offset_fetch",
         lambda s: {"groups": [{"group_id": s.name("g"),
                                "topics": [{"topic_id": UNKNOWN_ID, "partition_indexes": [0]}]}]},
         given=_with_offsets, versions=(10,)),
    Case("fetch offsets of three groups", "offset_fetch",
         lambda s: {"groups": [_group_row(s, "g", None), _group_row(s, "absent", [("t", [0])]),
                               _group_row(s, "g", [("t", [1])])]},
         given=_with_offsets, versions=(8, 9, 10)),
    Case("fetch offsets of no group", "offset_fetch", lambda s: {"groups": []}, given=_with_offsets,
         versions=(8, 9, 10)),
)  # fmt: skip


def _deleting(name: str, topics: Any, group: str = "g", given: Given = _with_offsets) -> Case:
    def fields(side: Side) -> dict[str, Any]:
        rows = [
            {"name": side.name(topic), "partitions": [{"partition_index": number} for number in partitions]}
            for topic, partitions in topics
        ]
        return {"group_id": side.name(group) if group else "", "topics": rows}

    return Case(name, "offset_delete", fields, given=given, then=[FETCHED])


DELETING = (
    _deleting("delete an offset", [("t", [0])]),
    _deleting("delete offsets of two topics", [("t", [0, 2]), ("u", [0])]),
    _deleting("delete an offset never committed", [("t", [1])]),
    _deleting("delete the offset of an unknown partition", [("t", [9, 0])]),
    _deleting("delete the offset of an unknown topic", [("absent", [0]), ("u", [0])]),
    _deleting("delete no offset", []),
    _deleting("delete no offset of a topic", [("t", [])]),
    _deleting("delete an offset twice", [("t", [0, 0])]),
    _deleting("delete an offset of a group nobody knows", [("t", [0])], "absent"),
    _deleting("delete an offset of a group without a name", [("t", [0])], ""),
    _deleting("delete the offsets of a subscribed and of another topic", [("t", [0]), ("u", [0])],
              given=_with_offsets_and_a_member),
    _deleting("delete an offset in the middle of a rebalance", [("t", [0]), ("u", [0])],
              given=_with_offsets_in_a_rebalance),
)  # fmt: skip

CASES = (*COMMITTING, *FETCHING, *DELETING)
