"""A broker's numbers: topics, requests, replicas, logs, and the partitions it leads.

Owns: which object of a broker holds which number. Never knows: how numbers are asked for. Invariants: nothing here
changes a broker; the pages are generators, so that many partitions are told between other work.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from ottla.base.errors import ErrorCode
from ottla.broker.broker import Broker
from ottla.metadata.image import TopicImage
from ottla.net.request_times import BOUNDS, RequestMeter
from ottla.node.metrics import families as all_families
from ottla.node.metrics.exposition import Number, Page, labels_of
from ottla.node.metrics.families import Family
from ottla.replicas.partitions import Partition
from ottla.replicas.traffic import TopicTraffic

STARTING, FENCED, RUNNING, LEAVING = 1, 2, 3, 6
_BOTH_FETCHES = ("FetchConsumer", "FetchFollower")
_TRAFFIC: dict[Family, str] = {
    all_families.MESSAGES_IN: "messages_in",
    all_families.BYTES_IN: "bytes_in",
    all_families.BYTES_OUT: "bytes_out",
    all_families.PRODUCES: "produces",
    all_families.FETCHES: "fetches",
    all_families.FAILED_PRODUCES: "failed_produces",
    all_families.FAILED_FETCHES: "failed_fetches",
}


# --- requests --------------------------------------------------------------------------------------------------------


def write_requests(page: Page, meters: Iterable[RequestMeter]) -> Iterator[None]:
    """Of a node's broker and its controller together."""
    total: dict[str, tuple[list[int], float]] = {}
    queue: dict[str, tuple[list[int], float]] = {}
    errors: Counter[tuple[str, int]] = Counter()
    for meter in meters:
        errors.update(meter.errors)
        for name, times in tuple(meter.by_name.items()):
            for api in (name, "Fetch") if name in _BOTH_FETCHES else (name,):
                total[api] = _sum(total.get(api), times.total, times.seconds)
                queue[api] = _sum(queue.get(api), times.queue, times.queued_seconds)
            yield
    told = sorted(total)
    page.begin(all_families.REQUESTS)
    for api in told:
        page.series(all_families.REQUESTS, labels_of(all_families.REQUESTS, (api,)), sum(total[api][0]))
    page.all_series(
        all_families.ERRORS, (((api, _error_name(code)), count) for (api, code), count in sorted(errors.items()))
    )
    for family, found in ((all_families.TOTAL_TIME, total), (all_families.QUEUE_TIME, queue)):
        page.begin(family)
        for api in told:
            page.histogram(family, labels_of(family, (api,)), *found[api])
            yield


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:  # a newer controller's, passed on
        return str(code)


def _sum(before: tuple[list[int], float] | None, counts: list[int], seconds: float) -> tuple[list[int], float]:
    if before is None:
        return list(counts), seconds
    return [before[0][place] + counts[place] for place in range(len(BOUNDS) + 1)], before[1] + seconds


# --- topics ----------------------------------------------------------------------------------------------------------


