"""Decisions about topics; codes and words were read off Kafka 4.3.1."""

from collections.abc import Sequence

import pytest

from kit.disks.compacting import CountingRandom
from kit.machines.clusters import DIRECTORY_ID, applied, cluster, creation, new_topic, topic_facts, with_topics
from ottla.base.errors import ErrorCode
from ottla.base.settings.values import BrokerValues
from ottla.base.vocabulary import identity_text
from ottla.metadata import topics
from ottla.metadata.decision import MetadataDecision
from ottla.metadata.image import ClusterImage, ResourceType
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.stored.metadata import ConfigRecord, PartitionRecord, TopicRecord

VALUES = BrokerValues({"num.partitions": "4"})
NO_ID = bytes(16)


def create(
    *wanted: CreatableTopic | str, image: ClusterImage | None = None, validate_only: bool = False
) -> MetadataDecision[CreateTopicsResponse]:
    request = creation(*wanted, validate_only=validate_only)
    return topics.create(request, cluster() if image is None else image, VALUES, CountingRandom())


def outcome(decision: MetadataDecision[CreateTopicsResponse]) -> tuple[int, str | None]:
    (result,) = decision.reply.topics
    return result.error_code, result.error_message


def test_a_topic_is_created_by_a_topic_its_configs_and_its_partitions() -> None:
    decision = create(new_topic("orders", 2, configs={"retention.ms": "1000"}))

    kinds = [type(fact) for fact in decision.facts]
    assert kinds == [TopicRecord, ConfigRecord, PartitionRecord, PartitionRecord]
    image = applied(decision.facts, cluster())
    topic = image.topics["orders"]
    assert [partition.replicas for partition in topic.partitions] == [(1,), (1,)]
    assert topic.partitions[0].directories == (DIRECTORY_ID,)
    assert image.config(ResourceType.TOPIC, "orders") == {"retention.ms": "1000"}


def test_the_reply_shows_a_setting_meant_for_tests_where_it_was_set() -> None:
    for configs, value in (({"internal.segment.bytes": "100000"}, "100000"), ({}, None)):
        result = create(new_topic("orders", configs=configs)).reply.topics[0]
        described = {config.name: config.value for config in result.configs or ()}
        assert described.get("internal.segment.bytes") == value
        assert list(described) == sorted(described)


def test_the_reply_shows_id_counts_and_all_configs() -> None:
    decision = create(new_topic("orders", 2, configs={"retention.ms": "1000"}))

    (result,) = decision.reply.topics
    assert isinstance(decision.facts[0], TopicRecord)
    assert result.topic_id == decision.facts[0].topic_id
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert (result.num_partitions, result.replication_factor) == (2, 1)
    assert result.configs is not None
    described = {config.name: (config.value, config.config_source) for config in result.configs}
    assert described["retention.ms"] == ("1000", 1)
    assert described["cleanup.policy"] == ("delete", 5)
    assert list(described) == sorted(described)


def test_minus_one_stands_for_the_brokers_defaults() -> None:
    decision = create(new_topic("orders", -1, -1))

    assert decision.reply.topics[0].num_partitions == 4
    assert decision.reply.topics[0].replication_factor == 1


