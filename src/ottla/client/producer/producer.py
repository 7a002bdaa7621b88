"""The producer of programs.

Owns: the way of a record from the program into a batch: interceptors, serializers, the partition, room in the buffer.
Never knows: requests, repetitions, sequence numbers; those are the sender's.

Invariants: every record that `send` or `put` took has a `Delivery` that ends, with its place or with an error; `send`
never waits; memory for records stays within `buffer.memory`. For one event loop, the one it was started on.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from ottla.base.vocabulary import TopicPartition
from ottla.client.cluster import Cluster, Partition
from ottla.client.errors import (
    BadRecord,
    BufferFull,
    ClientClosed,
    ClientError,
    DeadlineExceeded,
    Misuse,
    ProducerFailed,
    RecordTooLarge,
    SerializationFailed,
    fresh,
)
from ottla.client.groups.vocabulary import GroupMetadata, OffsetAndMetadata
from ottla.client.producer import options
from ottla.client.producer.accumulator import BATCH_OVERHEAD, RECORD_OVERHEAD, Accumulator, PartitionQueue, content_size
from ottla.client.producer.delivery import Delivery, ProducerBatch, Row
from ottla.client.producer.interceptors import Interceptors
from ottla.client.producer.record import GivenHeaders, Placed, Record, as_headers
from ottla.client.producer.routes import Route
from ottla.client.producer.sender import Sender
from ottla.client.producer.sequences import Sequences
from ottla.client.producer.topics import Topics
from ottla.client.producer.transactions import ABORTED, ProducerState, Transactions
from ottla.client.producer.unplaced import Lobby
from ottla.client.settings import PRODUCER, ProducerKeywords, load
from ottla.client.world import ClientWorld
from ottla.records.codec import murmur2
from ottla.records.record import Headers

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.client.producer.arrow import TableDelivery

_POSITIVE = 0x7FFFFFFF
_LATEST_TIMESTAMP = (1 << 63) - 1


class Producer:
    """Writes records. Use it as an async context manager: leaving it delivers what was sent, within the time-outs.

    Settings are Kafka's, as keywords (`linger_ms=5`), as a mapping (`{"linger.ms": 5}`) or both.
    """

    def __init__(
        self,
        configuration: Mapping[str, object] | None = None,
        /,
        *,
        world: ClientWorld | None = None,
        **keywords: Unpack[ProducerKeywords],
    ) -> None:
        self.settings = load(PRODUCER, configuration, keywords)
        self._world = world or ClientWorld()
        self._clock = self._world.clock
        settings = self.settings
        self._sending = options.sending_of(settings)
        self._block_seconds = settings.seconds("max.block.ms")
        self._keys = options.serialization_of(settings, "key.serializer")
        self._values = options.serialization_of(settings, "value.serializer")
        self._interceptors = Interceptors(settings.things("interceptor.classes"), settings)
        self._direct = self._keys.plain and self._values.plain and not self._interceptors
        self._choice = options.choice_of(settings, self._world.random)
        self._accumulator = Accumulator(options.limits_of(settings))
        self._batch_bytes = self._accumulator.limits.batch_bytes - BATCH_OVERHEAD
        self._largest = min(self._sending.request_bytes, self._accumulator.limits.buffer_bytes)
        self._routes: dict[str, Route] = {}
        self._began = False
        self._stopped: ClientError | None = ClientClosed("the producer is not started: use `async with`, or `start`")
        self._transactions: Transactions | None = None
        self._cluster: Cluster | None = None

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin; `async with` does it. Nothing is waited for: brokers are looked for when there is something to do."""
        if self._cluster is not None:
            return
        sending = self._sending
        transactional = sending.transactional_id is not None
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster = self._world.cluster(self.settings)
        self._topics = Topics(cluster, self._choice, options.ages_of(self.settings), self._learned)
        self._routes = self._topics.routes
        idempotent = self.settings.boolean("enable.idempotence")
        self._sequences = Sequences(idempotent=idempotent, transactional=transactional)
        self._sender = Sender(cluster, self._accumulator, self._sequences, self._topics, sending)
        block = self._block_seconds
        self._lobby = Lobby(self._accumulator, self._topics, block, self._place, self._never_placed)
        if sending.transactional_id is not None:
            arguments = cluster, self._sender, self._sequences, sending.transactional_id, sending.transaction_ms
            two_phases = self.settings.boolean("transaction.two.phase.commit.enable")
            self._transactions = self._sender.gate = Transactions(*arguments, two_phases=two_phases)
        self._stopped = None

    async def close(self, seconds: float | None = None) -> None:
        """Deliver what was sent, within so many seconds (else `delivery.timeout.ms`); the rest fails."""
        if self._cluster is None or isinstance(self._stopped, ClientClosed):
            return
        cluster, self._stopped = self._cluster, ClientClosed("the producer is closed")
        transactions = self._transactions
        limit = self._accumulator.limits.delivery if seconds is None else seconds
        deadline = self._loop.time() + limit
        try:
            if transactions is not None and transactions.state in (ProducerState.OPEN, ProducerState.FAILED):
                self._lobby.clear(ABORTED)
                await self._quietly(transactions.abort(deadline))
            elif limit > 0:
                await self._quietly(self._flushed(deadline))
        finally:
            self._lobby.clear(self._stopped)
            await self._topics.close()
            await self._sender.close()
            await cluster.close()
            self._keys.close()
            self._values.close()
            self._interceptors.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        cancelled = kind is not None and not issubclass(kind, Exception)
        await self.close(0.0 if cancelled else None)

    async def flush(self, seconds: float | None = None) -> None:
        """Return when everything sent so far has its outcome; DeadlineExceeded when that takes too long."""
        self._check()
        limit = self._accumulator.limits.delivery if seconds is None else seconds
        await self._flushed(self._loop.time() + limit)

    # --- records ------------------------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: GivenHeaders = (),
    ) -> Delivery:
        """Hand over a record without waiting; BufferFull when there is no room (`put` waits for it).

        A loop that only sends must let the event loop run now and then, or nothing leaves; `put` sees to that.
        """
        if self._stopped is not None or self._transactions is not None:
            self._check_sendable()
        if not self._direct:
            return self._send_prepared(Record(topic, value, key, partition, timestamp, headers))
        if headers:
            headers = as_headers(headers)
        if (value is not None and type(value) is not bytes) or (key is not None and type(key) is not bytes):
            key, value = self._serialize(topic, key, value)
        return self._enqueue(topic, key, value, headers, partition, timestamp)  # type: ignore[arg-type]

    def send_record(self, record: Record) -> Delivery:
        """`send` with everything in one object."""
        topic, value, key, partition, timestamp, headers = record
        return self.send(topic, value, key, partition=partition, timestamp=timestamp, headers=headers)

    async def put(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: GivenHeaders = (),
    ) -> Delivery:
        """Hand over a record; waits for the topic's metadata and for room, up to `max.block.ms`."""
        if topic not in self._routes:
            await self._known(topic)
        try:
            delivery = self.send(topic, value, key, partition=partition, timestamp=timestamp, headers=headers)
        except BufferFull:
            record = Record(topic, value, key, partition, timestamp, headers)
            delivery = await self._put_when_room(record)
        if self._began:
            self._began = False
            await asyncio.sleep(0)  # a caller that waits for nothing else must not keep batches from leaving
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: GivenHeaders = (),
    ) -> Placed:
        """Hand over a record and wait until it has arrived."""
        return await (await self.put(topic, value, key, partition=partition, timestamp=timestamp, headers=headers))

    async def send_arrow(
        self,
        topic: str,
        table: "pa.Table | pa.RecordBatch",
        *,
        key: str | None = "key",
        value: str | None = "value",
        timestamp: str | None = "timestamp",
        headers: str | None = "headers",
        partition: str | None = "partition",
    ) -> "TableDelivery":
        """Hand over every row of a table; the arguments name its columns, and one that is missing is left out.

        Returns when the last row is in the buffer; await what it returns for the places of all. Rows are written as
        they stand: no serializer, interceptor or partitioner of the user's sees them.
        """
        from ottla.client.producer.arrow import Columns, Means, send_table

        columns = Columns(key, value, timestamp, headers, partition)
        self._check_sendable()
        route = await self._known(topic)
        now, block = self._clock.now_ms(), self._block_seconds
        means = Means(self._accumulator, self._sender, self._sending, now, block, self._check_sendable)
        return await send_table(means, route, table, columns)

    # --- transactions -------------------------------------------------------------------------------------------------

    async def init_transactions(self, seconds: float | None = None) -> None:
        """Once, before the first transaction: whoever used this `transactional.id` before is fenced."""
        await self.start()
        await self._transactional().initialise(self._deadline(seconds))

    async def begin_transaction(self) -> None:
        self._transactional().begin()

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group: GroupMetadata | str,
        seconds: float | None = None,
    ) -> None:
        """Commit a consumer's offsets with the transaction; `group` is `consumer.group_metadata()`."""
        await self._transactional().send_offsets(offsets, group, self._deadline(seconds))

    async def commit_transaction(self, seconds: float | None = None) -> None:
        """Flush and commit; TransactionFailed when anything in the transaction failed, then abort it."""
        await self._transactional().commit(self._deadline(seconds))

    async def abort_transaction(self, seconds: float | None = None) -> None:
        transactions = self._transactional()
        self._lobby.clear(ABORTED)
        await transactions.abort(self._deadline(seconds))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """A transaction that is committed at the end of the block, and aborted when the block raises."""
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except ProducerFailed:
            raise  # fenced, or beyond repair: there is nothing to abort with
        except BaseException:
            if self._transactional().state is not ProducerState.READY:
                await self._quietly(self.abort_transaction())
            raise

    # --- questions ----------------------------------------------------------------------------------------------------

    async def partitions_for(self, topic: str) -> tuple[Partition, ...]:
        """The partitions of a topic, their leaders and replicas."""
        self._check()
        assert self._cluster is not None
        return (await self._cluster.topic(topic, self._deadline(None), create=True)).partitions

    def metrics(self) -> dict[str, float]:
        """Plain numbers since the start, and the buffer as it is now."""
        if self._cluster is None:
            self._check()
        counts = self._sender.counts
        return {
            "records_acknowledged": counts.acknowledged,
            "records_failed": counts.failed,
            "records_expired": counts.expired,
            "batches_acknowledged": counts.batches,
            "bytes_acknowledged": counts.bytes,
            "requests": counts.requests,
            "requests_in_flight": self._sender.flying,
            "batches_repeated": counts.repeated,
            "batches_split": counts.splits,
            "batches_waiting": self._accumulator.unsettled,
            "buffer_available_bytes": self._accumulator.free,
        }

    # --- into a batch -------------------------------------------------------------------------------------------------

    def _send_prepared(self, record: Record) -> Delivery:
        """The way over interceptors and serializers."""
        interceptors = self._interceptors
        record = interceptors.on_send(record)
        try:
            topic, value, key, partition, timestamp, headers = record
            key, value = self._serialize(topic, key, value)
            delivery = self._enqueue(topic, key, value, as_headers(headers), partition, timestamp)
        except ClientError as failure:
            interceptors.on_acknowledgement(None, failure)
            raise
        if interceptors:
            delivery.add_callback(interceptors.on_acknowledgement)
        return delivery

    def _serialize(self, topic: str, key: Any, value: Any) -> tuple[bytes | None, bytes | None]:
        part = "key"
        try:
            key = None if key is None else self._keys.turn(topic, key)
            part = "value"
            value = None if value is None else self._values.turn(topic, value)
        except Exception as problem:  # whatever the user's code raises is the fate of this one record
            raise SerializationFailed(f"the {part} of a record for {topic!r}: {problem}") from problem
        for content in (key, value):
            if content is not None and type(content) is not bytes:
                raise SerializationFailed(f"a serializer made {type(content).__name__}, bytes are needed")
        return key, value

    def _enqueue(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        partition: int | None,
        timestamp: int | None,
    ) -> Delivery:
        if headers:
            size = content_size(key, value, headers)
        else:
            size = RECORD_OVERHEAD + (len(value) if value is not None else 0) + (len(key) if key is not None else 0)
        accumulator = self._accumulator
        if accumulator.free < size:
            self._refuse(size)
        if timestamp is None:
            timestamp = self._clock.now_ms()
        elif type(timestamp) is not int or not 0 <= timestamp <= _LATEST_TIMESTAMP:
            raise BadRecord(f"a timestamp is milliseconds since 1970, not {timestamp!r}")
        route = self._routes.get(topic)
        if route is None:
            if size > self._largest:
                self._refuse(size)
            return self._lobby.add(topic, (0, timestamp, key, value, headers), size, partition)
        if partition is not None:
            queue = route.at(partition)
        elif key is not None and route.by_key:
            queue = route.queues[(murmur2(key) & _POSITIVE) % route.count]
        elif route.sticky is not None:
            queue = route.sticky
        else:
            queue = route.choose(key, value)
        batch = queue.open
        if batch is None or batch.size + size > self._batch_bytes:
            batch = self._begin(route, queue, size, keyless=queue is route.sticky and partition is None)
        rows = batch.rows
        position = len(rows)
        rows.append((position, timestamp, key, value, headers))
        batch.size += size
        accumulator.free -= size
        return Delivery(batch, position)

    def _begin(self, route: Route, queue: PartitionQueue, size: int, *, keyless: bool) -> ProducerBatch:
        """A batch for a record that does not fit into the open one."""
        if size > self._largest:
            raise RecordTooLarge(f"a record of {size} bytes: the largest is {self._largest} (max.request.size)")
        now = self._loop.time()
        self._began = True
        self._sender.wake()
        if keyless and queue.last is not None:
            route.produced += queue.last.size
            if route.produced >= self._batch_bytes - size:
                queue = route.switch(now)
                batch = queue.open
                if batch is not None and batch.size + size <= self._batch_bytes:
                    return batch
        return self._accumulator.begin(queue, now)

    def _refuse(self, size: int) -> NoReturn:
        if size > self._largest:
            raise RecordTooLarge(f"a record of {size} bytes: the largest is {self._largest} (max.request.size)")
        raise BufferFull(f"no room for {size} bytes in buffer.memory ({self._accumulator.limits.buffer_bytes})")

    # --- before the topic is known ------------------------------------------------------------------------------------

    def _place(self, topic: str, row: Row, partition: int | None) -> Delivery:
        """A record whose topic is known now goes into a batch."""
        _, timestamp, key, value, headers = row
        return self._enqueue(topic, key, value, headers, partition, timestamp)

    def _never_placed(self, failure: ClientError, count: int) -> None:
        self._sender.counts.failed += count
        if self._transactions is not None:
            self._transactions.batch_failed(failure)
        self._sender.tell_progress()

    def _learned(self) -> None:
        """There is news of topics."""
        self._lobby.learned()
        self._sender.tell_progress()
        self._sender.wake()

    async def _known(self, topic: str) -> Route:
        """The topic, asked for if need be."""
        self._check()
        deadline = self._loop.time() + self._block_seconds
        while topic not in self._topics.routes:
            self._topics.want(topic)
            in_time = await self._sender.progress(deadline)
            self._check()
            failure = self._topics.failures.get(topic)
            if failure is not None and (not failure.retriable or not in_time):
                self._topics.forget(topic)
                raise fresh(failure)
            if not in_time:
                self._topics.forget(topic)
                raise DeadlineExceeded(f"topic {topic!r} is not known after {self._block_seconds:g} seconds")
        return self._topics.routes[topic]

    async def _put_when_room(self, record: Record) -> Delivery:
        deadline = self._loop.time() + self._block_seconds
        self._sender.hurry += 1  # batches that are not full yet make room, too
        try:
            while True:
                self._sender.wake()
                if not await self._sender.progress(deadline):
                    raise BufferFull(f"no room in buffer.memory for {self._block_seconds:g} seconds")
                try:
                    return self.send_record(record)
                except BufferFull:
                    continue
        finally:
            self._sender.hurry -= 1

    # --- small things -------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._stopped is not None:
            raise fresh(self._stopped)

    def _check_sendable(self) -> None:
        self._check()
        refusal = self._sender.stopped if self._transactions is None else self._transactions.refusal()
        if refusal is not None:
            raise fresh(refusal)

    def _deadline(self, seconds: float | None) -> float:
        return self._loop.time() + (self._block_seconds if seconds is None else seconds)

    def _transactional(self) -> Transactions:
        self._check()
        if self._transactions is None:
            raise Misuse("transactions need transactional.id")
        return self._transactions

    async def _flushed(self, deadline: float) -> None:
        self._sender.hurry += 1
        self._sender.wake()
        try:
            unplaced = self._lobby.batches()
            while any(batch.moved is None and not batch.done for batch in unplaced):
                await self._progressed(deadline, "a topic is not known yet")
            order = self._accumulator.behind_last  # what others send from now on is not waited for
            while left := self._sender.unsettled_before(order):
                await self._progressed(deadline, f"{left} batches have no outcome yet")
        finally:
            self._sender.hurry -= 1

    async def _progressed(self, deadline: float, what: str) -> None:
        if not await self._sender.progress(deadline):
            raise DeadlineExceeded(what)

    async def _quietly(self, work: Any) -> None:
        """For ends that somebody else has heard of already: every delivery tells its own story."""
        try:
            await work
        except ClientError:
            return
