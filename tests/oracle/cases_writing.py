"""Writing records: what a broker takes, what it refuses and how it says so; idempotent producers.

Null in place of a batch is not compared: Kafka never answers it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.wire.batches import Rec, batch, old_message_set
from kit.wire.messages import ZERO_ID
from oracle.cases import Case, Step, records_of
from oracle.sides import UNKNOWN_ID, Side

THREE = (Rec(b"a", b"k1"), Rec(b"b", b"k2", headers=(("h", b"v"), ("none", None))), Rec(None, b"k3"))
LARGE = batch([Rec(b"x" * 3000)])
TRANSACTIONAL, CONTROL, UNUSED = 16, 32, 1 << 9


def _produce(
    side: Side, *rows: tuple[int, bytes], name: str = "t", topic_id: Any = None, **more: Any
) -> dict[str, Any]:
    identifier = side.id(name) if topic_id is None else topic_id
    data = [{"index": number, "records": records} for number, records in rows]
    topic = {"name": side.name(name), "topic_id": identifier, "partition_data": data}
    return {"acks": -1, "timeout": 10_000, "transactional_id": None, "topic_data": [topic], **more}


def _writing(name: str, data: bytes, versions: Any = None, **configs: str) -> Case:
    """One batch to a topic with these settings; afterwards, what is stored."""
    return Case(name, "produce", lambda s: _produce(s, (0, data)), given=lambda s: s.create_kept("t", 1, **configs),
                then=[records_of("t")], versions=versions)  # fmt: skip


def _sending(name: str, fields: Callable[[Side], dict[str, Any]], **more: Any) -> Case:
    return Case(name, "produce", fields, given=lambda s: s.create_kept("t", 2), **more)


ACCEPTED = (
    _writing("write three records", batch(THREE)),
    _writing("write gzip", batch(THREE, "gzip")),
    _writing("write snappy", batch(THREE, "snappy")),
    _writing("write lz4", batch(THREE, "lz4")),
    _writing("write zstd", batch(THREE, "zstd")),
    _writing("write with a base offset of one's own", batch(THREE, base_offset=77)),
    _writing("write with a leader epoch of one's own", batch(THREE, leader_epoch=5)),
    _writing("write with the broker's time", batch(THREE), message_timestamp_type="LogAppendTime"),
    _writing("write compressed with the broker's time", batch(THREE, "gzip"), message_timestamp_type="LogAppendTime"),
    _writing("write to a topic that wants gzip", batch(THREE), compression_type="gzip"),
    _writing("write to a topic that wants lz4", batch(THREE, "gzip"), compression_type="lz4"),
    _writing("write to a topic that wants snappy", batch(THREE, "gzip"), compression_type="snappy"),
    _writing("write to a topic that wants zstd", batch(THREE, "gzip"), compression_type="zstd", versions=(3, 9, 13)),
    _writing("write gzip to a topic that wants none", batch(THREE, "gzip"), compression_type="uncompressed"),
    _writing("write gzip to a topic that wants gzip", batch(THREE, "gzip"), compression_type="gzip"),
    _writing("write keys to a compacted topic", batch(THREE), cleanup_policy="compact"),
    _writing("write a record without a timestamp", batch([Rec(b"a", timestamp=-1)])),
    _writing("write unsorted timestamps", batch([Rec(b"a", timestamp=5000), Rec(b"b", timestamp=1000)])),
    _writing("write a wrong highest timestamp", batch([Rec(b"a", timestamp=5000)], max_timestamp=9000)),
    _writing("write an unused attribute bit", batch(THREE, flags=UNUSED)),
    _sending("write with acks of one", lambda s: _produce(s, (0, batch(THREE)), acks=1), then=[records_of("t")]),
    _sending("write without acks", lambda s: _produce(s, (0, batch(THREE)), acks=0), then=[records_of("t")],
             answered=False),
    _sending("write to two partitions", lambda s: _produce(s, (1, batch(THREE)), (0, batch([Rec(b"0")]))),
             then=[records_of("t"), records_of("t", 1)]),
    _sending("write to a known and an unknown partition", lambda s: _produce(s, (0, batch(THREE)), (9, batch(THREE))),
             then=[records_of("t")]),
    _sending("write to one partition twice in a request",
             lambda s: _produce(s, (0, batch(THREE)), (0, batch([Rec(b"second")]))), versions=(3, 9, 12),
             then=[records_of("t")]),
    _sending("write nothing", lambda s: {"acks": -1, "timeout": 10_000, "topic_data": []}),
)  # fmt: skip

REFUSED = (
    _sending("write with acks of two", lambda s: _produce(s, (0, batch(THREE)), acks=2), then=[records_of("t")]),
    _sending("write with acks of minus two", lambda s: _produce(s, (0, batch(THREE)), acks=-2)),
    _sending("write to an unknown topic", lambda s: _produce(s, (0, batch(THREE)), name="absent", topic_id=ZERO_ID)),
    _sending("write to an unknown topic id", lambda s: _produce(s, (0, batch(THREE)), topic_id=UNKNOWN_ID),
             versions=(13,)),
    _sending("write to an unknown partition", lambda s: _produce(s, (9, batch(THREE)))),
    _sending("write to a negative partition", lambda s: _produce(s, (-1, batch(THREE)))),
    _writing("write a wrong checksum", batch(THREE, crc=1)),
    _writing("write magic 0", old_message_set(0)),
    _writing("write magic 1", old_message_set(1)),
    _writing("write magic 3", batch(THREE, magic=3)),
    _writing("write half a batch", batch(THREE)[:70]),
    _writing("write half a header", batch(THREE)[:30]),
    _writing("write a batch with bytes after it", batch(THREE) + b"\0\0\0"),
    _writing("write two batches at once", batch(THREE) + batch(THREE)),
    _writing("write no bytes", b""),
    _writing("write a batch of no records", batch(())),
    _writing("write a negative length", batch(THREE, length=-5)),
    _writing("write a length that is too short", batch(THREE, length=20)),
    _writing("write a wrong last offset", batch(THREE, last_offset_delta=7)),
    _writing("write a negative last offset", batch(THREE, last_offset_delta=-1)),
    _writing("write too high a record count", batch(THREE, records_count=4, last_offset_delta=3)),
    _writing("write too low a record count", batch(THREE, records_count=2, last_offset_delta=1)),
    _writing("write a negative record count", batch(THREE, records_count=-1)),
    _writing("write garbage for records", batch(THREE, payload=b"\xff" * 40)),
    _writing("write garbage for gzip", batch(THREE, "gzip", payload=b"\xff" * 40)),
    _writing("write garbage for gzip to a topic that wants zstd", batch(THREE, "gzip", payload=b"\xff" * 40),
             compression_type="zstd", versions=(9, 13)),
    _writing("write an unknown compression", batch(THREE, attributes=5)),
    _writing("write more than max.message.bytes", LARGE, max_message_bytes="2000"),
    _writing("write just max.message.bytes", LARGE, max_message_bytes=str(len(LARGE))),
    _writing("write just above max.message.bytes", LARGE, max_message_bytes=str(len(LARGE) - 1)),
    _writing("write without key to a compacted topic", batch([Rec(b"a", b"k"), Rec(b"b"), Rec(b"c")]),
             cleanup_policy="compact"),
    _writing("write gzip without key to a compacted topic", batch([Rec(b"a")], "gzip"),
             cleanup_policy="compact,delete"),
    _writing("write a record from the far future", batch([Rec(b"a", timestamp=4_000_000_000_000)])),
    _writing("write an old record where the past is limited",
             batch([Rec(b"a", timestamp=1000), Rec(b"b", timestamp=1)]),
             message_timestamp_before_max_ms="1000"),
    _writing("write a control batch", batch([Rec(b"\0\0\0\0\0\0", b"\0\0\0\0")], flags=CONTROL)),
    _writing("write a transactional batch without a transaction", batch(THREE, flags=TRANSACTIONAL)),
    _writing("write the broker's time as a producer", batch(THREE, flags=8)),
)  # fmt: skip


def _numbered(
    side: Side, sequence: int, count: int = 3, epoch: int = 0, producer: int | None = None, flags: int = 0
) -> dict[str, Any]:
    """A batch of the case's idempotent producer."""
    identifier = side.producer_ids[0] if producer is None else producer
    rows = [Rec(b"%d" % (sequence + at), b"k") for at in range(count)]
    data = batch(rows, producer_id=identifier, producer_epoch=epoch, base_sequence=sequence, flags=flags)
    return _produce(side, (0, data))


