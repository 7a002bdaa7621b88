"""The producer of programs in seeded universes: nodes killed, networks cut and slow, power lost, clocks wrong."""

from __future__ import annotations

import asyncio

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.errors import BrokerError, ClientError
from ottla.client.producer import Placed, Producer
from ottla.client.world import ClientWorld
from ottla.sim.client import SimSession
from ottla.sim.universe import Universe
from ottla.sim.workload import Actor, NumberWriter
from ottla.sim.world import SimClock, SimRandom

MOST_UNDER_WAY = 60


class ProgramWriter(NumberWriter):
    """Writes numbered values to every partition as a program would: it sends and lets the producer do the rest."""

    _under_way = 0
    _news: asyncio.Future[None] | None = None

    async def run(self, session: SimSession) -> None:
        loop = asyncio.get_running_loop()
        world = ClientWorld(SimClock(loop.time, 0), SimRandom(self.random))
        async with Producer(
            bootstrap_servers=[str(address) for address in self._addresses],
            world=world,
            batch_size=200,
            linger_ms=self.random.choice((0, 5, 50)),
            request_timeout_ms=self.random.choice((500, 2000, 30_000)),
            delivery_timeout_ms=600_000,
            max_block_ms=600_000,
            max_in_flight_requests_per_connection=self.random.choice((1, 2, 5)),
        ) as producer:
            while not self.stopping:
                partition = self.random.choice(self.partitions)
                for _ in range(self.random.randint(1, 12)):
                    await self._send(producer, partition)
                while self._under_way > MOST_UNDER_WAY:
                    self._news = loop.create_future()
                    await self._news
                await self.rest()

    async def _send(self, producer: Producer, partition: TopicPartition) -> None:
        number = self._numbers[partition]
        value = f"{self.name}/{partition.partition}/{number}".encode()
        delivery = await producer.put(partition.topic, value, partition=partition.partition)
        self._numbers[partition] = number + 1
        self._under_way += 1

        def ended(placed: Placed | None, error: ClientError | None) -> None:
            self._under_way -= 1
            if self._news is not None and not self._news.done():
                self._news.set_result(None)
            if isinstance(error, BrokerError) and error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                self.history.note(f"{value!r} is lost sight of")  # a broker that restarted remembers too little
            elif placed is None:
                self.history.violation(f"{value!r} was not delivered: {error!r}")
            elif placed.offset >= 0:
                self.history.acknowledge(partition, placed.offset, [value])

        delivery.add_callback(ended)


class ProgramUniverse(Universe):
    """A universe in which all writers are programs."""

    ambushed = 0

    def _actors(self) -> list[Actor]:
        return [self._program(actor) if type(actor) is NumberWriter else actor for actor in super()._actors()]

    def _program(self, writer: NumberWriter) -> Actor:
        made = ProgramWriter(writer.loop, writer._addresses, writer.random, writer.history, writer.partitions)
        made.haste = writer.haste
        return made


@pytest.mark.parametrize("seed", range(5))
def test_programs_lose_double_and_reorder_nothing(seed: int) -> None:
    verdict = ProgramUniverse(seed).run()
    assert verdict.violations == [], f"seed {seed}: {verdict.lines[-20:]}"
    assert verdict.acknowledgements > 20


def test_the_same_seed_is_the_same_universe() -> None:
    assert ProgramUniverse(7).run().fingerprint == ProgramUniverse(7).run().fingerprint
