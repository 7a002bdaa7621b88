"""What ottla's client writes others read, and the other way round: every compression, every shape of a record.

The others are confluent-kafka, kafka-python, aiokafka and Java's console tools. kafka-python takes part in the
compressions whose libraries are installed beside it.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import aiokafka
import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer

import ottla
from kit.brokers.brokers import Broker
from kit.brokers.topics import create_topic
from kit.others import java

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python uses what the standard library deprecates
    import kafka
    import kafka.codec

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Headers = tuple[tuple[str, bytes | None], ...]


class Shape(NamedTuple):
    """A record as every client can say it."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int


NOW = 1_700_000_000_000
SHAPES = [
    Shape(b"key", b"value", (), NOW),
    Shape(None, b"no key", (), NOW + 1),
    Shape(b"tombstone", None, (), NOW + 2),
    Shape(b"", b"", (("", b""),), NOW + 4),
    Shape(b"twice", b"x", (("a", b"1"), ("a", b"2"), ("b", b"\x00\xff")), NOW + 5),
    Shape("schlüssel".encode(), "größe".encode(), (("größe", "ä".encode()),), NOW + 6),
    Shape(b"large", b"x" * 200_000, (("large", b"y" * 10_000),), NOW + 7),
    Shape(b"earlier", bytes(range(256)), (), NOW - 86_400_000),
]
RARE = [Shape(b"null header", b"x", (("nothing", None),), NOW + 8), Shape(None, None, (), NOW + 9)]
"""Which aiokafka and kafka-python cannot write, nor all of them read."""

Write = Callable[[str, str, str, list[Shape]], Awaitable[None]]
Read = Callable[[str, str, int], Awaitable[list[Shape]]]


async def write_ottla(servers: str, topic: str, codec: str, shapes: list[Shape]) -> None:
    async with ottla.Producer(bootstrap_servers=servers, compression_type=codec) as producer:
        for shape in shapes:
            producer.send(topic, shape.value, shape.key, partition=0, timestamp=shape.timestamp, headers=shape.headers)
        await producer.flush()


async def read_ottla(servers: str, topic: str, count: int) -> list[Shape]:
    found: list[Shape] = []
    async with ottla.Consumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            found.append(Shape(record.key, record.value, tuple(record.headers), record.timestamp))
            if len(found) == count:
                break
    return found


async def write_confluent(servers: str, topic: str, codec: str, shapes: list[Shape]) -> None:
    producer = ConfluentProducer({"bootstrap.servers": servers, "compression.type": codec})
    for key, value, headers, timestamp in shapes:
        producer.produce(topic, value, key, partition=0, timestamp=timestamp, headers=list(headers))
    assert await asyncio.to_thread(producer.flush, 60) == 0


