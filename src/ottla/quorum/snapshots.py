"""Snapshots of the metadata: what all facts up to an offset amount to, in one file.

Owns: Kafka's names and content of them (`<offset>-<epoch>.checkpoint`: a header, the quorum's own records, facts in
batches, a footer), how one is written, fetched in portions and read. Never knows: what the facts say, when to take one.
Invariants: a file under its final name is whole and synced; one from another node was read through before it got that
name; one that is written here and one that arrives never share a file.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.base.ports import ByteView, File
from ottla.log.batches import read_batches
from ottla.log.files import StorageFailure, World
from ottla.metadata.fact_batches import fact_batches
from ottla.metadata.facts import BadFact, Fact, decode_facts
from ottla.metadata.quorum_events import UnreadableMetadata
from ottla.raft.log_view import LogPosition
from ottla.raft.voters import VoterSet
from ottla.records.batch import read_records
from ottla.records.builder import build_batch
from ottla.records.control import (
    Control,
    KraftVersion,
    SnapshotFooter,
    SnapshotHeader,
    Voters,
    control_record,
    read_control,
)
from ottla.records.header import CorruptBatch, checksum, read_header
from ottla.records.record import Record

SUFFIX = ".checkpoint"
PART = ".part"
_ARRIVING = ".fetched"


class SnapshotState(NamedTuple):
    """What a snapshot says beside its facts."""

    position: LogPosition
    """The offset is the one after the last record it contains."""
    kraft_version: int
    voters: VoterSet


class SnapshotContent(NamedTuple):
    """A whole snapshot, read."""

    controls: tuple[Control, ...]
    facts: list[Fact]


def name_of(position: LogPosition) -> str:
    return f"{position.offset:020d}-{position.epoch:010d}{SUFFIX}"


def position_of(name: str) -> LogPosition | None:
    """The snapshot a file is named by; None for any other file."""
    offset, dash, rest = name.removesuffix(SUFFIX).partition("-")
    if name.endswith(SUFFIX) and dash and len(offset) == 20 and len(rest) == 10 and (offset + rest).isdigit():
        return LogPosition(int(offset), int(rest))
    return None


class Snapshots:
    """The snapshots in one directory. Every method is blocking and may raise StorageFailure."""

    def __init__(self, world: World, directory: str) -> None:
        self._world = world
        self._disk = world.disk
        self.directory = directory
        self._part: File | None = None

    def path(self, position: LogPosition) -> str:
        return f"{self.directory}/{name_of(position)}"

    def found(self) -> list[LogPosition]:
        """Those there are, oldest first."""
        try:
            names = self._disk.list(self.directory)
        except OSError as error:
            raise StorageFailure.of(self.directory, error) from error
        return sorted(position for name in names if (position := position_of(name)) is not None)

    def drop_leftovers(self) -> None:
        """Remove what an earlier process left half done."""
        try:
            for name in self._disk.list(self.directory):
                if name.endswith(SUFFIX + PART):
                    self._disk.remove(f"{self.directory}/{name}")
        except OSError as error:
            raise StorageFailure.of(self.directory, error) from error

    # --- writing -----------------------------------------------------------------------------------------------------

    def write(self, state: SnapshotState, facts: Iterable[Fact]) -> None:
        """Write one as a whole."""
        path = self.path(state.position)
        try:
            file = self._disk.open(path + PART, create=True)
            try:
                file.truncate(0)
                for batch in self._batches(state, facts):
                    file.append(batch)
                file.sync()
            finally:
                file.close()
            self._settle(path + PART, path)
        except OSError as error:
            raise StorageFailure.of(path, error) from error

    def _batches(self, state: SnapshotState, facts: Iterable[Fact]) -> Iterator[ByteView]:
        now = self._world.clock.now_ms()
        epoch = state.position.epoch
        first: list[Control] = [SnapshotHeader(now)]
        if state.kraft_version >= 1:
            first += [KraftVersion(state.kraft_version), Voters(state.voters.voters)]
        records = [control_record(control, offset, now) for offset, control in enumerate(first)]
        yield build_batch(records, leader_epoch=epoch, control=True)
        offset = len(records)
        for batch in fact_batches(facts, offset, now, epoch):
            offset = read_header(batch, 0).next_offset
            yield batch
        footer = control_record(SnapshotFooter(), offset, now)
        yield build_batch([footer], base_offset=offset, leader_epoch=epoch, control=True)

    def _settle(self, part: str, path: str) -> None:
        self._disk.rename(part, path)
        self._disk.sync_directory(self.directory)

    def keep_portion(self, position: LogPosition, at: int, data: ByteView) -> None:
        """A part of one that comes from another node; at 0 it begins anew."""
        path = self.path(position).removesuffix(SUFFIX) + _ARRIVING + SUFFIX + PART
        try:
            if at == 0 or self._part is None or self._part.path != path:
                self.drop_portions()
                self._part = self._disk.open(path, create=True)
                self._part.truncate(at)
            self._part.append(data)
        except OSError as error:
            raise StorageFailure.of(path, error) from error

    def finish_portions(self, position: LogPosition) -> SnapshotContent:
        """All parts are here: from now on it is a snapshot. Raises UnreadableMetadata when it cannot be one."""
        assert self._part is not None, "portions come first"
        part = self._part.path
        try:
            self._part.sync()
            self.drop_portions()
            try:
                content = self._read_through(part)
            except UnreadableMetadata:
                self._disk.remove(part)
                raise
            self._settle(part, self.path(position))
        except OSError as error:
            raise StorageFailure.of(self.path(position), error) from error
        return content

    def drop_portions(self) -> None:
        """Let an unfinished one go."""
        if self._part is not None:
            self._part.close()
            self._part = None

    def remove(self, position: LogPosition) -> None:
        try:
            self._disk.remove(self.path(position))
        except OSError as error:
            raise StorageFailure.of(self.path(position), error) from error

    # --- reading -----------------------------------------------------------------------------------------------------

    def read_portion(self, position: LogPosition, at: int, most: int) -> tuple[int, bytes] | None:
        """Its size and some of its bytes; None when it is not there."""
        try:
            file = self._disk.open(self.path(position), read_only=True)
            try:
                return file.size(), file.read_at(at, most)
            finally:
                file.close()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageFailure.of(self.path(position), error) from error

    def size(self, position: LogPosition) -> int:
        portion = self.read_portion(position, 0, 0)
        return 0 if portion is None else portion[0]

    def age_ms(self, position: LogPosition) -> int:
        try:
            return self._world.clock.now_ms() - self._disk.modified_ms(self.path(position))
        except OSError as error:
            raise StorageFailure.of(self.path(position), error) from error

    def controls(self, position: LogPosition) -> tuple[Control, ...]:
        """The quorum's own records in it. Raises UnreadableMetadata when the file is not whole."""
        path = self.path(position)
        return _whole(path, [found for batch in self._batches_of(path) for found in _controls_in(batch)])

    def facts(self, position: LogPosition) -> Iterator[Fact]:
        """Raises UnreadableMetadata."""
        path = self.path(position)
        for batch in self._batches_of(path):
            yield from _facts_in(batch, path)

    def _read_through(self, path: str) -> SnapshotContent:
        controls: list[Control] = []
        facts: list[Fact] = []
        for batch in self._batches_of(path):
            controls += _controls_in(batch)
            facts += _facts_in(batch, path)
        return SnapshotContent(_whole(path, controls), facts)

    def _batches_of(self, path: str) -> "Iterator[_Batch]":
        try:
            file = self._disk.open(path, read_only=True)
            try:
                for batch in read_batches(file):
                    if checksum(batch.data, 0, batch.header.size) != batch.header.crc:
                        raise CorruptBatch(batch.position, "the checksum is wrong")
                    yield _Batch(read_records(batch.data, batch.header), batch.header.control)
            finally:
                file.close()
        except CorruptBatch as problem:
            raise UnreadableMetadata(f"{path} is damaged ({problem}); restore it from a copy.") from problem
        except OSError as error:
            raise StorageFailure.of(path, error) from error


class _Batch(NamedTuple):
    records: list[Record]
    control: bool


def _controls_in(batch: _Batch) -> list[Control]:
    if not batch.control:
        return []
    return [content for content in map(read_control, batch.records) if content is not None]


def _facts_in(batch: _Batch, path: str) -> Iterable[Fact]:
    if batch.control:
        return ()
    try:
        return decode_facts(record.value for record in batch.records)
    except BadFact as problem:
        raise UnreadableMetadata(
            f"{path} cannot be used: {problem}. Start the release that wrote it, or restore it."
        ) from problem


def _whole(path: str, controls: list[Control]) -> tuple[Control, ...]:
    if not controls or not isinstance(controls[-1], SnapshotFooter):
        raise UnreadableMetadata(f"{path} has no end; remove it, or restore it from a copy.")
    return tuple(controls)
