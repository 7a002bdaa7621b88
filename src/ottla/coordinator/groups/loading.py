"""Reading a partition of `__consumer_offsets` back into a machine."""

import logging
from collections.abc import Iterator

from ottla.coordinator.loading import Latest, apply_all, read_back
from ottla.groups.facts import Fact, GroupFact, OffsetFact
from ottla.groups.machine import GroupMachine
from ottla.groups.records import BadGroupRecord, is_known, read
from ottla.replicas.context import BrokerContext
from ottla.replicas.partitions import Partition

logger = logging.getLogger("ottla.groups")


class Replay(Latest):
    """What a partition of `__consumer_offsets` says."""

    def __init__(self) -> None:
        super().__init__(is_known)

    def facts(self) -> list[Fact]:
        """What still holds: groups first, then offsets, which may belong to groups that are only those."""
        facts = [fact for key, value in self.records() if (fact := _read(key, value)) is not None]
        facts.sort(key=lambda fact: isinstance(fact, OffsetFact) * 2 + (not isinstance(fact, GroupFact)))
        return facts

    def pending(self) -> Iterator[tuple[int, OffsetFact]]:
        """Offsets of transactions that are still open, with their producers."""
        for producer_id, key, value in self.waiting():
            fact = _read(key, value)
            if isinstance(fact, OffsetFact):
                yield producer_id, fact


def _read(key: bytes, value: bytes | None) -> Fact | None:
    try:
        return read(key, value)
    except BadGroupRecord as problem:
        logger.error("a record of __consumer_offsets is passed over: %s (key %s)", problem, key.hex())
        return None


async def load(context: BrokerContext, partition: Partition, machine: GroupMachine) -> bool:
    """Apply to the machine what the log says; answers whether that worked."""
    replay = Replay()
    if not await read_back(context, partition, replay, context.values.integer("offsets.load.buffer.size")):
        return False
    await apply_all(machine.apply, await context.run_blocking(replay.facts))
    for producer_id, fact in replay.pending():
        machine.offsets.pending.note(producer_id, fact)
    return partition.log is not None
