"""kafka-python: producer, consumer and admin client, pure Python."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from kit.brokers.brokers import Broker
from kit.brokers.processes import until
from kit.brokers.topics import create_topic, fill, values_of
from kit.wire.batches import Rec

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python uses what the standard library deprecates
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
    from kafka.errors import (
        InvalidPartitionsError,
        MessageSizeTooLargeError,
        OffsetOutOfRangeError,
        TopicAlreadyExistsError,
        UnknownTopicOrPartitionError,
    )

NOW = int(time.time() * 1000) - 3_600_000


@pytest.fixture
def admin(broker: Broker) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def producer(broker: Broker, **settings: object) -> Any:
    return KafkaProducer(bootstrap_servers=broker.bootstrap, **settings)


def read(broker: Broker, topic: str, count: int, offset: int = 0, **settings: object) -> list[Any]:
    """So many records of a partition from an offset on."""
    settings = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 60_000, **settings}
    client = KafkaConsumer(bootstrap_servers=broker.bootstrap, **settings)
    try:
        client.assign([TopicPartition(topic, 0)])
        client.seek(TopicPartition(topic, 0), offset)
        return [next(client) for _ in range(count)]
    finally:
        client.close()


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_it_writes_with_every_kind_of_acknowledgement(broker: Broker, topic: str, acks: int | str) -> None:
    create_topic(broker, topic)
    client = producer(broker, acks=acks, enable_idempotence=False)
    futures = [client.send(topic, b"%d" % number, partition=0) for number in range(50)]
    client.flush(60)
    sent = [future.get(60) for future in futures]
    client.close()
    if acks != 0:
        assert [each.offset for each in sent] == list(range(50))
    assert [record.value for record in read(broker, topic, 50)] == [b"%d" % number for number in range(50)]


def test_it_reads_keys_headers_timestamps_and_nulls(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    client = producer(broker, compression_type="gzip")
    client.send(topic, b"value", key=b"key", headers=[("h", b"1")], timestamp_ms=NOW)
    client.send(topic, None, key=b"key", timestamp_ms=NOW + 1)
    client.flush(60)
    client.close()
    first, second = read(broker, topic, 2)
    assert (first.key, first.value, first.timestamp, list(first.headers)) == (b"key", b"value", NOW, [("h", b"1")])
    assert (second.key, second.value) == (b"key", None)


def test_an_idempotent_producer_keeps_order(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    client = producer(broker, enable_idempotence=True, acks="all", batch_size=200)
    for number in range(200):
        client.send(topic, b"%d" % number, partition=0)
    client.flush(60)
    client.close()
    assert values_of(broker, topic) == [b"%d" % number for number in range(200)]


def test_a_message_that_is_too_large_is_refused(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, configs={"max.message.bytes": "1000"})
    client = producer(broker)
    with pytest.raises(MessageSizeTooLargeError):
        client.send(topic, b"x" * 2000).get(60)
    client.close()


def test_it_reads_from_the_middle_of_a_batch(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"%d" % number) for number in range(5)], compression="gzip")
    assert [record.value for record in read(broker, topic, 2, offset=3)] == [b"3", b"4"]


def test_positions_are_found_by_time_and_at_the_ends(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"%d" % number, timestamp=NOW + 1000 * number) for number in range(5)])
    partition = TopicPartition(topic, 0)
    client = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    client.assign([partition])
    assert client.beginning_offsets([partition]) == {partition: 0}
    assert client.end_offsets([partition]) == {partition: 5}
    found = client.offsets_for_times({partition: NOW + 1500})[partition]
    assert (found.offset, found.timestamp) == (2, NOW + 2000)
    assert client.offsets_for_times({partition: NOW + 9999})[partition] is None
    client.close()


def test_a_group_goes_on_where_it_committed(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"%d" % number) for number in range(6)])

    def some(count: int) -> list[bytes]:
        client = KafkaConsumer(
            topic, bootstrap_servers=broker.bootstrap, group_id=f"group-{topic}", auto_offset_reset="earliest",
            enable_auto_commit=False, max_poll_records=count, consumer_timeout_ms=60_000,
        )  # fmt: skip
        values = [next(client).value for _ in range(count)]
        client.commit()
        client.close()
        return values

    assert some(2) == [b"0", b"1"]
    assert some(4) == [b"2", b"3", b"4", b"5"]


def test_topics_are_created_described_grown_and_deleted(admin: Any, topic: str) -> None:
    created = admin.create_topics(
        {topic: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "1000"}}},
        wait_for_metadata=True,
    )
    assert [row["num_partitions"] for row in created["topics"]] == [2]
    assert topic in admin.list_topics()
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1}})
    admin.create_partitions({topic: 3})
    until(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 3, "three partitions")
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: 1})
    admin.delete_topics([topic])
    until(lambda: topic not in admin.list_topics(), "the topic is gone")
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic])


def test_settings_are_described_and_changed(admin: Any, broker: Broker, topic: str) -> None:
    create_topic(broker, topic, configs={"retention.ms": "1000"})

    def modified() -> dict[str, str]:
        found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        return {key: row["value"] for key, row in found["topic"][topic].items()}

    assert modified()["retention.ms"] == "1000"
    changed = {"retention.ms": ("DELETE", None), "segment.ms": ("SET", "60000")}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, changed)])
    until(lambda: "retention.ms" not in modified() and modified()["segment.ms"] == "60000", "the settings changed")
    every = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
    assert every["topic"][topic]["max.message.bytes"]["value"] == "1048588"


def test_offsets_are_listed_and_records_deleted(admin: Any, broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"%d" % at, timestamp=NOW + time) for at, time in enumerate((0, 5000, 2000))])
    partition = TopicPartition(topic, 0)

    def offset(spec: object) -> int:
        found: int = admin.list_partition_offsets({partition: spec})[partition].offset
        return found

    assert (offset(OffsetSpec.EARLIEST), offset(OffsetSpec.LATEST), offset(OffsetSpec.MAX_TIMESTAMP)) == (0, 3, 1)
    assert admin.delete_records({partition: 2})[partition]["low_watermark"] == 2
    assert offset(OffsetSpec.EARLIEST) == 2
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({partition: 50})


def test_the_cluster_and_its_disks_are_described(admin: Any, broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"x" * 500)])
    cluster = admin.describe_cluster()
    assert [row["port"] for row in cluster["brokers"]] == [broker.port]
    (disks,) = admin.describe_log_dirs({topic: [0]})
    (directory,) = disks["log_dirs"]
    assert directory["error_code"] == 0
    sizes = [
        part["partition_size"] for row in directory["topics"] for part in row["partitions"] if row["name"] == topic
    ]
    assert sizes[0] > 500
