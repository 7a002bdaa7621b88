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
Metrics = Mapping[str, float]
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


async def produce(settings: Mapping[str, object], load: Load, tell: Tell) -> tuple[Sent, float, Metrics]:
    """Send the load; the figures, the moment it had arrived, and what the client says of itself."""
    clock = RealClock()
    async with Producer(settings) as producer:
        await producer.partitions_for(load.topic)
        if load.transaction_seconds:
            await producer.init_transactions()
        sent = Sent(clock.monotonic())
        run = _Producing(producer, load, sent, tell)
        await run.send_all()
        await producer.flush()
        run.raise_failure()
        return sent, clock.monotonic(), producer.metrics()


class _Producing:
    """One run of the producer's load."""

    def __init__(self, producer: Producer, load: Load, sent: Sent, tell: Tell) -> None:
        self._producer = producer
        self._load = load
        self._sent = sent
        self._tell = tell
        self._now = RealClock().monotonic
        self._failure: ClientError | None = None

    async def send_all(self) -> None:
        producer, load, sent, now = self._producer, self._load, self._sent, self._now
        put, settled, topic = producer.put, self._settled, load.topic
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
                self.raise_failure()
            if pace and (ahead := started + number * pace - now()) > 0:
                await asyncio.sleep(ahead)
        if opened:
            await producer.commit_transaction()

    def _settled(self, begun: float, size: int, placed: Placed | None, failure: ClientError | None) -> None:
        if failure is None:
            self._sent.record(self._now() - begun, size)
        else:
            self._sent.failed += 1
            self._failure = self._failure or failure

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


class Reading(NamedTuple):
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


async def consume(settings: Mapping[str, object], reading: Reading, tell: Tell) -> tuple[Consumed, Metrics]:
    """Read so many records, or until nothing comes any more; `tell` gets a line every few seconds."""
    clock = RealClock()
    async with Consumer(settings) as consumer:
        joining = _Joining()
        consumer.subscribe(reading.topic, joining if settings.get("group.id") else None)
        started = clock.now_ms() / 1000
        begun = last = reported = clock.monotonic()
        records = size = told_records = told_size = 0
        told_joining = 0.0
        while records < reading.records:
            found = await consumer.poll(POLL_SECONDS, reading.records - records)
            now = clock.monotonic()
            if found:
                last = now
                records += len(found)
                size += sum(len(each.value or b"") + len(each.key or b"") for each in found)
            elif now - last > reading.idle_seconds:
                break
            if now - reported >= reading.report_seconds:
                moment = started + now - begun
                part = Consumed(
                    moment - (now - reported), moment, records - told_records, size - told_size,
                    joining.seconds - told_joining,
                )  # fmt: skip
                tell(part.detailed_line(records, size))
                reported, told_records, told_size, told_joining = now, records, size, joining.seconds
        # Who gave up has waited for nothing at the end.
        ended = last if records < reading.records else clock.monotonic()
        whole = Consumed(started, started + ended - begun, records, size, joining.seconds)
        return whole, consumer.metrics()


async def travel(
    producing: Mapping[str, object], consuming: Mapping[str, object], topic: str, records: int, value: bytes, tell: Tell
) -> Travelled:
    """Send one record after the other, each when the one before was read, and time their way."""
    now = RealClock().monotonic
    travelled = Travelled()
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
    return travelled