def test_nothing_is_done_when_only_validation_was_asked_for() -> None:
    decision = create("orders", validate_only=True)

    assert decision.facts == []
    assert outcome(decision)[0] == ErrorCode.NONE


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a" * 250, f"the length of '{'a' * 250}' is longer than the max allowed length 249"),
        ("a/b", "'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("ä", "'ä' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("line\n", "'line\n' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
    ],
)
def test_a_bad_name_is_refused(name: str, reason: str) -> None:
    assert outcome(create(name)) == (ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def test_the_longest_name_is_allowed() -> None:
    assert outcome(create("a" * 249))[0] == ErrorCode.NONE


def test_a_name_that_metrics_could_not_tell_from_another_is_refused() -> None:
    refused = outcome(create("a_b", image=with_topics("a.b")))

    assert refused == (ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'a_b' collides with existing topic: a.b")
    assert outcome(create("a-b", image=with_topics("a.b")))[0] == ErrorCode.NONE


def test_a_topic_that_exists_is_refused() -> None:
    refused = outcome(create("a.b", image=with_topics("a.b")))

    assert refused == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a.b' already exists.")


def test_a_name_twice_in_a_request_spoils_both_and_no_other() -> None:
    decision = create("twice", "once", "twice")

    results = {result.name: (result.error_code, result.error_message) for result in decision.reply.topics}
    assert results["twice"] == (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    assert results["once"][0] == ErrorCode.NONE
    assert list(applied(decision.facts, cluster()).topics) == ["once"]


def test_the_metadata_log_is_no_topic_for_clients() -> None:
    refused = outcome(create("__cluster_metadata"))

    assert refused == (ErrorCode.INVALID_REQUEST, "Creation of internal topic __cluster_metadata is prohibited.")


@pytest.mark.parametrize(
    ("partitions", "factor", "error", "reason"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
        (-2, 1, ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
        (
            0,
            0,
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            1,
            2,
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because "
            "only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
        ),
    ],
)
def test_bad_counts_are_refused(partitions: int, factor: int, error: ErrorCode, reason: str) -> None:
    assert outcome(create(new_topic("orders", partitions, factor))) == (error, reason)


@pytest.mark.parametrize(
    ("assignments", "reason"),
    [
        ([(0, [1]), (0, [1])], "Found multiple manual partition assignments for partition 0"),
        ([(1, [1])], "partitions should be a consecutive 0-based integer sequence"),
        ([(0, [5])], "The manual partition assignment includes broker 5, but no such broker is registered."),
    ],
)
def test_bad_assignments_by_hand_are_refused(assignments: list[tuple[int, list[int]]], reason: str) -> None:
    topic = new_topic("orders", -1, -1, assignments=assignments)

    assert outcome(create(topic)) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)


def test_an_assignment_by_hand_wants_no_counts_beside_it() -> None:
    reason = "A manual partition assignment was specified, but {} was not set to -1."

    refused = outcome(create(new_topic("orders", 1, 1, assignments=[(0, [1])])))
    assert refused == (ErrorCode.INVALID_REQUEST, reason.format("replication factor"))
    refused = outcome(create(new_topic("orders", 1, -1, assignments=[(0, [1])])))
    assert refused == (ErrorCode.INVALID_REQUEST, reason.format("numPartitions"))


def test_an_assignment_by_hand_is_followed() -> None:
    topic = new_topic("orders", -1, -1, assignments=[(1, [3, 2]), (0, [2, 1])])

    image = applied(create(topic, image=cluster(3)).facts, cluster(3))

    assert [partition.replicas for partition in image.topics["orders"].partitions] == [(2, 1), (3, 2)]
    assert [partition.leader for partition in image.topics["orders"].partitions] == [2, 3]


def test_only_live_replicas_begin_in_sync() -> None:
    topic = new_topic("orders", -1, -1, assignments=[(0, [3, 1])])
    image = cluster(3, fenced=[3])

    partition = applied(create(topic, image=image).facts, image).topics["orders"].partitions[0]

    assert (partition.replicas, partition.in_sync, partition.leader) == ((3, 1), (1,), 1)


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ({"nope": "1"}, "Unknown topic config name: nope"),
        ({"retention.ms": "x"}, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ({"a": None, "b": None}, "Null value not supported for topic configs: a,b"),
        (
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "1"},
            "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (1)",
        ),
        (
            {"leader.replication.throttled.replicas": "0:1," * 9000},
            "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
        ),
    ],
)
def test_bad_configs_are_refused(configs: dict[str, str | None], reason: str) -> None:
    assert outcome(create(new_topic("orders", configs=configs))) == (ErrorCode.INVALID_CONFIG, reason)


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        ([10_001], "Excessively large number of partitions per request."),
        ([5_001, 5_000], "Excessively large number of partitions per request."),
        ([9_999, 1], "Unable to perform excessively large batch operation."),
        ([2_147_483_647], "Excessively large number of partitions per request."),
    ],
)
def test_too_many_partitions_in_a_request_spoil_all_of_it(counts: Sequence[int], reason: str) -> None:
    decision = create(*(new_topic(f"t{number}", count) for number, count in enumerate(counts)))

    assert decision.facts == []
    for result in decision.reply.topics:
        assert (result.error_code, result.error_message) == (ErrorCode.POLICY_VIOLATION, reason)


def test_topic_ids_are_random_and_no_option_of_a_command_line() -> None:
    class Draws(CountingRandom):
        def identity(self) -> bytes:
            self.count += 1
            return b"\xf8" + bytes(15) if self.count == 1 else bytes(16)

    topic_id = topics.new_topic_id(Draws())

    assert not identity_text(topic_id).startswith("-")
    assert topic_id[6] >> 4 == 4


# --- deleting ---------------------------------------------------------------------------------------------------------


def delete(
    *names: str,
    states: Sequence[tuple[str | None, bytes]] = (),
    image: ClusterImage,
    enabled: bool = True,
    version: int = 6,
) -> MetadataDecision[DeleteTopicsResponse]:
    request = DeleteTopicsRequest(topic_names=names, topics=[DeleteTopicState(name, each) for name, each in states])
    return topics.delete(request, image, enabled, version)


def deletions(decision: MetadataDecision[DeleteTopicsResponse]) -> list[tuple[str | None, bytes, int, str | None]]:
    return [
        (result.name, result.topic_id, result.error_code, result.error_message) for result in decision.reply.responses
    ]


def test_a_topic_is_deleted_by_name_or_by_id() -> None:
    image = with_topics("a", "b", "c")
    ids = {name: topic.topic_id for name, topic in image.topics.items()}

    decision = delete("a", states=[(None, ids["b"])], image=image)

    assert sorted(deletions(decision), key=str) == [("a", ids["a"], 0, None), ("b", ids["b"], 0, None)]
    assert list(applied(decision.facts, image).topics) == ["c"]


