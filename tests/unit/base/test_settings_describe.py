"""The answers of DescribeConfigs; the expectations were taken from Kafka 4.3.1 in the same state."""

import pytest

from ottla.base.settings import (
    BrokerValues,
    ConfigSource,
    Described,
    ValueKind,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_created_topic,
    describe_group,
    describe_topic,
)

STATIC = {
    "node.id": "7",
    "log.retention.hours": "1",
    "log.retention.minutes": "30",
    "ssl.keystore.password": "secret",
    "listener.name.plaintext.max.connections": "50",
    "controller.performance.sample.period.ms": "50000",
    "log.cleanup.policy": "compact, delete",
}
VALUES = BrokerValues(
    STATIC,
    dynamic={
        "log.roll.ms": " 70000 ",
        "log.cleaner.io.max.bytes.per.second": "12345678",
        "nope": "x",
        "leader.replication.throttled.rate": "5",
        "listener.name.plaintext.ssl.keystore.password": "secret",
        "compression.type": "lz4",
    },
    dynamic_default={"compression.type": "gzip", "min.insync.replicas": "1"},
)


def one(described: list[Described], name: str) -> Described:
    (found,) = [item for item in described if item.name == name]
    return found


Facts = tuple[str | None, int, int, bool, bool, tuple[tuple[str, str | None, int], ...]]


def facts(item: Described) -> Facts:
    return item.value, item.source, item.kind, item.read_only, item.sensitive, item.synonyms


def shown(
    value: str | None,
    source: int,
    kind: int,
    *synonyms: tuple[str, str | None, int],
    read_only: bool = False,
    sensitive: bool = False,
) -> Facts:
    return value, source, kind, read_only, sensitive, synonyms


BROKER = {
    "compression.type": shown(
        "lz4",
        2,
        2,
        ("compression.type", "lz4", 2),
        ("compression.type", "gzip", 3),
        ("compression.type", "producer", 5),
    ),
    "log.retention.ms": shown(None, 5, 5),
    "log.retention.minutes": shown(
        "30",
        4,
        3,
        ("log.retention.minutes", "30", 4),
        ("log.retention.hours", "1", 4),
        ("log.retention.hours", "168", 5),
        read_only=True,
    ),
    "log.retention.hours": shown(
        "1", 4, 3, ("log.retention.hours", "1", 4), ("log.retention.hours", "168", 5), read_only=True
    ),
    "log.roll.ms": shown("70000", 2, 5, ("log.roll.ms", " 70000 ", 2), ("log.roll.hours", "168", 5)),
    "log.cleaner.io.max.bytes.per.second": shown(
        "1.2345678E7",
        2,
        6,
        ("log.cleaner.io.max.bytes.per.second", "12345678", 2),
        ("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308", 5),
    ),
    "log.cleanup.policy": shown(
        "compact,delete", 4, 7, ("log.cleanup.policy", "compact, delete", 4), ("log.cleanup.policy", "delete", 5)
    ),
    "broker.id": shown("7", 4, 3, ("broker.id", "7", 4), ("broker.id", "-1", 5), read_only=True),
    "ssl.keystore.password": shown(None, 4, 9, ("ssl.keystore.password", None, 4), sensitive=True),
    "nope": shown(None, 2, 0, ("nope", None, 2), read_only=True, sensitive=True),
    "leader.replication.throttled.rate": shown("5", 2, 5, ("leader.replication.throttled.rate", "5", 2)),
    "listener.name.plaintext.max.connections": shown(
        "50",
        4,
        3,
        ("listener.name.plaintext.max.connections", "50", 4),
        ("max.connections", "2147483647", 5),
        read_only=True,
    ),
    "listener.name.plaintext.ssl.keystore.password": shown(
        None,
        2,
        9,
        ("listener.name.plaintext.ssl.keystore.password", None, 2),
        ("ssl.keystore.password", None, 4),
        read_only=True,
        sensitive=True,
    ),
    "controller.performance.sample.period.ms": shown(
        "50000",
        4,
        5,
        ("controller.performance.sample.period.ms", "50000", 4),
        ("controller.performance.sample.period.ms", "60000", 5),
        read_only=True,
    ),
}


@pytest.mark.parametrize("name", BROKER)
def test_a_broker_setting_is_described_with_its_source_and_synonyms(name: str) -> None:
    assert facts(one(describe_broker(VALUES), name)) == BROKER[name]


def test_internal_settings_are_not_shown_until_somebody_sets_them() -> None:
    shown = {item.name for item in describe_broker(BrokerValues())}
    assert "controller.performance.sample.period.ms" not in shown
    assert "leader.replication.throttled.rate" not in shown
    assert len(shown) == 345


def test_no_answer_holds_a_secret() -> None:
    for item in (
        *describe_broker(VALUES),
        *describe_broker_defaults(BrokerValues({}, {}, {"sasl.jaas.config": "secret"})),
    ):
        assert item.value is None or "secret" not in item.value
        assert not any(place.value is not None and "secret" in place.value for place in item.synonyms)


