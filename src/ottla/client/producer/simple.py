"""Sending records.

Owns: choosing partitions, the flow from `send` over batches to Produce requests, repetitions, and sequence numbers.
Never knows: where records come from. Invariants: one batch a partition is on its way at a time, so order holds through
repetitions; memory for records is bounded, `send` waits for room; every batch is settled within `delivery_seconds`.
An idempotent producer whose batch may or may not have arrived stops for good instead of guessing.
"""

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

from ottla.base.errors import ErrorCode
from ottla.base.ports import Clock
from ottla.base.vocabulary import NO_TOPIC_ID, TopicPartition
from ottla.client.accumulator import Accumulator, Batch, Delivery, Placed, record_size
from ottla.client.cluster import Cluster, Topic
from ottla.client.errors import (
    BadRecord,
    BrokerError,
    ClientError,
    DeadlineExceeded,
    ProducerFailed,
    ProtocolViolation,
    known_code,
)
from ottla.client.partitioner import KeylessChoice, Sticky, partition_for_key
from ottla.client.retry import pause_before
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.header import next_sequence
from ottla.records.record import Headers
from ottla.runtime.world import RealClock
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.schema import LATEST

_LAST_WITH_NAMES = 12
"""From the next version on Produce names topics by id."""
_REQUESTS_PER_NODE = 5
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})

_ORDER_LOST = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


class ProducerSettings(NamedTuple):
    """Sizes in bytes, times in seconds; acks -1 means all."""

    acks: int = -1
    idempotent: bool = False
    compression: Compression = Compression.NONE
    linger_seconds: float = 0.005
    batch_bytes: int = 16 * 1024
    request_bytes: int = 1024 * 1024
    buffer_bytes: int = 32 * 1024 * 1024
    block_seconds: float = 60.0
    delivery_seconds: float = 120.0


class Totals(NamedTuple):
    """What happened so far, in records and bytes before compression."""

    records: int = 0
    size: int = 0
    failed: int = 0


class _Routes(NamedTuple):
    """What choosing a partition needs of a topic, worked out once per change of its metadata."""

    topic: Topic
    partitions: Sequence[TopicPartition]
    led: Sequence[int]


def _routes(topic: Topic) -> _Routes:
    partitions = [TopicPartition(topic.name, part.number) for part in topic.partitions]
    led = [part.number for part in topic.partitions if part.leader >= 0]
    return _Routes(topic, partitions, led or range(len(partitions)))


