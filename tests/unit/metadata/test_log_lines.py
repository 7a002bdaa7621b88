"""What changes of metadata mean in words: one sentence each, and one for many."""

from collections.abc import Mapping

from kit.machines.clusters import applied, cluster, topic_facts
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.facts import Fact
from ottla.metadata.features import bootstrap
from ottla.metadata.image import NO_LEADER, ClusterImage, ResourceType
from ottla.metadata.log_lines import LEFT, NO_REASONS, cluster_log_lines, replica_log_lines
from ottla.wire.stored.metadata import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

NO_CHANGE = -2


def begin(*facts: Fact) -> ClusterImage:
    """Three brokers, the features of a cluster, and these."""
    return applied([*bootstrap(), *facts], cluster(3))


def told(image: ClusterImage, *facts: Fact, reasons: Mapping[int, str] = NO_REASONS) -> list[str]:
    """What the controller says; an alarm begins with an exclamation mark."""
    delta = ClusterDelta(image)
    delta.replay_all(facts)
    after = delta.apply(image.offset + len(facts), 1)
    return [f"{'!' * each.alarming}{each.text}" for each in cluster_log_lines(delta, after, reasons)]


def told_by(node_id: int, image: ClusterImage, *facts: Fact) -> list[str]:
    """What a broker says."""
    delta = ClusterDelta(image)
    delta.replay_all(facts)
    after = delta.apply(image.offset + len(facts), 1)
    return [each.text for each in replica_log_lines(delta, after, node_id).lines]


def change(image: ClusterImage, topic: str = "orders", number: int = 0, **fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=number, topic_id=image.topics[topic].topic_id, **fields)  # type: ignore[arg-type]


# --- the cluster ---


def test_topics_that_come_grow_and_go() -> None:
    image = begin(*topic_facts("orders", 3, (1, 2)))
    assert told(image, *topic_facts("bills", 1)) == ["topic bills is created: 1 partition of 1 replica"]
    assert told(cluster(3), *topic_facts("orders", 3, (1, 2))) == [
        "topic orders is created: 3 partitions of 2 replicas"
    ]
    gone = RemoveTopicRecord(topic_id=image.topics["orders"].topic_id)
    assert told(image, gone) == ["topic orders is deleted"]
    more = topic_facts("orders", 5, (1, 2))[4:]
    assert told(image, *more) == ["topic orders has 5 partitions now, 3 before"]


def test_many_topics_are_one_sentence() -> None:
    image = begin()
    facts = [fact for number in range(12) for fact in topic_facts(f"t{number:02}")]
    assert told(image, *facts) == ["12 topics are created: t00, t01, t02, t03, t04 and 7 more"]
    made = applied(facts, image)
    gone = [RemoveTopicRecord(topic_id=topic.topic_id) for topic in made.topics.values()]
    assert told(made, *gone) == ["12 topics are deleted: t00, t01, t02, t03, t04 and 7 more"]


def test_brokers_that_are_fenced_and_let_in() -> None:
    image = begin()
    epoch = image.brokers[2].epoch
    fence = FenceBrokerRecord(id=2, epoch=epoch)
    assert told(image, fence) == ["!broker 2 is fenced"]
    assert told(image, fence, reasons={2: "its disk is full"}) == ["!broker 2 is fenced: its disk is full"]
    assert told(image, fence, reasons={2: LEFT}) == ["broker 2 is fenced: it has left"]
    fenced = applied([fence], image)
    assert told(fenced, UnfenceBrokerRecord(id=2, epoch=epoch)) == ["broker 2 is unfenced: it serves"]
    assert told(image, UnregisterBrokerRecord(broker_id=2, broker_epoch=epoch)) == ["broker 2 is unregistered"]


def test_a_broker_that_leaves() -> None:
    image = begin()
    leaves = BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=image.brokers[2].epoch, in_controlled_shutdown=1)
    assert told(image, leaves) == ["broker 2 is leaving: others take over what it leads"]
    left = FenceBrokerRecord(id=2, epoch=image.brokers[2].epoch)
    assert told(applied([leaves], image), left) == ["broker 2 is fenced: it has left"]


def test_a_broker_that_loses_a_directory() -> None:
    image = begin()
    lost = BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=image.brokers[2].epoch, log_dirs=[b"1" * 16])
    assert told(image, lost) == ["!broker 2 has lost 1 data directory"]


def test_a_broker_that_registers() -> None:
    delta = ClusterDelta(cluster(1))
    two = cluster(2)
    delta.changed_brokers.add(2)
    assert [each.text for each in cluster_log_lines(delta, two)] == [
        "broker 2 is registered at broker.test:9092 with epoch 2",
        "broker 2 is unfenced: it serves",
    ]


def test_partitions_without_a_leader_and_unclean_elections_are_alarming() -> None:
    image = begin(*topic_facts("orders", 7, (1, 2)))
    assert told(image, change(image, leader=NO_LEADER, isr=[1])) == [
        "!orders-0 has no leader: none of 1, which are in sync, can lead"
    ]
    assert told(image, change(image, leader=NO_LEADER, isr=[], eligible_leader_replicas=[2])) == [
        "!orders-0 has no leader: nobody is in sync, and none of 2, which are eligible, can lead"
    ]
    assert told(image, change(image, leader=NO_LEADER, isr=[])) == [
        "!orders-0 has no leader: nobody is in sync or eligible"
    ]
    all_of_them = [change(image, number=number, leader=NO_LEADER, isr=[1]) for number in range(7)]
    assert told(image, *all_of_them) == [
        "!7 partitions have no leader: orders-0, orders-1, orders-2, orders-3, orders-4 and 2 more"
    ]
    offline = applied([change(image, leader=NO_LEADER, isr=[1])], image)
    assert told(offline, change(offline, leader=2, isr=[2], leader_recovery_state=1)) == [
        "!orders-0: broker 2 was elected though it may lack records"
    ]


