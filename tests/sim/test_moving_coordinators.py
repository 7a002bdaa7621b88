"""Transactions while leaders move at random: each is seen whole or not at all, and all of them end.

A producer that tries again what may be tried again never hears that it must give up.

Three brokers as real nodes run them, on a seeded world. Every in-sync set has all three brokers in it, so whatever was
committed is on each of them and any may lead; what was not may be lost by a move.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import NamedTuple

import pytest

from kit.worlds.broker_worlds import BrokerWorld, patiently, read_committed
from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.sim.client import SimMember, SimProducer, SimSession

DATA = [TopicPartition("topic", index) for index in range(3)]
ALL = [TopicPartition("__transaction_state", 0), TopicPartition("__transaction_state", 1)]
ALL += [TopicPartition("__consumer_offsets", 0), *DATA]
LAYOUT = {
    "__transaction_state": [[1, 2, 3], [3, 1, 2]],
    "__consumer_offsets": [[2, 3, 1]],
    "topic": [[1, 2, 3], [2, 3, 1], [3, 1, 2]],
}
SETTINGS = {"min.insync.replicas": "2", "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
NOBODY = SimMember("", -1)
SEEDS = 20
TRANSACTIONS = 20
TIMEOUT_MS = 30_000


class Fenced(Exception):
    """The producer begins anew, for a reason of its own."""


class Attempt(NamedTuple):
    """One transaction, by the value it wrote; `committed`: None when that was not heard."""

    value: bytes
    number: int
    committed: bool | None


class Copier:
    """One transactional producer."""

    def __init__(self, session: SimSession, name: str, random: Random) -> None:
        self.session = session
        self.name = name
        self.group = f"group of {name}"
        self.random = random
        self.attempts: list[Attempt] = []

    async def run(self) -> None:
        number = 0
        while number < TRANSACTIONS:
            implicit = self.random.random() < 0.5
            producer = await patiently(self.session.init_producer, self.name, TIMEOUT_MS, implicit=implicit)
            sequences = [0] * len(DATA)
            while number < TRANSACTIONS:
                number += 1
                try:
                    producer, sequences = await self._transaction(producer, sequences, number)
                except Fenced:
                    break

    async def _transaction(
        self, producer: SimProducer, sequences: list[int], number: int
    ) -> tuple[SimProducer, list[int]]:
        value = f"{self.name} {number}".encode()
        commit = self.random.random() < 0.7
        place = len(self.attempts)
        self.attempts.append(Attempt(value, number, False))
        session = self.session
        if not producer.implicit:
            await patiently(session.add_partitions, producer, DATA)
            await patiently(session.add_offsets, producer, self.group)
        for index, name in enumerate(DATA):
            self._may_crash()
            await patiently(session.produce, name, [value], producer, sequences[index], 2.0)
            sequences[index] += 1
        await patiently(session.commit_in_transaction, producer, self.group, DATA[0], number)
        self._may_crash()
        if commit:
            self.attempts[place] = Attempt(value, number, None)
        if self.random.random() < 0.1:
            # Whether it worked is not heard; whoever begins next aborts what is open.
            asking = asyncio.ensure_future(session.end(producer, commit=commit))
            await asyncio.wait((asking,), timeout=self.random.uniform(0, 0.01))
            asking.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise Fenced
        following = await patiently(session.end, producer, commit=commit)
        self.attempts[place] = Attempt(value, number, commit)
        return following, sequences if following.epoch == producer.epoch else [0] * len(DATA)

    def _may_crash(self) -> None:
        if self.random.random() < 0.03:
            raise Fenced


def trouble(world: BrokerWorld, random: Random, until: float) -> None:
    """Leaders move, some hear of it late, connections break."""
    scheduler = world.scheduler

    def again() -> None:
        if scheduler.now >= until:
            world.network.calm()
            return
        late = {random.randint(1, 3): random.uniform(0, 3)} if random.random() < 0.3 else None
        world.move(random.choice(ALL), random.randint(1, 3), late=late)
        if random.random() < 0.2:
            world.network.reset_some(0.2)
        world.network.weather.spike_chance = random.choice((0.0, 0.0, 0.02))
        scheduler.after(random.choice((0.01, 0.1, 0.5)) * random.random(), again)

    scheduler.after(0.05, again)


def settled(world: BrokerWorld) -> bool:
    """Whether no leader knows of an open transaction, and no coordinator of one that is not over."""
    for name in DATA:
        leader = world.nodes[world.image.topics[name.topic].partitions[name.partition].leader]
        partition = leader.broker.partitions.get(name)
        if partition is None or partition.log is None or not partition.log.producers.stable:
            return False
    for node in world.nodes.values():
        for shard in node.broker.transactions.shards():
            if isinstance(shard, ErrorCode):
                return False
            if not all(held.state.at_rest for held in shard.machine.transactions.values()):
                return False
    return True


def tell(seed: int) -> None:
    random = Random(seed)
    world = BrokerWorld(LAYOUT, seed=seed, settings=SETTINGS)
    try:
        trouble(world, random, until=random.uniform(5, 15))
        copiers: list[Copier] = []

        async def work(session: SimSession) -> None:
            copiers.extend(Copier(session, name, Random(random.random())) for name in ("a", "b", "c"))
            await asyncio.gather(*(copier.run() for copier in copiers))

        world.run(work, seconds=600)
        world.network.calm()
        for _ in range(60):
            world.scheduler.run_for(1.0)
            if settled(world):
                break
        assert settled(world), "a transaction does not end"

        async def look(session: SimSession) -> None:
            seen = [await read_committed(session, name) for name in DATA]
            for copier in copiers:
                await judge(session, copier, seen)

        world.run(look)
    finally:
        world.close()


async def judge(session: SimSession, copier: Copier, seen: list[list[bytes]]) -> None:
    last = 0
    for attempt in copier.attempts:
        counts = [values.count(attempt.value) for values in seen]
        allowed = {True: ([1, 1, 1],), False: ([0, 0, 0],), None: ([0, 0, 0], [1, 1, 1])}[attempt.committed]
        assert counts in allowed, f"{attempt}: {counts}"
        if counts == [1, 1, 1]:
            last = attempt.number
    found = await patiently(session.committed, copier.group, DATA[:1], NOBODY)
    assert found.get(0, -1) in ({last} if last else {-1, 0}), f"{copier.name}: {found}, not {last}"


@pytest.mark.parametrize("first", range(0, SEEDS, 5))
def test_transactions_are_whole_or_nothing_while_leaders_move(first: int) -> None:
    for seed in range(first, first + 5):
        try:
            tell(seed)
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}: {failure}") from failure