class MessagesOut:
    """How many messages clients read: nobody looks into what leaves, so bytes are divided by what a message takes."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[TopicTraffic, int, float]] = {}
        """By topic: its counters, the bytes that were counted, and the messages that they came to."""

    def count(self, topic: str, traffic: TopicTraffic, partitions: Iterable[Partition | None]) -> int:
        """The number so far. Bytes that left since the last time are counted at the size that messages have now."""
        known, counted, messages = self._told.get(topic, (traffic, 0, 0.0))
        if known is not traffic:
            counted, messages = 0, 0.0
        if traffic.bytes_out > counted:
            logs = [partition.log for partition in partitions if partition is not None and partition.log is not None]
            size = sum(log.size for log in logs)
            held = sum(log.end_offset - log.start_offset for log in logs)
            if size:
                messages += (traffic.bytes_out - counted) * held / size
        self._told[topic] = (traffic, traffic.bytes_out, messages)
        return round(messages)

    def forget(self, topics: Iterable[str]) -> None:
        """All but these are gone."""
        kept = set(topics)
        self._told = {topic: told for topic, told in self._told.items() if topic in kept}


def write_topics(page: Page, broker: Broker, messages_out: MessagesOut) -> Iterator[None]:
    traffic = broker.partitions.traffic
    total = traffic.total()
    topics = sorted(traffic.by_name.items())
    for family, name in _TRAFFIC.items():
        page.begin(family)
        page.series(family, "", getattr(total, name))
        for topic, counted in topics:
            page.series(family, f'topic="{topic}"', getattr(counted, name))
            yield
    page.begin(all_families.MESSAGES_OUT)
    for topic, counted in topics:
        count = messages_out.count(topic, counted, broker.partitions.by_name.get(topic, ()))
        page.series(all_families.MESSAGES_OUT, f'topic="{topic}"', count)
        yield
    messages_out.forget(topic for topic, _ in topics)
    page.number(all_families.REPLICATION_IN, traffic.replication_bytes_in)
    page.number(all_families.REPLICATION_OUT, traffic.replication_bytes_out)


_COUNTS = (
    all_families.PARTITION_COUNT,
    all_families.LEADER_COUNT,
    all_families.OFFLINE_REPLICAS,
    all_families.UNDER_REPLICATED,
    all_families.UNDER_MIN_ISR,
    all_families.AT_MIN_ISR,
    all_families.REASSIGNING,
    all_families.PRODUCER_IDS,
)


# --- partitions ------------------------------------------------------------------------------------------------------


def _under_replicated(partition: Partition) -> bool:
    return len(partition.in_sync) < len(partition.replicas)


def _at_least(partition: Partition) -> int:
    return min(partition.least_in_sync, len(partition.replicas))


def _at_min(partition: Partition) -> bool:
    return len(partition.in_sync) == _at_least(partition) < len(partition.replicas)


def write_replicas(page: Page, broker: Broker, partitions: list[Partition]) -> Iterator[None]:
    counts = dict.fromkeys(_COUNTS, 0)
    topics = broker.image.topics
    for partition in partitions:
        counts[all_families.PARTITION_COUNT] += 1
        if partition.log is None:
            counts[all_families.OFFLINE_REPLICAS] += 1
        else:
            counts[all_families.PRODUCER_IDS] += len(partition.log.producers)
        if partition.leads:
            counts[all_families.LEADER_COUNT] += 1
            counts[all_families.UNDER_REPLICATED] += _under_replicated(partition)
            counts[all_families.UNDER_MIN_ISR] += not partition.enough_in_sync
            counts[all_families.AT_MIN_ISR] += _at_min(partition)
            counts[all_families.REASSIGNING] += _is_moved(topics.get(partition.name.topic), partition.index)
        yield
    for family, count in counts.items():
        page.number(family, count)
    page.number(all_families.ISR_SHRINKS, broker.partitions.traffic.in_sync_shrinks)
    page.number(all_families.ISR_EXPANDS, broker.partitions.traffic.in_sync_expansions)


def _is_moved(topic: TopicImage | None, number: int) -> bool:
    if topic is None or number >= len(topic.partitions):
        return False
    return bool(topic.partitions[number].adding or topic.partitions[number].removing)


_OF_LOGS: dict[Family, Callable[[Partition], Number]] = {
    all_families.LOG_SIZE: lambda each: each.log.size if each.log is not None else 0,
    all_families.LOG_START: lambda each: each.log.start_offset if each.log is not None else -1,
    all_families.LOG_END: lambda each: each.log.end_offset if each.log is not None else -1,
    all_families.LOG_SEGMENTS: lambda each: len(each.log.segments) if each.log is not None else 0,
}
_OF_LED: dict[Family, Callable[[Partition], Number]] = {
    all_families.PARTITION_UNDER_REPLICATED: lambda each: int(_under_replicated(each)),
    all_families.PARTITION_UNDER_MIN: lambda each: int(not each.enough_in_sync),
    all_families.PARTITION_AT_MIN: lambda each: int(_at_min(each)),
    all_families.CURRENT_OFFSET: lambda each: each.log.high_watermark if each.log is not None else -1,
    all_families.OLDEST_OFFSET: lambda each: each.log.start_offset if each.log is not None else -1,
    all_families.REPLICAS: lambda each: len(each.replicas),
    all_families.IN_SYNC: lambda each: len(each.in_sync),
    all_families.LEADER: lambda each: each.leader,
    all_families.PREFERRED: lambda each: int(each.replicas[:1] == (each.leader,)),
    all_families.UNDER_REPLICATED_PARTITION: lambda each: int(_under_replicated(each)),
}


def write_partitions(page: Page, broker: Broker, partitions: list[Partition]) -> Iterator[None]:
    """Of every replica here its log; of those that lead, what there is to know of the partition."""
    listed: list[tuple[str, Partition]] = []
    for each in partitions:
        listed.append((f'topic="{each.name.topic}",partition="{each.index}"', each))
        yield
    for family, look in _OF_LOGS.items():
        page.begin(family)
        for labels, partition in listed:
            page.series(family, labels, look(partition))
            yield
    led = [(labels, partition) for labels, partition in listed if partition.leads]
    for family, look in _OF_LED.items():
        page.begin(family)
        for labels, partition in led:
            page.series(family, labels, look(partition))
            yield
    page.begin(all_families.TOPIC_PARTITIONS)
    topics = broker.image.topics
    for _, partition in led:
        topic = topics.get(partition.name.topic)
        if partition.index == 0 and topic is not None:
            page.series(all_families.TOPIC_PARTITIONS, f'topic="{topic.name}"', len(topic.partitions))
        yield
    page.begin(all_families.REPLICA_LAG)
    for labels, partition in led:
        if partition.leading is None or partition.log is None:
            continue
        for replica, progress in partition.leading.followers.items():
            lag = partition.log.end_offset - max(progress.end_offset, 0)
            page.series(all_families.REPLICA_LAG, f'{labels},replica="{replica}"', lag)
        yield


# --- the rest --------------------------------------------------------------------------------------------------------


def write_storage(page: Page, broker: Broker) -> Iterator[None]:
    page.begin(all_families.FLUSH_TIME)
    page.histogram(all_families.FLUSH_TIME, "", broker.flusher.times.total, broker.flusher.times.seconds)
    directories = broker.store.directories
    page.number(all_families.OFFLINE_DIRECTORIES, len(directories) - len(broker.store.live))
    page.all_series(
        all_families.DIRECTORY_OFFLINE, (((each.path,), int(each.failure is not None)) for each in directories)
    )
    room = [(each.path, broker.disk_room(each.path)) for each in broker.store.live]
    page.all_series(all_families.DIRECTORY_TOTAL, (((path,), total) for path, (total, _) in room))
    page.all_series(all_families.DIRECTORY_FREE, (((path,), free) for path, (_, free) in room))
    files = broker.world.open_files
    page.number(all_families.LOG_FILES, len(files))
    page.number(all_families.MOST_LOG_FILES, files.most)
    page.number(all_families.RECLAIMED_FILES, files.reclaimed)
    yield


def write_standing(page: Page, broker: Broker | None, leaving: bool) -> None:
    """How the broker stands in the cluster; None is one that has not loaded its logs yet."""
    if leaving:
        state = LEAVING
    elif broker is None:
        state = STARTING
    else:
        state = FENCED if broker.lifecycle.fenced else RUNNING
    page.number(all_families.BROKER_STATE, state)
    if broker is not None:
        page.number(all_families.IN_PROGRESS, broker.dispatcher.in_progress)
        page.all_series(all_families.WAITING, [(("Fetch",), len(broker.waiting))])
