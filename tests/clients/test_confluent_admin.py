"""confluent-kafka's AdminClient: topics, settings, offsets, records, the cluster."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from kit.brokers.brokers import Broker
from kit.brokers.processes import until
from kit.brokers.topics import create_topic, fill, values_of
from kit.wire.batches import Rec

NOW = int(time.time() * 1000) - 3_600_000
Position: Any = OffsetSpec  # its class methods have no types


@pytest.fixture
def admin(broker: Broker) -> Any:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def done(futures: dict[Any, Any]) -> Any:
    """The result of the only future of an operation."""
    (future,) = futures.values()
    return future.result(60)


def refusal(futures: dict[Any, Any]) -> KafkaError:
    """The error of the only future of an operation."""
    with pytest.raises(KafkaException) as raised:
        done(futures)
    error: KafkaError = raised.value.args[0]
    return error


def setting(admin: Any, kind: ResourceType, name: str, key: str) -> Any:
    return done(admin.describe_configs([ConfigResource(kind, name)]))[key]


def test_a_topic_is_created_described_and_deleted(admin: Any, broker: Broker, topic: str) -> None:
    done(admin.create_topics([NewTopic(topic, 3, 1, config={"retention.ms": "1000"})]))
    until(lambda: topic in admin.list_topics(timeout=60).topics, "the topic is listed")
    described = done(admin.describe_topics(TopicCollection([topic])))
    assert described.name == topic
    assert not described.is_internal
    assert [partition.id for partition in described.partitions] == [0, 1, 2]
    assert all(partition.leader.id == 1 for partition in described.partitions)
    assert all([replica.id for replica in partition.isr] == [1] for partition in described.partitions)
    assert refusal(admin.create_topics([NewTopic(topic, 1, 1)])).code() == KafkaError.TOPIC_ALREADY_EXISTS
    done(admin.delete_topics([topic]))
    until(lambda: topic not in admin.list_topics(timeout=60).topics, "the topic is gone")
    assert refusal(admin.delete_topics([topic])).code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_wrong_topics_are_refused(admin: Any, topic: str) -> None:
    def refused(*arguments: Any, **more: Any) -> int:
        code: int = refusal(admin.create_topics([NewTopic(*arguments, **more)])).code()
        return code

    assert refused("a b", 1, 1) == KafkaError.TOPIC_EXCEPTION
    assert refused(topic, 1, 3) == KafkaError.INVALID_REPLICATION_FACTOR
    assert refused(topic, 1, 1, config={"no.such": "1"}) == KafkaError.INVALID_CONFIG
    assert refused(topic, 1, 1, config={"retention.ms": "soon"}) == KafkaError.INVALID_CONFIG
    done(admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True))
    assert topic not in admin.list_topics(timeout=60).topics


def test_partitions_are_added_and_never_taken_away(admin: Any, broker: Broker, topic: str) -> None:
    create_topic(broker, topic, 2)
    done(admin.create_partitions([NewPartitions(topic, 4)]))
    until(lambda: len(admin.list_topics(topic, timeout=60).topics[topic].partitions) == 4, "four partitions")
    assert refusal(admin.create_partitions([NewPartitions(topic, 3)])).code() == KafkaError.INVALID_PARTITIONS
    unknown = admin.create_partitions([NewPartitions(topic + "x", 3)])
    assert refusal(unknown).code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topics_settings_have_defaults_sources_and_synonyms(admin: Any, broker: Broker, topic: str) -> None:
    create_topic(broker, topic, configs={"retention.ms": "5000"})
    settings = done(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    retention, segment = settings["retention.ms"], settings["segment.bytes"]
    assert (retention.value, retention.source) == ("5000", ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    assert not retention.is_default
    assert (segment.value, segment.source) == ("1073741824", ConfigSource.DEFAULT_CONFIG.value)
    assert segment.is_default
    assert "log.segment.bytes" in segment.synonyms
    assert len(settings) >= 30


def test_a_topics_settings_are_changed(admin: Any, broker: Broker, topic: str) -> None:
    create_topic(broker, topic, configs={"cleanup.policy": "compact"})

    def change(key: str, value: str | None, operation: Any) -> None:
        entry = ConfigEntry(key, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        done(admin.incremental_alter_configs([resource]))

    def value(key: str) -> str:
        text: str = setting(admin, ResourceType.TOPIC, topic, key).value
        return text

    change("retention.ms", "7000", AlterConfigOpType.SET)
    until(lambda: value("retention.ms") == "7000", "retention is set")
    change("cleanup.policy", "delete", AlterConfigOpType.APPEND)
    until(lambda: value("cleanup.policy") == "compact,delete", "a policy is appended")
    change("cleanup.policy", "compact", AlterConfigOpType.SUBTRACT)
    until(lambda: value("cleanup.policy") == "delete", "a policy is subtracted")
    change("retention.ms", None, AlterConfigOpType.DELETE)
    until(lambda: value("retention.ms") == "604800000", "retention is the default again")
    with pytest.raises(KafkaException):
        change("retention.ms", "soon", AlterConfigOpType.SET)


def test_replacing_settings_forgets_the_others(admin: Any, broker: Broker, topic: str) -> None:
    create_topic(broker, topic, configs={"retention.ms": "5000"})
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.ms": "60000"})
    with pytest.warns(DeprecationWarning, match="incremental_alter_configs"):
        done(admin.alter_configs([resource]))
    until(lambda: setting(admin, ResourceType.TOPIC, topic, "segment.ms").value == "60000", "segment.ms is set")
    assert setting(admin, ResourceType.TOPIC, topic, "retention.ms").value == "604800000"


def test_the_brokers_settings_are_described_and_changed(admin: Any) -> None:
    settings = done(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
    assert settings["num.partitions"].value == "1"
    assert settings["num.partitions"].is_read_only
    assert settings["ssl.keystore.password"].is_sensitive
    assert settings["ssl.keystore.password"].value is None
    assert len(settings) > 200

    def change(value: str | None, operation: Any) -> None:
        entry = ConfigEntry("log.cleaner.backoff.ms", value, incremental_operation=operation)
        done(admin.incremental_alter_configs([ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])]))

    def seen() -> tuple[str, int]:
        entry = setting(admin, ResourceType.BROKER, "1", "log.cleaner.backoff.ms")
        return entry.value, entry.source

    change("20000", AlterConfigOpType.SET)
    until(lambda: seen() == ("20000", ConfigSource.DYNAMIC_BROKER_CONFIG.value), "the broker's setting changed")
    change(None, AlterConfigOpType.DELETE)
    until(lambda: seen() == ("15000", ConfigSource.DEFAULT_CONFIG.value), "the broker's setting is the default again")


def test_offsets_are_listed_by_every_kind_of_position(admin: Any, broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"%d" % at, timestamp=NOW + time) for at, time in enumerate((0, 5000, 2000))])
    partition = TopicPartition(topic, 0)

    def offset(spec: Any) -> tuple[int, int]:
        found = done(admin.list_offsets({partition: spec}))
        return found.offset, found.timestamp

    assert offset(Position.earliest())[0] == 0
    assert offset(Position.latest())[0] == 3
    assert offset(Position.max_timestamp()) == (1, NOW + 5000)
    assert offset(Position.for_timestamp(NOW + 1)) == (1, NOW + 5000)
    assert offset(Position.for_timestamp(NOW + 9000))[0] == -1


def test_records_are_deleted_from_the_front(admin: Any, broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"%d" % number) for number in range(5)])
    assert done(admin.delete_records([TopicPartition(topic, 0, 3)])).low_watermark == 3
    assert done(admin.list_offsets({TopicPartition(topic, 0): Position.earliest()})).offset == 3
    assert refusal(admin.delete_records([TopicPartition(topic, 0, 99)])).code() == KafkaError.OFFSET_OUT_OF_RANGE
    assert done(admin.delete_records([TopicPartition(topic, 0, -1)])).low_watermark == 5
    fill(broker, topic, [Rec(b"next")])
    assert done(admin.list_offsets({TopicPartition(topic, 0): Position.latest()})).offset == 6


def test_the_cluster_is_described(admin: Any, broker: Broker) -> None:
    described = admin.describe_cluster(request_timeout=60).result(60)
    assert len(described.cluster_id) == 22
    assert described.controller.id == 1
    assert [(node.id, node.port) for node in described.nodes] == [(1, broker.port)]


def test_compaction_settings_take_effect_without_a_restart(admin: Any, broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"no key")])
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    done(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]))

    def refused() -> bool:
        try:
            fill(broker, topic, [Rec(b"no key")])
        except AssertionError as error:
            return "invalid_record" in str(error)
        return False

    until(refused, "a record without key is refused")
    assert set(values_of(broker, topic)) == {b"no key"}
