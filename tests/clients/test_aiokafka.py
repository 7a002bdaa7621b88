"""aiokafka, which speaks the older versions of most requests."""

from __future__ import annotations

import time

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError

from kit.brokers.brokers import Broker
from kit.brokers.topics import create_topic, fill, values_of
from kit.wire.batches import Rec

NOW = int(time.time() * 1000) - 3_600_000


async def read(broker: Broker, topic: str, count: int, offset: int = 0) -> list[bytes | None]:
    async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), offset)
        return [(await consumer.getone()).value for _ in range(count)]


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_it_reads_what_it_wrote(broker: Broker, topic: str, acks: int | str) -> None:
    create_topic(broker, topic)
    values = [b"%d" % number for number in range(50)]
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, acks=acks) as producer:
        for value in values:
            await producer.send(topic, value, partition=0)
    assert await read(broker, topic, 50) == values


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_it_reads_what_it_compressed(broker: Broker, topic: str, codec: str) -> None:
    create_topic(broker, topic)
    values = [b"%d " % number + b"x" * 100 for number in range(100)]
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, compression_type=codec, linger_ms=20) as producer:
        sent = [await producer.send(topic, value, partition=0) for value in values]
        assert [(await each).offset for each in sent] == list(range(100))
    assert await read(broker, topic, 100) == values
    assert values_of(broker, topic) == values


async def test_an_idempotent_producer_keeps_order(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True) as producer:
        for number in range(100):
            await producer.send(topic, b"%d" % number, partition=0)
    assert values_of(broker, topic) == [b"%d" % number for number in range(100)]


async def test_keys_headers_timestamps_and_nulls_come_back(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        await producer.send_and_wait(topic, None, key=b"k", headers=[("h", b"1")], timestamp_ms=NOW)
    async with AIOKafkaConsumer(topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        record = await consumer.getone()
    assert (record.key, record.value, record.headers, record.timestamp) == (b"k", None, (("h", b"1"),), NOW)


async def test_a_message_that_is_too_large_is_refused(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, configs={"max.message.bytes": "1000"})
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait(topic, b"x" * 2000)


async def test_it_reads_from_the_middle_of_a_batch(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"%d" % number) for number in range(5)], compression="lz4")
    assert await read(broker, topic, 2, offset=3) == [b"3", b"4"]


async def test_positions_are_found_by_time_and_at_the_ends(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"%d" % number, timestamp=NOW + 1000 * number) for number in range(5)])
    partition = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap) as consumer:
        consumer.assign([partition])
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 5}
        assert (await consumer.offsets_for_times({partition: NOW + 1500}))[partition].offset == 2


async def test_a_group_goes_on_where_it_committed(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"%d" % number) for number in range(6)])

    async def some(count: int) -> list[bytes | None]:
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=broker.bootstrap, group_id=f"group-{topic}", auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:  # fmt: skip
            values = [(await consumer.getone()).value for _ in range(count)]
            await consumer.commit()
            return values

    assert await some(2) == [b"0", b"1"]
    assert await some(4) == [b"2", b"3", b"4", b"5"]


async def test_topics_are_created_and_deleted(broker: Broker, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, 2, 1)])
        assert topic in await admin.list_topics()
        answer = await admin.create_topics([NewTopic(topic, 2, 1)])
        assert [code for _, code, _ in answer.topic_errors] == [TopicAlreadyExistsError.errno]
        answer = await admin.delete_topics([topic])
        assert [code for _, code in answer.topic_error_codes] == [0]
    finally:
        await admin.close()
