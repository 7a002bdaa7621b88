"""Between the cluster's image and the tree of znodes, both ways, as values.

Owns: which znodes a change of the image touches, in which order, with which versions; which facts a tree amounts to.
Never knows: ZooKeeper itself, who decided. Invariants: a tree that was written change by change reads back as the very
same image; the version of a partition's state is the partition's epoch, and a write of it names the version it changes;
a list of operations cut off anywhere leaves a tree that the next controller completes: settings come before the topic
they are of, a topic before its states, partitions before the broker whose coming or going changed them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from ottla.metadata.delta import ClusterDelta
from ottla.metadata.facts import Fact
from ottla.metadata.image import NO_LEADER, BrokerImage, ClusterImage, ConfigKey, PartitionImage, TopicImage
from ottla.metadata.snapshot import facts_of
from ottla.wire.stored.metadata import ProducerIdsRecord
from ottla.zookeeper import layout
from ottla.zookeeper.layout import BadZnode

ANY_VERSION = -1
NOTIFIED_AT_ONCE = 3000
"""Partitions in one notification, as Kafka limited them."""
OPERATION_BYTES = 60
"""What an operation takes beside its path and data."""


class Create(NamedTuple):
    """A znode that is not there; a sequential one gets its number from ZooKeeper."""

    path: str
    data: bytes
    sequential: bool = False


class Write(NamedTuple):
    path: str
    data: bytes
    version: int = ANY_VERSION


class Remove(NamedTuple):
    path: str


Operation: TypeAlias = Create | Write | Remove


class Znode(NamedTuple):
    data: bytes
    version: int


Tree: TypeAlias = Mapping[str, Znode]


# --- from an image to the tree ---------------------------------------------------------------------------------------


class TreeWriter:
    """Which operations lead from one image to the next. `existing` are the znodes that may or may not be there."""

    def __init__(self, existing: Iterable[str], epoch: int) -> None:
        self._existing = set(existing)
        self._epoch = epoch

    def operations(self, facts: Iterable[Fact], delta: ClusterDelta, after: ClusterImage) -> list[Operation]:
        """What has to be written so that the tree says `after` where it said what `delta` started from."""
        before = delta.before
        operations: list[Operation] = []
        for topic in delta.removed_topics.values():
            operations += self._removed(topic)
        for key in sorted(delta.changed_configs):
            operations += self._configured(key, before, after)
        for topic_id in delta.created_topics:
            operations += self._created(after.topics_by_id[topic_id])
        for topic_id, numbers in delta.changed_topics.items():
            operations += self._changed(before.topics_by_id[topic_id], after.topics_by_id[topic_id], sorted(numbers))
        operations += _in_sync_changes(delta, after, self._epoch)
        for broker_id in sorted(delta.changed_brokers):
            broker = after.brokers.get(broker_id)
            path = f"{layout.REGISTRATIONS}/{broker_id}"
            operations += self._put(path, None if broker is None else layout.registration_znode(broker))
        for controller_id, controller in after.controllers.items():
            if before.controllers.get(controller_id) != controller:
                operations += self._put(f"{layout.CONTROLLERS}/{controller_id}", layout.member_znode(controller))
        if delta.features_changed:
            operations += self._put(layout.FEATURE, layout.feature_znode(after.features))
        if after.next_producer_id != before.next_producer_id:
            owner = next((fact.broker_id for fact in facts if isinstance(fact, ProducerIdsRecord)), -1)
            operations += self._put(layout.PRODUCER_IDS, layout.producer_ids_znode(owner, after.next_producer_id))
        return operations

    def missing_states(self, topic: TopicImage, numbers: Iterable[int], *, folder: bool) -> Iterator[Operation]:
        """States that a topic lacks whose own znode is there."""
        if folder:
            yield Create(layout.partitions_path(topic.name), b"")
        for number in numbers:
            yield Create(layout.partition_path(topic.name, number), b"")
            yield Create(layout.state_path(topic.name, number), self._state(topic.partitions[number]))

    def _state(self, partition: PartitionImage) -> bytes:
        return layout.state_znode(partition, self._epoch)

    def _put(self, path: str, data: bytes | None) -> list[Operation]:
        """One of the znodes that may or may not be there; None takes it away."""
        there = path in self._existing
        if data is None:
            self._existing.discard(path)
            return [Remove(path)] if there else []
        self._existing.add(path)
        return [Write(path, data) if there else Create(path, data)]

    def _configured(self, key: ConfigKey, before: ClusterImage, after: ClusterImage) -> list[Operation]:
        path, values = layout.config_path(*key), after.configs.get(key)
        written = self._put(path, None if values is None else layout.config_znode(values))
        if not written or before.configs.get(key) == values:
            return written
        return [*written, Create(layout.CONFIG_CHANGE, layout.config_change_znode(*key), sequential=True)]

    def _created(self, topic: TopicImage) -> Iterator[Operation]:
        yield Create(layout.topic_path(topic.name), layout.topic_znode(topic))
        yield Create(layout.partitions_path(topic.name), b"")
        for number, partition in enumerate(topic.partitions):
            yield from self._new_partition(topic.name, number, partition)

    def _new_partition(self, topic: str, number: int, partition: PartitionImage) -> Iterator[Operation]:
        yield Create(layout.partition_path(topic, number), b"")
        path, data = layout.state_path(topic, number), self._state(partition)
        yield Create(path, data)
        for version in range(partition.partition_epoch):
            yield Write(path, data, version)

    def _changed(self, before: TopicImage, after: TopicImage, numbers: Iterable[int]) -> list[Operation]:
        operations: list[Operation] = []
        reassigned = len(before.partitions) != len(after.partitions)
        for number in numbers:
            partition = after.partitions[number]
            if number >= len(before.partitions):
                operations += self._new_partition(after.name, number, partition)
                continue
            old = before.partitions[number]
            reassigned = reassigned or _assignment(old) != _assignment(partition)
            path, data = layout.state_path(after.name, number), self._state(partition)
            for version in range(old.partition_epoch, partition.partition_epoch):
                operations.append(Write(path, data, version))
        if reassigned:
            operations.insert(0, Write(layout.topic_path(after.name), layout.topic_znode(after)))
        return operations

    def _removed(self, topic: TopicImage) -> Iterator[Operation]:
        """Behind the request that every controller finds and carries on with, and without it at the end."""
        request = f"{layout.DELETE_TOPICS}/{topic.name}"
        if request not in self._existing:
            yield Create(request, b"")
        for number in range(len(topic.partitions)):
            yield Remove(layout.state_path(topic.name, number))
            yield Remove(layout.partition_path(topic.name, number))
        yield Remove(layout.partitions_path(topic.name))
        yield Remove(layout.topic_path(topic.name))
        self._existing.discard(request)
        yield Remove(request)

    def told_of(self, path: str) -> None:
        """Somebody else created one of the znodes that may or may not be there."""
        self._existing.add(path)

    def forget(self, path: str) -> None:
        """It was removed, by us outside of a decision or by somebody else."""
        self._existing.discard(path)


def _assignment(partition: PartitionImage) -> tuple[tuple[int, ...], ...]:
    return partition.replicas, partition.adding, partition.removing


def _in_sync_changes(delta: ClusterDelta, after: ClusterImage, epoch: int) -> Iterator[Operation]:
    """What leaders changed of their in-sync sets, told as Kafka's brokers told it."""
    changed: list[tuple[str, int]] = []
    for topic_id, numbers in delta.changed_topics.items():
        old, new = delta.before.topics_by_id[topic_id], after.topics_by_id[topic_id]
        changed += [
            (new.name, number)
            for number in sorted(numbers)
            if number < len(old.partitions) and _by_leader(old.partitions[number], new.partitions[number])
        ]
    for start in range(0, len(changed), NOTIFIED_AT_ONCE):
        data = layout.partitions_znode(changed[start : start + NOTIFIED_AT_ONCE], epoch)
        yield Create(layout.IN_SYNC_CHANGE, data, sequential=True)


