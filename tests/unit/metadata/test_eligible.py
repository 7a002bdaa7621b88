"""Eligible leader replicas through changes of min.insync.replicas and of the feature's level."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.machines.clusters import applied, cluster, topic_facts
from ottla.base.settings.values import BrokerValues
from ottla.metadata import brokers, configs, eligible, features, in_sync, partitions
from ottla.metadata.decision import DecisionContext
from ottla.metadata.facts import Fact
from ottla.metadata.image import NO_LEADER, ClusterImage, PartitionImage, ResourceType
from ottla.metadata.partition_change import ELIGIBLE_LEADERS, MIN_IN_SYNC
from ottla.metadata.partitions import rules_of
from ottla.wire.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.wire.stored.metadata import BrokerRegistrationChangeRecord, ConfigRecord, FeatureLevelRecord

TOPIC = "orders"
REPLICAS = (1, 2, 3)
UNFENCE = -1


class Story:
    """One partition of three replicas, what each of them holds, and what was acknowledged."""

    def __init__(self, least: int = 2, level: int = 1) -> None:
        first: list[Fact] = [FeatureLevelRecord(name=ELIGIBLE_LEADERS, feature_level=level)]
        if level:
            first.append(ConfigRecord(ResourceType.BROKER, "", MIN_IN_SYNC, str(least)))
        self.image: ClusterImage = applied([*first, *topic_facts(TOPIC, replicas=REPLICAS)], cluster(3))
        self._static = {"min.insync.replicas": str(least)}
        self.held = dict.fromkeys(REPLICAS, 0)
        self.acknowledged = 0

    @property
    def partition(self) -> PartitionImage:
        return self.image.topics[TOPIC].partitions[0]

    def place(self, broker: str = "100") -> DecisionContext:
        values = BrokerValues(
            self._static, self.image.config(ResourceType.BROKER, broker), self.image.config(ResourceType.BROKER, "")
        )
        return DecisionContext(self.image, values)

    def _store(self, facts: list[Fact]) -> None:
        self.image = applied(facts, self.image)
        leader = self.partition.leader
        if leader != NO_LEADER:
            assert self.held[leader] == self.acknowledged, f"{leader} leads and lacks records: {self.partition}"

    def fence(self, number: int) -> None:
        if not self.image.brokers[number].fenced:
            self._store(brokers.fence(self.image.brokers[number], self.place()))

    def unfence(self, number: int) -> None:
        broker = self.image.brokers[number]
        if broker.fenced:
            fact = BrokerRegistrationChangeRecord(broker_id=number, broker_epoch=broker.epoch, fenced=UNFENCE)
            self._store([fact, *partitions.with_broker(number, self.place())])

    def write(self, number: int = 0) -> None:
        """A record with acks=all, by the rules of the leader's own settings."""
        partition = self.partition
        if partition.leader == NO_LEADER:
            return
        least = rules_of(self.image.topics[TOPIC], self.place(str(partition.leader))).least_in_sync
        if len(partition.in_sync) >= min(least, len(REPLICAS)):
            self.acknowledged += 1
            self.held.update(dict.fromkeys(partition.in_sync, self.acknowledged))

    def join(self, number: int) -> None:
        """A follower has caught up."""
        partition = self.partition
        if partition.leader == NO_LEADER or number in partition.in_sync or self.image.brokers[number].fenced:
            return
        self.held[number] = self.held[partition.leader]
        members = [BrokerState(each, self.image.brokers[each].epoch) for each in (*partition.in_sync, number)]
        data = PartitionData(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=members,
            partition_epoch=partition.partition_epoch,
        )
        leader = self.image.brokers[partition.leader]
        topic_id = self.image.topics[TOPIC].topic_id
        request = AlterPartitionRequest(leader.id, leader.epoch, [TopicData(topic_id, [data])])
        self._store(in_sync.alter(request, self.place()).facts)

    def configure(self, kind: int, name: str, value: int) -> None:
        """The value 0 is none of its own."""
        config = AlterableConfig(MIN_IN_SYNC, 0, str(value)) if value else AlterableConfig(MIN_IN_SYNC, 1, None)
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, [config])])
        self._store(configs.alter_incrementally(request, self.place()).facts)

    def of_topic(self, value: int) -> None:
        self.configure(ResourceType.TOPIC, TOPIC, value)

    def of_cluster(self, value: int) -> None:
        self.configure(ResourceType.BROKER, "", value)

    def of_broker(self, value: int) -> None:
        self.configure(ResourceType.BROKER, str(1 + value % 3), value)

    def level(self, level: int) -> None:
        now = self.image.features.get(ELIGIBLE_LEADERS, 0)
        kind = features.UPGRADE if level > now else features.SAFE_DOWNGRADE
        update = FeatureUpdateKey(feature=ELIGIBLE_LEADERS, max_version_level=level, upgrade_type=kind)
        if level != now:
            decided = features.update(UpdateFeaturesRequest(feature_updates=[update]), self.place(), 100, 1)
            assert decided.reply.error_code == 0
            self._store(decided.facts)


