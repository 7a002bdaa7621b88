"""Records inside a batch: both twins read and write Kafka's bytes and refuse every damaged payload alike."""

import gc
import subprocess
import sys
from types import ModuleType

import pytest

from kit.wire.record_twins import each_twin, needs_compiled
from ottla.records.builder import build_batch
from ottla.records.header import BatchHeader, CorruptBatch, read_header
from ottla.records.record import ConsumedRecord, Record

START = 1_700_000_000_000
RECORDS = [
    Record(100, START, b"key", b"value", (("h", b"x"), ("nothing", None))),
    Record(101, START + 1, None, b"keyless"),
    Record(102, START - 1000, b"gone", None),
    Record(103, START + 200, b"", b"\x00" * 3),
]
# the same records as Kafka 4.3.1's own classes write them
PAYLOAD = bytes.fromhex(
    "36000000066b65790a76616c756504026802780e6e6f7468696e6701"
    "1a000202010e6b65796c65737300"
    "1600cf0f0408676f6e650100"
    "1400900306000600000000"
)
RECORD = bytes.fromhex("0e000000026b0000")  # size 7, attributes, deltas 0 and 0, key "k", value "", no header


def header(records_count: int, **fields: int) -> BatchHeader:
    found = read_header(build_batch([Record(0, START, None, b"")]))
    return found._replace(base_offset=100, records_count=records_count, **fields)


@each_twin
def test_records_are_written_as_kafka_writes_them(twin: ModuleType) -> None:
    payload, latest = twin.encode(RECORDS, 100, START)
    assert bytes(payload) == PAYLOAD
    assert latest == START + 200


@each_twin
def test_records_written_by_kafka_read_back(twin: ModuleType) -> None:
    for payload in (PAYLOAD, bytearray(PAYLOAD), memoryview(PAYLOAD)):
        assert twin.decode(payload, header(4)) == RECORDS
    assert all(type(record) is Record for record in twin.decode(PAYLOAD, header(4)))


@each_twin
def test_a_consumer_gets_records_with_their_place_from_its_position_on(twin: ModuleType) -> None:
    found = twin.decode_consumed(PAYLOAD, header(4, leader_epoch=6), "t", 3, 102)
    assert found == [
        ConsumedRecord("t", 3, 102, START - 1000, 0, b"gone", None, (), 6),
        ConsumedRecord("t", 3, 103, START + 200, 0, b"", b"\x00" * 3, (), 6),
    ]
    assert all(type(record) is ConsumedRecord for record in found)
    appended = twin.decode_consumed(PAYLOAD, header(4, attributes=8, max_timestamp=77), "t", 3, 0)
    assert [(record.timestamp, record.timestamp_type) for record in appended] == [(77, 1)] * 4
    assert appended[0].headers == (("h", b"x"), ("nothing", None))


@each_twin
def test_reserved_bytes_stand_in_front_and_are_zero(twin: ModuleType) -> None:
    payload, _ = twin.encode(RECORDS, 100, START, 61)
    assert payload == bytearray(61) + PAYLOAD
    assert twin.encode([], 0, 0, 3) == (bytearray(3), -1)


@each_twin
def test_log_append_time_gives_every_record_the_batchs_time(twin: ModuleType) -> None:
    found = twin.decode(PAYLOAD, header(4, attributes=8, max_timestamp=77))
    assert [record.timestamp for record in found] == [77] * 4
    assert twin.find_timestamp(PAYLOAD, header(4, attributes=8, max_timestamp=77), 77) == (77, 100)
    assert twin.latest_timestamp(PAYLOAD, header(4, attributes=8, max_timestamp=77)) == (77, 100)


@each_twin
def test_a_scan_gives_deltas_keys_and_tombstones(twin: ModuleType) -> None:
    assert twin.scan(PAYLOAD, 4) == [
        (0, 0, b"key", False),
        (1, 1, None, False),
        (2, -1000, b"gone", True),
        (3, 200, b"", False),
    ]


@each_twin
def test_an_inspection_finds_gaps_the_range_of_timestamps_and_keyless_records(twin: ModuleType) -> None:
    assert twin.inspect(PAYLOAD, 4) == (True, -1000, 200, 1)
    gap, _ = twin.encode([RECORDS[0], RECORDS[2]], 100, START)
    assert twin.inspect(gap, 2) == (False, -1000, 0, 0)
    late, _ = twin.encode([Record(5, START, None, None)], 0, START)
    assert twin.inspect(late, 1) == (False, 0, 0, 1)
    assert twin.inspect(b"", 0) == (True, 0, 0, 0)


@each_twin
def test_the_first_record_at_or_after_a_time_is_found(twin: ModuleType) -> None:
    for target, expected in [
        (0, (START, 100)),
        (START, (START, 100)),
        (START + 1, (START + 1, 101)),
        (START + 2, (START + 200, 103)),
        (START + 201, None),
    ]:
        assert twin.find_timestamp(PAYLOAD, header(4), target) == expected


@each_twin
def test_the_latest_timestamp_is_that_of_the_first_record_that_has_it(twin: ModuleType) -> None:
    records = [Record(100 + i, stamp, None, b"") for i, stamp in enumerate([5, 9, 9, 3])]
    payload, _ = twin.encode(records, 100, 5)
    assert twin.latest_timestamp(payload, header(4, base_timestamp=5)) == (9, 101)
    assert twin.latest_timestamp(b"", header(0)) is None


