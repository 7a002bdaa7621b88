"""Arrow rows to the partitions of topics, in a task.

Owns: cutting rows into batches, sending them, repetitions. Never knows: Spark, what ends a transaction.
Invariants: a partition has one batch on its way at a time, so order holds through repetitions; while some rows travel
the next are encoded, so memory holds two portions; `finish` returns when everything is acknowledged.
"""

import asyncio
from collections import defaultdict, deque
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import NO_TOPIC_ID, TopicPartition
from ottla.client.cluster import Topic
from ottla.client.errors import BrokerError, ClientError, DeadlineExceeded, known_code
from ottla.records.column_batches import Encoded, Format, Placement, ProducerHeader, encode_batches
from ottla.records.compression import Compression
from ottla.records.header import next_sequence
from ottla.spark import transactions
from ottla.spark.evidence import Landed
from ottla.spark.session import Session
from ottla.spark.transactions import LAST_WITH_EXPLICIT_PARTITIONS, TransactionIdentity
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.schema import LATEST

PORTION_ROWS = 64 * 1024
PORTION_BYTES = 4 * 1024 * 1024
ACKS_ALL = -1
_CREATION_SECONDS = 10.0
_LAST_WITH_NAMES = 12
"""From the next version on Produce names topics by id."""


class Parcel(NamedTuple):
    """A batch and where it goes."""

    partition: TopicPartition
    batch: Encoded


