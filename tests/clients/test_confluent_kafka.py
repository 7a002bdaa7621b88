"""confluent-kafka (librdkafka from Python): producer and consumer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from kit.brokers.brokers import Broker
from kit.brokers.topics import create_topic, fill, records_of, values_of
from kit.wire.batches import Rec

NOW = int(time.time() * 1000) - 3_600_000
SECONDS = 60.0


def produce(broker: Broker, topic: str, values: list[bytes], **settings: object) -> list[Message]:
    """The delivery reports of these values, in order."""
    reports: list[Message] = []
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, **{k.replace("_", "."): v for k, v in settings.items()}}
    )
    for value in values:
        producer.produce(topic, value, key=b"k", partition=0, on_delivery=lambda _, message: reports.append(message))
    assert producer.flush(SECONDS) == 0
    return reports


@contextmanager
def consumer(broker: Broker, **settings: object) -> Iterator[Any]:
    configured = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    configured |= {key.replace("_", "."): value for key, value in settings.items()}
    client = Consumer({"bootstrap.servers": broker.bootstrap, "enable.partition.eof": True, **configured})
    try:
        yield client
    finally:
        client.close()


def read_to_end(client: Any, partitions: int = 1) -> list[Message]:
    """Messages until every partition said that its end is reached."""
    messages: list[Message] = []
    while partitions:
        message = client.poll(SECONDS)
        assert message is not None, f"no answer within {SECONDS} seconds"
        if message.error() is None:
            messages.append(message)
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            partitions -= 1
    return messages


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_it_writes_with_every_kind_of_acknowledgement(broker: Broker, topic: str, acks: str) -> None:
    create_topic(broker, topic)
    values = [b"%d" % number for number in range(100)]
    reports = produce(broker, topic, values, acks=acks)
    assert [report.error() for report in reports] == [None] * 100
    if acks != "0":
        assert [report.offset() for report in reports] == list(range(100))
    with consumer(broker) as client:
        client.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found: list[bytes | None] = []
        while len(found) < len(values):  # without acknowledgement the end may come in between
            found += [message.value() for message in read_to_end(client)]
    assert found == values


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_it_reads_what_it_compressed(broker: Broker, topic: str, codec: str) -> None:
    create_topic(broker, topic)
    values = [b"%d " % number + b"x" * 200 for number in range(200)]
    produce(broker, topic, values, compression_type=codec, linger_ms=20)
    assert values_of(broker, topic) == values
    with consumer(broker) as client:
        client.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert [message.value() for message in read_to_end(client)] == values


def test_an_idempotent_producer_keeps_order_and_numbers_its_batches(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    values = [b"%d" % number for number in range(500)]
    reports = produce(broker, topic, values, enable_idempotence=True, linger_ms=0, batch_num_messages=7)
    assert [report.offset() for report in reports] == list(range(500))
    assert values_of(broker, topic) == values


def test_headers_keys_timestamps_and_nulls_come_back(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    headers: list[tuple[str, str | bytes | None]] = [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None)]
    producer.produce(topic, b"value", b"key", timestamp=NOW, headers=headers)
    producer.produce(topic, None, b"key", timestamp=NOW + 1)
    producer.produce(topic, b"", None, timestamp=NOW + 2)
    assert producer.flush(SECONDS) == 0
    with consumer(broker) as client:
        client.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        first, second, third = read_to_end(client)
    assert (first.key(), first.value(), first.timestamp()[1], first.headers()) == (b"key", b"value", NOW, headers)
    assert (second.key(), second.value(), second.timestamp()[1]) == (b"key", None, NOW + 1)
    assert (third.key(), third.value()) == (None, b"")


def test_a_message_that_is_too_large_is_refused(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, configs={"max.message.bytes": "1000"})
    (report,) = produce(broker, topic, [b"x" * 2000])
    error = report.error()
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert values_of(broker, topic) == []


def test_a_record_without_key_is_refused_by_a_compacted_topic(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, configs={"cleanup.policy": "compact"})
    reports: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"no key", on_delivery=lambda error, _: reports.append(error))
    assert producer.flush(SECONDS) == 0
    assert reports[0] is not None
    assert reports[0].code() == KafkaError.INVALID_RECORD


def test_offsets_are_found_by_time(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"%d" % number, timestamp=NOW + 1000 * number) for number in range(5)])
    with consumer(broker) as client:
        for timestamp, offset in ((NOW, 0), (NOW + 1500, 2), (NOW + 4000, 4)):
            (found,) = client.offsets_for_times([TopicPartition(topic, 0, timestamp)], timeout=SECONDS)
            assert found.offset == offset
        (beyond,) = client.offsets_for_times([TopicPartition(topic, 0, NOW + 9999)], timeout=SECONDS)
        assert beyond.offset == -1
        assert client.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS) == (0, 5)


def test_reading_starts_in_the_middle_of_a_batch(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"%d" % number) for number in range(10)], compression="zstd")
    with consumer(broker) as client:
        client.assign([TopicPartition(topic, 0, 7)])
        assert [message.value() for message in read_to_end(client)] == [b"7", b"8", b"9"]


def test_reading_beyond_the_end_follows_the_reset_policy(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"a"), Rec(b"b")])
    with consumer(broker) as client:
        client.assign([TopicPartition(topic, 0, 99)])
        assert [message.value() for message in read_to_end(client)] == [b"a", b"b"]
    with consumer(broker, auto_offset_reset="error") as client:
        client.assign([TopicPartition(topic, 0, 99)])
        assert client.poll(SECONDS).error().code() == KafkaError._AUTO_OFFSET_RESET


def test_many_partitions_are_read_in_one_session(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, 12)
    for partition in range(12):
        fill(broker, topic, [Rec(b"%d" % partition)], partition)
    with consumer(broker) as client:
        client.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(12)])
        assert {message.value() for message in read_to_end(client, 12)} == {b"%d" % number for number in range(12)}
        fill(broker, topic, [Rec(b"later")], 5)
        message = client.poll(SECONDS)
        assert (message.value(), message.partition()) == (b"later", 5)


def test_a_group_goes_on_where_it_committed(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"%d" % number) for number in range(6)])
    group = f"group-{topic}"
    with consumer(broker, group_id=group) as client:
        client.subscribe([topic])
        first = [client.poll(SECONDS) for _ in range(3)]
        assert [message.value() for message in first] == [b"0", b"1", b"2"]
        client.commit(first[-1], asynchronous=False)
    with consumer(broker, group_id=group) as client:
        client.subscribe([topic])
        assert [message.value() for message in read_to_end(client)] == [b"3", b"4", b"5"]
        (committed,) = client.committed([TopicPartition(topic, 0)], timeout=SECONDS)
        assert committed.offset == 3


def test_an_unknown_topic_is_told(broker: Broker, topic: str) -> None:
    with consumer(broker, allow_auto_create_topics=False) as client:
        with pytest.raises(KafkaException) as raised:
            client.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS)
        assert raised.value.args[0].code() in (
            KafkaError._UNKNOWN_PARTITION,
            KafkaError._UNKNOWN_TOPIC,
            KafkaError.UNKNOWN_TOPIC_OR_PART,
        )


def test_writing_to_an_unknown_topic_creates_it(broker: Broker, topic: str) -> None:
    (report,) = produce(broker, topic, [b"first"])
    assert report.error() is None
    assert [record.value for record in records_of(broker, topic)] == [b"first"]
