"""Whether a data directory is whole: every file of every log in it, without a running node.

Owns: which files there are to look at, what each must agree with, and whether a fault is damage or what a crash leaves
behind and the next start repairs. Never knows: printing; how a file's entries are read (`log.dump`).
Invariants: reads only; damage becomes a finding with its file and position, never an exception; memory does not grow
with the logs.
"""

import json
import os
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import pairwise
from typing import NamedTuple

from ottla.base.ports import Disk
from ottla.base.vocabulary import TopicPartition
from ottla.log.batches import StoredBatch, read_batches
from ottla.log.checkpoints import BadCheckpoint, Checkpoint, read_checkpoint
from ottla.log.data_directory import CLEAN_STOP_FILE, METADATA_LOG, parse_name
from ottla.log.dump import UnreadableFile, dump
from ottla.log.files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    EPOCH_CHECKPOINT,
    INDEX_SUFFIX,
    LARGEST_RELATIVE_OFFSET,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_of,
    offset_path,
)
from ottla.log.index import OffsetIndex, TimeIndex, TransactionIndex
from ottla.log.properties import DIRECTORY_FILE, UnusableDirectory, read_directory_properties, read_topic_id
from ottla.log.whole_file import read_whole
from ottla.records import codec
from ottla.records.header import CorruptBatch, checksum

MOST_IN_A_FILE = 20
"""Findings of one file that are told one by one; where there are more, the rest is a number."""
METADATA_SNAPSHOT_SUFFIX = ".checkpoint"
QUORUM_STATE = "quorum-state"
_BLANK = 4096
_ENTRY_SIZES = {
    INDEX_SUFFIX: OffsetIndex.ENTRY.size,
    TIME_INDEX_SUFFIX: TimeIndex.ENTRY.size,
    TRANSACTION_INDEX_SUFFIX: TransactionIndex.ENTRY.size,
}
_IN_TRANSIT = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)
Advance = Callable[[int], None]


class Finding(NamedTuple):
    """What is wrong with a file, and at which byte of it, if that can be said."""

    file: str
    position: int | None
    problem: str
    repaired: bool = False
    """Whether the next start of a node puts it right without losing anything that was flushed."""


class Report:
    """What was looked at, and what was found."""

    def __init__(self) -> None:
        self.logs = 0
        self.segments = 0
        self.batches = 0
        self.records = 0
        self.bytes = 0
        self.findings: list[Finding] = []

    @property
    def damage(self) -> list[Finding]:
        return [finding for finding in self.findings if not finding.repaired]

    @property
    def leftovers(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.repaired]


class _Checkpoints(NamedTuple):
    """What a data directory says of its logs; `clean`: whoever had it last stopped properly."""

    offsets: dict[Checkpoint, dict[TopicPartition, int]]
    clean: bool

    def of(self, kind: Checkpoint, name: TopicPartition | None) -> int | None:
        return None if name is None else self.offsets.get(kind, {}).get(name)


def is_data_directory(disk: Disk, path: str) -> bool:
    """Else it is taken for the directory of one log."""
    names = disk.list(path)
    return DIRECTORY_FILE in names or not any(name.endswith(LOG_SUFFIX) for name in names)


def total_bytes(disk: Disk, path: str) -> int:
    """How many bytes `verify` will tell it has read."""
    return sum(_size(disk, file) for log in _logs(disk, path) for file in _batch_files(disk, log))


def verify(disk: Disk, path: str, *, deep: bool = False, advance: Advance | None = None) -> Report:
    """Look at a data directory, or at the directory of one log in it, by its absolute path. `deep` also decodes every
    record. Raises OSError."""
    report = Report()
    if is_data_directory(disk, path):
        checkpoints = _verify_directory(disk, path, report)
    else:
        checkpoints = _verify_directory(disk, os.path.dirname(path), Report())
    for log in _logs(disk, path):
        _LogCheck(disk, log, report, checkpoints, deep, advance or (lambda _: None)).run()
    return report


def _logs(disk: Disk, path: str) -> list[str]:
    if not is_data_directory(disk, path):
        return [path]
    parsed = [(name, parse_name(name)) for name in disk.list(path)]
    return [os.path.join(path, name) for name, entry in parsed if entry is not None and entry.mark in (None, "future")]


def _batch_files(disk: Disk, directory: str) -> list[str]:
    suffixes = (LOG_SUFFIX, METADATA_SNAPSHOT_SUFFIX)
    return [os.path.join(directory, name) for name in disk.list(directory) if name.endswith(suffixes)]


def _size(disk: Disk, path: str) -> int:
    with closing(disk.open(path, read_only=True)) as file:
        return file.size()