@each_twin
def test_header_names_that_are_not_utf_8_survive(twin: ModuleType) -> None:
    payload = bytes.fromhex("1600000001010202ff0a") + b"bytes"
    payload = bytes([len(payload) - 1 << 1]) + payload[1:]
    found = twin.decode(payload, header(1))
    assert found[0].headers == (("\udcff", b"bytes"),)
    assert bytes(twin.encode(found, 100, START)[0]) == payload


DAMAGED = {
    "a negative count": (RECORD, -1, "the record count is negative"),
    "a count that cannot fit": (RECORD, 3, "too small for its record count"),
    "a huge count": (RECORD, 2**31 - 1, "too small for its record count"),
    "fewer records than counted": (b"\x1c" + RECORD[1:] + bytes(7), 2, "longer than its fields"),
    "more records than counted": (RECORD * 2, 1, "bytes follow the last record"),
    "bytes but no record": (RECORD, 0, "bytes follow the last record"),
    "a negative record size": (b"\x01" + RECORD[1:], 1, "a record's size is out of range"),
    "a record of no size": (b"\x00" + RECORD[1:], 1, "a record's size is out of range"),
    "a record longer than the payload": (b"\x10" + RECORD[1:], 1, "a record's size is out of range"),
    "a record shorter than its fields": (b"\x0c" + RECORD[1:], 1, "a number is cut off"),
    "a size of six bytes": (b"\xff\xff\xff\xff\xff\x01" + RECORD, 1, "a number is too large"),
    "a size past 32 bits": (b"\xff\xff\xff\xff\x10" + RECORD, 1, "a number is too large"),
    "a size cut off": (b"\x80" * 7, 1, "a number is"),
    "a timestamp of eleven bytes": (b"\x20\x00" + b"\xff" * 10 + b"\x01" + bytes(4), 1, "a number is too large"),
    "a negative offset delta": (RECORD[:3] + b"\x01" + RECORD[4:], 1, "an offset delta is negative"),
    "a key of size -2": (RECORD[:4] + b"\x03" + RECORD[5:], 1, "a field's size is out of range"),
    "a key longer than the record": (RECORD[:4] + b"\x40" + RECORD[5:], 1, "a field's size is out of range"),
    "a negative header count": (RECORD[:-1] + b"\x01", 1, "a header count is out of range"),
    "a header count that cannot fit": (RECORD[:-1] + b"\x02", 1, "a header count is out of range"),
    "a header without a name": (b"\x12" + RECORD[1:-1] + b"\x02\x01\x01", 1, "a header has no name"),
}


@each_twin
@pytest.mark.parametrize("case", DAMAGED, ids=lambda case: case.replace(" ", "-"))
def test_a_damaged_payload_is_corrupt_and_nothing_else(twin: ModuleType, case: str) -> None:
    payload, count, reason = DAMAGED[case]
    found = header(count)
    calls: list[tuple[str, tuple[object, ...]]] = [
        ("decode", (payload, found)),
        ("scan", (payload, count)),
        ("inspect", (payload, count)),
        ("find_timestamp", (payload, found, 2**62)),
        ("latest_timestamp", (payload, found)),
    ]
    for name, arguments in calls:
        with pytest.raises(CorruptBatch, match=reason):
            getattr(twin, name)(*arguments)


@each_twin
def test_offsets_and_timestamps_past_64_bits_are_corrupt(twin: ModuleType) -> None:
    second = RECORD[:3] + b"\x02" + RECORD[4:]
    late = RECORD[:2] + b"\x02" + RECORD[3:]
    early = RECORD[:2] + b"\x01" + RECORD[3:]
    with pytest.raises(CorruptBatch, match="an offset is too large"):
        twin.decode(second, header(1)._replace(base_offset=2**63 - 1))
    with pytest.raises(CorruptBatch, match="a timestamp is too large"):
        twin.decode(late, header(1, base_timestamp=2**63 - 1))
    with pytest.raises(CorruptBatch, match="a timestamp is too large"):
        twin.decode(early, header(1, base_timestamp=-(2**63)))


@each_twin
def test_records_that_do_not_fit_in_a_batch_are_not_written(twin: ModuleType) -> None:
    for record in (Record(99, START, None, None), Record(100 + 2**31, START, None, None)):
        with pytest.raises(ValueError, match="offset"):
            twin.encode([record], 100, START)
    for record, base in ((Record(100, 2**63, None, None), 0), (Record(100, 2**63 - 1, None, None), -5)):
        with pytest.raises(ValueError, match="timestamp"):
            twin.encode([record], 100, base)


@each_twin
@pytest.mark.parametrize(
    ("data", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_key_hash_equals_the_values_of_kafkas_own_tests(twin: ModuleType, data: bytes, signed: int) -> None:
    assert twin.murmur2(data) == signed & 0xFFFFFFFF


@needs_compiled
def test_the_collector_need_not_look_at_compiled_records() -> None:
    from ottla.records import _codec

    records = _codec.decode(PAYLOAD, header(4))
    assert [gc.is_tracked(record) for record in records] == [False] * 4


@needs_compiled
@pytest.mark.parametrize(("setting", "compiled"), [("1", False), ("0", True), ("", True)])
def test_an_environment_variable_forces_the_python_twin(setting: str, compiled: bool) -> None:
    code = "from ottla.records import codec; print(codec.COMPILED, codec.decode.__module__)"
    environment = {"OTTLA_PURE_PYTHON": setting}
    answer = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert answer.stdout.split()[0] == str(compiled)
    assert answer.stdout.split()[1].endswith("_codec" if compiled else "_pure")