class Producer:
    """Use it as an async context manager: leaving it flushes, or gives up at once when leaving by an exception."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings | None = None,
        *,
        keyless: KeylessChoice | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings or ProducerSettings()
        assert not self.settings.idempotent or self.settings.acks == -1, "idempotence needs acks=all"
        self.totals = Totals()
        self.failure: ClientError | None = None
        """The first failed delivery."""
        self._cluster = cluster
        self._keyless = keyless or Sticky(cluster.random)
        self._clock = clock or RealClock()
        self._loop = asyncio.get_running_loop()
        self._queue = Accumulator(self.settings.batch_bytes, self.settings.linger_seconds, self._loop.create_future)
        self._routes: dict[str, _Routes] = {}
        self._busy: set[TopicPartition] = set()
        self._requests: dict[int, int] = defaultdict(int)
        self._tasks: set[asyncio.Task[None]] = set()
        self._learning: set[str] = set()
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._flushing = 0
        self._stopped: ClientError | None = None
        self._identity = (-1, -1)
        self._identity_lock = asyncio.Lock()
        self._sequences: dict[TopicPartition, int] = defaultdict(int)
        self._sender = self._loop.create_task(self._run())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await self.flush()
        finally:
            await self.close()

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        """Hand over a record; returns when there is room for it, not when it arrived (await `placed` for that)."""
        if self._stopped is not None:
            raise self._stopped
        known = self._cluster.topics.get(topic)
        if known is None or (self.settings.idempotent and self._identity[0] < 0):
            known = await self._prepare(topic)
        target = self._choose(known, key, partition)
        size = record_size(key, value, headers)
        if self._queue.buffered + size > self.settings.buffer_bytes:
            await self._wait_for_room(size)
        now_ms = self._clock.now_ms() if timestamp is None else timestamp
        delivery, notable = self._queue.add(target, size, now_ms, (key, value, headers), self._loop.time())
        if notable:
            self._wake.set()
            await asyncio.sleep(0)  # a caller that never waits for anything else must not keep the sender from running
        return delivery

    async def flush(self, seconds: float | None = None) -> None:
        """Return when everything handed over so far arrived or failed."""
        limit = self.settings.delivery_seconds if seconds is None else seconds
        deadline = self._loop.time() + limit
        self._flushing += 1
        self._wake.set()
        try:
            while self._queue.unsettled:
                await self._wait_for_progress(deadline, f"{self._queue.unsettled} batches are not acknowledged yet")
        finally:
            self._flushing -= 1

    async def close(self) -> None:
        """Stop at once; what has not arrived fails."""
        self._stopped = self._stopped or DeadlineExceeded("the producer is closed")
        tasks = [self._sender, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._fail_waiting(self._stopped)

    # --- before sending -----------------------------------------------------------------------------------------------

    async def _prepare(self, name: str) -> Topic:
        deadline = self._loop.time() + self.settings.block_seconds
        if self.settings.idempotent:
            async with self._identity_lock:
                if self._identity[0] < 0:
                    self._identity = await self._cluster.retry(lambda: self._ask_identity(deadline), deadline)
        return await self._cluster.topic(name, deadline, create=True)

    async def _ask_identity(self, deadline: float) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = await self._cluster.ask_any(request, InitProducerIdResponse, deadline)
        if answer.error_code:
            raise BrokerError(answer.error_code, "a producer id")
        return answer.producer_id, answer.producer_epoch

    def _choose(self, topic: Topic, key: bytes | None, partition: int | None) -> TopicPartition:
        routes = self._routes.get(topic.name)
        if routes is None or routes.topic is not topic:
            routes = self._routes[topic.name] = _routes(topic)
        count = len(routes.partitions)
        if partition is None:
            if key is not None:
                partition = partition_for_key(key, count)
            else:
                partition = self._keyless.choose(topic.name, routes.led)
        elif not 0 <= partition < count:
            subject = f"partition {partition} of topic {topic.name!r}"
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject, f"the topic has {count} partitions")
        return routes.partitions[partition]

    async def _wait_for_room(self, size: int) -> None:
        if size > self.settings.buffer_bytes:
            raise BrokerError(
                ErrorCode.MESSAGE_TOO_LARGE, f"a record of {size} bytes", "it is larger than the producer's buffer"
            )
        deadline = self._loop.time() + self.settings.block_seconds
        while self._queue.buffered + size > self.settings.buffer_bytes:
            self._wake.set()
            await self._wait_for_progress(deadline, "the producer's buffer is full and the brokers take nothing")
            if self._stopped is not None:
                raise self._stopped

    async def _wait_for_progress(self, deadline: float, what: str) -> None:
        self._progress.clear()
        try:
            async with asyncio.timeout_at(deadline):
                await self._progress.wait()
        except TimeoutError:
            raise DeadlineExceeded(what) from None

    # --- the sender ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            now = self._loop.time()
            if self._stopped is not None:
                self._fail_waiting(self._stopped)
            for batch in list(self._queue.expired(now - self.settings.delivery_seconds)):
                what = f"partition {batch.partition} took no records for {self.settings.delivery_seconds:g} seconds"
                self._fail(batch, DeadlineExceeded(what), uncertain=batch.attempts > 0)
            self._dispatch(now)
            wake_at = self._queue.next_departure(flushing=self._flushing > 0, busy=self._busy)
            if wake_at is not None and wake_at <= now:
                wake_at = now + 1.0  # it could leave but has no leader or no free request: their end wakes us
            try:
                async with asyncio.timeout_at(wake_at):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _dispatch(self, now: float) -> None:
        by_node: dict[int, list[list[Batch]]] = {}
        sizes: dict[int, int] = {}
        for batch in list(self._queue.ready(now, flushing=self._flushing > 0, busy=self._busy)):
            leader = self._cluster.known_leader(batch.partition)
            if leader is None:
                self._learn(batch.partition)
                continue
            node = leader.leader
            requests = by_node.get(node)
            if requests is None or sizes[node] + batch.size > self.settings.request_bytes:
                if self._requests[node] >= _REQUESTS_PER_NODE:
                    continue
                self._requests[node] += 1
                requests = by_node.setdefault(node, [])
                requests.append([])
                sizes[node] = 0
            sizes[node] += batch.size
            requests[-1].append(batch)
            self._queue.take(batch)
            self._busy.add(batch.partition)
            self._keyless.batch_left(*batch.partition)
        for node, requests in by_node.items():
            for batches in requests:
                self._spawn(self._deliver(node, batches))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _learn(self, partition: TopicPartition) -> None:
        if partition.topic not in self._learning:
            self._learning.add(partition.topic)
            self._spawn(self._find_leader(partition))

    async def _find_leader(self, partition: TopicPartition) -> None:
        attempt = 0
        deadline = self._loop.time() + self.settings.delivery_seconds
        try:
            while self._loop.time() < deadline:
                with suppress(ClientError):  # the batches expire by themselves; the search goes on meanwhile
                    await self._cluster.refresh([partition.topic], deadline)
                if self._cluster.known_leader(partition) is not None:
                    return
                attempt += 1
                await asyncio.sleep(pause_before(attempt, self._cluster.random))
        finally:
            self._learning.discard(partition.topic)
            self._wake.set()

    async def _deliver(self, node: int, batches: Sequence[Batch]) -> None:
        try:
            request = self._request(batches)
            deadline = self._loop.time() + self._cluster.settings.request_seconds
            named = any(topic.topic_id == NO_TOPIC_ID for topic in request.topic_data)
            highest = _LAST_WITH_NAMES if named else LATEST
            connection = await self._cluster.connection(node, deadline)
            if self.settings.acks == 0:
                await connection.tell(request, deadline, highest=highest)
                for batch in batches:
                    self._succeed(batch, -1, -1)
            else:
                answer = await connection.ask(request, ProduceResponse, deadline, highest=highest)
                self._settle(batches, request, answer)
        except ClientError as failure:
            for batch in batches:
                self._repeat(batch, failure)
        except (TypeError, ValueError) as problem:  # raised while building, before anything was sent
            for batch in batches:
                self._fail(batch, BadRecord(f"a record for partition {batch.partition} cannot be written: {problem}"))
        except asyncio.CancelledError:
            for batch in batches:
                self._fail(batch, self._stopped or DeadlineExceeded("the producer is closed"))
            raise
        finally:
            self._requests[node] -= 1
            self._busy.difference_update(batch.partition for batch in batches)
            self._wake.set()

    def _request(self, batches: Sequence[Batch]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            if batch.data is None:
                self._build(batch)
            name, number = batch.partition
            topic = topics.get(name)
            if topic is None:
                known = self._cluster.topics.get(name)
                topic = topics[name] = TopicProduceData(name, known.topic_id if known else NO_TOPIC_ID, [])
            assert isinstance(topic.partition_data, list)
            topic.partition_data.append(PartitionProduceData(number, batch.data))
        milliseconds = int(self._cluster.settings.request_seconds * 1000)
        return ProduceRequest(None, self.settings.acks, milliseconds, list(topics.values()))

    def _build(self, batch: Batch) -> None:
        producer_id, producer_epoch = self._identity
        if self.settings.idempotent:
            batch.base_sequence = self._sequences[batch.partition]
        batch.data = build_batch(
            batch.records,
            compression=self.settings.compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=batch.base_sequence,
        )

    # --- after sending ------------------------------------------------------------------------------------------------

    def _settle(self, batches: Sequence[Batch], request: ProduceRequest, answer: ProduceResponse) -> None:
        names = {topic.topic_id: topic.name for topic in request.topic_data}
        answers: dict[TopicPartition, PartitionProduceResponse] = {}
        for topic in answer.responses:
            name = topic.name or names.get(topic.topic_id, "")
            for part in topic.partition_responses:
                answers[TopicPartition(name, part.index)] = part
        for batch in batches:
            if batch.partition not in answers:
                self._repeat(batch, ProtocolViolation("a broker", f"no answer for partition {batch.partition}"))
                continue
            part = answers[batch.partition]
            code = known_code(part.error_code)
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._succeed(batch, part.base_offset, part.log_append_time_ms)
            elif code in _TOO_LARGE and len(batch.records) > 1:
                self._queue.split(batch)
            else:
                self._repeat(batch, _rejection(batch, code, part))

    def _succeed(self, batch: Batch, offset: int, log_append_time: int) -> None:
        if self.settings.idempotent:
            self._sequences[batch.partition] = next_sequence(batch.base_sequence, len(batch.records))
        records, size, failed = self.totals
        self.totals = Totals(records + len(batch.records), size + batch.size, failed)
        batch.done.set_result(Placed(batch.partition, offset, log_append_time))
        self._queue.settle(batch)
        self._progress.set()

    def _repeat(self, batch: Batch, failure: ClientError) -> None:
        """Put the batch back to try again, or let it fail when that cannot help."""
        if not failure.retriable:
            self._fail(batch, failure, uncertain=isinstance(failure, ProtocolViolation))
            return
        batch.attempts += 1
        batch.not_before = self._loop.time() + pause_before(batch.attempts, self._cluster.random)
        self._cluster.forget(batch.partition.topic)
        self._queue.put_back(batch)

    def _fail_waiting(self, failure: ClientError) -> None:
        for batch in list(self._queue.expired(float("inf"))):
            self._fail(batch, failure)

    def _fail(self, batch: Batch, failure: ClientError, *, uncertain: bool = False) -> None:
        lost_order = isinstance(failure, BrokerError) and failure.code in _ORDER_LOST
        if self.settings.idempotent and (uncertain or lost_order):
            failure = self._stopped = self._stopped or ProducerFailed(failure)
        self.failure = self.failure or failure
        records, size, failed = self.totals
        self.totals = Totals(records, size, failed + len(batch.records))
        batch.done.set_exception(failure)
        batch.done.exception()  # nobody has to look at every delivery: no complaint about one nobody awaits
        self._queue.settle(batch)
        self._progress.set()


def _rejection(batch: Batch, code: ErrorCode, part: PartitionProduceResponse) -> BrokerError:
    """The broker's reason; what it says about a single record is the better one."""
    subject = f"a record for partition {batch.partition}" if code in _TOO_LARGE else f"partition {batch.partition}"
    for single in part.record_errors:
        if single.batch_index_error_message:
            return BrokerError(code, subject, single.batch_index_error_message)
    return BrokerError(code, subject, part.error_message)