def _verify_directory(disk: Disk, path: str, report: Report) -> _Checkpoints:
    """What belongs to the directory itself."""
    try:
        if read_directory_properties(disk, path) is None:
            report.findings.append(Finding(os.path.join(path, DIRECTORY_FILE), None, "it is missing"))
    except UnusableDirectory as problem:
        report.findings.append(Finding(os.path.join(path, DIRECTORY_FILE), None, str(problem)))
    offsets: dict[Checkpoint, dict[TopicPartition, int]] = {}
    for kind in Checkpoint:
        try:
            offsets[kind] = read_checkpoint(disk, path, kind)
        except BadCheckpoint as problem:
            report.findings.append(Finding(problem.path, None, problem.reason))
    return _Checkpoints(offsets, clean=disk.exists(os.path.join(path, CLEAN_STOP_FILE)))


class _LogCheck:
    """One log being looked at: segment after segment, and what stands beside them."""

    def __init__(
        self, disk: Disk, directory: str, report: Report, checkpoints: _Checkpoints, deep: bool, advance: Advance
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._report = report
        self._checkpoints = checkpoints
        self._deep = deep
        self._advance = advance
        entry = parse_name(os.path.basename(directory))
        self._name = entry.topic_partition if entry is not None and entry.mark is None else None
        self._metadata = os.path.basename(directory) == METADATA_LOG
        self._expected = 0
        self._epoch = -1
        self._control = False
        self._told: dict[str, int] = {}

    def run(self) -> None:
        self._report.logs += 1
        names = self._disk.list(self._directory)
        bases = sorted(base for name in names if name.endswith(LOG_SUFFIX) and (base := offset_of(name)) is not None)
        for slot, base in enumerate(bases):
            self._segment(base, bases[slot + 1] if slot + 1 < len(bases) else None, names)
        self._beside(names, set(bases))
        if bases:
            self._agreement(self._expected)

    # --- batches ------------------------------------------------------------------------------------------------------

    def _segment(self, base: int, following: int | None, names: list[str]) -> None:
        path = offset_path(self._directory, base, LOG_SUFFIX)
        repaired = self._unflushed(following)
        if base < self._expected:
            problem = f"the segment before it goes on to offset {self._expected - 1}"
            self._find(path, 0, problem)
        self._expected = max(self._expected, base)
        self._walk(path, base, torn_is_repaired=repaired and following is None)
        self._report.segments += 1
        if following is not None and self._expected > following:
            self._find(path, None, f"it goes on to offset {self._expected - 1}, and the next begins with {following}")
        for suffix in _ENTRY_SIZES:
            name = f"{base:020d}{suffix}"
            if name in names:
                # Indexes of what was not flushed are made anew at the next start.
                self._entries(os.path.join(self._directory, name), suffix, repaired)

    def _unflushed(self, following: int | None) -> bool:
        """Whether the next start reads the segment through and mends it."""
        if self._checkpoints.clean:
            return False
        recovery_point = self._checkpoints.of(Checkpoint.RECOVERY_POINT, self._name) or 0
        return following is None or following > recovery_point

    def _walk(self, path: str, base: int, *, torn_is_repaired: bool) -> None:
        with closing(self._disk.open(path, read_only=True)) as file:
            size, end = file.size(), 0
            try:
                for batch in read_batches(file):
                    self._batch(path, base, batch)
                    self._advance(batch.position + len(batch.data) - end)
                    end = batch.position + len(batch.data)
            except CorruptBatch as problem:
                blank = not any(file.read_at(end, _BLANK))
                reason = "space set aside" if blank else f"no batch begins there ({problem.reason})"
                self._find(
                    path, end, f"{size - end} bytes cannot be read: {reason}", repaired=blank or torn_is_repaired
                )
            else:
                if size > end:
                    self._find(
                        path, end, f"{size - end} bytes at the end are no whole batch", repaired=torn_is_repaired
                    )
            self._advance(size - end)
            self._report.bytes += size

    def _batch(self, path: str, base: int, batch: StoredBatch) -> None:
        header, position = batch.header, batch.position
        self._report.batches += 1
        if checksum(batch.data, 0, len(batch.data)) != header.crc:
            self._find(path, position, f"the checksum of the batch at offset {header.base_offset} does not match")
        elif header.base_offset < self._expected or header.last_offset < header.base_offset:
            self._find(path, position, f"a batch of offsets {header.base_offset} to {header.last_offset}, "
                       f"where {self._expected} or later was expected")  # fmt: skip
        elif header.last_offset - base > LARGEST_RELATIVE_OFFSET:
            self._find(path, position, f"offset {header.last_offset} is too far from the segment's first, {base}")
        elif 0 <= header.leader_epoch < self._epoch:
            self._find(path, position, f"a batch of leader epoch {header.leader_epoch} after one of {self._epoch}")
        elif self._deep:
            self._decode(path, batch)
        self._expected = max(self._expected, header.next_offset)
        self._epoch = max(self._epoch, header.leader_epoch)
        self._control = header.control

    def _decode(self, path: str, batch: StoredBatch) -> None:
        header = batch.header
        try:
            records = codec.decode(batch.payload(), header)
        except CorruptBatch as problem:
            self._find(path, batch.position, f"the records of the batch cannot be read: {problem}")
            return
        self._report.records += len(records)
        offsets = [record.offset for record in records]
        inside = all(header.base_offset <= offset <= header.last_offset for offset in offsets)
        if not inside or any(after <= before for before, after in pairwise(offsets)):
            self._find(path, batch.position, "the offsets of its records do not rise within those of the batch")

    # --- what stands beside the batches -------------------------------------------------------------------------------

    def _entries(self, path: str, suffix: str, repaired: bool) -> None:
        number = 0
        try:
            for row in dump(self._disk, path):
                if row.problem is not None:
                    what = "; ".join(f"{name} {value}" for name, value in row.fields.items())
                    place = number * _ENTRY_SIZES[suffix] if row.kind in ("entry", "transaction") else None
                    self._find(path, place, f"{row.problem}{f' ({what})' if what else ''}", repaired=repaired)
                number += row.kind in ("entry", "transaction")
        except UnreadableFile as problem:
            self._find(path, None, str(problem))

    def _beside(self, names: Iterable[str], bases: set[int]) -> None:
        for name in names:
            path = os.path.join(self._directory, name)
            suffix = os.path.splitext(name)[1]
            if name.endswith(_IN_TRANSIT):
                self._find(path, None, "it was on its way when a node stopped", repaired=True)
            elif suffix in _ENTRY_SIZES and offset_of(name) not in bases:
                self._find(path, None, "it belongs to no segment", repaired=True)
            elif suffix == SNAPSHOT_SUFFIX or name == EPOCH_CHECKPOINT:
                self._readable(path)
            elif suffix == METADATA_SNAPSHOT_SUFFIX and self._metadata:
                self._metadata_snapshot(path)
            elif name == QUORUM_STATE:
                self._quorum_state(path)
        try:
            read_topic_id(self._disk, self._directory)
        except UnusableDirectory as problem:
            self._find(os.path.join(self._directory, "partition.metadata"), None, str(problem))

    def _readable(self, path: str) -> None:
        try:
            for row in dump(self._disk, path):
                if row.problem is not None:
                    # An older snapshot or the batches themselves say the same.
                    self._find(path, None, row.problem, repaired=not self._checkpoints.clean)
                elif row.kind == "epoch" and int(str(row.fields["start_offset"])) > self._expected:
                    self._find(path, None, f"epoch {row.fields['leader_epoch']} begins with offset "
                               f"{row.fields['start_offset']}, after the log's end", repaired=True)  # fmt: skip
        except UnreadableFile as problem:
            self._find(path, None, str(problem))

    def _metadata_snapshot(self, path: str) -> None:
        """A snapshot has offsets of its own and ends with a batch that says so."""
        expected, epoch, self._expected, self._epoch = self._expected, self._epoch, 0, -1
        self._control = False
        self._walk(path, 0, torn_is_repaired=False)
        self._expected, self._epoch = expected, epoch
        if not self._control:
            self._find(path, None, "it does not end as a snapshot does: it was not written through")

    def _quorum_state(self, path: str) -> None:
        try:
            json.loads(read_whole(self._disk, path) or b"")
        except ValueError:
            self._find(path, None, "it does not say who was elected: it is not JSON")

    def _agreement(self, end: int) -> None:
        """What the checkpoints promise must be there."""
        top = os.path.dirname(self._directory)
        clean = self._checkpoints.clean
        for kind, what, repaired in (
            (Checkpoint.RECOVERY_POINT, "everything before it was flushed", False),
            (Checkpoint.HIGH_WATERMARK, "everything before it was committed", not clean),
            (Checkpoint.START_OFFSET, "the log begins there", False),
            (Checkpoint.CLEANED, "everything before it was compacted", True),
        ):
            offset = self._checkpoints.of(kind, self._name)
            if offset is not None and offset > end:
                self._find(
                    os.path.join(top, kind.value),
                    None,
                    f"offset {offset} of {self._name} ({what}), but the log ends with {end}",
                    repaired=repaired,
                )

    def _find(self, path: str, position: int | None, problem: str, *, repaired: bool = False) -> None:
        told = self._told[path] = self._told.get(path, 0) + 1
        if told < MOST_IN_A_FILE:
            self._report.findings.append(Finding(path, position, problem, repaired))
        elif told == MOST_IN_A_FILE:
            self._report.findings.append(Finding(path, position, f"{problem}; and more that is not listed", repaired))