def _by_leader(old: PartitionImage, new: PartitionImage) -> bool:
    return old.in_sync != new.in_sync and old.leader_epoch == new.leader_epoch


def portions(operations: Iterable[Operation], most_bytes: int) -> Iterator[list[Operation]]:
    """Operations in portions that ZooKeeper takes as one request each; at least one, which may be empty."""
    portion: list[Operation] = []
    size = 0
    for operation in operations:
        weight = OPERATION_BYTES + len(operation.path)
        if not isinstance(operation, Remove):
            weight += len(operation.data)
        if portion and size + weight > most_bytes:
            yield portion
            portion, size = [], 0
        portion.append(operation)
        size += weight
    yield portion


# --- from the tree to facts ------------------------------------------------------------------------------------------


class Loaded(NamedTuple):
    """What a tree says, as an image, and what it lacks."""

    image: ClusterImage
    unstated: Mapping[str, list[int]]
    """Partitions without a state, by topic: somebody else, or a controller that did not finish, made them."""
    unnamed: frozenset[str]
    """Topics that have been given an id, because their znode has none."""

    @property
    def facts(self) -> Iterator[Fact]:
        return facts_of(self.image)


def read_tree(tree: Tree, cluster_id: str, new_id: Iterator[bytes]) -> Loaded:
    """The image that a tree amounts to. Raises BadZnode."""
    brokers = _brokers(tree)
    topics: dict[str, TopicImage] = {}
    unstated: dict[str, list[int]] = {}
    unnamed: set[str] = set()
    configs: dict[ConfigKey, dict[str, str]] = {}
    controllers = {}
    for path, znode in tree.items():
        parent, _, name = path.rpartition("/")
        if parent == layout.TOPICS:
            topics[name], unstated[name] = _topic(name, tree, brokers, new_id, unnamed)
        elif parent == layout.CONTROLLERS:
            controllers[int(name)] = layout.read_member(int(name), znode.data)
        elif parent.startswith(f"{layout.CONFIG}/") and parent != layout.CONFIG_CHANGES:
            values = layout.read_config(path, znode.data)
            kind = layout.KINDS_OF_CONFIG.get(parent.removeprefix(f"{layout.CONFIG}/"))
            if values and kind is not None:
                configs[kind, layout.entity_name(name)] = values
    said = ClusterImage(
        cluster_id,
        topics=topics,
        brokers=brokers,
        configs=configs,
        features=layout.read_features(tree[layout.FEATURE].data) if layout.FEATURE in tree else {},
        next_producer_id=layout.read_producer_ids(tree[layout.PRODUCER_IDS].data) if layout.PRODUCER_IDS in tree else 0,
        controllers=controllers,
    )
    # What an image keeps for itself, such as names that look alike, comes with its facts.
    delta = ClusterDelta(ClusterImage(cluster_id))
    delta.replay_all(facts_of(said))
    image = delta.apply(said.offset, said.epoch)
    return Loaded(image, {topic: missing for topic, missing in unstated.items() if missing}, frozenset(unnamed))