def _idempotent(name: str, *sequences: dict[str, int], given: Callable[[Side], Any] | None = None) -> Case:
    """Batches of one idempotent producer, one request after the other; all answers are compared."""

    def prepare(side: Side) -> None:
        side.create_kept("t")
        side.producer_id()
        if given is not None:
            given(side)

    first, *rest = sequences
    steps = [Step("produce", 9, lambda s, each=each: _numbered(s, **each)) for each in rest]  # type: ignore[misc]
    return Case(name, "produce", lambda s: _numbered(s, **first), given=prepare,
                then=[*steps, records_of("t"), PRODUCERS], versions=(3, 9, 13), follow_up=True)  # fmt: skip


PRODUCERS = Step("describe_producers", 0, lambda s: {"topics": [{"name": s.name("t"), "partition_indexes": [0]}]})

IDEMPOTENT = (
    _idempotent("an idempotent producer's first batches", {"sequence": 0}, {"sequence": 3}, {"sequence": 6}),
    _idempotent(
        "a batch sent twice is stored once", {"sequence": 0}, {"sequence": 0}, {"sequence": 3}, {"sequence": 0}
    ),
    _idempotent("a batch of long ago sent again", *({"sequence": at, "count": 1} for at in (*range(7), 0, 1, 2))),
    _idempotent("a gap in the sequence", {"sequence": 0}, {"sequence": 5}, {"sequence": 3}),
    _idempotent("half of a batch sent again", {"sequence": 0}, {"sequence": 1, "count": 2}),
    _idempotent("a first batch that does not start at zero", {"sequence": 4}),
    _idempotent("a newer epoch starts at zero", {"sequence": 0}, {"sequence": 0, "epoch": 1}),
    _idempotent("a newer epoch that does not start at zero", {"sequence": 0}, {"sequence": 3, "epoch": 1}),
    _idempotent("an older epoch is fenced", {"sequence": 0, "epoch": 2}, {"sequence": 3, "epoch": 1}),
    _idempotent("a negative sequence", {"sequence": -1}),
    _idempotent("a negative epoch", {"sequence": 0, "epoch": -1}),
    _idempotent("a sequence that wraps", {"sequence": 0}, {"sequence": 2**31 - 2, "count": 2}),
    _idempotent("a producer id that nobody gave", {"sequence": 0, "producer": 123_456_789}),
)

