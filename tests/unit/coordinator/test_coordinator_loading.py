"""What of a log with transactions in it still holds when it is read back."""

from __future__ import annotations

from ottla.coordinator.loading import Latest
from ottla.log.segment import FileRange
from ottla.records.builder import build_batch
from ottla.records.control import EndTransaction, build_control
from ottla.records.record import Record


class Bytes:
    """A file that is only read."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read_at(self, position: int, length: int) -> bytes:
        return self._data[position : position + length]


class Log:
    """Batches one after another."""

    def __init__(self) -> None:
        self._data = b""
        self._offset = 0

    def write(self, key: bytes, value: bytes | None, producer_id: int = -1) -> Log:
        record = Record(self._offset, 0, key, value)
        self._data += build_batch(
            [record], base_offset=self._offset, producer_id=producer_id, transactional=producer_id >= 0
        )
        self._offset += 1
        return self

    def end(self, producer_id: int, commit: bool) -> Log:
        self._data += build_control(
            EndTransaction(commit, 0),
            offset=self._offset,
            timestamp=0,
            leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
        )
        self._offset += 1
        return self

    def read(self) -> Latest:
        latest = Latest(lambda key: True)
        latest.take(FileRange(Bytes(self._data), 0, len(self._data)))  # type: ignore[arg-type]
        assert latest.next_offset == self._offset
        return latest


def test_records_of_a_committed_transaction_count() -> None:
    latest = Log().write(b"a", b"0").write(b"a", b"1", 7).write(b"b", b"2", 7).end(7, commit=True).read()
    assert dict(latest.records()) == {b"a": b"1", b"b": b"2"}
    assert list(latest.waiting()) == []


def test_records_of_an_aborted_transaction_do_not_count() -> None:
    latest = Log().write(b"a", b"0").write(b"a", b"1", 7).end(7, commit=False).read()
    assert dict(latest.records()) == {b"a": b"0"}


def test_what_is_written_after_a_record_of_a_transaction_outlives_its_commit() -> None:
    latest = Log().write(b"a", b"1", 7).write(b"a", b"2").end(7, commit=True).read()
    assert dict(latest.records()) == {b"a": b"2"}
    latest = Log().write(b"a", b"1", 7).write(b"a", None).end(7, commit=True).read()
    assert dict(latest.records()) == {}


def test_what_open_transactions_wrote_is_told() -> None:
    log = Log().write(b"a", b"1", 7).write(b"b", b"2", 8).write(b"a", b"3").end(9, commit=True)
    latest = log.read()
    assert dict(latest.records()) == {b"a": b"3"}
    assert sorted(latest.waiting()) == [(7, b"a", None), (8, b"b", b"2")]
