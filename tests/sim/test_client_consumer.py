"""ottla's consumer in simulated worlds: nodes are killed, cut off and slowed while it reads; seeds repeat what happens.

It must see what the log holds in the end, from the beginning on, each record once and in order, whoever led meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random

import pytest

from ottla.base.vocabulary import TopicPartition
from ottla.client.address import Address
from ottla.client.consumer import ConsumedRecord, Consumer
from ottla.client.consumer.reading import World
from ottla.client.errors import ClientError
from ottla.records.record import Record
from ottla.sim.client import SimSession
from ottla.sim.history import History
from ottla.sim.loop import SimLoop
from ottla.sim.universe import Universe
from ottla.sim.workload import Actor, Reader
from ottla.sim.world import SimClock, SimRandom

SEEDS = range(1, 13)
PROGRESS_SECONDS = 30.0


class ClientReader(Actor):
    """Reads partitions with the client and keeps all it sees."""

    def __init__(
        self,
        loop: SimLoop,
        addresses: Sequence[Address],
        random: Random,
        history: History,
        partitions: Sequence[TopicPartition],
    ) -> None:
        super().__init__(loop, addresses, random, history)
        self.partitions = partitions
        self.committed = random.random() < 0.5
        self.seen: dict[TopicPartition, list[tuple[int, bytes]]] = {partition: [] for partition in partitions}
        self.positions = dict.fromkeys(partitions, 0)

    async def run(self, session: SimSession) -> None:
        settings = {
            "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in self._addresses),
            "auto.offset.reset": "none",
            "isolation.level": "read_committed" if self.committed else "read_uncommitted",
            "request.timeout.ms": 3000,
            "max.partition.fetch.bytes": self.random.choice((300, 5000, 1_000_000)),
            "fetch.max.wait.ms": self.random.choice((20, 500)),
            "metadata.max.age.ms": self.random.choice((1000, 300_000)),
        }
        world = World(SimClock(self.loop.time, 0), SimRandom(self.random))
        async with Consumer(settings, world=world) as consumer:
            consumer.assign(self.partitions)
            for partition in self.partitions:
                consumer.seek(partition, 0)
            while not self.stopping:
                try:
                    for record in await consumer.poll(1.0, self.random.randint(1, 50)):
                        self._see(record)
                except ClientError as problem:
                    self.history.violation(f"{self.name} heard what it must not: {problem}")
                    raise
                for partition in self.partitions:
                    self.positions[partition] = await consumer.position(partition)
                await self.rest()

    def _see(self, record: ConsumedRecord) -> None:
        partition = TopicPartition(record.topic, record.partition)
        self.seen[partition].append((record.offset, record.value))
        plain = Record(record.offset, record.timestamp, record.key, record.value, record.headers)
        self.history.see(self.name, partition, [plain], committed=self.committed)


async def _end(partition: TopicPartition, session: SimSession) -> int:
    return await session.end_offset(partition)


def _passed(reader: ClientReader, partition: TopicPartition, end: int) -> bool:
    return reader.positions[partition] >= end


class ReadUniverse(Universe):
    """A universe whose readers are the client's."""

    ambushed = 0

    def _actors(self) -> list[Actor]:
        actors = super()._actors()
        self.readers: list[ClientReader] = []
        for place, actor in enumerate(actors):
            if isinstance(actor, Reader):
                reader = ClientReader(actor.loop, self.cluster.addresses, actor.random, self.history, actor.partitions)
                reader.haste = actor.haste
                actors[place] = reader
                self.readers.append(reader)
        return actors

    def _demand_progress(self) -> None:
        super()._demand_progress()
        for reader in self.readers:
            if reader.committed:
                continue  # a transaction that was left open holds it back until it times out
            for partition in reader.partitions:
                end = self._ask(partial(_end, partition), f"the end of {partition}") or 0
                self._until(
                    partial(_passed, reader, partition, end), PROGRESS_SECONDS, f"{reader.name} reads {partition}"
                )

    def _final_reads(self) -> None:
        super()._final_reads()
        for reader in self.readers:
            for partition, seen in reader.seen.items():
                stored = self._read(partition, committed=reader.committed)
                if seen != stored[: len(seen)]:
                    self.history.violation(f"{reader.name} did not see what {partition} holds")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reader_sees_what_the_log_holds_whatever_happens_to_the_cluster(seed: int) -> None:
    universe = ReadUniverse(seed)
    verdict = universe.run()
    assert verdict.violations == []
    assert sum(len(seen) for reader in universe.readers for seen in reader.seen.values()) > 0


def test_the_same_seed_reads_the_same_way() -> None:
    assert ReadUniverse(5).run().fingerprint == ReadUniverse(5).run().fingerprint
