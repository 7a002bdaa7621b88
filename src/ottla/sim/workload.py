"""What clients do to a simulated cluster: idempotent writers, readers, transactional copiers.

Owns: their behaviour, repetition included. Never knows: faults, nodes. Invariants: a writer repeats a batch until it is
acknowledged, one at a time per partition, so that whatever is refused as out of order was lost by the cluster; a copier
that does not know how its transaction ended begins anew with a new epoch, as the protocol asks.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random
from typing import TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.address import Address
from ottla.client.errors import BrokerError, ClientError
from ottla.sim.client import SimMember, SimProducer, SimSession
from ottla.sim.history import Attempt, Fate, History
from ottla.sim.loop import SimLoop

T = TypeVar("T")

MOST_IN_A_BATCH = 4
TRANSACTION_TIMEOUT_MS = 4000

_LOST = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
"""What a writer that sends one batch at a time, again and again, must never hear."""


class Actor(ABC):
    """Somebody who does things until told to stop."""

    def __init__(self, loop: SimLoop, addresses: Sequence[Address], random: Random, history: History) -> None:
        self.name = loop.name
        self.loop = loop
        self.random = random
        self.history = history
        self.stopping = False
        self.haste = 0.05
        self._addresses = addresses
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self.loop.create_task(self._main())

    @property
    def done(self) -> bool:
        return self._task is None or self._task.done()

    def outcome(self) -> BaseException | None:
        """Why it ended, if that was a fault of the simulation."""
        task = self._task
        return task.exception() if task is not None and task.done() and not task.cancelled() else None

    async def _main(self) -> None:
        await self.run(SimSession(self._addresses, self.random))

    @abstractmethod
    async def run(self, session: SimSession) -> None:
        """What it does until it is told to stop."""

    async def again(self, session: SimSession, step: Callable[[], Awaitable[T]]) -> T:
        """Repeat what may succeed later, for a while."""
        deadline = session.deadline(self.random.uniform(1.0, 6.0))
        while True:
            try:
                return await step()
            except ClientError as problem:
                if not problem.retriable or session.deadline(0) > deadline:
                    raise
            await session.pause()

    async def rest(self) -> None:
        await asyncio.sleep(self.random.expovariate(1 / self.haste))


class NumberWriter(Actor):
    """Writes numbered values to every partition, each once."""

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
        self._numbers = dict.fromkeys(partitions, 0)

    async def run(self, session: SimSession) -> None:
        producer = await self._producer(session)
        while not self.stopping:
            partition = self.random.choice(self.partitions)
            first = self._numbers[partition]
            count = self.random.randint(1, MOST_IN_A_BATCH)
            values = [f"{self.name}/{partition.partition}/{first + place}".encode() for place in range(count)]
            await self._write(session, producer, partition, values, first)
            self._numbers[partition] = first + count
            await self.rest()

    async def _producer(self, session: SimSession) -> SimProducer:
        while True:
            try:
                return await session.init_producer(None, 0)
            except ClientError:
                await session.pause()

    async def _write(
        self, session: SimSession, producer: SimProducer, partition: TopicPartition, values: Sequence[bytes], first: int
    ) -> None:
        while True:
            try:
                offset = await session.produce(partition, values, producer, first, self.random.uniform(0.3, 3.0))
            except ClientError as problem:
                if isinstance(problem, BrokerError) and problem.code in _LOST:
                    self.history.violation(f"{self.name} was told {problem} for {values[0]!r}: its writes were lost")
                    raise
                await session.pause()
            else:
                self.history.acknowledge(partition, offset, values)
                return


class Reader(Actor):
    """Reads every partition from its beginning, on and on."""

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
        self._positions = dict.fromkeys(partitions, 0)

    async def run(self, session: SimSession) -> None:
        while not self.stopping:
            partition = self.random.choice(self.partitions)
            position = self._positions[partition]
            try:
                found = await session.fetch(partition, position, committed=self.committed)
            except ClientError as problem:
                if isinstance(problem, BrokerError) and problem.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self.history.violation(f"lost read: {self.name} was at {partition} {position}, now out of range")
                    raise
                await session.pause()
                continue
            self.history.see(self.name, partition, found.records, committed=self.committed)
            self._positions[partition] = found.next_offset
            await self.rest()


class Copier(Actor):
    """Copies one topic to another, each record once, by transactions that also commit how far it read."""

    def __init__(
        self,
        loop: SimLoop,
        addresses: Sequence[Address],
        random: Random,
        history: History,
        source: Sequence[TopicPartition],
        target: Sequence[TopicPartition],
    ) -> None:
        super().__init__(loop, addresses, random, history)
        self.transactional_id = "copier"
        self.group = "copies"
        self._source = source
        self._target = target
        self._implicit = random.random() < 0.5
        self._attempts = 0

    async def run(self, session: SimSession) -> None:
        while not self.stopping:
            try:
                await self._copy(session)
            except ClientError as problem:
                # Whatever happened to the transaction, the next epoch settles it; a rival may have taken over.
                self.history.note(f"{self.name} begins anew: {problem}")
                await session.pause()
                if isinstance(problem, BrokerError) and not problem.retriable:
                    await asyncio.sleep(self.random.uniform(0.5, 3.0))

    async def _copy(self, session: SimSession) -> None:
        producer = await session.init_producer(self.transactional_id, TRANSACTION_TIMEOUT_MS, implicit=self._implicit)
        offsets = await session.committed(self.group, self._source, SimMember())
        positions = {partition: max(0, offsets[partition.partition]) for partition in self._source}
        sequences = dict.fromkeys(self._target, 0)
        while not self.stopping:
            source = self.random.choice(self._source)
            found = await session.fetch(source, positions[source], committed=True)
            if not found.records:
                positions[source] = found.next_offset
                await self.rest()
                continue
            self.history.see(self.name, source, found.records, committed=False)
            records = found.records[: self.random.randint(1, 5)]
            after = records[-1].offset + 1
            self._attempts += 1
            attempt = Attempt(f"{self.name}.{self._attempts}")
            self.history.attempts[attempt.name] = attempt
            commit = self.random.random() < 0.8
            before = producer
            copies = [f"copy:{source}@{record.offset}#{attempt.name}".encode() for record in records]
            producer = await self._transaction(session, producer, attempt, copies, sequences, (source, after), commit)
            if commit:
                positions[source] = after
            if producer.epoch != before.epoch or producer.producer_id != before.producer_id:
                sequences = dict.fromkeys(self._target, 0)
            await self.rest()

    async def _transaction(
        self,
        session: SimSession,
        producer: SimProducer,
        attempt: Attempt,
        copies: Sequence[bytes],
        sequences: dict[TopicPartition, int],
        read: tuple[TopicPartition, int],
        commit: bool,
    ) -> SimProducer:
        shares: dict[TopicPartition, list[bytes]] = {}
        for value in copies:
            shares.setdefault(self.random.choice(self._target), []).append(value)
        if not producer.implicit:
            await self.again(session, lambda: session.add_partitions(producer, list(shares)))
        for partition, values in shares.items():
            attempt.values += values
            first = sequences[partition]
            sequences[partition] += len(values)
            await self.again(session, partial(session.produce, partition, values, producer, first, 2.0))
        if commit:
            if not producer.implicit:
                await self.again(session, lambda: session.add_offsets(producer, self.group))
            await self.again(session, lambda: session.commit_in_transaction(producer, self.group, *read))
        following = await self.again(session, lambda: session.end(producer, commit=commit))
        attempt.fate = Fate.COMMITTED if commit else Fate.ABORTED
        if commit:
            self.history.committed_attempts += 1
        return following
