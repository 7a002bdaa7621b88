"""Reading: fetches and their sessions, offsets by time, offsets by leader epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.wire.batches import Rec, batch
from kit.wire.messages import ZERO_ID
from oracle.cases import Case, Step, fetch_fields
from oracle.sides import UNKNOWN_ID, Side


def _fetch(name: str, offset: int, **more: Any) -> Case:
    """A fetch from a topic of nine records in three batches."""
    versions = more.pop("versions", None)
    return Case(name, "fetch", lambda s: fetch_fields(s, offset=offset, **more), given=lambda s: s.create_filled("t"),
                versions=versions)  # fmt: skip


def _two_partitions(side: Side, **more: Any) -> dict[str, Any]:
    rows = [{"partition": number, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for number in (1, 0)]
    topic = {"topic": side.name("t"), "topic_id": side.id("t"), "partitions": rows}
    return {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 22, "topics": [topic], **more}


def _fill_two_partitions(side: Side) -> None:
    side.create_kept("t", 2)
    for number in range(2):
        side.produce("t", batch([Rec(b"x" * 500)]), batch([Rec(b"y" * 500)]), partition=number)


def _topic_of_id(side: Side, identifier: Any) -> dict[str, Any]:
    fields = _two_partitions(side)
    fields["topics"][0]["topic_id"] = identifier
    return fields


FETCH = (
    _fetch("fetch from the start", 0),
    _fetch("fetch from a batch's start", 3),
    _fetch("fetch from the middle of a batch", 4),
    _fetch("fetch from the last record", 8),
    _fetch("fetch at the end", 9),
    _fetch("fetch beyond the end", 10),
    _fetch("fetch before the start", -1),
    _fetch("fetch committed records", 0, isolation_level=1),
    _fetch("fetch with an unknown isolation level", 0, isolation_level=7),
    _fetch("fetch with a small partition limit", 0, partition_max_bytes=10),
    _fetch("fetch with a partition limit in the middle of the second batch", 0, partition_max_bytes=150),
    _fetch("fetch with a partition limit of zero", 0, partition_max_bytes=0),
    _fetch("fetch with a negative partition limit", 0, partition_max_bytes=-1),
    _fetch("fetch with a small limit", 0, max_bytes=10),
    _fetch("fetch with a limit of zero", 0, max_bytes=0),
    _fetch("fetch an unknown partition", 0, partition=9),
    _fetch("fetch a negative partition", 0, partition=-1),
    _fetch("fetch with the leader's epoch", 0, current_leader_epoch=0, versions=range(9, 19)),
    _fetch("fetch with a leader epoch of the future", 0, current_leader_epoch=5, versions=range(9, 19)),
    _fetch("fetch after an epoch that did not end there", 5, last_fetched_epoch=0, versions=range(12, 19)),
    _fetch("fetch after an unknown epoch", 5, last_fetched_epoch=3, versions=range(12, 19)),
    _fetch("fetch in another rack", 0, rack_id="elsewhere", versions=range(11, 19)),
    _fetch("fetch for another cluster", 0, cluster_id="another", versions=range(12, 19)),
    _fetch("fetch as the debugging consumer", 0, replica_id=-2, versions=range(4, 15)),
    Case("fetch an empty topic", "fetch", lambda s: fetch_fields(s, offset=0), given=lambda s: s.create("t")),
    Case("fetch an unknown topic", "fetch", lambda s: fetch_fields(s, "absent", offset=0)),
    Case("fetch an unknown id", "fetch", lambda s: _topic_of_id(s, UNKNOWN_ID), given=_fill_two_partitions,
         versions=range(13, 19)),
    Case("fetch the zero id", "fetch", lambda s: _topic_of_id(s, ZERO_ID), given=_fill_two_partitions,
         versions=range(13, 19)),
    Case("fetch nothing", "fetch", lambda s: {"replica_id": -1, "max_wait": 0, "max_bytes": 1 << 20}),
    Case("fetch two partitions", "fetch", _two_partitions, given=_fill_two_partitions),
    Case("fetch two partitions of which one fills the limit", "fetch", lambda s: _two_partitions(s, max_bytes=700),
         given=_fill_two_partitions),
    Case("fetch after records were deleted", "fetch", lambda s: fetch_fields(s, offset=2),
         given=lambda s: _delete_records(s, 4)),
    Case("fetch the new start after records were deleted", "fetch", lambda s: fetch_fields(s, offset=4),
         given=lambda s: _delete_records(s, 4)),
    Case("fetch compressed records from the middle of a batch", "fetch", lambda s: fetch_fields(s, offset=1),
         given=lambda s: s.create_compressed("t")),
)  # fmt: skip


def _delete_records(side: Side, offset: int) -> None:
    side.create_filled("t")
    rows = [{"partition_index": 0, "offset": offset}]
    side.ask("delete_records", 2, topics=[{"name": side.name("t"), "partitions": rows}], timeout=10_000)


# Sessions: what a broker answers to the later fetches of a session depends on what changed since.


def _session(side: Side, epoch: int, *partitions: int, forget: tuple[int, ...] = (), offset: int = 0) -> dict[str, Any]:
    rows = [{"partition": number, "fetch_offset": offset, "partition_max_bytes": 1 << 20} for number in partitions]
    common = {"topic": side.name("t"), "topic_id": side.id("t")}
    return {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 22,
        "session_id": side.answers[0]["session_id"] if side.answers else 0,
        "session_epoch": epoch,
        "topics": [{**common, "partitions": rows}] if rows else [],
        "forgotten_topics_data": [{**common, "partitions": list(forget)}] if forget else [],
    }


def _later(fields: Callable[[Side], dict[str, Any]]) -> Step:
    return Step("fetch", None, fields)


def _write(partition: int) -> Step:
    rows = [{"index": partition, "records": batch([Rec(b"new")])}]
    return Step(
        "produce",
        9,
        lambda s: {"acks": -1, "timeout": 10_000, "topic_data": [{"name": s.name("t"), "partition_data": rows}]},
    )


def _sessions(name: str, first: Callable[[Side], dict[str, Any]], *later: Step) -> Case:
    return Case(
        name,
        "fetch",
        first,
        given=lambda s: s.create_kept("t", 3),
        then=later,
        versions=(7, 12, 13, 18),
        follow_up=True,
    )


SESSIONS = (
    _sessions("a session answers what changed", lambda s: _session(s, 0, 0, 1, 2),
              _later(lambda s: _session(s, 1)), _write(1), _later(lambda s: _session(s, 2)),
              _later(lambda s: _session(s, 3, 1, offset=1)), _later(lambda s: _session(s, 4))),
    _sessions("a session forgets a partition", lambda s: _session(s, 0, 0, 1), _write(0), _write(1),
              _later(lambda s: _session(s, 1, forget=(0,))), _later(lambda s: _session(s, 2))),
    _sessions("a session takes on a partition", lambda s: _session(s, 0, 0), _write(2),
              _later(lambda s: _session(s, 1, 2))),
    _sessions("a session is closed", lambda s: _session(s, 0, 0), _later(lambda s: _session(s, -1)),
              _later(lambda s: _session(s, 1))),
    _sessions("a session with a wrong epoch", lambda s: _session(s, 0, 0), _later(lambda s: _session(s, 5))),
    _sessions("a session starts again", lambda s: _session(s, 0, 0), _write(0), _later(lambda s: _session(s, 0, 0))),
    _sessions("a session of an unknown partition", lambda s: _session(s, 0, 0, 9), _later(lambda s: _session(s, 1))),
    Case("a session nobody has", "fetch", lambda s: {**_session(s, 1, 0), "session_id": 12345},
         given=lambda s: s.create("t"), versions=(7, 12, 13, 18)),
    Case("a negative session", "fetch", lambda s: {**_session(s, 1, 0), "session_id": -4},
         given=lambda s: s.create("t"), versions=(7, 12, 13, 18)),
)  # fmt: skip

EARLIEST, LATEST, MAXIMUM, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -2, -1, -3, -4, -5, -6


def _offsets(side: Side, *rows: tuple[int, int], name: str = "t", epoch: int = -1, **more: Any) -> dict[str, Any]:
    partitions = [{"partition_index": n, "timestamp": at, "current_leader_epoch": epoch} for n, at in rows]
    topics = [{"name": side.name(name), "partitions": partitions}]
    return {"replica_id": -1, "isolation_level": 0, "topics": topics, "timeout": 10_000, **more}


def _listing(name: str, timestamp: int, versions: Any = None, **more: Any) -> Case:
    return Case(name, "list_offsets", lambda s: _offsets(s, (0, timestamp), **more),
                given=lambda s: s.create_filled("t"), versions=versions)  # fmt: skip


def _fill_unsorted(side: Side) -> None:
    side.create_kept("t")
    times = (5000, 1000, 9000, 9000, 3000)
    side.produce("t", batch([Rec(b"a", timestamp=at) for at in times]), batch([Rec(b"b", timestamp=7000)], "gzip"))


LIST_OFFSETS = (
    _listing("the earliest offset", EARLIEST),
    _listing("the latest offset", LATEST),
    _listing("the offset of the highest timestamp", MAXIMUM),
    _listing("the earliest local offset", EARLIEST_LOCAL),
    _listing("the latest tiered offset", LATEST_TIERED),
    _listing("the earliest offset that waits for its upload", EARLIEST_PENDING),
    _listing("an offset of a special time nobody defined", -7),
    _listing("an offset by an exact time", 1300),
    _listing("an offset by a time inside a batch", 1350),
    _listing("an offset by the first time", 1000),
    _listing("an offset by a time before all", 0),
    _listing("an offset by the last time", 1800),
    _listing("an offset by a time after all", 1801),
    _listing("the latest committed offset", LATEST, isolation_level=1),
    _listing("an offset by time, committed", 1300, isolation_level=1),
    _listing("an offset with the leader's epoch", LATEST, epoch=0, versions=range(4, 12)),
    _listing("an offset with a leader epoch of the future", LATEST, epoch=3, versions=range(4, 12)),
    _listing("an offset asked by the debugging consumer", LATEST, replica_id=-2),
    Case("offsets of an unsorted batch by time", "list_offsets", lambda s: _offsets(s, (0, 4000)),
         given=_fill_unsorted),
    Case("offsets of an unsorted batch by a high time", "list_offsets", lambda s: _offsets(s, (0, 6000)),
         given=_fill_unsorted),
    Case("the highest timestamp of an unsorted batch", "list_offsets", lambda s: _offsets(s, (0, MAXIMUM)),
         given=_fill_unsorted, versions=range(7, 12)),
    Case("the highest timestamp of an empty topic", "list_offsets", lambda s: _offsets(s, (0, MAXIMUM)),
         given=lambda s: s.create("t"), versions=range(7, 12)),
    Case("an offset by time of an empty topic", "list_offsets", lambda s: _offsets(s, (0, 1000)),
         given=lambda s: s.create("t")),
    Case("the latest offset of an empty topic", "list_offsets", lambda s: _offsets(s, (0, LATEST)),
         given=lambda s: s.create("t")),
    Case("the earliest offset after records were deleted", "list_offsets", lambda s: _offsets(s, (0, EARLIEST)),
         given=lambda s: _delete_records(s, 4)),
    Case("an offset by time after records were deleted", "list_offsets", lambda s: _offsets(s, (0, 1100)),
         given=lambda s: _delete_records(s, 4)),
    Case("offsets of an unknown topic", "list_offsets", lambda s: _offsets(s, (0, LATEST), name="absent")),
    Case("offsets of an unknown partition", "list_offsets", lambda s: _offsets(s, (0, LATEST), (9, LATEST)),
         given=lambda s: s.create("t")),
    Case("offsets of the same partition twice", "list_offsets", lambda s: _offsets(s, (0, LATEST), (0, EARLIEST)),
         given=lambda s: s.create_filled("t")),
    Case("offsets of nothing", "list_offsets", lambda s: {"replica_id": -1, "topics": []}),
)  # fmt: skip


def _epochs(side: Side, *rows: tuple[int, int, int], topic: str = "t", replica: int = -1) -> dict[str, Any]:
    partitions = [{"partition": n, "current_leader_epoch": current, "leader_epoch": at} for n, current, at in rows]
    return {"replica_id": replica, "topics": [{"topic": side.name(topic), "partitions": partitions}]}


def _epoch(name: str, *rows: tuple[int, int, int], **more: Any) -> Case:
    return Case(name, "offset_for_leader_epoch", lambda s: _epochs(s, *rows, **more),
                given=lambda s: s.create_filled("t"))  # fmt: skip


LEADER_EPOCHS = (
    _epoch("the end of the current epoch", (0, -1, 0)),
    _epoch("the end of the current epoch for the debugging consumer", (0, -1, 0), replica=-2),
    _epoch("the end of a future epoch", (0, -1, 4)),
    _epoch("the end of an undefined epoch", (0, -1, -1)),
    _epoch("the end of an epoch with the leader's epoch", (0, 0, 0)),
    _epoch("the end of an epoch with a leader epoch of the future", (0, 3, 0)),
    _epoch("the end of an epoch of an unknown partition", (9, -1, 0)),
    _epoch("the end of an epoch of an unknown topic", (0, -1, 0), topic="absent"),
    Case("the end of an epoch of an empty topic", "offset_for_leader_epoch", lambda s: _epochs(s, (0, -1, 0)),
         given=lambda s: s.create("t")),
    Case("the end of no epoch", "offset_for_leader_epoch", lambda s: {"replica_id": -1, "topics": []}),
)  # fmt: skip

CASES = (*FETCH, *SESSIONS, *LIST_OFFSETS, *LEADER_EPOCHS)
