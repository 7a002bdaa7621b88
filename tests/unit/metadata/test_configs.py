"""Decisions about configs; codes and words were read off Kafka 4.3.1."""

from collections.abc import Mapping, Sequence

import pytest

from kit.machines.clusters import applied, with_topics
from ottla.base.errors import ErrorCode
from ottla.base.settings.changes import Operation
from ottla.base.settings.values import BrokerValues
from ottla.metadata import configs
from ottla.metadata.decision import DecisionContext
from ottla.metadata.facts import Fact
from ottla.metadata.image import ClusterImage, ConfigKey, ResourceType
from ottla.metadata.partition_change import ELIGIBLE_LEADERS
from ottla.wire.messages import alter_configs as full
from ottla.wire.messages import incremental_alter_configs as incremental
from ottla.wire.stored.metadata import ConfigRecord, FeatureLevelRecord

TOPIC = (ResourceType.TOPIC, "orders")
BROKER = (ResourceType.BROKER, "1")
BROKERS = (ResourceType.BROKER, "")
GROUP = (ResourceType.GROUP, "readers")
METRICS = (ResourceType.CLIENT_METRICS, "latency")

SET, DELETE, APPEND, SUBTRACT = Operation
Changes = Sequence[tuple[str, int, str | None]]
Outcome = tuple[int, str | None]


def start() -> ClusterImage:
    """A topic `orders` in a cluster with eligible leader replicas."""
    return applied([FeatureLevelRecord(name=ELIGIBLE_LEADERS, feature_level=1)], with_topics("orders"))


def having(key: tuple[int, str], **values: str) -> ClusterImage:
    return applied(
        [
            ConfigRecord(resource_type=key[0], resource_name=key[1], name=name.replace("_", "."), value=value)
            for name, value in values.items()
        ],
        start(),
    )


def place(image: ClusterImage) -> DecisionContext:
    values = BrokerValues(
        {"node.id": "1"}, image.config(ResourceType.BROKER, "1"), image.config(ResourceType.BROKER, "")
    )
    return DecisionContext(image, values)


def incrementally(
    *wanted: tuple[ConfigKey, Changes], image: ClusterImage | None = None, validate_only: bool = False
) -> tuple[list[Fact], list[Outcome]]:
    request = incremental.IncrementalAlterConfigsRequest(
        resources=[
            incremental.AlterConfigsResource(
                key[0], key[1], [incremental.AlterableConfig(*alteration) for alteration in alterations]
            )
            for key, alterations in wanted
        ],
        validate_only=validate_only,
    )
    facts, reply = configs.alter_incrementally(request, place(start() if image is None else image))
    assert [(each.resource_type, each.resource_name) for each in reply.responses] == [key for key, _ in wanted]
    return facts, [(each.error_code, each.error_message) for each in reply.responses]


def wholly(
    *wanted: tuple[ConfigKey, Mapping[str, str | None]], image: ClusterImage | None = None, validate_only: bool = False
) -> tuple[list[Fact], list[Outcome]]:
    request = full.AlterConfigsRequest(
        resources=[
            full.AlterConfigsResource(key[0], key[1], [full.AlterableConfig(*pair) for pair in given.items()])
            for key, given in wanted
        ],
        validate_only=validate_only,
    )
    facts, reply = configs.alter(request, place(start() if image is None else image))
    return facts, [(each.error_code, each.error_message) for each in reply.responses]


def test_single_configs_are_set_and_deleted_and_others_stay() -> None:
    image = having(TOPIC, retention_ms="1", retention_bytes="2")

    facts, outcomes = incrementally((TOPIC, [("retention.ms", DELETE, None), ("segment.ms", SET, "3")]), image=image)

    assert outcomes == [(0, None)]
    assert applied(facts, image).config(*TOPIC) == {"retention.bytes": "2", "segment.ms": "3"}


def test_lists_grow_and_shrink_from_their_default() -> None:
    facts, _ = incrementally((TOPIC, [("cleanup.policy", APPEND, "compact")]))
    image = applied(facts, start())
    assert image.config(*TOPIC) == {"cleanup.policy": "delete,compact"}

    facts, _ = incrementally((TOPIC, [("cleanup.policy", SUBTRACT, "delete")]), image=image)
    assert applied(facts, image).config(*TOPIC) == {"cleanup.policy": "compact"}


def test_a_value_that_is_there_already_makes_no_fact() -> None:
    facts, outcomes = incrementally((TOPIC, [("retention.ms", SET, "1")]), image=having(TOPIC, retention_ms="1"))

    assert (facts, outcomes) == ([], [(0, None)])


def test_a_brokers_value_makes_a_fact_even_when_it_is_there_already() -> None:
    image = having(BROKER, log_cleaner_threads="1")

    facts, _ = incrementally((BROKER, [("log.cleaner.threads", SET, "1")]), image=image)

    assert len(facts) == 1


def test_all_configs_of_a_resource_are_replaced() -> None:
    image = having(TOPIC, retention_ms="1", retention_bytes="2")

    facts, outcomes = wholly((TOPIC, {"retention.bytes": "2", "segment.ms": "3"}), image=image)

    assert outcomes == [(0, None)]
    assert applied(facts, image).config(*TOPIC) == {"retention.bytes": "2", "segment.ms": "3"}
    assert len(facts) == 2


def test_all_configs_are_dropped_when_none_is_given() -> None:
    image = having(TOPIC, retention_ms="1")

    facts, _ = wholly((TOPIC, {}), image=image)

    assert applied(facts, image).configs == start().configs


def test_changes_can_be_tried_out() -> None:
    assert incrementally((TOPIC, [("retention.ms", SET, "1")]), validate_only=True) == ([], [(0, None)])
    assert wholly((TOPIC, {"retention.ms": "1"}), validate_only=True) == ([], [(0, None)])


