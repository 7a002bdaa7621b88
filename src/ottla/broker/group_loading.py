"""Reading a partition of `__consumer_offsets` back into a machine.

Owns: how the log is read: piece by piece in a thread, where only the last word on each key is kept, so that neither the
loop nor the memory sees what later records have replaced. Never knows: what the facts mean.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.broker.partitions import Partition
from ottla.groups.facts import Fact, GroupFact
from ottla.groups.machine import GroupMachine
from ottla.groups.records import BadRecord, is_known, read
from ottla.log.files import StorageFailure
from ottla.log.segment import FileRange
from ottla.records.batch import read_records
from ottla.records.header import CorruptBatch, iterate_headers

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger("ottla.groups")

AT_ONCE = 500
"""Facts that are applied before other work has its turn."""
READ_TRIES = 3
"""A file may be replaced by compaction between being found and being read."""


class Replay:
    """The last record of each key of what was read so far."""

    def __init__(self) -> None:
        self._latest: dict[bytes, bytes | None] = {}
        self.next_offset = 0

    def take(self, found: FileRange) -> None:
        """Read a range; `next_offset` then lies behind the last whole batch in it."""
        data = found.file.read_at(found.position, found.length)
        for position, header in iterate_headers(data):
            self.next_offset = header.next_offset
            if header.control:
                continue
            for record in read_records(data, header, position):
                if record.key is not None and is_known(record.key):
                    self._latest[record.key] = record.value

    def facts(self) -> list[Fact]:
        """What still holds: groups first, then offsets, which may belong to groups that are only those."""
        facts = []
        for key, value in self._latest.items():
            if value is None:
                continue
            try:
                facts.append(read(key, value))
            except BadRecord as problem:
                logger.error("a record of __consumer_offsets is passed over: %s (key %s)", problem, key.hex())
        self._latest.clear()
        facts.sort(key=lambda fact: not isinstance(fact, GroupFact))
        return facts


async def load(broker: "Broker", partition: Partition, machine: GroupMachine) -> bool:
    """Apply to the machine what the log says; answers whether that worked."""
    replay = Replay()
    log = partition.log
    size = broker.values.integer("offsets.load.buffer.size")
    tries = 0
    while log is not None and replay.next_offset < log.high_watermark:
        try:
            offset = max(replay.next_offset, log.start_offset)
            found = log.read(offset, size, log.high_watermark, at_least_one=True)
            if found is None:
                break
            if isinstance(found, ErrorCode):
                raise CorruptBatch(offset, found.name)
            await broker.run_blocking(lambda found=found: replay.take(found))  # type: ignore[misc]
            if replay.next_offset <= offset:
                raise CorruptBatch(offset, "no whole batch is there")
            tries = 0
        except (OSError, StorageFailure, CorruptBatch) as problem:
            tries += 1
            if tries == READ_TRIES:
                logger.error("the groups of %s cannot be loaded: %s", partition, problem)
                return False
        log = partition.log
    for position, fact in enumerate(await broker.run_blocking(replay.facts)):
        machine.apply(fact)
        if position % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(0)
    return partition.log is not None
