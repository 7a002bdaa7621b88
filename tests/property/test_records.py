"""Records under random input: what is written reads back, the twins agree on anything, other people's codecs agree
with ours, and a check answers whatever the bytes."""

import warnings
from types import ModuleType
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.wire.record_twins import TWINS, each_twin, needs_compiled
from ottla.records import _pure
from ottla.records.batch import read_records
from ottla.records.builder import build_batch
from ottla.records.check import BatchRefusal, Checked, Rules, check
from ottla.records.compression import Compression, decompress
from ottla.records.header import HEADER, BatchHeader, CorruptBatch, checksum, iterate_headers, read_header
from ottla.records.record import Record

with warnings.catch_warnings():  # it loads its schemas by a function that Python 3.11 deprecates
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

fields = st.none() | st.binary(max_size=200)
times = st.integers(min_value=-1, max_value=2**48)
headers = st.lists(st.tuples(st.text(max_size=12), fields), max_size=4).map(tuple)
contents = st.lists(st.tuples(times, fields, fields, headers), min_size=1, max_size=20)
compressions = st.sampled_from(list(Compression))
TEMPLATE = read_header(build_batch([Record(0, 0, None, None)]))


def numbered(rows: list[tuple[int, bytes | None, bytes | None, Any]], base: int = 0) -> list[Record]:
    return [Record(base + index, *row) for index, row in enumerate(rows)]


def outcome(read: Any, *arguments: object) -> object:
    """What a call answers, or the damage it reports: anything else it raises fails the test."""
    try:
        return read(*arguments)
    except CorruptBatch as damage:
        return damage.position, damage.reason


@each_twin
@given(rows=contents, base=st.integers(min_value=0, max_value=2**62))
def test_records_read_back_as_they_were_written(
    twin: ModuleType, rows: list[tuple[int, bytes | None, bytes | None, Any]], base: int
) -> None:
    records = numbered(rows, base)
    payload, latest = twin.encode(records, base, records[0].timestamp)
    header = TEMPLATE._replace(
        base_offset=base, base_timestamp=records[0].timestamp, records_count=len(records), max_timestamp=latest
    )
    assert twin.decode(payload, header) == records
    assert latest == max(record.timestamp for record in records)
    assert twin.latest_timestamp(payload, header)[0] == latest
    assert twin.scan(payload, len(records)) == [
        (record.offset - base, record.timestamp - records[0].timestamp, record.key, record.value is None)
        for record in records
    ]


@needs_compiled
@given(rows=contents, base=st.integers(min_value=0, max_value=2**62), reserved=st.integers(0, 70))
def test_the_twins_write_the_same_bytes(
    rows: list[tuple[int, bytes | None, bytes | None, Any]], base: int, reserved: int
) -> None:
    records = numbered(rows, base)
    written = [twin.encode(records, base, records[0].timestamp, reserved) for twin in TWINS]
    assert written[0] == written[1]


def agree(payload: bytes, header: BatchHeader, target: int) -> None:
    for name, arguments in [
        ("decode", (payload, header)),
        ("decode_consumed", (payload, header, "t", 3, min(header.base_offset + 1, 2**63 - 1))),
        ("scan", (payload, header.records_count)),
        ("inspect", (payload, header.records_count)),
        ("find_timestamp", (payload, header, target)),
        ("latest_timestamp", (payload, header)),
    ]:
        answers = [outcome(getattr(twin, name), *arguments) for twin in TWINS]
        assert answers[0] == answers[1], name


@needs_compiled
@given(
    payload=st.binary(max_size=80),
    count=st.integers(min_value=-2, max_value=12),
    base=st.integers(min_value=-(2**63), max_value=2**63 - 1),
    target=st.integers(min_value=-(2**62), max_value=2**62),
)
def test_the_twins_agree_on_garbage(payload: bytes, count: int, base: int, target: int) -> None:
    agree(payload, TEMPLATE._replace(records_count=count, base_offset=base, base_timestamp=base), target)


@needs_compiled
@settings(max_examples=300, deadline=None)
@given(
    rows=contents,
    changes=st.lists(st.tuples(st.integers(min_value=0), st.integers(0, 255)), min_size=1, max_size=3),
    cut=st.integers(min_value=0, max_value=3),
    more=st.integers(min_value=-1, max_value=1),
)
def test_the_twins_agree_on_records_that_were_damaged(
    rows: list[tuple[int, bytes | None, bytes | None, Any]], changes: list[tuple[int, int]], cut: int, more: int
) -> None:
    records = numbered(rows)
    payload = _pure.encode(records, 0, records[0].timestamp)[0]
    for position, byte in changes:
        payload[position % len(payload)] = byte
    damaged = bytes(payload[: len(payload) - cut])
    agree(damaged, TEMPLATE._replace(records_count=len(records) + more, base_timestamp=records[0].timestamp), 2**47)


@given(rows=contents, kind=compressions, base=st.integers(min_value=0, max_value=2**40))
def test_a_batch_reads_back_whatever_its_compression(
    rows: list[tuple[int, bytes | None, bytes | None, Any]], kind: Compression, base: int
) -> None:
    records = numbered(rows, base)
    data = build_batch(records, base_offset=base, compression=kind)
    assert [(position, header.size) for position, header in iterate_headers(data)] == [(0, len(data))]
    assert read_records(data, read_header(data)) == records


