"""What becomes of partitions when brokers come, go, or lose a directory, and who leads them then.

Owns: which partitions such an event touches and the facts that follow. Never knows: how the event was noticed.
Invariants: a broker that is fenced, shutting down or gone leads nothing and is in sync with nothing that others are in
sync with; every partition is named at most once in the facts of one event.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple, cast

from ottla.base.settings.values import BrokerValues
from ottla.metadata.decision import DecisionContext
from ottla.metadata.facts import Fact
from ottla.metadata.image import NO_LEADER, BrokerImage, ClusterImage, PartitionImage, ResourceType, TopicImage
from ottla.metadata.partition_change import ELIGIBLE_LEADERS, MIN_IN_SYNC, PartitionChange, Rules
from ottla.metadata.placement import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, directory_of
from ottla.wire.stored.metadata import PartitionChangeRecord

UNCLEAN = "unclean.leader.election.enable"
LARGEST_RESERVED = 100
"""Directory ids up to this number stand for something other than a directory."""

Chosen = Callable[[PartitionImage], bool]


class Found(NamedTuple):
    """A partition and where it is."""

    topic: TopicImage
    number: int
    partition: PartitionImage


def find(image: ClusterImage, chosen: Chosen) -> Iterator[Found]:
    """All partitions of some kind."""
    for topic in image.topics.values():
        for number, partition in enumerate(topic.partitions):
            if chosen(partition):
                yield Found(topic, number, partition)


def leads_any(broker_id: int, image: ClusterImage) -> bool:
    return next(find(image, lambda partition: partition.leader == broker_id), None) is not None


class Elector:
    """Decides about partitions one after the other, as one event has them change; `facts` are what came of it."""

    def __init__(self, context: DecisionContext, *, without: int = NO_LEADER, together_with: int = NO_LEADER) -> None:
        """`without` never leads, `together_with` may lead although the image does not have it active yet."""
        self.facts: list[Fact] = []
        self._context = context
        self._without = without
        self._together_with = together_with
        self._rules: dict[str, Rules] = {}

    def change(self, found: Found) -> PartitionChange:
        """What the partition may become; hand it to `decide`."""
        brokers = self._context.image.brokers

        def may_lead(replica: int) -> bool:
            broker = brokers.get(replica)
            if broker is None or replica == self._without:
                return False
            directory = change.directories.get(replica, UNASSIGNED_DIRECTORY)
            return (broker.active or replica == self._together_with) and is_online(directory, broker)

        change = PartitionChange(found.partition, may_lead, self.rules(found.topic))
        return change

    def decide(self, found: Found, change: PartitionChange) -> bool:
        """Add the fact; False where nothing changes."""
        brokers = self._context.image.brokers
        fact = change.fact(found.topic.topic_id, found.number, lambda broker_id: directory_of(brokers[broker_id]))
        if fact is None:
            return False
        self.facts.append(fact)
        return True

    def decide_all(self, affected: Iterable[Found], prepare: Callable[[PartitionChange], None]) -> None:
        """Decide about many at once; `prepare` says what one is to become, going by its state alone.

        A cluster has many partitions and few different states of them, which the image keeps once: each is decided
        about once.
        """
        made: dict[tuple[int, Rules], PartitionChangeRecord | None] = {}
        for found in affected:
            key = (id(found.partition), self.rules(found.topic))
            if key in made:
                fact = made[key]
                if fact is not None:
                    self.facts.append(_copied(fact, found))
                continue
            change = self.change(found)
            prepare(change)
            decided = self.decide(found, change)
            made[key] = cast(PartitionChangeRecord, self.facts[-1]) if decided else None

    def rules(self, topic: TopicImage) -> Rules:
        rules = self._rules.get(topic.name)
        if rules is None:
            rules = self._rules[topic.name] = rules_of(topic, self._context)
        return rules


def rules_of(topic: TopicImage, context: DecisionContext) -> Rules:
    overrides = context.image.config(ResourceType.TOPIC, topic.name)
    least = int(overrides[MIN_IN_SYNC]) if MIN_IN_SYNC in overrides else context.values.integer(MIN_IN_SYNC)
    return Rules(
        least,
        may_be_unclean(topic.name, context.image, context.values),
        context.image.features.get(ELIGIBLE_LEADERS, 0) > 0,
    )


def may_be_unclean(topic: str, image: ClusterImage, values: BrokerValues) -> bool:
    """Whether a replica that lacks records may lead this topic's partitions."""
    text = image.config(ResourceType.TOPIC, topic).get(UNCLEAN)
    return values.boolean(UNCLEAN) if text is None else text.strip().lower() == "true"