def _brokers(tree: Tree) -> dict[int, BrokerImage]:
    found = {}
    for path, znode in tree.items():
        parent, _, name = path.rpartition("/")
        if parent == layout.REGISTRATIONS:
            found[int(name)] = layout.read_registration(int(name), znode.data)
    return found


def _topic(
    name: str, tree: Tree, brokers: Mapping[int, BrokerImage], new_id: Iterator[bytes], unnamed: set[str]
) -> tuple[TopicImage, list[int]]:
    assigned = layout.read_topic(name, tree[layout.topic_path(name)].data)
    partitions: list[PartitionImage] = []
    missing: list[int] = []
    for number in range(len(assigned.partitions)):
        if number not in assigned.partitions:
            raise BadZnode(f"{layout.topic_path(name)} has {len(assigned.partitions)} partitions, but no {number}")
        path = layout.state_path(name, number)
        state = tree.get(path)
        if state is None:
            missing.append(number)
            partitions.append(_first_state(assigned.partitions[number], brokers))
        else:
            partitions.append(layout.read_state(path, state.data, state.version, assigned.partitions[number]))
    topic_id = assigned.topic_id
    if topic_id is None:
        unnamed.add(name)
        topic_id = next(new_id)
    return TopicImage(name, topic_id, tuple(partitions)), missing


def _first_state(
    assigned: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], brokers: Mapping[int, BrokerImage]
) -> PartitionImage:
    """Nobody has written to it yet: whoever lives is in sync, and where nobody lives the first replica will be."""
    replicas, adding, removing = assigned
    living = tuple(each for each in replicas if each in brokers and brokers[each].active)
    leader = living[0] if living else NO_LEADER
    return PartitionImage(replicas, living or replicas[:1], leader, 0, 0, adding=adding, removing=removing)
