"""Reading a partition of an internal topic back, for the machine that lives on it.

Owns: how the log is read: piece by piece in a thread, where only the last word on each key is kept, so that neither the
loop nor the memory sees what later records have replaced. Never knows: what the records mean. Invariant: what was
written in a transaction counts when that is committed, in the order of writing, and not before.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.ports import ByteView
from ottla.log.cached_reads import CachedReads, ColdLookUp
from ottla.log.files import StorageFailure
from ottla.log.segment import FileRange
from ottla.records.batch import read_records
from ottla.records.control import EndTransaction, read_control
from ottla.records.header import BatchHeader, CorruptBatch, iterate_headers
from ottla.replicas.context import BrokerContext
from ottla.replicas.partitions import Partition

F = TypeVar("F")
logger = logging.getLogger("ottla.broker")

AT_ONCE = 500
"""Facts that are applied before other work has its turn."""
READ_TRIES = 3
"""A file may be replaced by compaction between being found and being read."""


class Latest:
    """The last record of each key of what was read so far."""

    def __init__(self, is_known: Callable[[ByteView], bool]) -> None:
        self._is_known = is_known
        self._latest: dict[bytes, bytes | None] = {}
        self._open: dict[int, dict[bytes, bytes | None]] = {}
        self.next_offset = 0

    def take(self, found: FileRange) -> None:
        """Read a range; `next_offset` then lies behind the last whole batch in it."""
        data = found.file.read_at(found.position, found.length)
        for position, header in iterate_headers(data):
            self.next_offset = header.next_offset
            if header.control:
                self._end(data, header, position)
                continue
            for record in read_records(data, header, position):
                if record.key is not None and self._is_known(record.key):
                    self._note(header, record.key, record.value)

    def _note(self, header: BatchHeader, key: bytes, value: bytes | None) -> None:
        if header.transactional:
            self._open.setdefault(header.producer_id, {})[key] = value
            return
        self._latest[key] = value
        for waiting in self._open.values():
            if key in waiting:
                # What is newer than a record of a transaction outlives its commit.
                waiting[key] = None

    def _end(self, data: ByteView, header: BatchHeader, position: int) -> None:
        waiting = self._open.pop(header.producer_id, None)
        if waiting is None:
            return
        for record in read_records(data, header, position):
            said = read_control(record)
            if isinstance(said, EndTransaction) and said.commit:
                self._latest.update((key, value) for key, value in waiting.items() if value is not None)

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """What still holds."""
        return ((key, value) for key, value in self._latest.items() if value is not None)

    def waiting(self) -> Iterator[tuple[int, bytes, bytes | None]]:
        """What transactions wrote whose end was not read, with the producer ids; without a value: outlived."""
        return ((name, key, value) for name, waiting in self._open.items() for key, value in waiting.items())


async def read_back(context: BrokerContext, partition: Partition, latest: Latest, slice_bytes: int) -> bool:
    """Read the whole log; answers whether that worked.

    Also what is not committed yet: its leader commits it, or leads no longer.
    """
    log = partition.log
    tries = 0
    cached: CachedReads | None = CachedReads()
    while log is not None and partition.leads and latest.next_offset < log.end_offset:
        try:
            offset = max(latest.next_offset, log.start_offset)
            found = log.read(offset, slice_bytes, log.end_offset, True, cached)
            if found is None:
                break
            if isinstance(found, ErrorCode):
                raise CorruptBatch(offset, found.name)
            await context.run_blocking(lambda found=found: latest.take(found))  # type: ignore[misc]
            if latest.next_offset <= offset:
                raise CorruptBatch(offset, "no whole batch is there")
            tries, cached = 0, CachedReads()
        except ColdLookUp as cold:
            await context.run_blocking(cold.warm)
            cached = None
        except (OSError, StorageFailure, CorruptBatch) as problem:
            tries += 1
            if tries == READ_TRIES:
                logger.error("%s cannot be loaded: %s", partition, problem)
                return False
        log = partition.log
    return log is not None and partition.leads


async def apply_all(apply: Callable[[F], None], facts: Iterable[F]) -> None:
    """Apply facts, so that other work gets its turn in between."""
    for position, fact in enumerate(facts):
        apply(fact)
        if position % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(0)