class RowWriter:
    """One task's writes; with an identity, inside its transaction.

    Without one, repetitions are recognized all the same if rows are to be on all replicas: the task gets a producer id.
    """

    def __init__(self, session: Session, identity: TransactionIdentity | None) -> None:
        settings = session.settings
        self.rows = 0
        self.landed: Landed | None = None
        """Where the first batch lies that was acknowledged."""
        self._session = session
        self._identity = identity
        compression = Compression[settings.text("compression.type").upper()]
        self._form = Format(settings.integer("batch.size"), compression)
        self._acks = ACKS_ALL if settings.text("acks") == "all" else int(settings.text("acks"))
        self._seconds = settings.seconds("delivery.timeout.ms")
        self._producer: tuple[int, int] | None = None if identity is None else identity[1:3]
        self._sequences: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._added: set[TopicPartition] = set()
        self._turns: dict[str, int] = {}
        self._waiting: defaultdict[str, list[pa.RecordBatch]] = defaultdict(list)
        self._weight = 0
        self._sending: Future[None] | None = None

    def write(self, topic: str, rows: pa.RecordBatch) -> None:
        """Take rows for a topic; sends when there are enough."""
        if rows.num_rows:
            self.rows += rows.num_rows
            self._waiting[topic].append(rows)
            self._weight += max(rows.nbytes, rows.num_rows * (PORTION_BYTES // PORTION_ROWS))
            if self._weight >= PORTION_BYTES:
                self._send_waiting()

    def finish(self) -> None:
        """Return when every row is acknowledged."""
        self._send_waiting()
        self._settle()

    def give_up(self) -> None:
        """Return when nothing is on its way any more; what becomes of it does not matter."""
        with suppress(ClientError):
            self._settle()

    def _send_waiting(self) -> None:
        parcels: list[Parcel] = []
        for topic, batches in self._waiting.items():
            parcels += self._encode(topic, pa.Table.from_batches(batches))
        self._waiting.clear()
        self._weight = 0
        self._settle()
        if parcels:
            self._sending = self._session.begin(self._deliver(parcels))

    def _settle(self) -> None:
        if self._sending is not None:
            sending, self._sending = self._sending, None
            sending.result()

    def _encode(self, name: str, table: pa.Table) -> list[Parcel]:
        cluster = self._session.cluster
        if name not in self._sequences:
            cluster.forget(name)  # sessions outlive tasks, and topics grow
        topic = cluster.topics.get(name) or self._session.run(self._topic(name))
        sequences = self._sequences[name]
        if self._producer is None and self._acks == ACKS_ALL:
            session = self._session
            self._producer = session.run(transactions.init_idempotent(session.cluster, session.deadline()))
        producer = None
        if self._producer is not None:
            producer = ProducerHeader(*self._producer, self._identity is not None, sequences)
        parcels = []
        placement = Placement(len(topic.partitions), self._keyless(topic))
        for batch in encode_batches(table, placement, self._form, now=self._session.now_ms(), producer=producer):
            sequences[batch.partition] = next_sequence(sequences.get(batch.partition, 0), batch.records_count)
            parcels.append(Parcel(TopicPartition(name, batch.partition), batch))
        return parcels

    def _keyless(self, topic: Topic) -> list[int]:
        """Rows without key begin with another partition each time, among those that have a leader."""
        led = [part.number for part in topic.partitions if part.leader >= 0] or [0]
        random = self._session.cluster.random
        turn = self._turns.get(topic.name, int(random.uniform(0, len(led)))) % len(led)
        self._turns[topic.name] = turn + 1
        return led[turn:] + led[:turn]

    # --- on the loop --------------------------------------------------------------------------------------------------

    async def _topic(self, name: str) -> Topic:
        """A topic that is missing is made by brokers that may, as for every producer; others get little time."""
        session = self._session
        try:
            return await session.cluster.topic(name, session.deadline())
        except BrokerError as problem:
            if problem.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            missing = problem
        try:
            return await session.cluster.topic(name, session.cluster.deadline(_CREATION_SECONDS), create=True)
        except DeadlineExceeded:
            raise missing from None  # that is what is known

    async def _deliver(self, parcels: list[Parcel]) -> None:
        """All parcels, in rounds of one a partition."""
        queues: defaultdict[TopicPartition, deque[Parcel]] = defaultdict(deque)
        for parcel in parcels:
            queues[parcel.partition].append(parcel)
        await self._add(queues)
        cluster = self._session.cluster
        while queues:
            missing = {partition: queue[0] for partition, queue in queues.items()}
            await cluster.retry(partial(self._round, missing), cluster.deadline(self._seconds))
            for partition in list(queues):
                queues[partition].popleft()
                if not queues[partition]:
                    del queues[partition]

    async def _add(self, partitions: "defaultdict[TopicPartition, deque[Parcel]]") -> None:
        new = [partition for partition in partitions if partition not in self._added]
        if new and self._identity is not None and not self._identity.second_protocol:
            await transactions.add(self._session.cluster, self._identity, new, self._session.deadline())
        self._added.update(new)

    async def _round(self, missing: dict[TopicPartition, Parcel]) -> None:
        """Send what is missing; what arrived is taken out, so that only the rest is repeated."""
        cluster = self._session.cluster
        deadline = cluster.deadline(cluster.settings.request_seconds)
        by_node: defaultdict[int, list[Parcel]] = defaultdict(list)
        for parcel in missing.values():
            leader = await cluster.leader(parcel.partition, deadline)
            by_node[leader.leader].append(parcel)
        requests = [self._send(node, parcels, deadline) for node, parcels in by_node.items()]
        failures: list[BaseException] = []
        for outcome in await asyncio.gather(*requests, return_exceptions=True):
            if isinstance(outcome, BaseException):
                failures.append(outcome)
                continue
            for partition, failure in outcome.items():
                if failure is None:
                    del missing[partition]
                else:
                    failures.append(failure)
        if failures:
            for partition in missing:
                cluster.forget(partition.topic)
            raise next((each for each in failures if not getattr(each, "retriable", False)), failures[0])

    async def _send(
        self, node: int, parcels: list[Parcel], deadline: float
    ) -> dict[TopicPartition, ClientError | None]:
        cluster = self._session.cluster
        topics: dict[str, list[PartitionProduceData]] = {}
        for partition, batch in parcels:
            topics.setdefault(partition.topic, []).append(PartitionProduceData(partition.partition, batch.data))
        ids = {name: cluster.topics[name].topic_id for name in topics}
        identity = self._identity
        request = ProduceRequest(
            None if identity is None else identity.transactional_id,
            self._acks,
            int(cluster.settings.request_seconds * 1000),
            [TopicProduceData(name, ids[name], rows) for name, rows in topics.items()],
        )
        highest = LATEST if NO_TOPIC_ID not in ids.values() else _LAST_WITH_NAMES
        if identity is not None and not identity.second_protocol:
            highest = LAST_WITH_EXPLICIT_PARTITIONS
        answer = await cluster.ask_node(node, request, ProduceResponse, deadline, highest=highest)
        names = {topic_id: name for name, topic_id in ids.items()}
        outcome: dict[TopicPartition, ClientError | None] = {}
        for topic in answer.responses:
            for part in topic.partition_responses:
                partition = TopicPartition(topic.name or names.get(topic.topic_id, ""), part.index)
                code = known_code(part.error_code)
                there = code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
                if self.landed is None and code == ErrorCode.NONE:
                    self.landed = Landed(*partition, part.base_offset)
                said = transactions.ENDED if identity is not None and code in transactions.LOST else part.error_message
                outcome[partition] = None if there else BrokerError(code, f"partition {partition}", said)
        return outcome