def one_left(least: int = 2) -> Story:
    """The broker that leads is alone in sync, below the least number; the last one that left is eligible."""
    story = Story(least)
    story.write()
    story.fence(3)
    story.fence(2)
    assert (story.partition.leader, story.partition.in_sync) == (1, (1,))
    assert 2 in story.partition.eligible
    return story


def none_left() -> Story:
    story = one_left()
    story.fence(1)
    assert (story.partition.leader, story.partition.in_sync) == (NO_LEADER, ())
    assert {1, 2} <= {*story.partition.eligible}
    return story


@pytest.mark.parametrize("value", [1, 2, 3])
def test_another_least_number_while_nobody_leads_takes_nothing_from_who_is_eligible(value: int) -> None:
    for change in (Story.of_topic, Story.of_cluster):
        story = none_left()
        change(story, value)
        story.unfence(2)
        assert story.partition.leader == 2


def test_the_same_number_said_once_more_takes_nothing() -> None:
    story = one_left()
    story.of_topic(2)
    assert 2 in story.partition.eligible


def test_a_higher_number_takes_nothing() -> None:
    story = one_left()
    story.of_topic(3)
    assert 2 in story.partition.eligible


def test_a_lower_number_that_the_in_sync_replicas_do_not_reach_takes_nothing() -> None:
    story = one_left(least=3)
    story.of_topic(2)
    assert 2 in story.partition.eligible


@pytest.mark.parametrize("change", [Story.of_topic, Story.of_cluster])
def test_a_lower_number_that_lets_the_leader_acknowledge_alone_ends_who_was_eligible(change: object) -> None:
    assert callable(change)
    story = one_left()
    change(story, 1)
    assert story.partition.eligible == ()
    story.write()
    story.fence(1)
    story.unfence(2)
    assert story.partition.leader == NO_LEADER


def test_a_topics_own_number_is_not_touched_by_that_of_the_cluster() -> None:
    story = one_left()
    story.of_topic(2)
    story.of_cluster(1)
    assert 2 in story.partition.eligible


def test_a_number_lowered_where_a_controller_only_reads_it_is_noticed_when_it_begins() -> None:
    story = one_left()
    assert eligible.outdated(story.place()) == []
    story.image = applied([ConfigRecord(ResourceType.TOPIC, TOPIC, MIN_IN_SYNC, "1")], story.image)
    story.image = applied(eligible.outdated(story.place()), story.image)
    assert story.partition.eligible == ()


def test_who_was_eligible_before_the_feature_was_off_is_not_so_when_it_is_on_again() -> None:
    story = one_left()
    story.level(0)
    assert story.partition.eligible == ()
    story.of_topic(1)
    story.write()
    story.level(1)
    story.fence(1)
    story.unfence(2)
    assert story.partition.leader == NO_LEADER
    story.unfence(1)
    assert story.partition.leader == 1


@pytest.mark.parametrize("number", [1, 2])
def test_without_the_feature_those_who_were_eligible_are_in_sync_and_can_lead(number: int) -> None:
    story = none_left()
    story.level(0)
    assert {1, 2} <= {*story.partition.in_sync}
    assert story.partition.eligible == ()
    story.unfence(number)
    assert (story.partition.leader, story.partition.in_sync) == (number, (number,))


def test_with_the_feature_there_is_one_number_for_all_brokers() -> None:
    story = Story(least=2, level=0)
    story.configure(ResourceType.BROKER, "1", 1)
    story.configure(ResourceType.BROKER, "3", 3)
    story.level(1)
    assert story.image.config(ResourceType.BROKER, "") == {MIN_IN_SYNC: "2"}
    assert MIN_IN_SYNC not in story.image.config(ResourceType.BROKER, "1")
    assert MIN_IN_SYNC not in story.image.config(ResourceType.BROKER, "3")


def test_a_number_that_the_cluster_has_stays() -> None:
    story = Story(least=2, level=0)
    story.of_cluster(3)
    story.level(1)
    assert story.image.config(ResourceType.BROKER, "") == {MIN_IN_SYNC: "3"}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([Story.fence, Story.unfence, Story.join]), st.sampled_from(REPLICAS)),
        st.tuples(st.sampled_from([Story.fence, Story.write]), st.sampled_from(REPLICAS)),
        st.tuples(st.sampled_from([Story.of_topic, Story.of_cluster, Story.of_broker]), st.integers(0, 3)),
        st.tuples(st.just(Story.level), st.integers(0, 1)),
    ),
    max_size=40,
)


@settings(max_examples=400, deadline=None)
@given(begin=st.sampled_from([Story, partial(Story, 3), partial(Story, 1, 0), one_left, none_left]), steps=STEPS)
def test_whatever_is_changed_whoever_leads_has_everything_and_somebody_leads_when_all_are_back(
    begin: Callable[[], Story], steps: list[tuple[object, int]]
) -> None:
    story = begin()
    for step, number in steps:
        assert callable(step)
        step(story, number)
    for number in REPLICAS:
        story.unfence(number)
    assert story.partition.leader != NO_LEADER