async def read_confluent(servers: str, topic: str, count: int) -> list[Shape]:
    def read() -> list[Shape]:
        consumer = ConfluentConsumer(
            {"bootstrap.servers": servers, "group.id": f"confluent-{topic}", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([topic])
        found: list[Shape] = []
        while len(found) < count:
            message = consumer.poll(60)
            assert message is not None, f"{len(found)} of {count} records"
            assert message.error() is None
            headers: Any = message.headers() or ()
            found.append(Shape(message.key(), message.value(), tuple(headers), message.timestamp()[1]))
        consumer.close()
        return found

    return await asyncio.to_thread(read)


async def write_kafka_python(servers: str, topic: str, codec: str, shapes: list[Shape]) -> None:
    def write() -> None:
        producer = kafka.KafkaProducer(bootstrap_servers=servers, compression_type=None if codec == "none" else codec)
        for key, value, headers, timestamp in shapes:
            producer.send(topic, value, key, headers=list(headers), partition=0, timestamp_ms=timestamp)
        producer.flush(60)
        producer.close()

    await asyncio.to_thread(write)


async def read_kafka_python(servers: str, topic: str, count: int) -> list[Shape]:
    def read() -> list[Shape]:
        consumer = kafka.KafkaConsumer(
            topic, bootstrap_servers=servers, auto_offset_reset="earliest", consumer_timeout_ms=60_000
        )
        found = []
        for record in consumer:
            found.append(Shape(record.key, record.value, tuple(record.headers), record.timestamp))
            if len(found) == count:
                break
        consumer.close()
        return found

    return await asyncio.to_thread(read)


async def write_aiokafka(servers: str, topic: str, codec: str, shapes: list[Shape]) -> None:
    async with aiokafka.AIOKafkaProducer(
        bootstrap_servers=servers, compression_type=None if codec == "none" else codec
    ) as producer:
        for key, value, headers, timestamp in shapes:
            await producer.send_and_wait(
                topic, value, key, partition=0, timestamp_ms=timestamp, headers=list(headers) or None
            )


async def read_aiokafka(servers: str, topic: str, count: int) -> list[Shape]:
    found: list[Shape] = []
    async with aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            found.append(Shape(record.key, record.value, tuple(record.headers), record.timestamp))
            if len(found) == count:
                break
    return found


WRITERS: dict[str, Write] = {
    "confluent-kafka": write_confluent,
    "kafka-python": write_kafka_python,
    "aiokafka": write_aiokafka,
}
READERS: dict[str, Read] = {
    "confluent-kafka": read_confluent,
    "kafka-python": read_kafka_python,
    "aiokafka": read_aiokafka,
}


def takes_part(name: str, codec: str) -> bool:
    if name != "kafka-python" or codec == "none":
        return True
    return bool(getattr(kafka.codec, f"has_{codec}")())


PAIRS = [(name, codec) for name in WRITERS for codec in CODECS if takes_part(name, codec)]


@pytest.mark.parametrize(("name", "codec"), PAIRS)
async def test_others_read_what_ottla_writes(broker: Broker, topic: str, name: str, codec: str) -> None:
    create_topic(broker, topic)
    shapes = [*SHAPES, *RARE] if name == "confluent-kafka" else SHAPES
    await write_ottla(broker.bootstrap, topic, codec, shapes)
    assert await READERS[name](broker.bootstrap, topic, len(shapes)) == shapes


@pytest.mark.parametrize(("name", "codec"), PAIRS)
async def test_ottla_reads_what_others_write(broker: Broker, topic: str, name: str, codec: str) -> None:
    create_topic(broker, topic)
    shapes = [*SHAPES, *RARE] if name == "confluent-kafka" else SHAPES
    await WRITERS[name](broker.bootstrap, topic, codec, shapes)
    assert await read_ottla(broker.bootstrap, topic, len(shapes)) == shapes


@pytest.mark.parametrize("codec", CODECS)
async def test_ottla_reads_what_ottla_writes(broker: Broker, topic: str, codec: str) -> None:
    create_topic(broker, topic)
    shapes = [*SHAPES, *RARE]
    await write_ottla(broker.bootstrap, topic, codec, shapes)
    assert await read_ottla(broker.bootstrap, topic, len(shapes)) == shapes


async def test_java_reads_every_compression_and_header_of_ours(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    for codec in CODECS:
        headers = (("codec", codec.encode()), ("codec", b"again"), ("nothing", None))
        await write_ottla(broker.bootstrap, topic, codec, [Shape(b"k", b"v" * 20, headers, NOW)])
    printed = await asyncio.to_thread(
        java.run, "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "--bootstrap-server", broker.bootstrap, "--topic", topic, "--partition", "0", "--offset", "0",
        "--max-messages", str(len(CODECS)), "--formatter-property", "print.key=true",
        "--formatter-property", "print.headers=true", "--formatter-property", "print.timestamp=true",
    )  # fmt: skip
    value = "v" * 20
    assert printed.lines == [
        f"CreateTime:{NOW}\tcodec:{codec},codec:again,nothing:null\tk\t{value}" for codec in CODECS
    ]


async def test_ottla_reads_every_compression_and_header_of_java(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    for codec in CODECS:
        await asyncio.to_thread(
            java.run, "ConsoleProducer", "--bootstrap-server", broker.bootstrap, "--topic", topic,
            "--reader-property", "parse.headers=true", "--reader-property", "parse.key=true",
            "--compression-codec", codec, stdin=f"codec:{codec},codec:again\tkey\tvalue\n",
        )  # fmt: skip
    found = await read_ottla(broker.bootstrap, topic, len(CODECS))
    assert [shape[:3] for shape in found] == [
        (b"key", b"value", (("codec", codec.encode()), ("codec", b"again"))) for codec in CODECS
    ]


async def test_keys_land_where_java_puts_them(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, 7)
    keys = [f"key-{number}" * (number % 5 + 1) for number in range(60)] + ["ä", "x" * 300]
    await asyncio.to_thread(
        java.run, "ConsoleProducer", "--bootstrap-server", broker.bootstrap, "--topic", topic,
        "--reader-property", "parse.key=true", stdin="".join(f"{key}\tjava\n" for key in keys),
    )  # fmt: skip
    async with ottla.Producer(bootstrap_servers=broker.bootstrap) as producer:
        ours = {key: (await producer.send_and_wait(topic, b"ottla", key.encode())).partition for key in keys}
    javas: dict[str, int] = {}
    async with ottla.Consumer(topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            if record.value == b"java":
                javas[record.key.decode()] = record.partition
            if len(javas) == len(keys):
                break
    assert ours == javas
    assert len(set(ours.values())) == 7