rules = st.builds(
    Rules,
    max_message_bytes=st.sampled_from([100, 10**6]),
    log_append_time=st.booleans(),
    before_max_ms=st.sampled_from([1000, 2**63 - 1]),
    after_max_ms=st.sampled_from([1000, 2**63 - 1]),
    compacted=st.booleans(),
    compression=st.none() | compressions,
    level=st.sampled_from([None, 1, 9]),  # the settings admit no level that the kind does not have
)


@settings(max_examples=400, deadline=None)
@given(
    rows=contents,
    kind=compressions,
    rule=rules,
    now=st.integers(min_value=0, max_value=2**48),
    changes=st.lists(st.tuples(st.integers(min_value=0), st.integers(0, 255)), max_size=3),
    tail=st.binary(max_size=30),
    base=st.sampled_from([None, 0, 2**63 - 1, -(2**63)]),
    repair=st.booleans(),
)
def test_a_check_answers_whatever_the_bytes(
    rows: list[tuple[int, bytes | None, bytes | None, Any]],
    kind: Compression,
    rule: Rules,
    now: int,
    changes: list[tuple[int, int]],
    tail: bytes,
    base: int | None,
    repair: bool,
) -> None:
    data = build_batch(numbered(rows), compression=kind)
    if base is not None:
        HEADER.pack_into(data, 0, *read_header(data)._replace(base_timestamp=base))
    for position, byte in changes:
        data[position % len(data)] = byte
    if repair:  # so that damage gets past the checksum
        HEADER.pack_into(data, 0, *read_header(data)._replace(crc=checksum(data, 0, len(data))))
    answer = check(memoryview(data + tail), rule, now, "t-0")
    if isinstance(answer, BatchRefusal):
        assert answer.error
        return
    assert isinstance(answer, Checked)
    header = read_header(answer.data)
    assert header == answer.header
    assert header.crc == checksum(answer.data, 0, header.size)
    assert len(answer.data) == header.size <= rule.max_message_bytes
    assert header.log_append_time == rule.log_append_time
    assert rule.compression is None or header.compression == rule.compression


@given(data=st.binary(max_size=150), rule=rules)
def test_a_check_answers_to_garbage(data: bytes, rule: Rules) -> None:
    assert isinstance(check(memoryview(data), rule, 0, "t-0"), BatchRefusal)


@given(data=st.binary(max_size=300), kind=st.integers(min_value=0, max_value=7))
def test_decompressing_garbage_is_damage_or_bytes_within_the_limit(data: bytes, kind: int) -> None:
    answer = outcome(decompress, kind, data, 1 << 16)
    assert isinstance(answer, tuple) or len(answer) <= 1 << 16  # type: ignore[arg-type]


# kafka-python wants further packages for the other three; aiokafka's come with the one we use
KAFKA_PYTHON_READS = [Compression.NONE, Compression.GZIP]


def foreign_rows(batch: Any) -> list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    return [(record.offset, record.timestamp, record.key, record.value, list(record.headers)) for record in batch]


@pytest.mark.parametrize(
    ("reader", "kinds"),
    [(AiokafkaBatch, list(Compression)), (KafkaPythonBatch, KAFKA_PYTHON_READS)],
    ids=["aiokafka", "kafka-python"],
)
@given(rows=contents, choice=st.data())
@settings(max_examples=60)
def test_other_clients_read_what_we_build(
    reader: Any,
    kinds: list[Compression],
    rows: list[tuple[int, bytes | None, bytes | None, Any]],
    choice: st.DataObject,
) -> None:
    kind = choice.draw(st.sampled_from(kinds))
    records = numbered(rows, 7)
    batch = reader(bytes(build_batch(records, base_offset=7, compression=kind)))
    assert batch.validate_crc()
    assert foreign_rows(batch) == [
        (record.offset, record.timestamp, record.key, record.value, list(record.headers)) for record in records
    ]


@pytest.mark.parametrize(
    ("builder", "kinds"),
    [(AiokafkaBuilder, list(Compression)), (KafkaPythonBuilder, KAFKA_PYTHON_READS)],
    ids=["aiokafka", "kafka-python"],
)
@given(rows=contents, choice=st.data())
@settings(max_examples=60)
def test_we_read_what_other_clients_build(
    builder: Any,
    kinds: list[Compression],
    rows: list[tuple[int, bytes | None, bytes | None, Any]],
    choice: st.DataObject,
) -> None:
    kind = choice.draw(st.sampled_from(kinds))
    # these builders take a missing timestamp for the present one
    records = [record._replace(timestamp=max(record.timestamp, 0)) for record in numbered(rows)]
    writer = builder(
        magic=2,
        compression_type=int(kind),
        is_transactional=0,
        producer_id=3,
        producer_epoch=1,
        base_sequence=0,
        batch_size=10**6,
    )
    for record in records:
        written = writer.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
        assert written is not None
    data = bytes(writer.build())
    header = read_header(data)
    assert read_records(data, header) == records
    assert isinstance(check(memoryview(data), Rules(10**7, after_max_ms=2**62), 0), Checked)
    if header.compression == Compression.NONE:
        ours = build_batch(records, producer_id=3, producer_epoch=1, base_sequence=0)
        assert ours[21:] == data[21:]
