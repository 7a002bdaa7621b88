"""`python -m bench.client_work CLIENT WORK ADDRESS TOPIC COUNT`: one piece of work by one Python client.

Owns: how each client is used at its best for the work. Prints one JSON object. Runs as a process of its own, so that
no client pays for another's threads, imports or garbage.
"""

import asyncio
import json
import sys
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

VALUE = b"x" * 100
ROWS_AT_ONCE = 100_000
LINGER = 5
Numbers = dict[str, float]


def rate(count: int, begun: float) -> Numbers:
    seconds = time.perf_counter() - begun
    return {"per_second": count / seconds, "seconds": seconds}


def middle(taken: list[float]) -> Numbers:
    taken.sort()
    return {"p50": taken[len(taken) // 2] * 1e6, "p99": taken[len(taken) * 99 // 100] * 1e6}


# --- ottla ------------------------------------------------------------------------------------------------------------


async def ottla_produce(address: str, topic: str, count: int) -> Numbers:
    import ottla

    async with ottla.Producer(bootstrap_servers=address, linger_ms=LINGER) as producer:
        await producer.send_and_wait(topic, VALUE)
        begun = time.perf_counter()
        send, put = producer.send, producer.put
        full = ottla.errors.BufferFull
        for number in range(count):
            try:
                send(topic, VALUE)
            except full:
                await put(topic, VALUE)
            if not number & 255:
                await asyncio.sleep(0)
        await producer.flush()
        return rate(count, begun)


async def ottla_produce_arrow(address: str, topic: str, count: int) -> Numbers:
    import pyarrow as pa

    import ottla

    table = pa.table({"value": pa.array([VALUE] * ROWS_AT_ONCE, pa.binary())})
    async with ottla.Producer(bootstrap_servers=address, linger_ms=LINGER) as producer:
        await producer.send_and_wait(topic, VALUE)
        begun = time.perf_counter()
        for _ in range(count // ROWS_AT_ONCE):
            await producer.send_arrow(topic, table)
        await producer.flush()
        return rate(count // ROWS_AT_ONCE * ROWS_AT_ONCE, begun)


async def ottla_consume(address: str, topic: str, count: int) -> Numbers:
    import ottla

    async with ottla.Consumer(topic, bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        begun = time.perf_counter()
        seen = 0
        async for _ in consumer:
            seen += 1
            if seen == count:
                break
        return rate(count, begun)


async def ottla_consume_arrow(address: str, topic: str, count: int) -> Numbers:
    import ottla

    async with ottla.Consumer(topic, bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        begun = time.perf_counter()
        seen = 0
        while seen < count:
            seen += (await consumer.poll_arrow(5.0)).num_rows
        return rate(seen, begun)


async def ottla_round_trip(address: str, topic: str, count: int) -> Numbers:
    import ottla

    taken = []
    async with (
        ottla.Producer(bootstrap_servers=address, linger_ms=0) as producer,
        ottla.Consumer(topic, bootstrap_servers=address, auto_offset_reset="earliest") as consumer,
    ):
        records = aiter(consumer)
        for _ in range(count):
            begun = time.perf_counter()
            producer.send(topic, VALUE)
            await anext(records)
            taken.append(time.perf_counter() - begun)
    return middle(taken)


# --- aiokafka ---------------------------------------------------------------------------------------------------------


async def aiokafka_produce(address: str, topic: str, count: int) -> Numbers:
    import aiokafka

    async with aiokafka.AIOKafkaProducer(
        bootstrap_servers=address, linger_ms=LINGER, acks="all", enable_idempotence=True
    ) as producer:
        await producer.send_and_wait(topic, VALUE)
        begun = time.perf_counter()
        for _ in range(count):
            await producer.send(topic, VALUE)
        await producer.flush()
        return rate(count, begun)


async def aiokafka_consume(address: str, topic: str, count: int) -> Numbers:
    import aiokafka

    async with aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        begun = time.perf_counter()
        seen = 0
        while seen < count:  # several times as fast as its `async for`
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                for _ in records:
                    seen += 1
        return rate(seen, begun)


async def aiokafka_round_trip(address: str, topic: str, count: int) -> Numbers:
    import aiokafka

    taken = []
    async with (
        aiokafka.AIOKafkaProducer(
            bootstrap_servers=address, linger_ms=0, acks="all", enable_idempotence=True
        ) as producer,
        aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=address, auto_offset_reset="earliest") as consumer,
    ):
        for _ in range(count):
            begun = time.perf_counter()
            await producer.send(topic, VALUE)
            await consumer.getone()
            taken.append(time.perf_counter() - begun)
    return middle(taken)


# --- the blocking ones ------------------------------------------------------------------------------------------------


def kafka_python_produce(address: str, topic: str, count: int) -> Numbers:
    import kafka

    producer = kafka.KafkaProducer(bootstrap_servers=address, linger_ms=LINGER)
    producer.send(topic, VALUE).get(30)
    begun = time.perf_counter()
    for _ in range(count):
        producer.send(topic, VALUE)
    producer.flush()
    return rate(count, begun)


def kafka_python_consume(address: str, topic: str, count: int) -> Numbers:
    import kafka

    consumer = kafka.KafkaConsumer(topic, bootstrap_servers=address, auto_offset_reset="earliest")
    begun = time.perf_counter()
    seen = 0
    while seen < count:
        for records in consumer.poll(1000, max_records=5000).values():
            for _ in records:
                seen += 1
    return rate(seen, begun)


def confluent_produce(address: str, topic: str, count: int) -> Numbers:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "linger.ms": LINGER, "enable.idempotence": True})
    producer.produce(topic, VALUE)
    producer.flush()
    begun = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, VALUE)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()
    return rate(count, begun)


def confluent_consume(address: str, topic: str, count: int) -> Numbers:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    settings = {"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False}
    # Its default of a second lets it idle whenever its queue was full.
    consumer = Consumer({**settings, "fetch.queue.backoff.ms": 1, "queued.min.messages": 1_000_000})
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    begun = time.perf_counter()
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    seen = 0
    while seen < count:
        seen += len(consumer.consume(500, 1.0))
    numbers = rate(seen, begun)
    consumer.close()
    return numbers


WORK: dict[tuple[str, str], Callable[[str, str, int], Numbers | Awaitable[Numbers]]] = {
    ("ottla", "produce"): ottla_produce,
    ("ottla", "produce_arrow"): ottla_produce_arrow,
    ("ottla", "consume"): ottla_consume,
    ("ottla", "consume_arrow"): ottla_consume_arrow,
    ("ottla", "round_trip"): ottla_round_trip,
    ("aiokafka", "produce"): aiokafka_produce,
    ("aiokafka", "consume"): aiokafka_consume,
    ("aiokafka", "round_trip"): aiokafka_round_trip,
    ("kafka-python", "produce"): kafka_python_produce,
    ("kafka-python", "consume"): kafka_python_consume,
    ("confluent-kafka", "produce"): confluent_produce,
    ("confluent-kafka", "consume"): confluent_consume,
}


def main() -> None:
    client, work, address, topic, count = sys.argv[1:]
    warnings.simplefilter("ignore")
    outcome: Any = WORK[client, work](address, topic, int(count))
    if asyncio.iscoroutine(outcome):
        outcome = asyncio.run(outcome)
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({**outcome, "cpu": used.ru_utime + used.ru_stime, "peak_megabytes": used.ru_maxrss / 1024}))


if __name__ == "__main__":
    main()
