"""Log lines about changes of metadata: what a node writes to its log when the cluster has changed.

Owns: the words. Never knows: who prints them. Invariants: what happens to many at once is one line that names the first
few; the lines about the whole cluster and those about one broker's replicas tell nothing twice.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ottla.metadata.delta import ClusterDelta
from ottla.metadata.image import NO_LEADER, BrokerImage, ClusterImage, PartitionImage, ResourceType, TopicImage

NAMED = 5
"""How many are named in a line about many."""
NO_REASONS: Mapping[int, str] = {}
_KINDS = {
    ResourceType.TOPIC: "topic",
    ResourceType.BROKER: "broker",
    ResourceType.CLIENT_METRICS: "client metrics",
    ResourceType.GROUP: "group",
}


class LogLine(NamedTuple):
    """One line; `alarming` ones are warnings."""

    text: str
    alarming: bool = False


class Moved(NamedTuple):
    """A partition before and after; before is None where it is new."""

    name: str
    before: PartitionImage | None
    after: PartitionImage


def some(names: Sequence[str]) -> str:
    """`a, b, c, d, e and 7 more`"""
    named = ", ".join(names[:NAMED])
    return named if len(names) <= NAMED else f"{named} and {len(names) - NAMED} more"


def changed_partitions(delta: ClusterDelta, image: ClusterImage, created: bool) -> Iterator[Moved]:
    """Those that are another, and with `created` those of new topics."""
    for topic_id, numbers in delta.changed_topics.items():
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            continue
        earlier = delta.before.topics_by_id.get(topic_id)
        for number in sorted(numbers):
            before = None if earlier is None or number >= len(earlier.partitions) else earlier.partitions[number]
            yield Moved(f"{topic.name}-{number}", before, topic.partitions[number])
    for topic_id in delta.created_topics if created else ():
        topic = image.topics_by_id[topic_id]
        for number, after in enumerate(topic.partitions):
            yield Moved(f"{topic.name}-{number}", None, after)


# --- the whole cluster -----------------------------------------------------------------------------------------------


LEFT = "it has left"


def cluster_log_lines(
    delta: ClusterDelta, image: ClusterImage, reasons: Mapping[int, str] = NO_REASONS
) -> Iterator[LogLine]:
    """For the controller that decides; `reasons` say why brokers are fenced, where that is known."""
    yield from _topics(delta, image)
    yield from _brokers(delta, image, reasons)
    yield from _partitions(list(changed_partitions(delta, image, created=False)))
    if not delta.before.features:
        return  # a new cluster begins with some
    yield from _configs(delta, image)
    if delta.features_changed:
        for name in sorted({*image.features, *delta.before.features}):
            if image.features.get(name) != delta.before.features.get(name):
                yield LogLine(f"feature {name} is at {image.features.get(name, 0)} now")


def _topics(delta: ClusterDelta, image: ClusterImage) -> Iterator[LogLine]:
    made = [image.topics_by_id[topic_id] for topic_id in delta.created_topics]
    if len(made) > NAMED:
        yield LogLine(f"{len(made)} topics are created: {some([topic.name for topic in made])}")
    else:
        yield from (LogLine(f"topic {topic.name} is created: {_size(topic)}") for topic in made)
    gone = [topic.name for topic in delta.removed_topics.values()]
    if len(gone) > NAMED:
        yield LogLine(f"{len(gone)} topics are deleted: {some(gone)}")
    else:
        yield from (LogLine(f"topic {name} is deleted") for name in gone)
    for topic_id in delta.changed_topics:
        before, after = delta.before.topics_by_id.get(topic_id), image.topics_by_id.get(topic_id)
        if before is not None and after is not None and len(after.partitions) > len(before.partitions):
            yield LogLine(
                f"topic {after.name} has {len(after.partitions)} partitions now, {len(before.partitions)} before"
            )


def _size(topic: TopicImage) -> str:
    count, copies = len(topic.partitions), len(topic.partitions[0].replicas)
    return f"{count} partition{'s' * (count != 1)} of {copies} replica{'s' * (copies != 1)}"


def _brokers(delta: ClusterDelta, image: ClusterImage, reasons: Mapping[int, str]) -> Iterator[LogLine]:
    for broker_id in sorted(delta.changed_brokers):
        before, after = delta.before.brokers.get(broker_id), image.brokers.get(broker_id)
        if after is None:
            if before is not None:
                yield LogLine(f"broker {broker_id} is unregistered")
            continue
        if before is None or before.epoch != after.epoch:
            addresses = ", ".join(f"{host}:{port}" for host, port in after.listeners.values())
            yield LogLine(f"broker {broker_id} is registered at {addresses} with epoch {after.epoch}")
            before = after._replace(fenced=True, in_controlled_shutdown=False)
        yield from _standing(before, after, reasons.get(broker_id))


def _standing(before: BrokerImage, after: BrokerImage, reason: str | None) -> Iterator[LogLine]:
    if after.fenced and not before.fenced:
        if reason is None and before.in_controlled_shutdown:
            reason = LEFT
        yield LogLine(f"broker {after.id} is fenced{f': {reason}' if reason else ''}", alarming=reason != LEFT)
    lost = len(set(before.directories) - set(after.directories))
    if lost:
        yield LogLine(f"broker {after.id} has lost {lost} data director{'ies' if lost > 1 else 'y'}", alarming=True)
    if before.fenced and not after.fenced:
        yield LogLine(f"broker {after.id} is unfenced: it serves")
    if after.in_controlled_shutdown and not before.in_controlled_shutdown:
        yield LogLine(f"broker {after.id} is leaving: others take over what it leads")


def _nobody(partition: PartitionImage) -> str:
    """Who could have led, and does not."""
    if partition.in_sync:
        return f"none of {_list(partition.in_sync)}, which are in sync, can lead"
    if partition.eligible:
        return f"nobody is in sync, and none of {_list(partition.eligible)}, which are eligible, can lead"
    return "nobody is in sync or eligible"


def _partitions(changed: Sequence[Moved]) -> Iterator[LogLine]:
    offline = [
        each for each in changed if each.after.leader == NO_LEADER and each.before and each.before.leader != NO_LEADER
    ]
    yield from _each_or_all(
        offline,
        lambda each: f"{each.name} has no leader: {_nobody(each.after)}",
        "have no leader",
        alarming=True,
    )
    unclean = [each for each in changed if each.after.recovering and not (each.before and each.before.recovering)]
    yield from _each_or_all(
        unclean,
        lambda each: f"{each.name}: broker {each.after.leader} was elected though it may lack records",
        "got leaders that may lack records",
        alarming=True,
    )
    begun = [each for each in changed if _moves(each.after) and not _moves(each.before)]
    yield from _each_or_all(begun, _begun, "are being moved")
    going_on = [each for each in changed if _moves(each.after) and _moves(each.before) and _arrived(each)]
    yield from _each_or_all(
        going_on,
        lambda each: (
            f"{each.name} is being moved: {_list(_arrived(each))} arrived, {_list(_missing(each.after))} missing"
        ),
        "came forward on their move",
    )
    ended = [each for each in changed if _moves(each.before) and not _moves(each.after)]
    yield from _each_or_all(
        ended, lambda each: f"{each.name} is moved: it lies on {_list(each.after.replicas)} now", "are moved"
    )


def _moves(state: PartitionImage | None) -> bool:
    return state is not None and bool(state.adding or state.removing)


def _begun(each: Moved) -> str:
    return f"{each.name} is being moved: {_list(each.after.adding)} added, {_list(each.after.removing)} removed then"


def _arrived(each: Moved) -> tuple[int, ...]:
    """Replicas that were missing before and are in sync now."""
    before = each.before.in_sync if each.before is not None else ()
    return tuple(one for one in each.after.adding if one in each.after.in_sync and one not in before)


def _missing(state: PartitionImage) -> tuple[int, ...]:
    return tuple(one for one in state.adding if one not in state.in_sync)


def _configs(delta: ClusterDelta, image: ClusterImage) -> Iterator[LogLine]:
    for key in sorted(delta.changed_configs):
        kind, name = key
        if kind == ResourceType.TOPIC and name not in delta.before.topics:
            continue  # the topic came or went with them
        before, after = delta.before.configs.get(key, {}), image.configs.get(key, {})
        names = sorted(each for each in {*before, *after} if before.get(each) != after.get(each))
        if names and not (kind == ResourceType.TOPIC and name not in image.topics):
            what = f"{_KINDS.get(ResourceType(kind), 'resource')} {name}" if name else "all brokers"
            yield LogLine(f"settings of {what} are changed: {some(names)}")


# --- the replicas of one broker --------------------------------------------------------------------------------------


class ReplicaLogLines(NamedTuple):
    """What a change means for the replicas of a broker."""

    lines: list[LogLine]
    shrinks: int
    """In-sync sets of partitions led here that a replica left."""
    expansions: int


def replica_log_lines(delta: ClusterDelta, image: ClusterImage, node_id: int) -> ReplicaLogLines:
    leads: list[Moved] = []
    follows: list[Moved] = []
    shrunk: list[Moved] = []
    grown: list[Moved] = []
    left: list[Moved] = []
    for each in changed_partitions(delta, image, created=True):
        before, after = each.before, each.after
        if node_id not in after.replicas:
            if before is not None and node_id in before.replicas:
                left.append(each)
        elif before is None or before.leader != after.leader or before.leader_epoch != after.leader_epoch:
            if after.leader == node_id:
                leads.append(each)
            elif after.leader != NO_LEADER:
                follows.append(each)
        elif after.leader == node_id:
            if _gone(each):
                shrunk.append(each)
            if _come(each):
                grown.append(each)
    lines = [
        *_each_or_all(leads, _leading, "are led by this broker now"),
        *_each_or_all(follows, _following, "follow other leaders now"),
        *_each_or_all(shrunk, _shrunk, f"have fewer replicas in sync, {_list(_ids(shrunk, _gone))} left"),
        *_each_or_all(grown, _grown, f"have more replicas in sync, {_list(_ids(grown, _come))} joined"),
        *_each_or_all(left, lambda each: f"{each.name} lies here no longer", "lie here no longer"),
    ]
    return ReplicaLogLines(lines, len(shrunk), len(grown))


def _leading(each: Moved) -> str:
    before = each.before
    earlier = "" if before is None else f", after {_leader(before)}"
    in_sync = f"in sync: {_list(each.after.in_sync)}" if len(each.after.replicas) > 1 else "alone"
    return f"{each.name} is led by this broker from epoch {each.after.leader_epoch} on{earlier} ({in_sync})"


def _following(each: Moved) -> str:
    earlier = "" if each.before is None else f", after {_leader(each.before)}"
    return f"{each.name} follows broker {each.after.leader} from epoch {each.after.leader_epoch} on{earlier}"


def _leader(state: PartitionImage) -> str:
    return "nobody" if state.leader == NO_LEADER else f"broker {state.leader}"


def _shrunk(each: Moved) -> str:
    return f"{each.name}: {_list(sorted(_gone(each)))} left the in-sync set, which is {_list(each.after.in_sync)} now"


def _grown(each: Moved) -> str:
    return f"{each.name}: {_list(sorted(_come(each)))} joined the in-sync set, which is {_list(each.after.in_sync)} now"


def _gone(each: Moved) -> set[int]:
    """Replicas that are no longer in sync."""
    return set(each.before.in_sync if each.before is not None else ()) - set(each.after.in_sync)


def _come(each: Moved) -> set[int]:
    """Replicas that were not in sync."""
    return set(each.after.in_sync) - set(each.before.in_sync if each.before is not None else ())


def _ids(changed: Iterable[Moved], of: Callable[[Moved], set[int]]) -> list[int]:
    return sorted({broker_id for each in changed for broker_id in of(each)})


def _list(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids)) or "none"


def _each_or_all(
    found: Sequence[Moved], one: Callable[[Moved], str], many: str, alarming: bool = False
) -> Iterator[LogLine]:
    """A line each, or one for all where they are many."""
    if len(found) > NAMED:
        yield LogLine(f"{len(found)} partitions {many}: {some([each.name for each in found])}", alarming)
    else:
        yield from (LogLine(one(each), alarming) for each in found)
