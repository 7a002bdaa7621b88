"""What a client may change, and the sentence for the rest; the expectations are the answers of Kafka 4.3.1."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.settings import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    TOPIC_SETTINGS,
    BrokerValues,
    InvalidSetting,
    Operation,
    alter,
    check_alterations,
    check_broker_dynamic,
    check_client_metrics,
    check_group_overrides,
    check_topic_overrides,
)

THROTTLED = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
CONFIG, REQUEST = ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x", "1", "Unknown topic config name: x"),
        ("message.format.version", "3.0", "Unknown topic config name: message.format.version"),
        ("retention.ms", "x", "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ("retention.ms", None, "Null value not supported for topic configs: retention.ms"),
        ("segment.bytes", "1", "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576"),
        (
            "preallocate",
            "yes",
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
        ),
        (
            "cleanup.policy",
            "delete,x",
            "Invalid value x for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ("cleanup.policy", "compact,,delete", "Configuration 'cleanup.policy' values must not be empty."),
        (
            "compression.type",
            "none",
            "Invalid value none for configuration compression.type: String must be one of: "
            "uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "min.cleanable.dirty.ratio",
            "2",
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "leader.replication.throttled.replicas",
            "1:1,*",
            "Invalid value [1:1, *] for configuration leader.replication.throttled.replicas: "
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following "
            f"format: {THROTTLED}",
        ),
        (
            "remote.storage.enable",
            "true",
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
    ],
)
def test_a_topic_is_refused_in_kafkas_words(name: str, text: str | None, message: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        check_topic_overrides({name: text})
    assert (str(refused.value), refused.value.error) == (message, CONFIG)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", " 5 "),
        ("retention.bytes", "-5"),
        ("cleanup.policy", ""),
        ("cleanup.policy", " compact , delete "),
        ("cleanup.policy", "compact,compact"),
        ("preallocate", "TRUE"),
        ("compression.gzip.level", "-1"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "1:1,2:2"),
        ("min.insync.replicas", "1000"),
        ("internal.segment.bytes", "100"),
        ("local.retention.ms", "5"),
    ],
)
def test_a_topic_may_override_what_kafka_allows(name: str, text: str) -> None:
    check_topic_overrides({name: text})


def test_the_shortest_compaction_lag_may_not_exceed_the_longest_wherever_the_two_come_from() -> None:
    message = r"conflict topic config setting min.compaction.lag.ms \(10\) > max.compaction.lag.ms \(5\)"
    with pytest.raises(InvalidSetting, match=message):
        check_topic_overrides({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})
    broker = BrokerValues({"log.cleaner.max.compaction.lag.ms": "5"})
    with pytest.raises(InvalidSetting, match=message):
        check_topic_overrides({"min.compaction.lag.ms": "10"}, broker)


@pytest.mark.parametrize(
    ("current", "operation", "operand", "result"),
    [
        (None, Operation.SET, "compact", "compact"),
        ("compact", Operation.DELETE, None, None),
        (None, Operation.APPEND, "compact", "delete,compact"),
        ("compact", Operation.APPEND, "delete,compact", "compact,delete"),
        (None, Operation.SUBTRACT, "delete", ""),
        ("compact,delete", Operation.SUBTRACT, "compact,other", "delete"),
        ("", Operation.APPEND, "compact", "compact"),
    ],
)
def test_a_list_is_set_deleted_and_changed_item_by_item(
    current: str | None, operation: Operation, operand: str | None, result: str | None
) -> None:
    assert alter("cleanup.policy", TOPIC_SETTINGS["cleanup.policy"], current, operation, operand) == result


def test_only_lists_are_changed_item_by_item() -> None:
    for name, setting in (
        ("retention.ms", TOPIC_SETTINGS["retention.ms"]),
        ("nope", None),
        ("metrics", CLIENT_METRICS_SETTINGS["metrics"]),
    ):
        with pytest.raises(InvalidSetting, match=f"Can't APPEND to key {name} because its type is not LIST."):
            alter(name, setting, None, Operation.APPEND, "1")
    with pytest.raises(InvalidSetting, match=r"Can't SUBTRACT to key retention.ms because its type is not LIST\."):
        alter("retention.ms", TOPIC_SETTINGS["retention.ms"], None, Operation.SUBTRACT, "1")


def test_no_name_may_be_altered_twice_or_to_null() -> None:
    check_alterations([("a", Operation.DELETE, None), ("b", Operation.SET, "1")])
    with pytest.raises(InvalidSetting, match="Error due to duplicate config keys") as refused:
        check_alterations([("a", Operation.SET, "1"), ("a", Operation.DELETE, None)])
    assert refused.value.error is REQUEST
    with pytest.raises(InvalidSetting, match="Null value not supported for : a, b") as refused:
        check_alterations([("a", Operation.SET, None), ("b", Operation.APPEND, None)])
    assert refused.value.error is REQUEST


SECURITY = "These security configs can be dynamically updated only per-listener using the listener prefix"
ONE_BROKER = "Cannot update these configs at default cluster level, broker id must be specified"
UPDATE = (
    "Invalid value org.apache.kafka.common.config.ConfigException: {} for configuration Invalid dynamic configuration"
)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"log.retention.ms": "x"}, "Invalid value x for configuration log.retention.ms: Not a number of type LONG"),
        (
            {"log.cleaner.threads": "x", "log.retention.hours": "1", "node.id": "1"},
            "Cannot update these configs dynamically: [log.retention.hours, node.id]",
        ),
        ({"ssl.keystore.location": "/x"}, f"{SECURITY}: [ssl.keystore.location]"),
        (
            {"listener.name.a.max.connections": "x"},
            "Invalid value x for configuration max.connections: Not a number of type INT",
        ),
        ({"log.roll.ms": "-1"}, "requirement failed: log.roll.ms must be greater than or equal to 1"),
        (
            {"max.connections.per.ip": "0"},
            "requirement failed: max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
            "property is set.",
        ),
        (
            {"num.io.threads": "100"},
            UPDATE.format(
                "Dynamic thread count update validation failed for num.io.threads=100, "
                "value should not be greater than double the current value 8"
            ),
        ),
        (
            {"num.io.threads": "1"},
            UPDATE.format(
                "Dynamic thread count update validation failed for num.io.threads=1, "
                "value should be at least half the current value 8"
            ),
        ),
        (
            {"log.cleaner.threads": "5"},
            UPDATE.format("Log cleaner threads cannot be increased to more than double the current value 1"),
        ),
        ({"max.connection.creation.rate": "0"}, UPDATE.format("Invalid max.connection.creation.rate 0")),
    ],
)
@pytest.mark.parametrize("per_broker", [True, False])
def test_a_broker_is_refused_in_kafkas_words(texts: dict[str, str], message: str, per_broker: bool) -> None:
    with pytest.raises(InvalidSetting) as refused:
        check_broker_dynamic(texts, per_broker, BrokerValues())
    assert (str(refused.value), refused.value.error) == (message, REQUEST)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("listeners", "PLAINTEXT://:1"),
        ("ssl.protocol", "TLSv1.3"),
        ("listener.name.a.ssl.keystore.type", "JKS"),
        ("listener.name.a.nope", "x"),
    ],
)
def test_what_belongs_to_one_broker_cannot_be_a_default_of_all(name: str, text: str) -> None:
    check_broker_dynamic({name: text}, True, BrokerValues())
    with pytest.raises(InvalidSetting) as refused:
        check_broker_dynamic({name: text}, False, BrokerValues())
    assert (str(refused.value), refused.value.error) == (f"{ONE_BROKER}: [{name}]", REQUEST)


@pytest.mark.parametrize(
    "texts",
    [
        {"listener.name.a.ssl.keystore.location": "/x"},
        {"sasl.jaas.config": "x"},
        {"listener.security.protocol.map": "PLAINTEXT:SSL"},
        {"listeners": "SSL://:9092"},
    ],
)
def test_what_would_leave_a_guarded_listener_open_cannot_be_changed_to_either(texts: dict[str, str]) -> None:
    with pytest.raises(InvalidSetting, match="This version speaks neither TLS nor SASL") as refused:
        check_broker_dynamic(texts, True, BrokerValues({"listeners": "PLAINTEXT://:9092"}))
    assert refused.value.error == REQUEST


@pytest.mark.parametrize(
    "texts",
    [
        {"log.retention.ms": "5"},
        {"num.io.threads": "16"},
        {"num.network.threads": "1"},
        {"leader.replication.throttled.rate": "5"},
        {"listener.name.a.max.connections": "5"},
        {"unknown.to.us": "5"},
        {"log.cleanup.policy": ""},
    ],
)
@pytest.mark.parametrize("per_broker", [True, False])
def test_a_broker_takes_what_kafka_takes(texts: dict[str, str], per_broker: bool) -> None:
    check_broker_dynamic(texts, per_broker, BrokerValues())


def test_every_read_only_setting_is_refused_while_the_broker_runs() -> None:
    for name, setting in BROKER_SETTINGS.items():
        if setting.scope.name == "READ_ONLY":
            with pytest.raises(InvalidSetting, match="Cannot update these configs dynamically"):
                check_broker_dynamic({name: setting.default or "1"}, True, BrokerValues())


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"nope": "1"}, "Unknown group config name: nope"),
        (
            {"consumer.session.timeout.ms": "1"},
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            {"consumer.heartbeat.interval.ms": "90000"},
            "consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms",
        ),
        (
            {"share.delivery.count.limit": "20"},
            "share.delivery.count.limit must be less than or equal to group.share.max.delivery.count.limit",
        ),
        (
            {"streams.num.standby.replicas": "5"},
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        (
            {"share.isolation.level": "x"},
            "Invalid value x for configuration share.isolation.level: String must be one of: "
            "read_committed, read_uncommitted",
        ),
        (
            {"share.auto.offset.reset": "x"},
            "Invalid value x for configuration share.auto.offset.reset: Invalid value `x` for configuration "
            "share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format "
            "'by_duration:<PnDTnHnMn.nS>'.",
        ),
    ],
)
def test_a_group_is_refused_in_kafkas_words(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        check_group_overrides(overrides, BrokerValues())
    assert (str(refused.value), refused.value.error) == (message, CONFIG)


def test_a_group_needs_a_session_longer_than_its_heartbeat() -> None:
    broker = BrokerValues({"group.consumer.max.heartbeat.interval.ms": "60000"})
    check_group_overrides({"consumer.session.timeout.ms": "50000"}, broker)
    with pytest.raises(InvalidSetting, match=r"consumer.session.timeout.ms must be greater than consumer.heart"):
        check_group_overrides({"consumer.heartbeat.interval.ms": "45000"}, broker)


@pytest.mark.parametrize(
    ("overrides", "message", "error"),
    [
        ({"nope": "1"}, "Unknown client metrics configuration: nope", REQUEST),
        (
            {"interval.ms": "5"},
            "Invalid value 5 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
            REQUEST,
        ),
        ({"interval.ms": "x"}, "Invalid value x for configuration interval.ms: Not a number of type INT", CONFIG),
        ({"match": "x=x"}, "Illegal client matching pattern: x=x", CONFIG),
        ({"match": "client_id=["}, "Illegal client matching pattern: client_id=[", CONFIG),
        ({"match": "client_id"}, "Illegal client matching pattern: client_id", CONFIG),
    ],
)
def test_a_metrics_subscription_is_refused_in_kafkas_words(
    overrides: dict[str, str], message: str, error: ErrorCode
) -> None:
    with pytest.raises(InvalidSetting) as refused:
        check_client_metrics(overrides)
    assert (str(refused.value), refused.value.error) == (message, error)


def test_a_metrics_subscription_may_match_clients_by_pattern() -> None:
    check_client_metrics({"interval.ms": "1000", "metrics": "*", "match": "client_id=a.*, client_source_port=9"})
    check_client_metrics({"match": ""})
