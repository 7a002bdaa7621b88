"""From facts to images: what every fact changes, what it leaves alone, and what is told about it."""

import pytest

from kit.machines.clusters import applied, cluster, topic_facts, with_topics
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.facts import BadFact, Fact
from ottla.metadata.image import ClusterImage, ResourceType
from ottla.wire.stored.metadata import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)


def changed(image: ClusterImage, *facts: Fact) -> tuple[ClusterDelta, ClusterImage]:
    delta = ClusterDelta(image)
    delta.replay_all(facts)
    return delta, delta.apply(image.offset + len(facts), 1)


def config(name: str, value: str | None, topic: str = "orders") -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic, name=name, value=value)


def test_a_created_topic_is_found_by_name_and_by_id() -> None:
    delta, image = changed(cluster(), *topic_facts("orders", 3))

    topic = image.topics["orders"]
    assert image.topics_by_id[topic.topic_id] is topic
    assert [partition.leader for partition in topic.partitions] == [1, 1, 1]
    assert delta.created_topics == {topic.topic_id: "orders"}
    assert delta.changed_topics == {}


def test_the_image_before_is_never_touched() -> None:
    before = with_topics("orders")
    topics, configs = dict(before.topics), dict(before.configs)

    changed(before, *topic_facts("more"), config("retention.ms", "1"))
    changed(before, RemoveTopicRecord(topic_id=before.topics["orders"].topic_id))

    assert before.topics == topics
    assert before.configs == configs


def test_parts_that_do_not_change_are_shared() -> None:
    before = with_topics("orders", "bills")
    _, image = changed(before, config("retention.ms", "1"))

    assert image.topics is before.topics
    assert image.brokers is before.brokers
    _, image = changed(before, *topic_facts("more"))
    assert image.topics["bills"] is before.topics["bills"]
    assert image.configs is before.configs


def test_new_partitions_of_a_topic_are_told_by_number() -> None:
    before = with_topics("orders")
    topic_id = before.topics["orders"].topic_id
    template = before.topics["orders"].partitions[0]
    fact = PartitionRecord(
        partition_id=1, topic_id=topic_id, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0
    )

    delta, image = changed(before, fact)

    assert delta.changed_topics == {topic_id: {1}}
    assert delta.created_topics == {}
    assert image.topics["orders"].partitions == (template, template._replace(directories=()))
    assert image.topics_by_id[topic_id] is image.topics["orders"]


