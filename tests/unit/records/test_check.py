"""What a broker demands of a produced batch: codes and messages are those of a real Kafka 4.3.1 for the same bytes."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.records import check as room
from ottla.records import codec
from ottla.records.batch import read_records
from ottla.records.builder import build_batch, replace_payload
from ottla.records.check import BatchRefusal, Checked, Rules, check
from ottla.records.compression import Compression, compress
from ottla.records.header import HEADER, checksum, read_header
from ottla.records.record import Record

NOW = 1_700_000_000_000
HOUR = 3_600_000
PLAIN = Rules(max_message_bytes=1_048_588)
COMPACTED = PLAIN._replace(compacted=True)
STAMPED = PLAIN._replace(log_append_time=True)
YOUNG = PLAIN._replace(before_max_ms=1000)
AS_ZSTD = PLAIN._replace(compression=Compression.ZSTD)


def batch(
    count: int = 2, *, key: bytes | None = b"k", time: int = NOW, compression: Compression = Compression.NONE
) -> bytearray:
    return build_batch([Record(i, time, key, b"v%d" % i) for i in range(count)], compression=compression)


def patched(data: bytearray, **fields: int) -> bytearray:
    """The batch with other header fields and the checksum that belongs to them."""
    changed = bytearray(data)
    HEADER.pack_into(changed, 0, *read_header(data)._replace(**fields))
    crc = checksum(changed, 0, len(changed))
    HEADER.pack_into(changed, 0, *read_header(changed)._replace(crc=crc))
    return changed


def with_payload(payload: bytes, attributes: int = 0) -> bytearray:
    return replace_payload(read_header(batch())._replace(attributes=attributes), payload)


def accepted(data: bytes | bytearray, rules: Rules = PLAIN) -> Checked:
    answer = check(memoryview(bytearray(data)), rules, NOW, "t-0")
    assert isinstance(answer, Checked), answer
    assert answer.header == read_header(answer.data)
    assert answer.header.crc == checksum(answer.data, 0, len(answer.data))
    assert answer.header.size == len(answer.data)
    return answer


def rejected(data: bytes | bytearray, rules: Rules = PLAIN) -> BatchRefusal:
    answer = check(memoryview(bytearray(data)), rules, NOW, "t-0")
    assert isinstance(answer, BatchRefusal), answer
    return answer


@pytest.mark.parametrize("kind", list(Compression))
def test_an_ordinary_batch_comes_back_as_the_very_same_buffer(kind: Compression) -> None:
    data = memoryview(batch(compression=kind))
    before = bytes(data)
    answer = check(data, PLAIN, NOW)
    assert isinstance(answer, Checked)
    assert answer.data is data
    assert bytes(data) == before
    assert answer.log_append_time == -1


def test_an_ordinary_batch_is_neither_decompressed_nor_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    monkeypatch.setattr(room, "read_payload", lambda *_: looked.append(1))
    accepted(batch(compression=Compression.GZIP))
    accepted(batch(compression=Compression.GZIP), STAMPED)
    accepted(batch(compression=Compression.ZSTD), AS_ZSTD)
    assert not looked


ONE = bytes(batch())
SHORT_HEAD = bytes(8) + b"\x00\x00\x00\x26\xff\xff\xff\xff\x02" + bytes(33)
FRAMING: dict[str, tuple[bytes | bytearray, ErrorCode]] = {
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "two batches": (ONE + ONE, ErrorCode.INVALID_RECORD),
    "a batch cut off": (ONE[:-3], ErrorCode.INVALID_RECORD),
    "a length cut off": (ONE[:10], ErrorCode.INVALID_RECORD),
    "a magic cut off": (ONE[:14], ErrorCode.INVALID_RECORD),
    "garbage behind": (ONE + bytes(40), ErrorCode.CORRUPT_MESSAGE),
    "magic 0": (patched(bytearray(ONE), magic=0), ErrorCode.INVALID_RECORD),
    "magic 1": (patched(bytearray(ONE), magic=1), ErrorCode.INVALID_RECORD),
    "magic 3": (patched(bytearray(ONE), magic=3), ErrorCode.CORRUPT_MESSAGE),
    "magic -1": (patched(bytearray(ONE), magic=-1), ErrorCode.CORRUPT_MESSAGE),
    "a length of 8": (bytes(8) + b"\x00\x00\x00\x08\xff\xff\xff\xff\x02" + bytes(3), ErrorCode.CORRUPT_MESSAGE),
    "a negative length": (patched(bytearray(ONE), length=-5), ErrorCode.CORRUPT_MESSAGE),
    "less than a header": (SHORT_HEAD, ErrorCode.UNKNOWN_SERVER_ERROR),
}


@pytest.mark.parametrize("case", FRAMING)
def test_anything_but_one_batch_of_magic_2_is_refused(case: str) -> None:
    data, code = FRAMING[case]
    assert rejected(data).error is code


@pytest.mark.parametrize("rest", [bytes(5), ONE[:14], ONE[:40], ONE[:-1]], ids=len)
def test_a_piece_of_a_batch_behind_the_first_is_dropped(rest: bytes) -> None:
    assert bytes(accepted(ONE + rest).data) == ONE


HEADERS = {
    "a base offset": (patched(batch(), base_offset=5), ErrorCode.INVALID_RECORD),
    "a range larger than the count": (patched(batch(), last_offset_delta=5), ErrorCode.INVALID_RECORD),
    "a negative range": (patched(batch(), last_offset_delta=-1), ErrorCode.INVALID_RECORD),
    "no records": (patched(batch(), records_count=0), ErrorCode.INVALID_RECORD),
    "no records and no range": (patched(batch(), records_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
    "control records": (patched(batch(), attributes=0x20), ErrorCode.INVALID_RECORD),
    "a producer without sequence": (
        patched(batch(), producer_id=7, producer_epoch=0, base_sequence=-1),
        ErrorCode.INVALID_RECORD,
    ),
    "an unknown compression": (patched(batch(), attributes=5), ErrorCode.UNKNOWN_SERVER_ERROR),
}


@pytest.mark.parametrize("case", HEADERS)
def test_an_odd_header_is_refused(case: str) -> None:
    data, code = HEADERS[case]
    answer = rejected(data)
    assert answer.error is code
    assert answer.record_errors == ()


@pytest.mark.parametrize(
    "fields", [{"producer_id": -5, "base_sequence": 3}, {"attributes": 0x4100}, {"attributes": 0x40}]
)
def test_oddities_that_kafka_takes_are_taken(fields: dict[str, int]) -> None:
    data = patched(batch(), **fields)
    assert accepted(data).data == data


def test_what_the_broker_writes_may_have_any_offset_and_control_records() -> None:
    data = memoryview(patched(batch(), base_offset=7, attributes=0x20))
    assert isinstance(check(data, AS_ZSTD, NOW, from_client=False), Checked)


def test_any_flipped_bit_behind_the_checksum_is_found() -> None:
    for position in range(17, len(ONE)):
        damaged = bytearray(ONE)
        damaged[position] ^= 0x10
        assert rejected(damaged).error is ErrorCode.CORRUPT_MESSAGE


def test_the_size_of_the_whole_batch_counts_and_before_its_checksum() -> None:
    exact = PLAIN._replace(max_message_bytes=len(ONE))
    accepted(ONE, exact)
    assert rejected(ONE[:-1] + b"!", exact).error is ErrorCode.CORRUPT_MESSAGE
    small = PLAIN._replace(max_message_bytes=len(ONE) - 1)
    assert rejected(ONE[:-1] + b"!", small).error is ErrorCode.MESSAGE_TOO_LARGE


def test_log_append_time_is_patched_in_place() -> None:
    for kind in Compression:
        data = memoryview(batch(compression=kind, time=NOW - 10 * HOUR))
        before = read_header(data)
        answer = check(data, STAMPED, NOW)
        assert isinstance(answer, Checked)
        assert answer.data is data
        assert answer.log_append_time == NOW
        after = before._replace(attributes=before.attributes | 8, max_timestamp=NOW, crc=answer.header.crc)
        assert read_header(data) == answer.header == after
        assert answer.header.crc == checksum(data, 0, len(data))


def test_a_buffer_that_cannot_be_written_is_copied_for_a_patch() -> None:
    data = memoryview(ONE)
    answer = check(data, STAMPED, NOW)
    assert isinstance(answer, Checked)
    assert bytes(data) == bytes(batch())
    assert read_header(answer.data).max_timestamp == NOW


def test_log_append_time_ignores_timestamps_far_away() -> None:
    accepted(batch(time=NOW + 100 * HOUR), STAMPED)
    accepted(batch(time=0), STAMPED._replace(before_max_ms=1000))


@pytest.mark.parametrize("kind", [Compression.NONE, Compression.GZIP])
def test_a_producer_may_not_claim_log_append_time(kind: Compression) -> None:
    answer = rejected(patched(batch(compression=kind), attributes=8 | kind), STAMPED)
    assert answer.error is ErrorCode.INVALID_TIMESTAMP
    assert answer.message == "One or more records have been rejected due to invalid timestamp"
    seen = "PartialDefaultRecord" if kind else "DefaultRecord"
    assert answer.record_errors == tuple(
        (
            index,
            f"Invalid timestamp type in message {seen}(offset={index}, timestamp={NOW}, key=1 bytes, value=2 bytes). "
            "Producer should not set timestamp type to LogAppendTime.",
        )
        for index in range(2)
    )


def test_on_a_create_time_topic_the_claim_is_taken_away() -> None:
    answer = accepted(patched(batch(), attributes=8))
    assert answer.header == read_header(batch())
    without_time = patched(batch(time=-1), attributes=8)
    assert rejected(without_time).error is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("kind", list(Compression))
def test_timestamps_too_far_ahead_are_refused_record_by_record(kind: Compression) -> None:
    late = NOW + HOUR + 1
    records = [Record(0, NOW, b"k", b""), Record(1, late, b"k", b""), Record(2, NOW + HOUR, b"k", b"")]
    answer = rejected(build_batch(records, compression=kind))
    assert answer.error is ErrorCode.INVALID_TIMESTAMP
    assert answer.record_errors == (
        (
            1,
            f"Timestamp {late} of message with offset 1 is out of range. "
            f"The timestamp should be within [{NOW - room.NO_LIMIT}, {NOW + HOUR}]",
        ),
    )


def test_timestamps_too_old_are_refused_where_a_topic_says_so() -> None:
    records = [Record(0, NOW - 1000, b"k", b""), Record(1, NOW - 1001, b"k", b""), Record(2, -1, b"k", b"")]
    answer = rejected(build_batch(records), YOUNG)
    assert answer.error is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in answer.record_errors] == [1]
    accepted(build_batch(records))
    accepted(build_batch([records[0], records[2]._replace(offset=1)]), YOUNG)


def test_a_record_without_timestamp_has_no_limits() -> None:
    accepted(batch(time=-1))
    accepted(batch(time=-1), YOUNG)


@pytest.mark.parametrize("kind", list(Compression))
@pytest.mark.parametrize("left", [-1, 0, 1, NOW - 1])
def test_a_highest_timestamp_that_cannot_be_right_is_made_true(left: int, kind: Compression) -> None:
    records = [Record(0, NOW, None, b"a"), Record(1, NOW + 5, None, b"b"), Record(2, NOW + 3, None, b"c")]
    answer = accepted(patched(build_batch(records, compression=kind), max_timestamp=left))
    assert answer.header.max_timestamp == NOW + 5
    assert [record.timestamp for record in read_records(answer.data, answer.header)] == [NOW, NOW + 5, NOW + 3]


@pytest.mark.parametrize("told", [NOW - 7, NOW + 7])
def test_one_record_has_the_highest_timestamp_that_it_says(told: int) -> None:
    assert accepted(patched(batch(1), max_timestamp=told)).header.max_timestamp == NOW


def test_both_timestamps_of_a_header_left_empty_hide_no_record() -> None:
    data = patched(batch(1, time=NOW), base_timestamp=0, max_timestamp=0)
    stamped = replace_payload(read_header(data), bytes(codec.encode([Record(0, NOW, None, b"v")], 0, 0)[0]))
    assert accepted(stamped).header.max_timestamp == NOW


def test_records_without_a_timestamp_keep_having_none() -> None:
    assert accepted(batch(time=-1)).header.max_timestamp == -1


def test_a_highest_timestamp_left_empty_does_not_smuggle_records_from_the_future() -> None:
    data = patched(batch(time=NOW + 2 * HOUR), max_timestamp=-1)
    assert rejected(data).error is ErrorCode.INVALID_TIMESTAMP


def test_the_brokers_own_time_needs_no_look_at_the_records() -> None:
    broken = patched(with_payload(b"\xff" * 40), max_timestamp=-1)
    assert accepted(broken, STAMPED).header.max_timestamp == NOW


def test_a_max_timestamp_that_lies_is_corrected_when_the_records_were_read() -> None:
    answer = accepted(patched(batch(), max_timestamp=NOW + 9 * HOUR))
    assert answer.header.max_timestamp == NOW


@pytest.mark.parametrize("kind", list(Compression))
def test_a_compacted_topic_wants_keys(kind: Compression) -> None:
    data = memoryview(batch(compression=kind))
    answer = check(data, COMPACTED, NOW)
    assert isinstance(answer, Checked)
    assert answer.data is data
    text = "Compacted topic cannot accept message without key in topic partition t-0"
    refused = rejected(batch(4, key=None, compression=kind), COMPACTED)
    assert refused.error is ErrorCode.INVALID_RECORD
    assert refused.record_errors == tuple((index, text) for index in range(4))
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index in range(3))
    assert refused.message == (
        "One or more records have been rejected due to 4 record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )


def test_one_bad_timestamp_among_missing_keys_makes_it_a_timestamp_error() -> None:
    records = [Record(0, NOW, None, b""), Record(1, NOW + 2 * HOUR, b"k", b""), Record(2, NOW + 2 * HOUR, None, b"")]
    answer = rejected(build_batch(records), COMPACTED)
    assert answer.error is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in answer.record_errors] == [0, 1, 2]
    assert "without key" in answer.record_errors[2][1]


@pytest.mark.parametrize("source", list(Compression))
@pytest.mark.parametrize("target", list(Compression))
def test_a_topics_compression_replaces_the_producers(source: Compression, target: Compression) -> None:
    records = [Record(i, NOW + i, b"k%d" % i, b"value " * 9, (("h", None),)) for i in range(50)]
    data = build_batch(
        records, compression=source, producer_id=4, producer_epoch=2, base_sequence=9, transactional=True
    )
    answer = accepted(data, PLAIN._replace(compression=target))
    assert answer.header.compression == target
    assert read_records(answer.data, answer.header) == records
    before = read_header(data)
    assert answer.header == before._replace(
        attributes=0x10 | target, length=answer.header.length, crc=answer.header.crc
    )
    if source == target:
        assert answer.data == data


def test_recompressing_and_append_time_go_together() -> None:
    answer = accepted(batch(), AS_ZSTD._replace(log_append_time=True))
    assert (answer.header.attributes, answer.header.max_timestamp, answer.log_append_time) == (8 | 4, NOW, NOW)


def test_records_out_of_line_are_numbered_anew_when_a_batch_is_rebuilt() -> None:
    records = [Record(0, NOW, b"a", b"1"), Record(5, NOW - 3, b"b", b"2")]
    data = replace_payload(read_header(batch()), build_batch(records)[61:])
    answer = accepted(data, AS_ZSTD)
    assert read_records(answer.data, answer.header) == [records[0], records[1]._replace(offset=1)]


def test_a_batch_that_grows_past_the_limit_by_recompressing_is_too_large() -> None:
    data = batch(500, compression=Compression.ZSTD)
    rules = Rules(max_message_bytes=len(data), compression=Compression.NONE)
    assert rejected(data, rules).error is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("kind", [kind for kind in Compression if kind])
def test_where_records_are_read_a_damaged_stream_is_refused(kind: Compression) -> None:
    assert rejected(with_payload(b"no such stream", kind), COMPACTED).error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert rejected(with_payload(compress(kind, b"no record"), kind), COMPACTED).error is ErrorCode.INVALID_RECORD


def test_where_records_are_read_a_wrong_count_is_refused() -> None:
    for count in (1, 3):
        data = patched(batch(), records_count=count, last_offset_delta=count - 1)
        assert rejected(data, COMPACTED).error is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "rules", [COMPACTED, AS_ZSTD, AS_ZSTD._replace(log_append_time=True, after_max_ms=room.NO_LIMIT)]
)
@pytest.mark.parametrize(
    ("base", "times"),
    [(2**63 - 1, [0, 5]), (-(2**63), [0, -5]), (0, [-(2**63), 2**63 - 1])],
    ids=["past the end", "before the start", "too far apart"],
)
def test_where_records_are_read_timestamps_past_64_bits_are_refused(base: int, times: list[int], rules: Rules) -> None:
    records = [Record(index * 3, time, b"k", b"v") for index, time in enumerate(times)]
    payload = codec.encode(records, 0, 0)[0]
    head = read_header(batch())._replace(base_timestamp=base, max_timestamp=0)
    answer = rejected(replace_payload(head, payload), rules)
    assert answer.error is ErrorCode.INVALID_RECORD
    assert "timestamps do not fit" in answer.message


@pytest.mark.parametrize("kind", list(Compression))
def test_a_batch_cannot_count_more_records_than_its_bytes_can_hold(kind: Compression) -> None:
    empty = replace_payload(read_header(batch())._replace(attributes=kind), b"")
    most = patched(empty, records_count=2**31 - 1, last_offset_delta=2**31 - 2)
    answer = rejected(most)
    assert (answer.error, answer.message) == (
        ErrorCode.INVALID_RECORD,
        "The batch for t-0 counts 2147483647 records in 0 bytes.",
    )
    few = replace_payload(read_header(batch())._replace(attributes=kind), b"." * 32)
    assert (
        rejected(patched(few, records_count=2**31 - 1, last_offset_delta=2**31 - 2)).error is ErrorCode.INVALID_RECORD
    )


@pytest.mark.parametrize("kind", list(Compression))
def test_the_smallest_records_there_are_pass_in_any_number(kind: Compression) -> None:
    records = [Record(i, NOW, None, None) for i in range(100_000)]
    data = build_batch(records, compression=kind)
    assert accepted(data).header.records_count == 100_000


@pytest.mark.parametrize("kind", list(Compression))
def test_who_cannot_wait_is_told_that_a_large_batch_takes_long(kind: Compression) -> None:
    large = build_batch([Record(0, NOW, b"k", bytes(room.AT_ONCE_BYTES))], compression=kind)
    assert check(memoryview(large), COMPACTED, NOW, patient=False) is room.LABORIOUS
    assert isinstance(check(memoryview(large), COMPACTED, NOW), Checked)
    assert isinstance(check(memoryview(large), PLAIN, NOW, patient=False), Checked)


@pytest.mark.parametrize("kind", list(Compression))
def test_small_batches_are_judged_at_once(kind: Compression) -> None:
    small = build_batch([Record(0, NOW, b"k", bytes(1000))], compression=kind)
    assert isinstance(check(memoryview(small), COMPACTED, NOW, patient=False), Checked)


@pytest.mark.parametrize("kind", [kind for kind in Compression if kind])
def test_records_that_grow_beyond_measure_are_too_large(kind: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "EXPANSION", 2)
    bomb = build_batch([Record(0, NOW, b"k", bytes(3 << 20))], compression=kind)
    answer = rejected(bomb, COMPACTED)
    assert answer.error is ErrorCode.MESSAGE_TOO_LARGE
    assert "2 times what max.message.bytes allows" in answer.message
    assert isinstance(check(memoryview(bomb), PLAIN, NOW), Checked)


@pytest.mark.parametrize("kind", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_damage_is_not_taken_for_size(kind: Compression) -> None:
    cut = with_payload(compress(kind, bytes(3 << 20))[:-30], attributes=kind)
    assert rejected(cut, COMPACTED).error is ErrorCode.UNKNOWN_SERVER_ERROR