def test_the_defaults_of_all_brokers_are_only_what_was_set_for_all() -> None:
    described = describe_broker_defaults(VALUES)
    assert {item.name: facts(item) for item in described} == {
        "compression.type": shown("gzip", 3, 2, ("compression.type", "gzip", 3)),
        "min.insync.replicas": shown("1", 3, 3, ("min.insync.replicas", "1", 3)),
    }


def test_a_topic_shows_its_own_value_before_the_brokers() -> None:
    overrides = {"cleanup.policy": "delete,delete", "retention.ms": " 7 ", "min.cleanable.dirty.ratio": "1e-1"}
    described = describe_topic(VALUES, overrides)
    assert len(described) == 33
    assert facts(one(described, "cleanup.policy")) == shown(
        "delete",
        1,
        7,
        ("cleanup.policy", "delete", 1),
        ("log.cleanup.policy", "compact, delete", 4),
        ("log.cleanup.policy", "delete", 5),
    )
    # log.retention.ms itself is set nowhere, and Kafka stops at the first name it was asked for
    assert facts(one(described, "retention.ms")) == shown("7", 1, 5, ("retention.ms", "7", 1))
    assert one(described, "min.cleanable.dirty.ratio").value == "0.1"


def test_a_topic_without_overrides_shows_the_brokers_values() -> None:
    described = describe_topic(VALUES, {})
    assert facts(one(described, "compression.type")) == BROKER["compression.type"]
    assert facts(one(described, "retention.ms")) == shown("1800000", 5, 5)
    assert facts(one(described, "segment.ms")) == shown(
        "70000", 2, 5, ("log.roll.ms", " 70000 ", 2), ("log.roll.hours", "168", 5)
    )
    assert facts(one(described, "remote.storage.enable")) == shown("false", 5, 1)
    assert "internal.segment.bytes" not in {item.name for item in described}


def test_an_internal_override_of_a_topic_is_shown() -> None:
    described = describe_topic(BrokerValues(), {"internal.segment.bytes": "100"})
    assert facts(one(described, "internal.segment.bytes")) == shown("100", 1, 3, ("internal.segment.bytes", "100", 1))
    assert one(described, "segment.bytes").value == "1073741824"


def test_a_stored_override_that_is_unknown_is_treated_as_a_secret() -> None:
    item = one(describe_topic(BrokerValues(), {"nope": "x"}), "nope")
    assert (item.value, item.sensitive, item.kind) == (None, True, ValueKind.UNKNOWN)


def test_a_created_topic_shows_texts_as_given_and_follows_chains_to_their_source() -> None:
    described = describe_created_topic(VALUES, {"flush.ms": " 5 "})
    assert len(described) == 33
    assert (one(described, "flush.ms").value, one(described, "flush.ms").source) == (
        " 5 ",
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
    )
    retention = one(described, "retention.ms")
    assert (retention.value, retention.source, retention.is_default) == (
        "1800000",
        ConfigSource.STATIC_BROKER_CONFIG,
        False,
    )
    assert one(described, "compression.type").source is ConfigSource.DYNAMIC_BROKER_CONFIG
    assert one(described, "min.insync.replicas").source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    assert one(described, "preallocate").is_default
    assert all(item.synonyms == () for item in described)


def test_a_group_shows_its_own_value_before_the_brokers() -> None:
    described = describe_group(
        BrokerValues(), {"consumer.session.timeout.ms": "50000", "share.isolation.level": "read_committed"}
    )
    assert len(described) == 17
    assert facts(one(described, "consumer.session.timeout.ms")) == shown(
        "50000", 8, 3, ("consumer.session.timeout.ms", "50000", 8), ("group.consumer.session.timeout.ms", "45000", 5)
    )
    assert facts(one(described, "consumer.heartbeat.interval.ms")) == shown(
        "5000", 5, 3, ("group.consumer.heartbeat.interval.ms", "5000", 5)
    )
    assert facts(one(described, "share.isolation.level")) == shown(
        "read_committed",
        8,
        2,
        ("share.isolation.level", "read_committed", 8),
        ("share.isolation.level", "read_uncommitted", 5),
    )
    assert facts(one(described, "share.auto.offset.reset")) == shown(
        "latest", 5, 2, ("share.auto.offset.reset", "latest", 5)
    )


def test_a_metrics_subscription_shows_what_it_sets_and_the_defaults() -> None:
    described = describe_client_metrics({"interval.ms": "1000"})
    assert [item.name for item in described] == ["interval.ms", "match", "metrics"]
    assert (described[0].value, described[0].source) == ("1000", ConfigSource.CLIENT_METRICS_CONFIG)
    assert facts(described[1]) == shown("", 5, 7)


def test_every_answer_carries_our_own_sentence() -> None:
    assert all(item.documentation for item in describe_broker(BrokerValues()))
    assert all(item.documentation for item in describe_topic(BrokerValues(), {}))
