"""The loads of `ottla bench`: a producer, a consumer, and one record after the other through both.

Owns: driving the clients and measuring them. Never knows: options, how figures are told (`bench_figures`). Invariant:
nothing but the client's own work happens between the two moments of a latency.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle, islice
from random import Random
from typing import NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.cli.bench_figures import Consumed, Sent, Travelled
from ottla.cli.failures import Failure
from ottla.client.consumer import Consumer
from ottla.client.errors import ClientError
from ottla.client.producer import Producer
from ottla.client.producer.record import Placed
from ottla.runtime.world import RealClock

Tell = Callable[[str], None]
DIFFERENT_VALUES = 1000
"""Random values that are made before the clock starts and sent again and again."""
POLL_SECONDS = 0.1
PATIENCE_SECONDS = 60.0


class Load(NamedTuple):
    """What a producer is to send."""

    topic: str
    records: int
    values: Sequence[bytes]
    """Sent in turns; none: the numbers of the records, as text."""
    throughput: float
    """Records a second; not positive: as fast as it goes."""
    transaction_seconds: float
    """How long a transaction lasts; 0: there are none."""
    report_seconds: float


def random_values(size: int) -> list[bytes]:
    """Capital letters, the same in every run."""
    random = Random(0)
    return [bytes(random.choices(range(65, 91), k=size)) for _ in range(DIFFERENT_VALUES)]


def _values(load: Load) -> Iterator[bytes]:
    if load.values:
        return islice(cycle(load.values), load.records)
    return (str(number).encode() for number in range(load.records))


class ProducerRun:
    """One run of a producer's load; what was measured is there also when it ended early."""

    def __init__(self, settings: Mapping[str, object], load: Load, tell: Tell) -> None:
        self.sent: Sent | None = None
        """None: nothing was sent yet."""
        self.ended = 0.0
        self.metrics: Mapping[str, float] = {}
        """What the client says of itself."""
        self._settings = settings
        self._load = load
        self._tell = tell
        self._now = RealClock().monotonic
        self._failure: ClientError | None = None

    async def work(self) -> None:
        async with Producer(self._settings) as producer:
            await producer.partitions_for(self._load.topic)
            if self._load.transaction_seconds:
                await producer.init_transactions()
            self.sent = Sent(self._now())
            try:
                await self._send_all(producer, self.sent)
                await producer.flush()
                self._raise_failure()
            finally:
                self.ended = self._now()
                self.metrics = producer.metrics()

    async def _send_all(self, producer: Producer, sent: Sent) -> None:
        load, now = self._load, self._now
        put, settled, topic = producer.put, partial(self._settled, sent), load.topic
        started = report_at = transaction_at = now()
        report_at += load.report_seconds
        pace = 1 / load.throughput if load.throughput > 0 else 0.0
        opened = False
        for number, value in enumerate(_values(load), start=1):
            if load.transaction_seconds and not opened:
                await producer.begin_transaction()
                opened, transaction_at = True, now()
            begun = now()
            (await put(topic, value)).add_callback(partial(settled, begun, len(value)))
            if opened and begun - transaction_at >= load.transaction_seconds:
                await producer.commit_transaction()
                opened = False
            if begun >= report_at:
                self._tell(sent.turn(begun))
                report_at = begun + load.report_seconds
                self._raise_failure()
            if pace and (ahead := started + number * pace - now()) > 0:
                await asyncio.sleep(ahead)
        if opened:
            await producer.commit_transaction()

    def _settled(self, sent: Sent, begun: float, size: int, placed: Placed | None, failure: ClientError | None) -> None:
        if failure is None:
            sent.record(self._now() - begun, size)
        else:
            sent.failed += 1
            self._failure = self._failure or failure

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


class ReadLoad(NamedTuple):
    """What a consumer is to read."""

    topic: str
    records: int
    idle_seconds: float
    """How long nothing may come before it gives up."""
    report_seconds: float


class _Joining:
    """How long a consumer waits for its group; told when partitions go and come."""

    def __init__(self) -> None:
        self._now = RealClock().monotonic
        self._since = self._now()
        self.seconds = 0.0

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._since = self._now()

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.seconds += self._now() - self._since

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._since = self._now()


class ConsumerRun:
    """One run of a consumer: so many records, or until nothing comes any more."""

    def __init__(self, settings: Mapping[str, object], reading: ReadLoad, tell: Tell) -> None:
        self.read: Consumed | None = None
        """None: nothing was asked for yet."""
        self.metrics: Mapping[str, float] = {}
        """What the client says of itself."""
        self._settings = settings
        self._reading = reading
        self._tell = tell
        self._joining = _Joining()
        self._records = 0
        self._bytes = 0

    async def work(self) -> None:
        """Reads; a line is told every few seconds."""
        clock = RealClock()
        async with Consumer(self._settings) as consumer:
            self._joining = _Joining()
            consumer.subscribe(self._reading.topic, self._joining if self._settings.get("group.id") else None)
            started, begun = clock.now_ms() / 1000, clock.monotonic()
            last = begun
            try:
                last = await self._read_all(consumer, started)
            finally:
                # Who gave up has waited for nothing at the end.
                ended = last if begun < last else clock.monotonic()
                moment = started + ended - begun
                self.read = Consumed(started, moment, self._records, self._bytes, self._joining.seconds)
                self.metrics = consumer.metrics()

    async def _read_all(self, consumer: Consumer, started: float) -> float:
        """When the last record came."""
        reading, joining, now = self._reading, self._joining, RealClock().monotonic
        begun = last = reported = now()
        told = Consumed(started, started, 0, 0)
        while self._records < reading.records:
            found = await consumer.poll(POLL_SECONDS, reading.records - self._records)
            moment = now()
            if found:
                last = moment
                self._records += len(found)
                self._bytes += sum(len(each.value or b"") + len(each.key or b"") for each in found)
            elif moment - last > reading.idle_seconds:
                break
            if moment - reported >= reading.report_seconds:
                whole = Consumed(started, started + moment - begun, self._records, self._bytes, joining.seconds)
                self._tell(whole.since(told).detailed_line(whole.records, whole.bytes))
                reported, told = moment, whole
        return last


class Trip(NamedTuple):
    """What is sent one record after the other."""

    topic: str
    records: int
    value: bytes


async def travel(
    producing: Mapping[str, object], consuming: Mapping[str, object], trip: Trip, travelled: Travelled, tell: Tell
) -> None:
    """Send one record after the other, each when the one before was read, and time their way."""
    now = RealClock().monotonic
    topic, records, value = trip
    async with Producer(producing) as producer, Consumer(consuming) as consumer:
        partitions = [TopicPartition(topic, part.number) for part in await producer.partitions_for(topic)]
        consumer.assign(partitions)
        consumer.seek_to_end(*partitions)
        for partition in partitions:
            await consumer.position(partition, PATIENCE_SECONDS)
        for number in range(records):
            begun = now()
            await producer.send_and_wait(topic, value)
            found = await consumer.poll(PATIENCE_SECONDS)
            latency = now() - begun
            if len(found) != 1 or found[0].value != value:
                came = f"{len(found)} records came" if len(found) != 1 else "another came"
                raise Failure(f"record {number} was sent and {came}; let nobody else write to {topic!r} meanwhile")
            travelled.record(latency, len(value))
            if number % 1000 == 0:
                tell(f"{number}\t{1000 * latency}")
