"""Sequences, epochs and transactions of producers, by Kafka's rules."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.log.index import AbortedTransaction
from ottla.log.producers import EndMarker, ProducerRefusal, ProducerTable
from ottla.log.snapshots import CorruptSnapshot, decode_snapshot, encode_snapshot
from ottla.records.header import MAX_SEQUENCE, BatchHeader

ID = 7


def header(sequence: int, count: int = 1, *, epoch: int = 0, transactional: bool = False, at: int = 0) -> BatchHeader:
    attributes = 0x10 if transactional else 0
    return BatchHeader(0, 49, 0, 2, 0, attributes, count - 1, at, at, ID, epoch, sequence, count)


@pytest.fixture
def table() -> ProducerTable:
    return ProducerTable(TopicPartition("t", 0))


def write(table: ProducerTable, batch: BatchHeader, offset: int, now_ms: int = 5) -> None:
    assert table.examine(batch, offset, sequenced=batch.base_sequence >= 0) is None
    table.note(batch, offset, now_ms)
    table.end_offset = offset + batch.records_count


def refusal(table: ProducerTable, batch: BatchHeader, *, sequenced: bool = True) -> ErrorCode:
    verdict = table.examine(batch, 99, sequenced=sequenced)
    assert isinstance(verdict, ProducerRefusal), verdict
    return verdict.error


def test_an_unknown_producer_may_begin_with_any_sequence(table: ProducerTable) -> None:
    assert table.examine(header(500), 0, sequenced=True) is None


def test_sequences_follow_each_other(table: ProducerTable) -> None:
    write(table, header(0, 3), 0)
    write(table, header(3, 2), 3)
    assert refusal(table, header(6)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(table, header(4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "inside a batch, but not that batch"
    assert refusal(table, header(3, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "begins like it, ends elsewhere"


def test_any_of_the_last_five_batches_is_known_again(table: ProducerTable) -> None:
    for number in range(6):
        write(table, header(number * 2, 2, at=number), number * 2)
    for number in range(1, 6):
        first = number * 2
        assert table.examine(header(first, 2), 99, sequenced=True) == (first, first + 1, first, first + 1, number)
    assert refusal(table, header(0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "the sixth is forgotten"


def test_sequences_wrap_after_the_largest(table: ProducerTable) -> None:
    write(table, header(MAX_SEQUENCE - 1, 2), 0)
    write(table, header(0, 1), 2)
    assert table.state(ID) is not None
    wrapping = ProducerTable(TopicPartition("t", 0))
    write(wrapping, header(MAX_SEQUENCE, 3), 0)
    write(wrapping, header(2, 1), 3)
    assert wrapping.examine(header(MAX_SEQUENCE, 3), 9, sequenced=True) == (MAX_SEQUENCE, 1, 0, 2, 0)


def test_a_new_epoch_begins_at_zero(table: ProducerTable) -> None:
    write(table, header(0), 0)
    assert refusal(table, header(1, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(table, header(0, epoch=1), 1)
    write(table, header(1, epoch=1), 2)


def test_an_old_epoch_is_fenced(table: ProducerTable) -> None:
    write(table, header(0, epoch=4), 0)
    assert refusal(table, header(0, epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(table, header(-1, epoch=3), sequenced=False) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_coordinators_batches_have_no_sequence(table: ProducerTable) -> None:
    write(table, header(-1, transactional=True), 0)
    write(table, header(-1, transactional=True), 1)
    state = table.state(ID)
    assert state is not None
    assert state.last_sequence == -1


def test_an_open_transaction_holds_the_stable_offset_back_until_its_end_is_replicated(table: ProducerTable) -> None:
    assert table.stable
    write(table, header(0, transactional=True), 10)
    write(table, header(1, transactional=True), 11)
    assert table.first_unstable_offset() == 10
    assert table.note_marker(EndMarker(ID, 0, 0, True), 12, 0, 0) is None
    assert table.first_unstable_offset() == 10
    table.release_below(12)
    assert not table.stable
    table.release_below(13)
    assert table.stable
    assert table.first_unstable_offset() is None


def test_a_plain_batch_inside_a_transaction_is_refused(table: ProducerTable) -> None:
    write(table, header(0, transactional=True), 0)
    assert refusal(table, header(1)) is ErrorCode.INVALID_TXN_STATE


def test_an_aborted_transaction_is_told_with_the_next_open_one(table: ProducerTable) -> None:
    write(table, header(0, transactional=True), 0)
    other = header(0, transactional=True)._replace(producer_id=8)
    write(table, other, 1)
    assert table.note_marker(EndMarker(ID, 0, 0, False), 2, 0, 0) == AbortedTransaction(ID, 0, 2, 1)
    assert table.note_marker(EndMarker(8, 0, 0, False), 3, 0, 0) == AbortedTransaction(8, 1, 3, 4)


def test_a_marker_without_a_transaction_leaves_only_its_epoch(table: ProducerTable) -> None:
    assert table.note_marker(EndMarker(ID, 3, 5, False), 0, 77, 0) is None
    state = table.state(ID)
    assert state is not None
    assert (state.epoch, state.coordinator_epoch, state.last_timestamp) == (3, 5, 77)
    assert table.stable


def test_markers_of_old_epochs_and_old_coordinators_are_refused(table: ProducerTable) -> None:
    write(table, header(0, epoch=2, transactional=True), 0)
    table.note_marker(EndMarker(ID, 2, 5, True), 1, 0, 0)

    def error(epoch: int, coordinator_epoch: int, version: int = 0) -> ErrorCode | None:
        verdict = table.examine_marker(EndMarker(ID, epoch, coordinator_epoch, True, version), 9)
        return None if verdict is None else verdict.error

    assert error(1, 5) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert error(2, 4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert error(2, 5) is None
    assert error(2, 5, 2) is None, "a repeated marker of a transaction that is over"
    write(table, header(0, epoch=3, transactional=True), 2)
    assert error(3, 5) is None
    assert error(3, 5, 2) is ErrorCode.INVALID_PRODUCER_EPOCH, "version 2 ends a transaction with the next epoch"
    assert error(4, 5, 2) is None


def test_silent_producers_expire_unless_their_transaction_is_open(table: ProducerTable) -> None:
    write(table, header(0), 0, now_ms=1000)
    write(table, header(0, transactional=True)._replace(producer_id=8), 1, now_ms=1000)
    assert table.expire(1999, 1000) == 0
    assert table.expire(2000, 1000) == 1
    assert [state.producer_id for state in table.states()] == [8]


@pytest.mark.parametrize("stamp", [-1, 0, 10**15])
def test_a_producer_is_alive_by_the_brokers_clock_whatever_its_records_say(table: ProducerTable, stamp: int) -> None:
    write(table, header(0, at=stamp), 0, now_ms=10_000)
    assert table.expire(10_999, 1000) == 0
    again = ProducerTable(TopicPartition("t", 0))
    again.restart(decode_snapshot(encode_snapshot(table.states())), 1)
    assert again.expire(10_999, 1000) == 0, "a snapshot keeps the same time"
    assert table.expire(11_000, 1000) == again.expire(11_000, 1000) == 1


@pytest.mark.parametrize("impossible", [-1, 10**15])
def test_a_time_that_cannot_be_counts_from_now(table: ProducerTable, impossible: int) -> None:
    write(table, header(0), 0, now_ms=impossible)
    assert table.expire(10_000, 1000) == 0
    assert table.expire(10_999, 1000) == 0
    assert table.expire(11_000, 1000) == 1


def test_a_snapshot_brings_back_the_last_batch_and_the_open_transactions(table: ProducerTable) -> None:
    write(table, header(MAX_SEQUENCE, 3, at=5), 0)
    write(table, header(0, transactional=True)._replace(producer_id=9), 3)
    write(table, header(0, transactional=True)._replace(producer_id=8), 4)
    data = encode_snapshot(table.states())
    assert len(data) == 2 + 4 + 4 + 3 * 46
    again = ProducerTable(TopicPartition("t", 0))
    again.restart(decode_snapshot(data), 5)
    assert again.first_unstable_offset() == 3
    assert again.examine(header(MAX_SEQUENCE, 3), 9, sequenced=True) == (MAX_SEQUENCE, 1, 0, 2, 5)
    assert again.examine(header(2), 9, sequenced=True) is None
    assert encode_snapshot(again.states()) == data


@pytest.mark.parametrize("damage", [b"", b"\x00\x01", None])
def test_a_damaged_snapshot_is_refused(table: ProducerTable, damage: bytes | None) -> None:
    write(table, header(0), 0)
    data = encode_snapshot(table.states())
    for spoiled in (
        (damage,) if damage is not None else (data[:-1], data[:20] + b"x" + data[21:], b"\x00\x02" + data[2:])
    ):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(spoiled)
