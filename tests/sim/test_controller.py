"""Brokers that die, lose records and come back, against the controller's deciders, drawn from a seed.

The deciders, facts, delta and snapshot are the real ones. Brokers are models of what matters to them: a log for each
replica, an image that lags, and proposals to the controller that arrive late. What must hold: a leader elected cleanly
has every acknowledged record; epochs rise with every change; nobody is believed about a state that is gone; equal
images however the facts are applied; and once everybody is back, every partition is led and whole.
"""

from __future__ import annotations

import random

import pytest

from kit.machines.clusters import CLUSTER, creation, new_topic
from ottla.base.errors import ErrorCode
from ottla.base.settings.values import BrokerValues
from ottla.metadata import brokers, configs, elections, in_sync, partitions, reassignments, topics
from ottla.metadata.decision import DecisionContext
from ottla.metadata.delta import ClusterDelta, difference
from ottla.metadata.facts import Fact, decode_facts, encode_facts
from ottla.metadata.image import NO_LEADER, BrokerImage, ClusterImage, PartitionImage, ResourceType
from ottla.metadata.snapshot import facts_of
from ottla.wire.messages.alter_partition import (
    ResponsePartitionData,
)
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.stored.metadata import ConfigRecord, FeatureLevelRecord
from sim.story_brokers import Key, Node, Proposal, Record, SeededRandom

SEEDS = 700
STEPS = 500
VALUES = BrokerValues({"node.id": "100"})
LEAST = "min.insync.replicas"


