"""Our own producer on a cluster whose nodes are killed under load: nothing acknowledged is lost, doubled, reordered."""

from __future__ import annotations

import asyncio
import random
from functools import partial

import pytest

from cluster.traffic import read_all
from kit.brokers.cluster_processes import NewCluster
from kit.brokers.history import History
from ottla.client.errors import BufferFull, ClientError, DeadlineExceeded, ProducerFailed, TransactionFailed
from ottla.client.producer import Delivery, Placed, Producer

PARTITIONS = 3
SECONDS = 150.0
IN_FLIGHT = 500


class Sender:
    """An idempotent producer that never stops sending."""

    def __init__(self, bootstrap: str, history: History) -> None:
        self.acknowledged = 0
        self.failures: list[ClientError] = []
        self._history = history
        self._bootstrap = bootstrap
        self._leave = False
        self._news = asyncio.Event()

    async def run(self) -> None:
        number = 0
        async with Producer(bootstrap_servers=self._bootstrap, linger_ms=1, retry_backoff_ms=20) as producer:
            while not self._leave:
                value, partition = b"s%d" % number, number % PARTITIONS
                self._history.sent("sender", partition, value)
                delivery = await self._put(producer, value, partition)
                delivery.add_callback(partial(self._ended, value))
                number += 1
                while number - self.acknowledged - len(self.failures) > IN_FLIGHT:
                    self._news.clear()
                    await self._news.wait()

    async def _put(self, producer: Producer, value: bytes, partition: int) -> Delivery:
        while True:
            try:
                return await producer.put("numbers", value, partition=partition)
            except BufferFull:
                continue

    def _ended(self, value: bytes, placed: Placed | None, error: ClientError | None) -> None:
        if placed is not None:
            self._history.acknowledged(value, placed.offset)
            self.acknowledged += 1
        else:
            assert error is not None
            self.failures.append(error)
        self._news.set()

    async def go_on(self, count: int) -> None:
        wanted = self.acknowledged + count
        async with asyncio.timeout(SECONDS):
            while self.acknowledged < wanted and not self.failures:
                self._news.clear()
                await self._news.wait()
        assert not self.failures, self.failures[0]

    def leave(self) -> None:
        self._leave = True


class Committer:
    """A transactional producer; one that can go on no more is followed by the next."""

    def __init__(self, bootstrap: str, history: History, seed: int) -> None:
        self.committed = 0
        self._history = history
        self._bootstrap = bootstrap
        self._chance = random.Random(seed)
        self._leave = False
        self._number = 0
        self._news = asyncio.Event()

    async def run(self) -> None:
        while True:
            try:
                async with Producer(
                    bootstrap_servers=self._bootstrap,
                    transactional_id="committer",
                    transaction_timeout_ms=10_000,
                    linger_ms=1,
                    retry_backoff_ms=20,
                ) as producer:
                    await producer.init_transactions()
                    if self._leave:
                        return  # everything before has ended, to the last marker: readers see all of it
                    while not self._leave:
                        self._number += 1
                        await self._transaction(producer, f"transaction {self._number}")
            except (ProducerFailed, DeadlineExceeded):
                continue  # how the last one ended is not known; the next producer sees to it that it has ended

    async def _transaction(self, producer: Producer, name: str) -> None:
        await producer.begin_transaction()
        try:
            for partition in range(PARTITIONS):
                value = b"t%d-%d" % (self._number, partition)
                self._history.sent("committer", partition, value, name)
                delivery = await producer.put("numbers", value, partition=partition)
                delivery.add_callback(partial(self._ended, value))
            if self._chance.random() < 0.2:
                await producer.abort_transaction()
                self._history.ended(name, committed=False)
                return
            await producer.commit_transaction()
            self._history.ended(name, committed=True)
            self.committed += 1
            self._news.set()
        except TransactionFailed:
            await producer.abort_transaction()
            self._history.ended(name, committed=False)

    def _ended(self, value: bytes, placed: Placed | None, error: ClientError | None) -> None:
        if placed is not None:
            self._history.acknowledged(value, placed.offset)

    async def go_on(self, count: int) -> None:
        wanted = self.committed + count
        async with asyncio.timeout(SECONDS):
            while self.committed < wanted:
                self._news.clear()
                await self._news.wait()

    def leave(self) -> None:
        self._leave = True


@pytest.mark.parametrize("whom", ["the leader", "everybody"])
async def test_a_producer_goes_on_through_kills_and_nothing_is_lost_or_doubled(
    new_cluster: NewCluster, whom: str
) -> None:
    cluster = new_cluster()
    await asyncio.to_thread(cluster.__enter__)
    try:
        await asyncio.to_thread(cluster.create_topic, "numbers", PARTITIONS)
        history = History()
        sender, committer = Sender(cluster.bootstrap, history), Committer(cluster.bootstrap, history, seed=3)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(sender.run())
            tasks.create_task(committer.run())
            await sender.go_on(2000)
            for _ in range(2):
                leader = await asyncio.to_thread(cluster.leader, "numbers")
                dead = [leader] if whom == "the leader" else list(cluster.nodes)
                await asyncio.to_thread(cluster.kill, *dead)
                if whom == "the leader":
                    await sender.go_on(2000)
                await asyncio.to_thread(cluster.start, *dead)
                await sender.go_on(2000)
                await committer.go_on(3)
                await asyncio.to_thread(cluster.heal)
            sender.leave()
            committer.leave()
        reader = history.reader("final")
        found = await asyncio.to_thread(read_all, cluster.bootstrap, "numbers", PARTITIONS)
        for partition, offset, value in found:
            reader.polled(partition, offset, value)
        assert history.judge("final") == []
    finally:
        await asyncio.to_thread(cluster.__exit__, None, None, None)
