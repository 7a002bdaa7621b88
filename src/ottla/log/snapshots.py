"""Producer tables on disk: Kafka's `.snapshot` files.

Owns: the bytes of a snapshot, and which snapshots a partition's directory holds. Never knows: when one is due.
Invariants: a snapshot is named by the offset up to which it is true; one whose checksum does not fit is removed and the
next older one serves. The one time that an entry has room for is the broker's: when the producer last wrote.
"""

from bisect import insort
from collections.abc import Iterable
from contextlib import suppress
from struct import Struct, error

from ottla.base.ports import Disk
from ottla.log.files import DELETED_SUFFIX, SNAPSHOT_SUFFIX, StorageFailure, offset_of, offset_path
from ottla.log.producers import ProducerState, ProducerTable
from ottla.log.whole_file import read_whole
from ottla.records.crc import crc32c
from ottla.records.header import MAX_SEQUENCE

VERSION = 1
_PREFIX = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


class CorruptSnapshot(Exception):
    """A snapshot file that cannot be believed."""


def encode_snapshot(states: Iterable[ProducerState]) -> bytes:
    """The content of a snapshot file."""
    entries = [
        _ENTRY.pack(
            state.producer_id,
            state.epoch,
            state.last_sequence,
            state.batches[-1][3] if state.batches else -1,
            state.batches[-1][3] - state.batches[-1][2] if state.batches else 0,
            state.written_ms,
            state.coordinator_epoch,
            state.transaction_first_offset,
        )
        for state in states
    ]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _PREFIX.pack(VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerState]:
    """The producers in a snapshot file; CorruptSnapshot when it is not one."""
    try:
        version, crc = _PREFIX.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _PREFIX.size)
    except error:
        raise CorruptSnapshot(f"{len(data)} bytes are no snapshot") from None
    if version != VERSION:
        raise CorruptSnapshot(f"unknown version {version}")
    if crc != crc32c(memoryview(data)[_PREFIX.size :]):
        raise CorruptSnapshot("the checksum does not fit")
    if len(data) != _PREFIX.size + _COUNT.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{count} producers do not take {len(data)} bytes")
    states = []
    for fields in _ENTRY.iter_unpack(memoryview(data)[_PREFIX.size + _COUNT.size :]):
        producer_id, epoch, sequence, last_offset, delta, timestamp, coordinator_epoch, transaction = fields
        state = ProducerState(producer_id, epoch)
        state.coordinator_epoch = coordinator_epoch
        state.last_timestamp = state.written_ms = timestamp
        state.transaction_first_offset = max(transaction, -1)
        if last_offset >= 0:
            first = sequence - delta if sequence >= delta else MAX_SEQUENCE - (delta - sequence) + 1
            state.batches.append((first, sequence, last_offset - delta, last_offset, timestamp))
        states.append(state)
    return states


class SnapshotFiles:
    """The snapshots of one partition."""

    __slots__ = ("_disk", "directory", "offsets", "unsynced")

    def __init__(self, disk: Disk, directory: str, names: Iterable[str]) -> None:
        self._disk = disk
        self.directory = directory
        found = (offset_of(name) for name in names if name.endswith(SNAPSHOT_SUFFIX))
        self.offsets = sorted(offset for offset in found if offset is not None)
        self.unsynced: list[str] = []

    @property
    def latest(self) -> int | None:
        return self.offsets[-1] if self.offsets else None

    def take(self, table: ProducerTable, offset: int) -> None:
        """Write the table down as it is at an offset, unless that is done; the bytes last after the next flush."""
        if offset <= (self.latest or 0):
            return
        path = offset_path(self.directory, offset, SNAPSHOT_SUFFIX)
        try:
            insort(self.offsets, offset)
            file = self._disk.open(path, create=True)
            try:
                file.truncate(0)
                file.append(encode_snapshot(table.states()))
            finally:
                file.close()
        except OSError as failure:
            # A full disk gets its bytes back. What cannot be removed is refused by its checksum.
            with suppress(OSError):
                self.remove(offset)
            raise StorageFailure.of(path, failure) from failure
        self.unsynced.append(path)

    def restore(self, table: ProducerTable, start_offset: int, at_most: int) -> None:
        """Set the table to the latest readable snapshot up to an offset; to nothing, at the start, without one."""
        for offset in reversed([offset for offset in self.offsets if start_offset < offset <= at_most]):
            data = read_whole(self._disk, offset_path(self.directory, offset, SNAPSHOT_SUFFIX))
            try:
                states = decode_snapshot(data or b"")
            except CorruptSnapshot:
                self.remove(offset)
                continue
            table.restart(states, offset)
            return
        table.restart((), start_offset)

    def remove(self, offset: int) -> None:
        if offset in self.offsets:
            self._disk.remove(offset_path(self.directory, offset, SNAPSHOT_SUFFIX))
            self.offsets.remove(offset)

    def remove_outside(self, start_offset: int, end_offset: int) -> None:
        """Keep those in (start_offset, end_offset] only."""
        for offset in [offset for offset in self.offsets if offset > end_offset or offset <= start_offset]:
            self.remove(offset)

    def remove_strays(self, bases: Iterable[int]) -> None:
        """Keep those at a segment's base offset, and the last one when it lies beyond all of these."""
        kept = set(bases)
        strays = [offset for offset in self.offsets if offset not in kept]
        if strays and strays[-1] > max(kept, default=-1):
            strays.pop()
        for offset in strays:
            self.remove(offset)

    def retire(self, offset: int) -> str | None:
        """Mark the snapshot of a deleted segment for later removal; answers its new path."""
        if offset not in self.offsets:
            return None
        path = offset_path(self.directory, offset, SNAPSHOT_SUFFIX)
        try:
            self._disk.rename(path, path + DELETED_SUFFIX)
        except FileNotFoundError:
            self.offsets.remove(offset)
            return None
        self.offsets.remove(offset)
        return path + DELETED_SUFFIX