def test_one_resource_does_not_spoil_another() -> None:
    facts, outcomes = incrementally(
        ((ResourceType.TOPIC, "nope"), [("retention.ms", SET, "1")]), (TOPIC, [("retention.ms", SET, "1")])
    )

    assert [error for error, _ in outcomes] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
    assert len(facts) == 1


@pytest.mark.parametrize(
    ("key", "alterations", "error", "reason"),
    [
        (TOPIC, [("nope", SET, "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: nope"),
        (
            TOPIC,
            [("retention.ms", APPEND, "1")],
            ErrorCode.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            TOPIC,
            [("retention.ms", SET, None)],
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        ),
        (
            TOPIC,
            [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        (
            TOPIC,
            [("retention.ms", 9, "1")],
            ErrorCode.INVALID_REQUEST,
            "Unknown operation 9 for config retention.ms.",
        ),
        (
            (2, "nope"),
            [("retention.ms", SET, "1")],
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 'nope' does not exist.",
        ),
        (
            (2, "nope"),
            [("retention.ms", SET, "x")],
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            (2, ""),
            [("retention.ms", SET, "1")],
            ErrorCode.INVALID_REQUEST,
            "Default topic resources are not allowed.",
        ),
        (
            (2, "a/b"),
            [("retention.ms", SET, "1")],
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'",
        ),
        ((77, "x"), [("a", SET, "1")], ErrorCode.INVALID_REQUEST, "Unknown resource type 77"),
        ((8, "1"), [("a", SET, "1")], ErrorCode.INVALID_REQUEST, "Unknown resource type 8"),
        (
            (4, "7"),
            [("num.io.threads", SET, "9")],
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            "No node with id 7 found.",
        ),
        (
            (4, "abc"),
            [("num.io.threads", SET, "9")],
            ErrorCode.INVALID_REQUEST,
            "Node id must be an integer, but it is: abc",
        ),
        (
            BROKER,
            [("node.id", SET, "9")],
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [node.id]",
        ),
        (
            BROKER,
            [("min.insync.replicas", SET, "1")],
            ErrorCode.INVALID_CONFIG,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
        (
            BROKERS,
            [("min.insync.replicas", DELETE, None)],
            ErrorCode.INVALID_CONFIG,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ),
        (GROUP, [("x", SET, "1")], ErrorCode.INVALID_CONFIG, "Unknown group config name: x"),
        (
            (32, ""),
            [("consumer.session.timeout.ms", SET, "50000")],
            ErrorCode.INVALID_REQUEST,
            "Default group resources are not allowed.",
        ),
        (METRICS, [("x", SET, "1")], ErrorCode.INVALID_REQUEST, "Unknown client metrics configuration: x"),
        ((16, ""), [("interval.ms", SET, "5000")], ErrorCode.INVALID_REQUEST, "Subscription name can't be empty"),
    ],
)
def test_what_cannot_be_is_refused(key: ConfigKey, alterations: Changes, error: ErrorCode, reason: str) -> None:
    assert incrementally((key, alterations)) == ([], [(error, reason)])


@pytest.mark.parametrize(
    ("key", "name", "value"),
    [
        (BROKER, "num.io.threads", "9"),
        (BROKERS, "log.retention.ms", "1000"),
        (BROKERS, "min.insync.replicas", "1"),
        (BROKER, "some.plug.in.setting", "1"),
        (GROUP, "consumer.session.timeout.ms", "50000"),
        (METRICS, "interval.ms", "5000"),
    ],
)
def test_every_kind_of_resource_can_be_changed(key: ConfigKey, name: str, value: str) -> None:
    facts, outcomes = incrementally((key, [(name, SET, value)]))

    assert outcomes == [(0, None)]
    assert applied(facts, start()).configs[key] == {name: value}


def test_a_resource_that_is_named_twice_is_not_changed() -> None:
    twice = [(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")] * 2
    change: Changes = [("retention.ms", SET, "1")]

    assert incrementally((TOPIC, change), (TOPIC, change)) == ([], twice)
    assert wholly((TOPIC, {"retention.ms": "1"}), (TOPIC, {})) == ([], twice)


def test_replacing_refuses_what_changing_refuses() -> None:
    facts, outcomes = wholly((TOPIC, {"nope": "1"}), ((ResourceType.BROKER_LOGGER, "1"), {"ottla": "INFO"}))

    assert facts == []
    assert outcomes == [
        (ErrorCode.INVALID_CONFIG, "Unknown topic config name: nope"),
        (ErrorCode.INVALID_REQUEST, "Unknown resource type 8"),
    ]


def test_replacing_the_defaults_of_brokers_must_keep_what_elections_go_by() -> None:
    image = having(BROKERS, min_insync_replicas="1")

    _, outcomes = wholly((BROKERS, {"log.retention.ms": "1000"}), image=image)
    assert outcomes[0][0] == ErrorCode.INVALID_CONFIG
    _, outcomes = wholly((BROKERS, {"log.retention.ms": "1000", "min.insync.replicas": "1"}), image=image)
    assert outcomes == [(0, None)]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ((4, "7"), "Unexpected broker id, expected 1, but received 7"),
        ((4, "x"), "Node id must be an integer, but it is: x"),
        ((4, "1"), None),
        ((4, ""), None),
        ((2, "7"), None),
    ],
)
def test_configs_of_one_broker_are_changed_by_way_of_that_broker(key: ConfigKey, reason: str | None) -> None:
    refusal = configs.misdirected(key, 1)

    assert refusal == (None if reason is None else (ErrorCode.INVALID_REQUEST, reason))