PRODUCER_IDS = (
    Case("a producer id", "init_producer_id", lambda s: {"transactional_id": None, "transaction_timeout": 60_000}),
    Case("a producer id with an empty transactional id", "init_producer_id",
         lambda s: {"transactional_id": "", "transaction_timeout": 60_000}),
    Case("a new epoch for a producer id that is not transactional", "init_producer_id",
         lambda s: {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": s.producer_id(),
                    "producer_epoch": 0}, versions=(3, 4, 5)),
    Case("a producer id without an epoch", "init_producer_id",
         lambda s: {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": 5, "producer_epoch": -1},
         versions=(3, 4, 5)),
    Case("producers of an unknown topic", "describe_producers",
         lambda s: {"topics": [{"name": s.name("absent"), "partition_indexes": [0]}]}),
    Case("producers of an unknown partition", "describe_producers",
         lambda s: {"topics": [{"name": s.name("t"), "partition_indexes": [0, 5]}]}, given=lambda s: s.create("t")),
    Case("producers of a topic of a bad name", "describe_producers",
         lambda s: {"topics": [{"name": "a b", "partition_indexes": [0]}]}),
    Case("producers of nothing", "describe_producers", lambda s: {"topics": []}),
)  # fmt: skip

CASES = (*ACCEPTED, *REFUSED, *IDEMPOTENT, *PRODUCER_IDS)