class World:
    """A controller and its brokers."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.random = SeededRandom(self.draw)
        self.eligible = self.draw.random() < 0.75
        self.image = ClusterImage(CLUSTER)
        self.facts: list[Fact] = []
        self.acknowledged: dict[Key, dict[int, Record]] = {}
        self.proposals: list[Proposal] = []
        self.stop_offsets: dict[tuple[int, int], int] = {}
        self.nodes = {number: Node(self, number) for number in range(1, self.draw.randint(3, 5) + 1)}
        self.events: set[str] = set()
        self.faulty = True
        self._numbers = 0
        first: list[Fact] = [FeatureLevelRecord(name="metadata.version", feature_level=30)]
        if self.eligible:
            first.append(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
        first.append(ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name=LEAST, value="1"))
        self.commit(first)

    @property
    def place(self) -> DecisionContext:
        return DecisionContext(self.image, VALUES.with_dynamic({}, self.image.config(ResourceType.BROKER, "")))

    @property
    def end_offset(self) -> int:
        return len(self.facts)

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def least(self, key: Key, partition: PartitionImage, image: ClusterImage | None) -> int:
        assert image is not None
        overrides = image.config(ResourceType.TOPIC, image.topics_by_id[key[0]].name)
        return min(int(overrides.get(LEAST, "1")), len(partition.replicas))

    def commit(self, facts: list[Fact]) -> None:
        if not facts:
            return
        delta = ClusterDelta(self.image)
        delta.replay_all(facts)
        self.facts += facts
        before, self.image = self.image, delta.apply(len(self.facts) - 1, 1)
        check_step(self, before, delta)

    def led(self, key: Key, leader: Node, partition: PartitionImage) -> None:
        """A broker begins to lead: unless the election was unclean, it has everything that was acknowledged."""
        log, promised = leader.logs[key], self.acknowledged.setdefault(key, {})
        if partition.recovering or self.unclean(key):
            self.acknowledged[key] = {at: entry for at, entry in promised.items() if at < len(log) and log[at] == entry}
            return
        for at, entry in promised.items():
            assert log[at : at + 1] == [entry], (
                f"broker {leader.id} leads {key} in epoch {partition.leader_epoch} without record {entry} at {at}"
            )

    def unclean(self, key: Key) -> bool:
        topic = self.image.topics_by_id.get(key[0])
        return topic is not None and partitions.may_be_unclean(topic.name, self.image, VALUES)

    # --- events ---

    def run(self) -> None:
        for node in self.nodes.values():
            node.start()
        for _ in range(6):
            self.settle()
        for _ in range(2):
            self.create(f"topic-{self.number()}")
        self.settle()
        for _ in range(STEPS):
            self.step()
        self.heal()

    def settle(self) -> None:
        """Everybody does what it can."""
        for node in self.nodes.values():
            if node.alive and node.epoch < 0:
                node.register()
            if node.alive and node.epoch >= 0:
                node.catch_up()
                node.heartbeat()

    def step(self) -> None:
        draw = self.draw
        node = draw.choice(list(self.nodes.values()))
        event = draw.choices(
            ["node", "fetch", "append", "propose", "deliver", "fault", "tool"], [25, 30, 15, 12, 9, 6, 3]
        )[0]
        if event == "node" and node.alive:
            if node.epoch < 0:
                node.register()
            else:
                draw.choice([node.catch_up, node.catch_up, node.heartbeat])()
        elif event == "fetch" and node.alive and node.seen is not None:
            for key in list(node.logs):
                for leader in self.nodes.values():
                    if leader.alive and leader is not node:
                        leader.serve(key, node)
        elif event == "append" and node.alive:
            node.append()
        elif event == "propose" and node.alive:
            node.propose()
        elif event == "deliver" and self.proposals:
            self.deliver(self.proposals.pop(draw.randrange(len(self.proposals))))
        elif event == "fault":
            self.fault(node)
        elif event == "tool":
            self.tool(node)

    def fault(self, node: Node) -> None:
        kind = self.draw.choice(
            ["kill", "cut", "stop", "start", "start", "silence", "silence", "blink", "blink", "sync"]
        )
        if kind == "blink" and node.alive and not node.stopping:
            # Gone and back before anything that is on its way arrives.
            node.die(power_cut=self.eligible)
            node.start()
            node.register()
            if node.epoch >= 0:
                node.catch_up()
                node.heartbeat()
        elif kind == "silence" and self.draw.random() < 0.5:
            # For a moment only: the same process is back at once.
            broker = self.image.brokers.get(node.id)
            if broker is not None and not broker.fenced and node.alive and broker.epoch == node.epoch:
                self.commit(brokers.fence(broker, self.place))
                node.heartbeat()
        elif kind == "sync":
            node.synced = {key: len(log) for key, log in node.logs.items()}
        elif kind == "silence":
            broker = self.image.brokers.get(node.id)
            if broker is not None and not broker.fenced:
                self.commit(brokers.fence(broker, self.place))
        elif kind == "start" and not node.alive:
            node.start()
        elif kind == "stop" and node.alive and node.epoch >= 0:
            node.stopping = True
        elif kind in ("kill", "cut") and node.alive:
            # Without eligible replicas nothing protects from a power cut; that is what they are for.
            node.die(power_cut=kind == "cut" and self.eligible)
        else:
            return
        self.events.add(kind)

    def deliver(self, proposal: Proposal) -> None:
        request, key = proposal
        topic = self.image.topics_by_id.get(key[0])
        before = None if topic is None else topic.partitions[key[1]]
        image = self.image
        facts, reply = in_sync.alter(request, self.place)
        self.commit(facts)
        data = request.topics[0].partitions[0]
        (answer,) = reply.topics[0].partitions if reply.topics else (reply,)
        self.events.add(ErrorCode(answer.error_code).name)
        proposer = self.nodes[request.broker_id].leading.get(key)
        if answer.error_code == ErrorCode.INELIGIBLE_REPLICA and proposer is not None:
            # The one refusal that says that nothing happened and nothing will; all others wait for the next image.
            proposer.forget(data.leader_epoch, data.partition_epoch)
        if answer.error_code in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED):
            assert before is not None
            told = (before.leader, before.leader_epoch, before.partition_epoch)
            assert told == (request.broker_id, data.leader_epoch, data.partition_epoch), "a stale proposal counted"
            assert request.broker_epoch == image.brokers[request.broker_id].epoch, "a stale leader counted"
            for member in data.new_isr_with_epochs:
                assert member.broker_epoch in (-1, image.brokers[member.broker_id].epoch), "a stale follower counted"
        if isinstance(answer, ResponsePartitionData) and answer.error_code == ErrorCode.NONE:
            after = self.image.topics_by_id[key[0]].partitions[key[1]]
            assert (answer.leader_epoch, answer.partition_epoch) == (after.leader_epoch, after.partition_epoch)
            assert tuple(answer.isr) == after.in_sync

    def tool(self, node: Node) -> None:
        draw, image = self.draw, self.image
        kind = draw.choice(
            ["create", "delete", "reassign", "reassign", "cancel", "elect", "balance", "lower", "forget"]
        )
        names = list(image.topics)
        if kind == "create" and len(names) < 3 and any(broker.active for broker in image.brokers.values()):
            self.create(f"topic-{self.number()}")
        elif kind == "delete" and len(names) > 2:
            state = DeleteTopicState(name=draw.choice(names))
            self.commit(topics.delete(DeleteTopicsRequest(topics=[state]), image, True, 6).facts)
        elif kind in ("reassign", "cancel") and names:
            self.reassign(draw.choice(names), cancel=kind == "cancel")
        elif kind == "elect":
            self.commit(elections.elect(ElectLeadersRequest(0, None), self.place).facts)
        elif kind == "balance":
            self.commit(elections.balance(self.place))
        elif kind == "lower" and names:
            config = AlterableConfig(LEAST, 0, "1")
            resource = AlterConfigsResource(ResourceType.TOPIC, draw.choice(names), [config])
            request = IncrementalAlterConfigsRequest([resource])
            self.commit(configs.alter_incrementally(request, self.place).facts)
        elif kind == "forget" and not node.alive and draw.random() < 0.3:
            self.commit(brokers.unregister(UnregisterBrokerRequest(node.id), self.place).facts)
        else:
            return
        self.events.add(kind)

    def create(self, name: str) -> None:
        draw = self.draw
        factor = draw.randint(1, min(3, len(self.image.brokers)))
        overrides: dict[str, str | None] = {LEAST: str(draw.randint(1, 2))}
        if draw.random() < 0.15:
            overrides["unclean.leader.election.enable"] = "true"
        topic = new_topic(name, draw.randint(1, 2), factor, configs=overrides)
        self.commit(topics.create(creation(topic), self.image, VALUES, self.random).facts)

    def reassign(self, name: str, *, cancel: bool) -> None:
        draw = self.draw
        number = draw.randrange(len(self.image.topics[name].partitions))
        registered = list(self.image.brokers)
        replicas = None if cancel else draw.sample(registered, draw.randint(1, min(3, len(registered))))
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name, [ReassignablePartition(number, replicas)])]
        )
        self.commit(reassignments.alter(request, self.place).facts)

    def heal(self) -> None:
        """Everybody comes back, everything arrives."""
        self.faulty = False
        for node in self.nodes.values():
            if node.stopping:
                node.die(power_cut=False)
            if not node.alive:
                node.start()
        for turn in range(30):
            self.settle()
            self.settle()
            if turn == 5:
                for topic in self.image.topics.values():
                    for number, partition in enumerate(topic.partitions):
                        if partition.leader == NO_LEADER:
                            self.acknowledged.pop((topic.topic_id, number), None)
                self.commit(elections.elect(ElectLeadersRequest(1, None), self.place).facts)
                self.settle()
            for node in self.nodes.values():
                for key in list(node.logs):
                    for leader in self.nodes.values():
                        if leader is not node:
                            leader.serve(key, node)
                node.propose()
            while self.proposals:
                self.deliver(self.proposals.pop(0))
            self.settle()
        self.commit(elections.balance(self.place))


def check_step(world: World, before: ClusterImage, delta: ClusterDelta) -> None:
    """What holds after every decision."""
    after = world.image
    for topic_id, numbers in delta.changed_topics.items():
        old, new = before.topics_by_id[topic_id], after.topics_by_id[topic_id]
        for number in numbers:
            check_change(world, (topic_id, number), old.partitions[number], new.partitions[number])
    for topic in after.topics.values():
        for number, partition in enumerate(topic.partitions):
            check_partition(world, (topic.topic_id, number), partition)


def check_change(world: World, key: Key, old: PartitionImage, new: PartitionImage) -> None:
    assert new.partition_epoch > old.partition_epoch, f"{key}: its epoch stands still"
    assert new.leader_epoch >= old.leader_epoch
    if new.leader != old.leader:
        assert new.leader_epoch > old.leader_epoch, f"{key}: a new leader in an old epoch"
        if new.leader != NO_LEADER and not new.recovering and not world.unclean(key):
            # A reassignment ends with the proposal that brings its leader in.
            brought_in = (old.adding or old.removing) and new.leader in new.in_sync
            assert new.leader in (*old.in_sync, *old.eligible) or brought_in, (
                f"{key}: {new.leader} leads, in sync were {old.in_sync}, eligible {old.eligible}"
            )


def check_partition(world: World, key: Key, partition: PartitionImage) -> None:
    image = world.image
    assert len(set(partition.replicas)) == len(partition.replicas)
    assert set(partition.in_sync) <= set(partition.replicas), f"{key}: in sync without being a replica"
    assert set(partition.eligible) <= set(partition.replicas), f"{key}: eligible without being a replica"
    assert not set(partition.in_sync) & set(partition.eligible)
    assert len(partition.directories) == len(partition.replicas)
    if partition.leader == NO_LEADER:
        assert partition.in_sync or world.eligible
    else:
        assert partition.leader in partition.in_sync
        assert active(image, partition.leader), f"{key}: {partition.leader} leads and is not there"
    if len(partition.in_sync) > 1 or (world.eligible and partition.in_sync):
        gone = [broker for broker in partition.in_sync if not active(image, broker)]
        assert not gone, f"{key}: {gone} are in sync and are not there"


def active(image: ClusterImage, broker_id: int) -> bool:
    broker: BrokerImage | None = image.brokers.get(broker_id)
    return broker is not None and broker.active


def check_end(world: World) -> None:
    """What holds when everybody is back, and that all ways to the image are one."""
    image = world.image
    assert all(broker.active for broker in image.brokers.values()), image.brokers
    for topic in image.topics.values():
        for number, partition in enumerate(topic.partitions):
            where = f"{topic.name}-{number}: {partition}"
            assert (partition.adding, partition.removing) == ((), ()), f"a reassignment never ends, {where}"
            assert set(partition.in_sync) == set(partition.replicas), f"not whole, {where}"
            assert partition.leader == partition.replicas[0], f"not balanced, {where}"
            assert (partition.eligible, partition.recovering) == ((), False), where
    whole = ClusterDelta(ClusterImage(CLUSTER))
    whole.replay_all(decode_facts(encode_facts(world.facts)))
    assert whole.apply(image.offset, 1) == image, "all facts in one go give another image"
    middle = world.draw.randrange(len(world.facts))
    early = ClusterDelta(ClusterImage(CLUSTER))
    early.replay_all(world.facts[: middle + 1])
    halfway = early.apply(middle, 1)
    written = ClusterDelta(ClusterImage(CLUSTER))
    written.replay_all(decode_facts(encode_facts(facts_of(halfway))))
    restored = written.apply(middle, 1)
    assert restored == halfway, "a snapshot gives another image"
    rest = ClusterDelta(restored)
    rest.replay_all(world.facts[middle + 1 :])
    assert rest.apply(image.offset, 1) == image, "a snapshot and what followed give another image"
    jump = difference(halfway, image)
    assert set(jump.created_topics) | set(jump.changed_topics) >= {
        topic.topic_id for topic in image.topics.values() if halfway.topics_by_id.get(topic.topic_id) != topic
    }


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_partitions_are_led_by_who_has_everything_and_end_up_whole(first: int) -> None:
    for seed in range(first, first + 50):
        world = World(seed)
        try:
            world.run()
            check_end(world)
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}: {failure}") from failure


def test_the_stories_have_everything_in_them() -> None:
    """The draws are worth something: every fault, every tool, and proposals that come too late in every way."""
    events: set[str] = set()
    for seed in range(60):
        world = World(seed)
        world.run()
        events |= world.events
    wanted = "kill cut stop start silence create delete reassign cancel elect balance lower forget NONE"
    refused = "FENCED_LEADER_EPOCH INVALID_UPDATE_VERSION INELIGIBLE_REPLICA STALE_BROKER_EPOCH NEW_LEADER_ELECTED"
    assert set(wanted.split()) | set(refused.split()) <= events