def is_reserved(directory: bytes) -> bool:
    """Whether an id stands for a state of a replica rather than for a directory."""
    return int.from_bytes(directory) < LARGEST_RESERVED


def is_online(directory: bytes, broker: BrokerImage) -> bool:
    """Whether a directory that holds a replica of the broker still works."""
    if not broker.directories:
        return True
    if is_reserved(directory):
        return directory != LOST_DIRECTORY
    return directory in broker.directories


def directory_on(partition: PartitionImage, broker_id: int) -> bytes:
    """Where a broker's replica lies, as far as it has been told."""
    if not partition.directories or broker_id not in partition.replicas:
        return UNASSIGNED_DIRECTORY
    return partition.directories[partition.replicas.index(broker_id)]


def _copied(fact: PartitionChangeRecord, found: Found) -> PartitionChangeRecord:
    return PartitionChangeRecord(
        found.number,
        found.topic.topic_id,
        fact.isr,
        fact.leader,
        fact.replicas,
        fact.removing_replicas,
        fact.adding_replicas,
        fact.leader_recovery_state,
        fact.directories,
        fact.eligible_leader_replicas,
        fact.last_known_elr,
    )


def _leaves(broker_id: int) -> Callable[[PartitionChange], None]:
    def leave(change: PartitionChange) -> None:
        change.in_sync = [replica for replica in change.in_sync if replica != broker_id]

    return leave


def without_broker(broker_id: int, context: DecisionContext) -> list[Fact]:
    """A broker is fenced, shuts down or goes: it leaves the in-sync sets, and others lead what it led."""
    elector = Elector(context, without=broker_id)
    affected = find(context.image, lambda partition: broker_id in partition.in_sync)
    elector.decide_all(affected, _leaves(broker_id))
    return elector.facts


def with_broker(broker_id: int, context: DecisionContext) -> list[Fact]:
    """A broker comes (back) to life: partitions without a leader may get one."""
    elector = Elector(context, together_with=broker_id)
    affected = find(context.image, lambda partition: partition.leader == NO_LEADER and broker_id in partition.replicas)
    elector.decide_all(affected, lambda change: None)
    return elector.facts


def with_lost_records(broker_id: int, context: DecisionContext) -> list[Fact]:
    """A broker died without a clean stop: what it had in memory is gone, so it is neither in sync nor eligible."""
    elector = Elector(context, without=broker_id)
    leave = _leaves(broker_id)

    def lose(change: PartitionChange) -> None:
        leave(change)
        change.lost_records = (broker_id,)

    affected = find(context.image, lambda partition: broker_id in partition.in_sync or broker_id in partition.eligible)
    elector.decide_all(affected, lose)
    return elector.facts


def forgotten(broker_id: int, context: DecisionContext) -> list[Fact]:
    """A broker is unregistered: nobody waits for it any more."""
    return with_lost_records(broker_id, context) if _eligible_on(context) else without_broker(broker_id, context)


def stopped(broker_id: int, context: DecisionContext, *, clean: bool, directories: Collection[bytes]) -> list[Fact]:
    """A broker begins anew, with these directories: what its last life left behind. What lay in another one is not
    there any more, however cleanly it stopped."""
    if not clean and _eligible_on(context):
        return with_lost_records(broker_id, context)
    leave = _leaves(broker_id)

    def gone(partition: PartitionImage) -> bool:
        directory = directory_on(partition, broker_id)
        return not is_reserved(directory) and directory not in directories

    def stop(change: PartitionChange) -> None:
        leave(change)
        if gone(change.partition):
            change.lost_records = (broker_id,)

    def concerned(partition: PartitionImage) -> bool:
        return broker_id in partition.in_sync or (broker_id in partition.eligible and gone(partition))

    elector = Elector(context, without=broker_id)
    elector.decide_all(find(context.image, concerned), stop)
    return elector.facts


def without_directories(broker: BrokerImage, lost: Collection[bytes], context: DecisionContext) -> list[Fact]:
    """Directories of a broker stopped working: it leaves the in-sync sets of what lay there."""

    def lay_there(partition: PartitionImage) -> bool:
        return broker.id in partition.in_sync and directory_on(partition, broker.id) in lost

    elector = Elector(context, without=broker.id)
    elector.decide_all(find(context.image, lay_there), _leaves(broker.id))
    return elector.facts


def _eligible_on(context: DecisionContext) -> bool:
    return context.image.features.get(ELIGIBLE_LEADERS, 0) > 0