def test_what_is_not_there_cannot_be_deleted() -> None:
    decision = delete("nope", states=[(None, b"?" * 16)], image=with_topics("a"))

    assert deletions(decision) == [
        (None, b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
        (
            "nope",
            NO_ID,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition.",
        ),
    ]
    assert decision.facts == []


def test_contradicting_ways_to_name_a_topic_are_refused() -> None:
    image = with_topics("a", "b", "c", "d")
    ids = {name: topic.topic_id for name, topic in image.topics.items()}
    states = [
        (None, NO_ID),
        ("a", ids["a"]),
        (None, ids["b"]),
        (None, ids["b"]),
        (None, ids["c"]),
        ("c", NO_ID),
        ("d", NO_ID),
        ("d", NO_ID),
    ]

    decision = delete(states=states, image=image)

    assert decision.facts == []
    assert {(name, message) for name, _, error, message in deletions(decision) if error == 42} == {
        (None, "Neither topic name nor id were specified."),
        ("a", "You may not specify both topic name and topic id."),
        (None, "Duplicate topic id."),
        ("c", "The provided topic name maps to an ID that was already supplied."),
        ("d", "Duplicate topic name."),
    }


@pytest.mark.parametrize(("version", "error"), [(2, ErrorCode.INVALID_REQUEST), (6, ErrorCode.TOPIC_DELETION_DISABLED)])
def test_nothing_is_deleted_where_deletion_is_switched_off(version: int, error: ErrorCode) -> None:
    decision = delete("a", image=with_topics("a"), enabled=False, version=version)

    assert deletions(decision) == [("a", NO_ID, error, "Topic deletion is disabled.")]
    assert decision.facts == []


# --- more partitions --------------------------------------------------------------------------------------------------


def grow(
    *wanted: tuple[str, int, Sequence[Sequence[int]] | None], image: ClusterImage, validate_only: bool = False
) -> MetadataDecision[CreatePartitionsResponse]:
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name, count, None if hands is None else [CreatePartitionsAssignment(each) for each in hands]
            )
            for name, count, hands in wanted
        ],
        validate_only=validate_only,
    )
    return topics.create_partitions(request, image, CountingRandom())


def growths(decision: MetadataDecision[CreatePartitionsResponse]) -> list[tuple[str, int, str | None]]:
    return [(result.name, result.error_code, result.error_message) for result in decision.reply.results]


def test_a_topic_gets_more_partitions_with_as_many_replicas_as_it_has() -> None:
    image = applied(topic_facts("orders", 2, (1, 2)), cluster(3))

    decision = grow(("orders", 5, None), image=image)

    assert growths(decision) == [("orders", 0, None)]
    partitions = applied(decision.facts, image).topics["orders"].partitions
    assert len(partitions) == 5
    assert all(len(partition.replicas) == 2 for partition in partitions)


@pytest.mark.parametrize(
    ("count", "reason"),
    [
        (3, "Topic already has 3 partition(s)."),
        (2, "The topic orders currently has 3 partition(s); 2 would not be an increase."),
        (-1, "The topic orders currently has 3 partition(s); -1 would not be an increase."),
    ],
)
def test_a_count_that_is_no_growth_is_refused(count: int, reason: str) -> None:
    decision = grow(("orders", count, None), image=with_topics("orders", partitions=3))

    assert growths(decision) == [("orders", ErrorCode.INVALID_PARTITIONS, reason)]


@pytest.mark.parametrize(
    ("hands", "reason"),
    [
        ([[1]], "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."),
        ([[1], [5]], "The manual partition assignment includes broker 5, but no such broker is registered."),
        ([[1], []], "The manual partition assignment includes an empty replica list."),
    ],
)
def test_new_partitions_by_hand_are_checked(hands: list[list[int]], reason: str) -> None:
    decision = grow(("orders", 3, hands), image=with_topics("orders"))

    assert growths(decision) == [("orders", ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)]


def test_every_topic_that_was_asked_for_is_named_in_the_reply() -> None:
    decision = grow(
        ("twice", 3, None), ("nope", 3, None), ("twice", 4, None), ("orders", 2, None), image=with_topics("orders")
    )

    assert growths(decision) == [
        ("twice", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        ("orders", 0, None),
    ]


def test_growth_beyond_all_measure_is_refused_without_working_it_out() -> None:
    decision = grow(("orders", 2_147_483_647, None), ("other", 2, None), image=with_topics("orders", "other"))

    assert decision.facts == []
    assert {error for _, error, _ in growths(decision)} == {ErrorCode.UNKNOWN_SERVER_ERROR}


def test_growth_can_be_tried_out() -> None:
    decision = grow(("orders", 2, None), image=with_topics("orders"), validate_only=True)

    assert (decision.facts, growths(decision)) == ([], [("orders", 0, None)])