def test_a_move_from_its_begin_to_its_end() -> None:
    image = begin(*topic_facts("orders", 1, (1, 2)))
    begun = change(image, replicas=[3, 1, 2], adding_replicas=[3], removing_replicas=[1])
    assert told(image, begun) == ["orders-0 is being moved: 3 added, 1 removed then"]
    moving = applied([begun], image)
    arrived = change(moving, isr=[1, 2, 3])
    assert told(moving, arrived) == ["orders-0 is being moved: 3 arrived, none missing"]
    there = applied([arrived], moving)
    ended = change(there, replicas=[3, 2], isr=[2, 3], adding_replicas=[], removing_replicas=[], leader=3)
    assert told(there, ended) == ["orders-0 is moved: it lies on 3, 2 now"]


def test_settings_and_features_that_change() -> None:
    image = begin(*topic_facts("orders"))

    def config(kind: ResourceType, resource: str, name: str) -> ConfigRecord:
        return ConfigRecord(resource_type=kind, resource_name=resource, name=name, value="1")

    assert told(image, config(ResourceType.TOPIC, "orders", "retention.ms")) == [
        "settings of topic orders are changed: retention.ms"
    ]
    assert told(image, config(ResourceType.BROKER, "", "log.retention.ms")) == [
        "settings of all brokers are changed: log.retention.ms"
    ]
    assert told(image, FeatureLevelRecord(name="group.version", feature_level=0)) == [
        "feature group.version is at 0 now"
    ]
    assert told(ClusterImage("new"), *bootstrap()) == [], "a cluster begins with features"
    created = [*topic_facts("bills"), config(ResourceType.TOPIC, "bills", "retention.ms")]
    assert told(image, *created) == ["topic bills is created: 1 partition of 1 replica"]


# --- one broker ---


def test_a_broker_tells_what_it_leads_and_follows_of_a_new_topic() -> None:
    facts = topic_facts("orders", 1, (1, 2))
    assert told_by(1, begin(), *facts) == ["orders-0 is led by this broker from epoch 0 on (in sync: 1, 2)"]
    assert told_by(2, begin(), *facts) == ["orders-0 follows broker 1 from epoch 0 on"]
    assert told_by(3, begin(), *facts) == []


def test_an_election_is_told_by_the_new_leader_and_by_those_who_follow_it() -> None:
    image = begin(*topic_facts("orders", 1, (1, 2, 3)))
    elected = change(image, leader=2, isr=[2, 3])
    assert told_by(2, image, elected) == [
        "orders-0 is led by this broker from epoch 1 on, after broker 1 (in sync: 2, 3)"
    ]
    assert told_by(3, image, elected) == ["orders-0 follows broker 2 from epoch 1 on, after broker 1"]


def test_many_elections_are_one_sentence() -> None:
    image = begin(*topic_facts("orders", 9, (1, 2)))
    elected = [change(image, number=number, leader=2, isr=[2]) for number in range(9)]
    named = "orders-0, orders-1, orders-2, orders-3, orders-4 and 4 more"
    assert told_by(2, image, *elected) == [f"9 partitions are led by this broker now: {named}"]
    assert told_by(1, image, *elected) == [f"9 partitions follow other leaders now: {named}"]


def test_the_leader_tells_who_leaves_and_joins_the_in_sync_set() -> None:
    image = begin(*topic_facts("orders", 1, (1, 2, 3)))
    shrunk = change(image, isr=[1, 3])
    assert told_by(1, image, shrunk) == ["orders-0: 2 left the in-sync set, which is 1, 3 now"]
    assert told_by(3, image, shrunk) == []
    smaller = applied([shrunk], image)
    assert told_by(1, smaller, change(smaller, isr=[1, 3, 2])) == [
        "orders-0: 2 joined the in-sync set, which is 1, 3, 2 now"
    ]


def test_many_changes_of_in_sync_sets_are_one_sentence() -> None:
    image = begin(*topic_facts("orders", 6, (1, 2, 3)))
    shrunk = [change(image, number=number, isr=[1, 3]) for number in range(6)]
    named = "orders-0, orders-1, orders-2, orders-3, orders-4 and 1 more"
    assert told_by(1, image, *shrunk) == [f"6 partitions have fewer replicas in sync, 2 left: {named}"]
    smaller = applied(shrunk, image)
    grown = [change(smaller, number=number, isr=[1, 2, 3]) for number in range(6)]
    assert told_by(1, smaller, *grown) == [f"6 partitions have more replicas in sync, 2 joined: {named}"]


def test_changes_of_in_sync_sets_are_counted() -> None:
    image = begin(*topic_facts("orders", 2, (1, 2, 3)))
    delta = ClusterDelta(image)
    delta.replay_all([change(image, isr=[1, 3]), change(image, number=1, isr=[1])])
    after = delta.apply(image.offset + 2, 1)
    told = replica_log_lines(delta, after, 1)
    assert (told.shrinks, told.expansions) == (2, 0)


def test_a_replica_that_lies_elsewhere_from_now_on() -> None:
    image = begin(*topic_facts("orders", 1, (1, 2)))
    assert told_by(2, image, change(image, replicas=[1, 3], isr=[1])) == ["orders-0 lies here no longer"]
