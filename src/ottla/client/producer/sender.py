"""The way of batches to the brokers and back.

Owns: which batches travel in which request, requests on their way, repetitions, time-outs and the outcome of every
batch. Never knows: how records got into batches, what a transaction is beyond the gate it asks. Invariants: every batch
is settled within `delivery.timeout.ms`; at most so many requests a broker as the settings say are on their way; batches
of a partition leave in the order of their records, also repeated ones (with idempotence the broker sees to it, too).

There is no task: `wake` lets `_drain` run once, answers and timers wake it again.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import NO_TOPIC_ID
from ottla.client.cluster import Cluster
from ottla.client.connection import Connection
from ottla.client.errors import (
    BadRecord,
    ClientClosed,
    ClientError,
    DeliveryTimedOut,
    ProducerFailed,
    ProtocolViolation,
    known_code,
)
from ottla.client.producer.accumulator import NO_IDENTITY, Accumulator, PartitionQueue
from ottla.client.producer.delivery import NO_SEQUENCE, ProducerBatch
from ottla.client.producer.encoding import BatchForm, rows_of, write_batch
from ottla.client.producer.identity import Identity
from ottla.client.producer.nodes import Nodes, ProducerNode
from ottla.client.producer.refusals import BEFORE_WRITING, GAPS, NOBODY_ELSE, TOO_LARGE, refusal
from ottla.client.producer.sequences import Sequences
from ottla.client.producer.topics import Topics
from ottla.client.retry import Pauses, pause_before
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.schema import LATEST

LAST_WITH_NAMES = 12
"""From the next version on Produce names topics by id."""
LAST_WITH_EXPLICIT_PARTITIONS = 11
"""From the next version on Produce adds its partitions to the transaction by itself (KIP-890)."""


class Sending(NamedTuple):
    """How requests are made; seconds and bytes."""

    acks: int
    form: BatchForm
    request_bytes: int
    in_flight: int
    retries: int
    request_seconds: float
    reconnect: Pauses
    transactional_id: str | None = None
    transaction_ms: int = 60_000


class Gate(Protocol):
    """What a transaction says about batches."""

    implicit: bool
    """Whether producing to a partition adds it to the transaction."""

    @property
    def doom(self) -> ClientError | None:
        """Why nothing of the transaction is worth sending any more."""
        ...

    def may_leave(self, queue: PartitionQueue) -> bool: ...

    def batch_failed(self, failure: ClientError) -> None: ...


class Counts:
    """What happened so far."""

    __slots__ = ("acknowledged", "batches", "bytes", "expired", "failed", "repeated", "requests", "splits")

    def __init__(self) -> None:
        self.acknowledged = self.failed = self.batches = self.bytes = 0
        self.requests = self.repeated = self.expired = self.splits = 0


class _Flight:
    """One request on its way."""

    __slots__ = ("batches", "expires", "node", "request")

    def __init__(
        self, node: ProducerNode, batches: list[ProducerBatch], request: ProduceRequest, expires: float
    ) -> None:
        self.node = node
        self.batches = batches
        self.request = request
        self.expires = expires


class Sender:
    """One a producer."""

    def __init__(
        self, cluster: Cluster, accumulator: Accumulator, sequences: Sequences, topics: Topics, sending: Sending
    ) -> None:
        self.counts = Counts()
        self.gate: Gate | None = None
        self.stopped: ClientError | None = None
        """Why nothing is sent any more."""
        self.hurry = 0
        """How many wait for everything to leave at once."""
        self._cluster = cluster
        self._accumulator = accumulator
        self._sequences = sequences
        self._topics = topics
        self._sending = sending
        self._loop = asyncio.get_running_loop()
        self._nodes = Nodes(cluster, sending.reconnect, sending.request_seconds, self._node_news)
        self._flights: dict[_Flight, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._progress: list[asyncio.Future[None]] = []
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._identity = Identity(cluster, sequences, sending.transaction_ms, self._identity_news)
        self._next_look = 0.0

    # --- for the producer ---------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Look soon what can leave."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._drain)

    async def progress(self, deadline: float) -> bool:
        """Return when some batch has its outcome or a topic has news; False at the deadline."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._progress.append(waiter)
        timer = self._loop.call_at(deadline, _end_wait, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
        return self._loop.time() < deadline

    def tell_progress(self) -> None:
        waiters, self._progress = self._progress, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self, failure: ClientError) -> None:
        """Nothing is sent any more; what waits fails."""
        self.stopped = self.stopped or failure
        self.fail_waiting(self.stopped)

    def fail_waiting(self, failure: ClientError) -> None:
        """Everything that is not on its way fails."""
        for batch in list(self._accumulator.take_all()):
            self._fail(batch, failure, sure=batch.attempts == 0)
        self.tell_progress()

    @property
    def busy(self) -> bool:
        """Whether anything has no outcome yet or is still on its way."""
        return self._accumulator.unsettled > 0 or bool(self._flights)

    def unsettled_before(self, order: int) -> int:
        """How many batches up to an order number have no outcome yet."""
        waiting = [batch for queue in self._accumulator.active for batch in queue.waiting]
        flying = [batch for flight in self._flights for batch in flight.batches if not batch.done]
        return sum(batch.order <= order for batch in [*waiting, *flying])

    @property
    def flying(self) -> int:
        """Requests on their way."""
        return len(self._flights)

    async def close(self) -> None:
        """Stop; whatever has no outcome yet fails."""
        closed = self.stopped or ClientClosed("the producer is closed")
        self.stop(closed)
        for flight in self._flights:
            for batch in flight.batches:
                if not batch.done:
                    self._fail(batch, closed, sure=False)
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._nodes.close()
        await self._identity.close()
        self.tell_progress()

    # --- out ----------------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        self._scheduled = False
        now = self._loop.time()
        self._expire(now)
        doom = self._doom()
        if doom is not None:
            self.fail_waiting(doom)
        if self._sequences.idempotent and self._sequences.identity == NO_IDENTITY:
            self._identity.ask()
        while True:
            self._next_look = float("inf")
            loads = self._collect(now)
            if not loads:
                break
            for node, batches in loads.items():
                self._fly(node, batches, now)
        for flight in self._flights:
            self._next_look = min(self._next_look, flight.expires)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._next_look < float("inf"):
            self._timer = self._loop.call_at(self._next_look, self.wake)

    def _collect(self, now: float) -> dict[ProducerNode, list[ProducerBatch]]:
        """The batches that can leave now, at most one a partition and one request a broker."""
        accumulator = self._accumulator
        hurry = self.hurry > 0
        loads: dict[ProducerNode, list[ProducerBatch]] = {}
        sizes: dict[ProducerNode, int] = {}
        for queue in list(accumulator.active):
            leaves_at = accumulator.leaves_at(queue, hurry=hurry)
            self._next_look = min(self._next_look, queue.waiting[0].created + accumulator.limits.delivery)
            if leaves_at > now:
                self._next_look = min(self._next_look, leaves_at)
                continue
            node = self._ready_node(queue, now)
            if node is None:
                if queue.stuck_since is None:
                    queue.stuck_since = now
                continue
            if self.gate is not None and not self.gate.may_leave(queue):
                continue
            if not self._sequences.may_leave(queue):
                continue
            size = sizes.get(node, 0) + queue.waiting[0].size
            if node not in loads:
                loads[node] = []
            elif size > self._sending.request_bytes:
                continue
            sizes[node] = size
            batch = accumulator.take(queue)
            queue.stuck_since = None
            queue.flying.append(batch)
            loads[node].append(batch)
        return loads

    def _ready_node(self, queue: PartitionQueue, now: float) -> ProducerNode | None:
        """The broker that leads, if it is connected and takes one more request; what is missing is set in motion."""
        if queue.leader < 0:
            self._topics.want(queue.topic)
            return None
        node = self._nodes.node(queue.leader)
        connection = node.connection
        if connection is None or connection.closed:
            self._next_look = min(self._next_look, self._nodes.open(node, queue.topic, now))
            return None
        return node if node.flights < self._sending.in_flight else None

    def _node_news(self, topic: str | None) -> None:
        """A broker is there, or cannot be reached: then perhaps somebody else leads the topic meanwhile."""
        if topic is not None:
            self._topics.want(topic)
        self.wake()

    def _identity_news(self, failure: ClientError | None) -> None:
        if failure is not None:
            self.stop(ProducerFailed(failure))
        self.wake()

    def _fly(self, node: ProducerNode, batches: list[ProducerBatch], now: float) -> None:
        sound = [batch for batch in batches if self._write(batch)]
        if not sound:
            return
        request = self._request(sound)
        expires = min(batch.created for batch in sound) + self._accumulator.limits.delivery
        flight = _Flight(node, sound, request, max(expires, now))
        self._flights[flight] = None
        node.flights += 1
        self.counts.requests += 1
        connection = node.connection
        assert connection is not None
        deadline = now + self._sending.request_seconds
        named = any(topic.topic_id == NO_TOPIC_ID for topic in request.topic_data)
        highest = LAST_WITH_NAMES if named else LATEST
        if self.gate is not None and not self.gate.implicit:
            highest = LAST_WITH_EXPLICIT_PARTITIONS
        if self._sending.acks == 0:
            self.spawn(self._tell(flight, connection, deadline, highest))
            return
        try:
            answer = connection.post(request, ProduceResponse, deadline, highest=highest)
        except ClientError as failure:
            self._land(flight, failure)
            return
        answer.add_done_callback(partial(self._answered, flight))

    def _write(self, batch: ProducerBatch) -> bool:
        """Make the bytes of a batch, if it has none or needs other numbers; False when that cannot be done."""
        try:
            if self._sequences.number(batch) or batch.data is None:
                batch.data = write_batch(batch, self._sending.form)
        except (TypeError, ValueError, OverflowError) as problem:
            batch.queue.flying.remove(batch)
            failure = BadRecord(f"a record for partition {batch.queue.partition} cannot be written: {problem}")
            self._fail(batch, failure, sure=True)
            return False
        return True

    def _request(self, batches: Sequence[ProducerBatch]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            queue = batch.queue
            topic = topics.get(queue.topic)
            if topic is None:
                route = self._topics.routes.get(queue.topic)
                topic_id = NO_TOPIC_ID if route is None else route.topic_id
                topic = topics[queue.topic] = TopicProduceData(queue.topic, topic_id, [])
            assert isinstance(topic.partition_data, list)
            topic.partition_data.append(PartitionProduceData(queue.number, batch.data))
        sending = self._sending
        milliseconds = int(sending.request_seconds * 1000)
        return ProduceRequest(sending.transactional_id, sending.acks, milliseconds, list(topics.values()))

    async def _tell(self, flight: _Flight, connection: Connection, deadline: float, highest: int) -> None:
        """Without acknowledgement a batch has arrived as soon as it is written."""
        failure: ClientError | None = None
        try:
            await connection.tell(flight.request, deadline, highest=highest)
        except ClientError as problem:
            failure = problem
        if failure is not None:
            self._land(flight, failure)
            return
        self._end_flight(flight)
        for batch in flight.batches:
            self._succeed(batch, -1, -1)
        self.tell_progress()
        self.wake()

    # --- back ---------------------------------------------------------------------------------------------------------

    def _answered(self, flight: _Flight, answer: "asyncio.Future[ProduceResponse]") -> None:
        if answer.cancelled():
            self._land(flight, ClientClosed("the producer is closed"))
            return
        failure = answer.exception()
        if failure is not None:
            assert isinstance(failure, ClientError)
            self._land(flight, failure)
            return
        self._end_flight(flight)
        self._read(flight, answer.result())
        self.tell_progress()
        self.wake()

    def _end_flight(self, flight: _Flight) -> None:
        del self._flights[flight]
        flight.node.flights -= 1
        for batch in flight.batches:
            batch.queue.flying.remove(batch)

    def _land(self, flight: _Flight, failure: ClientError) -> None:
        """A request that was not answered."""
        self._end_flight(flight)
        for batch in flight.batches:
            batch.doubtful = True
            self._again(batch, failure)
        self.tell_progress()
        self.wake()

    def _read(self, flight: _Flight, answer: ProduceResponse) -> None:
        names = {topic.topic_id: topic.name for topic in flight.request.topic_data}
        parts: dict[tuple[str, int], PartitionProduceResponse] = {}
        for topic in answer.responses:
            name = topic.name or names.get(topic.topic_id, "")
            for part in topic.partition_responses:
                parts[name, part.index] = part
        for batch in flight.batches:
            found = parts.get(batch.queue.partition)
            if found is None:
                self._again(batch, ProtocolViolation("a broker", f"no answer for partition {batch.queue.partition}"))
            elif found.error_code == 0 or found.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                self._succeed(batch, found.base_offset, found.log_append_time_ms)
            else:
                self._refused(batch, known_code(found.error_code), found)

    def _refused(self, batch: ProducerBatch, code: ErrorCode, part: PartitionProduceResponse) -> None:
        failure = refusal(batch, code, part)
        if code in TOO_LARGE and batch.count > 1 and not batch.done:
            self.counts.splits += 1
            self._accumulator.split(batch, rows_of(batch))
        elif code in GAPS and self._sequences.idempotent and self._sequences.out_of_order(batch):
            self._again(batch, failure, anyway=True)
        elif failure.retriable:
            batch.doubtful |= code not in BEFORE_WRITING
            if part.current_leader.leader_id in self._cluster.brokers:
                batch.queue.leader = part.current_leader.leader_id  # who refuses may know who would not
            self._again(batch, failure)
        else:
            self._fail(batch, failure, sure=code not in GAPS)
            if code in NOBODY_ELSE:
                self.stop(ProducerFailed(failure))

    def _succeed(self, batch: ProducerBatch, offset: int, append_time: int) -> None:
        self._sequences.acknowledged(batch)
        if batch.done:
            return  # its time was over before this came
        counts = self.counts
        counts.acknowledged += batch.count
        counts.batches += 1
        counts.bytes += batch.size
        self._accumulator.settled(batch)
        batch.succeed(offset, append_time)

    def _again(self, batch: ProducerBatch, failure: ClientError, *, anyway: bool = False) -> None:
        """Put a batch back, unless that cannot help or it had its tries."""
        if batch.done:
            return
        batch.attempts += 1
        doom = self._doom()
        if doom is not None:
            self._fail(batch, doom, sure=False)
        elif not (failure.retriable or anyway) or batch.attempts > self._sending.retries:
            self._fail(batch, failure, sure=False)
        else:
            pause = pause_before(batch.attempts, self._cluster.random, self._cluster.settings.pauses)
            batch.not_before = self._loop.time() + pause
            self.counts.repeated += 1
            self._accumulator.put_back(batch)
            if not anyway:
                self._topics.want(batch.queue.topic)

    def _doom(self) -> ClientError | None:
        return self.stopped if self.stopped is not None or self.gate is None else self.gate.doom

    def _fail(self, batch: ProducerBatch, failure: ClientError, *, sure: bool) -> None:
        """A batch has failed; `sure` says that it was certainly not written."""
        if batch.done:
            return
        if sure:
            self._sequences.refused(batch)
        else:
            self._sequences.lost(batch)
        self.counts.failed += batch.count or len(batch.rows)
        self._accumulator.settled(batch)
        batch.fail(failure)
        if self.gate is not None:
            self.gate.batch_failed(failure)

    def _expire(self, now: float) -> None:
        seconds = self._accumulator.limits.delivery
        overdue = list(self._accumulator.expired(now))
        for flight in self._flights:
            if flight.expires <= now:
                left = [batch for batch in flight.batches if not batch.done]
                overdue += [batch for batch in left if batch.created + seconds <= now]
                rest = [batch.created + seconds for batch in left if batch.created + seconds > now]
                flight.expires = min(rest, default=float("inf"))
        for batch in overdue:
            self.counts.expired += batch.count or len(batch.rows)
            what = f"partition {batch.queue.partition} acknowledged nothing for {seconds:g} seconds"
            reason = self._topics.failures.get(batch.queue.topic)
            what = what if reason is None else f"{what} ({reason})"
            self._fail(batch, DeliveryTimedOut(what), sure=batch.base_sequence == NO_SEQUENCE)
        if overdue:
            self.tell_progress()


def _end_wait(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
