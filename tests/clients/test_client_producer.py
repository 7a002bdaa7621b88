"""ottla's own producer, against ottla and against a real Kafka alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import pyarrow as pa
import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition

import ottla
from kit.brokers.brokers import Broker
from kit.brokers.processes import until
from kit.brokers.topics import create_topic, records_of, values_of
from ottla.base.errors import ErrorCode
from ottla.client.address import Address
from ottla.client.cluster import Opener
from ottla.client.connection import Connection, open_connection
from ottla.client.producer import Producer, Record
from ottla.client.world import ClientWorld
from ottla.errors import BrokerError, ProducerFailed, ProducerFenced, RecordTooLarge, TransactionFailed

StartBroker = Callable[[Mapping[str, str]], AbstractContextManager[Broker]]
EARLIER = 1_700_000_000_000
SECONDS = 60.0


def committed(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    """The first `count` committed values of partition 0, by somebody else's consumer."""
    consumer = ConfluentConsumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": topic, "isolation.level": "read_committed"}
    )
    try:
        consumer.assign([ConfluentPartition(topic, 0, 0)])
        found = consumer.consume(count, timeout=SECONDS)
        return [message.value() for message in found]
    finally:
        consumer.close()


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_what_is_sent_is_there_in_order(broker: Broker, topic: str, acks: int | str) -> None:
    create_topic(broker, topic)
    values = [b"%d" % number for number in range(2000)]
    async with Producer(bootstrap_servers=broker.bootstrap, acks=acks) as producer:
        deliveries = [await producer.put(topic, value) for value in values]
        placed = [await delivery for delivery in deliveries]
    if acks == 0:  # sent, which is all that is known of it
        await asyncio.to_thread(until, lambda: len(values_of(broker, topic)) == 2000, "what was sent has arrived")
    assert values_of(broker, topic) == values
    assert [place.offset for place in placed] == ([-1] * 2000 if acks == 0 else list(range(2000)))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_every_compression_is_read_by_others(broker: Broker, topic: str, codec: str) -> None:
    create_topic(broker, topic)
    values = [b"%d " % number + b"x" * 100 for number in range(500)]
    async with Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec}) as producer:
        for value in values:
            await producer.put(topic, value)
    assert values_of(broker, topic) == values
    assert committed(broker, topic, 500) == values