def test_a_new_leader_raises_the_leader_epoch_and_other_changes_do_not() -> None:
    before = applied(topic_facts("orders", 1, (1, 2, 3)), cluster(3))
    topic_id = before.topics["orders"].topic_id

    _, image = changed(before, PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1, 2]))
    partition = image.topics["orders"].partitions[0]
    assert (partition.in_sync, partition.leader_epoch, partition.partition_epoch) == ((1, 2), 0, 1)

    _, image = changed(image, PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[2], leader=2))
    partition = image.topics["orders"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (2, 1, 2)
    assert partition.replicas == (1, 2, 3)


def test_a_removed_topic_takes_its_configs_along() -> None:
    before, topic_id = applied([config("retention.ms", "1")], with_topics("orders", "bills")), b""
    topic_id = before.topics["orders"].topic_id

    delta, image = changed(before, RemoveTopicRecord(topic_id=topic_id))

    assert list(image.topics) == ["bills"]
    assert topic_id not in image.topics_by_id
    assert image.configs == {}
    assert delta.removed_topics == {topic_id: before.topics["orders"]}
    assert delta.changed_configs == {(ResourceType.TOPIC, "orders")}


def test_a_topic_that_comes_and_goes_in_one_delta_is_in_neither_list() -> None:
    created = topic_facts("orders")
    assert isinstance(created[0], TopicRecord)

    delta, image = changed(cluster(), *created, RemoveTopicRecord(topic_id=created[0].topic_id))

    assert (delta.created_topics, delta.removed_topics, dict(image.topics)) == ({}, {}, {})


def test_names_that_metrics_cannot_tell_apart_are_kept_while_their_topics_live() -> None:
    image = with_topics("a.b", "a_b", "plain")
    assert image.alike == {"a_b": ("a.b", "a_b")}

    image = applied([RemoveTopicRecord(topic_id=image.topics["a.b"].topic_id)], image)
    assert image.alike == {"a_b": ("a_b",)}
    image = applied([RemoveTopicRecord(topic_id=image.topics["a_b"].topic_id)], image)
    assert image.alike == {}


def test_configs_are_set_and_removed_one_by_one() -> None:
    image = applied([config("retention.ms", "1"), config("retention.bytes", "2")], with_topics("orders"))
    assert image.config(ResourceType.TOPIC, "orders") == {"retention.ms": "1", "retention.bytes": "2"}

    delta, image = changed(image, config("retention.ms", None))
    assert image.config(ResourceType.TOPIC, "orders") == {"retention.bytes": "2"}
    assert delta.changed_configs == {(ResourceType.TOPIC, "orders")}
    _, image = changed(image, config("retention.bytes", None))
    assert image.configs == {}


def test_a_registered_broker_can_be_reached_and_is_active() -> None:
    image = cluster({4: "west"})

    broker = image.brokers[4]
    assert broker.listeners == {"PLAINTEXT": ("broker.test", 9092)}
    assert (broker.rack, broker.active, broker.epoch) == ("west", True, 4)


def test_a_broker_that_shuts_down_is_not_active_and_one_that_goes_is_told() -> None:
    before = cluster(2)
    leaving = BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=2, in_controlled_shutdown=1)
    _, image = changed(before, leaving)
    assert not image.brokers[2].active
    assert not image.brokers[2].fenced

    delta, image = changed(image, UnregisterBrokerRecord(broker_id=2, broker_epoch=2))
    assert list(image.brokers) == [1]
    assert delta.changed_brokers == {2}


def test_features_and_producer_ids_are_taken_over() -> None:
    level = FeatureLevelRecord(name="group.version", feature_level=1)
    delta, image = changed(cluster(), level, ProducerIdsRecord(next_producer_id=1000))

    assert (image.features, image.next_producer_id, delta.features_changed) == ({"group.version": 1}, 1000, True)
    _, image = changed(image, FeatureLevelRecord(name="group.version", feature_level=0))
    assert image.features == {}


def test_a_partition_is_found_by_name_and_number() -> None:
    image = with_topics("orders", partitions=2)

    assert image.partition("orders", 1) is image.topics["orders"].partitions[1]
    assert image.partition("orders", 2) is None
    assert image.partition("orders", -1) is None
    assert image.partition("bills", 0) is None


def test_partitions_in_the_same_state_share_it() -> None:
    image = with_topics("orders", "bills", partitions=3)

    states = {id(partition) for topic in image.topics.values() for partition in topic.partitions}
    assert len(states) == 1


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        (TopicRecord(name="orders", topic_id=bytes(16)), "creates the topic orders"),
        (PartitionRecord(partition_id=0, topic_id=b"?" * 16), "topic that is not there"),
        (PartitionRecord(partition_id=5, topic_id=b"orders----------"), "partition 5 of a topic with 1"),
        (PartitionChangeRecord(partition_id=5, topic_id=b"orders----------"), "partition 5 of a topic with 1"),
        (RemoveTopicRecord(topic_id=b"?" * 16), "removes a topic"),
        (UnregisterBrokerRecord(broker_id=9), "broker 9, which is not registered"),
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=77), "registration 77 of broker 1"),
        (ProducerIdsRecord(next_producer_id=-5), "back from 0 to -5"),
        (AccessControlEntryRecord(), "AccessControlEntryRecord"),
    ],
)
def test_a_fact_that_contradicts_the_image_is_refused(fact: Fact, reason: str) -> None:
    with pytest.raises(BadFact, match=reason):
        ClusterDelta(with_topics("orders")).replay(fact)