async def test_keys_headers_timestamps_and_nulls_arrive(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    record = Record(topic, None, b"k", timestamp=EARLIER, headers=[("a", b"1"), ("a", None), ("é", b"")])
    async with Producer(bootstrap_servers=broker.bootstrap) as producer:
        placed = await producer.send_record(record)
    (stored,) = records_of(broker, topic)
    assert (stored.key, stored.value, stored.timestamp) == (b"k", None, EARLIER)
    assert [tuple(header) for header in stored.headers] == [("a", b"1"), ("a", None), ("é", b"")]
    assert placed.timestamp == EARLIER


async def test_a_topic_is_made_by_the_first_record_where_the_broker_allows_it(broker: Broker, topic: str) -> None:
    async with Producer(bootstrap_servers=broker.bootstrap) as producer:
        assert (await producer.send(topic, b"1")).offset == 0
        assert len(await producer.partitions_for(topic)) == 1


async def test_a_record_larger_than_the_topic_takes_fails_alone(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, configs={"max.message.bytes": "1000"})
    async with Producer(bootstrap_servers=broker.bootstrap) as producer:
        small = [producer.send(topic, b"%d" % number * 50) for number in range(30)]
        large = producer.send(topic, b"x" * 2000)
        with pytest.raises(RecordTooLarge):
            await large
        assert [(await delivery).offset for delivery in small] == list(range(30))
        assert (await producer.send_and_wait(topic, b"after")).offset == 30


async def test_a_table_is_written_row_by_row(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, partitions=3)
    rows = 20_000
    table = pa.table(
        {
            "who": pa.array([b"k%d" % (number % 50) for number in range(rows)]),
            "what": pa.array([b"%d" % number for number in range(rows)]),
        }
    )
    async with Producer(bootstrap_servers=broker.bootstrap, compression_type="zstd") as producer:
        delivery = await producer.send_arrow(topic, table, key="who", value="what")
        placed = await delivery
        assert sum(part.rows for part in placed) == rows
        again = await producer.send_and_wait(topic, b"one more", b"k7")
    found: dict[bytes, list[int]] = {}
    for partition in range(3):
        for record in records_of(broker, topic, partition):
            if record.value != b"one more":
                assert record.key is not None
                assert record.value is not None
                found.setdefault(record.key, []).append(int(record.value))
            else:
                assert partition == again.partition
    assert found == {b"k%d" % key: list(range(key, rows, 50)) for key in range(50)}


async def open_older(address: Address, deadline: float, *, client_id: str, in_flight: int) -> Connection:
    """A connection over which a broker seems to know only the first transaction protocol."""
    connection = await open_connection(address, deadline, client_id=client_id, in_flight=in_flight)
    connection.features.clear()
    return connection


@pytest.mark.parametrize("opener", [open_connection, open_older])
async def test_transactions_are_seen_when_they_are_committed_and_never_when_they_are_aborted(
    broker: Broker, topic: str, opener: Opener
) -> None:
    create_topic(broker, topic)
    world = ClientWorld(opener=opener)
    async with Producer(bootstrap_servers=broker.bootstrap, transactional_id=topic, world=world) as producer:
        await producer.init_transactions()
        for number in range(5):
            async with producer.transaction():
                for part in range(3):
                    await producer.put(topic, b"%d.%d" % (number, part))
            with pytest.raises(RuntimeError, match="on purpose"):
                await fail_in_transaction(producer, topic)
    kept = [b"%d.%d" % (number, part) for number in range(5) for part in range(3)]
    assert committed(broker, topic, len(kept)) == kept


async def fail_in_transaction(producer: Producer, topic: str) -> None:
    async with producer.transaction():
        await producer.send_and_wait(topic, b"never")
        producer.send(topic, b"never sent")
        raise RuntimeError("on purpose")


@pytest.mark.parametrize("opener", [open_connection, open_older])
async def test_offsets_are_committed_with_the_transaction(broker: Broker, topic: str, opener: Opener) -> None:
    create_topic(broker, topic)
    partition = ottla.TopicPartition(topic, 0)
    world = ClientWorld(opener=opener)
    async with Producer(bootstrap_servers=broker.bootstrap, transactional_id=topic, world=world) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send_offsets({partition: 7}, f"{topic}-group")
        await producer.begin_transaction()
        await producer.send_offsets({partition: 99}, f"{topic}-group")
        await producer.abort_transaction()
    consumer = ConfluentConsumer({"bootstrap.servers": broker.bootstrap, "group.id": f"{topic}-group"})
    try:
        (found,) = consumer.committed([ConfluentPartition(topic, 0)], timeout=SECONDS)
        assert found.offset == 7
    finally:
        consumer.close()


async def test_who_takes_over_a_transactional_id_fences_its_holder(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    async with Producer(bootstrap_servers=broker.bootstrap, transactional_id=topic) as first:
        await first.init_transactions()
        await first.begin_transaction()
        await first.send_and_wait(topic, b"of the first")
        async with Producer(bootstrap_servers=broker.bootstrap, transactional_id=topic) as second:
            await second.init_transactions()
            async with second.transaction():
                await second.put(topic, b"of the second")
            with pytest.raises(ProducerFenced):
                await first.commit_transaction()
            with pytest.raises(ProducerFenced):
                first.send(topic, b"more")
    assert committed(broker, topic, 1) == [b"of the second"]


@pytest.mark.parametrize("opener", [open_connection, open_older])
async def test_a_transaction_with_a_refused_record_can_only_be_aborted(
    broker: Broker, topic: str, opener: Opener
) -> None:
    create_topic(broker, topic, configs={"max.message.bytes": "1000"})
    world = ClientWorld(opener=opener)
    async with Producer(bootstrap_servers=broker.bootstrap, transactional_id=topic, world=world) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        producer.send(topic, b"good")
        producer.send(topic, b"x" * 2000)
        with pytest.raises(TransactionFailed):
            await producer.commit_transaction()
        with pytest.raises(TransactionFailed):
            producer.send(topic, b"too late")
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.put(topic, b"kept")
    assert committed(broker, topic, 1) == [b"kept"]


async def test_a_transaction_that_lasts_too_long_is_aborted_by_the_broker(
    start_broker: StartBroker, topic: str
) -> None:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with start_broker(settings) as broker:
        create_topic(broker, topic)
        async with Producer(
            bootstrap_servers=broker.bootstrap, transactional_id=topic, transaction_timeout_ms=3_000
        ) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"slow")
            await asyncio.to_thread(until_aborted, broker, topic)
            with pytest.raises((ProducerFailed, TransactionFailed)):
                await producer.commit_transaction()
        async with Producer(bootstrap_servers=broker.bootstrap, transactional_id=topic) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.put(topic, b"kept")
        assert committed(broker, topic, 1) == [b"kept"]


def until_aborted(broker: Broker, topic: str) -> None:
    until(lambda: len(records_of(broker, topic)) >= 2, "the abort marker is written", SECONDS)


async def test_a_producer_outlives_a_restart_of_the_broker(start_broker: StartBroker, topic: str) -> None:
    with start_broker({}) as broker:
        if broker.name == "kafka":
            pytest.skip("the script that starts a real Kafka begins with an empty directory")
        create_topic(broker, topic)
        async with Producer(bootstrap_servers=broker.bootstrap) as producer:
            before = [await producer.put(topic, b"%d" % number) for number in range(500)]
            await before[0]
            await asyncio.to_thread(broker.stop)
            during = [producer.send(topic, b"%d" % number) for number in range(500, 1000)]
            await asyncio.to_thread(broker.start)
            offsets = [(await delivery).offset for delivery in [*before, *during]]
        assert values_of(broker, topic) == [b"%d" % number for number in range(1000)]
        assert offsets == list(range(1000))


async def test_a_topic_that_nobody_may_make_fails_the_record(start_broker: StartBroker, topic: str) -> None:
    with start_broker({"auto.create.topics.enable": "false"}) as broker:
        create_topic(broker, f"{topic}-made")
        async with Producer(bootstrap_servers=broker.bootstrap, max_block_ms=2_000) as producer:
            await producer.send_and_wait(f"{topic}-made", b"connected")
            with pytest.raises(BrokerError) as caught:
                await producer.send(topic, b"1")
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
