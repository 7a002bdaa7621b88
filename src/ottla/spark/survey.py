"""What the driver asks a cluster before anything is read.

Owns: finding the partitions of topics, turning bounds into offsets, the offsets of groups, the size of records.
Never knows: Spark, how ranges are shared or read. Invariants: every answer is an offset in the log or an error with the
partition's name; a partition of a stream that is gone or was cut is data loss, which the options judge.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import NO_TOPIC_ID, TopicPartition, identity_text
from ottla.client.cluster import Topic
from ottla.client.consumer.coordinator_link import CoordinatorLink
from ottla.client.consumer.group_offsets import GroupOffsets
from ottla.client.errors import BrokerError, ClientError
from ottla.client.groups.vocabulary import GroupMetadata, OffsetAndMetadata
from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, find_offsets, raise_errors
from ottla.client.settings import CONSUMER
from ottla.records.header import iterate_headers
from ottla.spark.errors import BadOption, DataLoss
from ottla.spark.fetching import Fetcher, OutOfRange
from ottla.spark.options import SourceOptions, Topics
from ottla.spark.positions import Bound, BoundKind, Offsets
from ottla.spark.session import session_for

_SAMPLE_BYTES = 64 * 1024
_log = logging.getLogger(__name__)


class Survey:
    """The cluster of a source, seen from the driver; blocking."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._session = session_for(CONSUMER, options.settings)
        self._isolation = READ_COMMITTED if options.committed_only else READ_UNCOMMITTED
        self._warned: set[str] = set()

    def time(self) -> float:
        return self._session.time()

    # --- partitions ---------------------------------------------------------------------------------------------------

    def partitions(self, *, begun: bool = False) -> list[TopicPartition]:
        """What the options choose, as it is now. A query that has `begun` may go on without topics that are gone, where
        data loss is allowed."""
        lenient = begun and not self._options.fail_on_data_loss
        return self._session.run(self._partitions(self._options.topics, lenient))

    async def _partitions(self, topics: Topics, lenient: bool) -> list[TopicPartition]:
        found = await self._find(topics, lenient)
        if topics.assigned:
            known = {topic.name: len(topic.partitions) for topic in found}
            return [each for each in topics.assigned if not lenient or each.partition < known.get(each.topic, 0)]
        return [TopicPartition(topic.name, part.number) for topic in found for part in topic.partitions]

    async def _find(self, topics: Topics, lenient: bool) -> list[Topic]:
        cluster, deadline = self._session.cluster, self._session.deadline()
        if topics.pattern:
            return await cluster.retry(lambda: self._matching(re.compile(topics.pattern), deadline), deadline)
        found: list[Topic] = []
        for name in topics.names or dict.fromkeys(partition.topic for partition in topics.assigned):
            cluster.forget(name)
            try:
                found.append(await cluster.topic(name, deadline))
            except BrokerError as problem:
                if problem.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                if not lenient:
                    said = "there is no such topic: create it, or correct what is subscribed to"
                    raise BrokerError(problem.code, problem.subject, said) from None
        return found

    async def _matching(self, pattern: re.Pattern[str], deadline: float) -> list[Topic]:
        """Topics by their names. One that the cluster cannot tell of at the moment is not one that is gone."""
        found: list[Topic] = []
        for name, topic in (await self._session.cluster.refresh(None, deadline)).items():
            if not pattern.fullmatch(name):
                continue
            if isinstance(topic, Topic):
                found += [] if topic.internal else [topic]
            elif topic.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise topic
        return sorted(found)

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, str]:
        """What tells these topics from others of the same name; those without an id are left out."""
        return self._session.run(self._topic_ids({partition.topic for partition in partitions}))

    async def _topic_ids(self, names: set[str]) -> dict[str, str]:
        cluster, deadline = self._session.cluster, self._session.deadline()
        found = [await cluster.topic(name, deadline) for name in sorted(names)]
        return {topic.name: identity_text(topic.topic_id) for topic in found if topic.topic_id != NO_TOPIC_ID}

    # --- offsets ------------------------------------------------------------------------------------------------------

    def ends(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._offsets(dict.fromkeys(partitions, LATEST))

    def written(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Where logs end, whatever may be read of them yet."""
        return self._offsets(dict.fromkeys(partitions, LATEST), READ_UNCOMMITTED)

    def beginnings(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def first_at(self, moments: Mapping[TopicPartition, int]) -> Offsets:
        """The first record at or after each moment; partitions without one are left out."""
        return {partition: offset for partition, offset in self._offsets(moments).items() if offset >= 0}

    def _offsets(self, moments: Mapping[TopicPartition, int], isolation: int | None = None) -> Offsets:
        if not moments:
            return {}
        session = self._session
        isolation = self._isolation if isolation is None else isolation
        found = session.run(find_offsets(session.cluster, moments, session.deadline(), isolation))
        raise_errors(found)
        return {partition: answer.offset for partition, answer in found.items()}

    def start(self, bound: Bound, partitions: list[TopicPartition]) -> Offsets:
        """Where reading begins. Offsets that the user wrote must be in the log, unless data loss is allowed."""
        if bound.kind is BoundKind.MOMENTS:
            found = self.first_at(bound.of(partitions))
            late = [partition for partition in partitions if partition not in found]
            if late and not self._options.latest_after_end:
                raise BadOption(f"{bound.option}: {late[0]} has no record at or after that time")
            return found | self.ends(late)
        if bound.kind is BoundKind.GROUP:
            committed = self.committed(bound.group, partitions)
            return self._words(dict.fromkeys(partitions, EARLIEST) | committed, bound.option)
        return self._words(bound.of(partitions), bound.option)

    def end(self, bound: Bound, partitions: list[TopicPartition]) -> Offsets:
        """Where a batch ends."""
        if bound.kind is BoundKind.MOMENTS:
            found = self.first_at(bound.of(partitions))
            return self.ends(partition for partition in partitions if partition not in found) | found
        if bound.kind is BoundKind.GROUP:
            return self._words(
                dict.fromkeys(partitions, LATEST) | self.committed(bound.group, partitions), bound.option
            )
        return self._words(bound.of(partitions), bound.option)

    def _words(self, offsets: Offsets, option: str) -> Offsets:
        """Words for the ends of the log become offsets; numbers are held against the log."""
        firsts = self.beginnings(partition for partition, offset in offsets.items() if offset != LATEST)
        lasts = self.ends(partition for partition, offset in offsets.items() if offset != EARLIEST)
        found: Offsets = {}
        for partition, offset in offsets.items():
            if offset == LATEST:
                found[partition] = lasts[partition]
            elif offset == EARLIEST:
                found[partition] = firsts[partition]
            else:
                first, last = firsts[partition], lasts[partition]
                if not first <= offset <= last:
                    self.lost(f"{option}: offset {offset} of {partition}: the log begins at {first} and ends at {last}")
                found[partition] = min(max(offset, first), last)
        return found

    def lost(self, what: str) -> None:
        """Data loss: an error, or a warning where the options allow it."""
        if self._options.fail_on_data_loss:
            raise DataLoss(what)
        if what not in self._warned:
            self._warned.add(what)
            _log.warning("%s", what)

    # --- groups -------------------------------------------------------------------------------------------------------

    def committed(self, group: str, partitions: list[TopicPartition]) -> Offsets:
        async def ask(offsets: GroupOffsets) -> Offsets:
            found = await offsets.committed(partitions, self._session.deadline(), stable=True)
            return {partition: position.offset for partition, position in found.items()}

        return self._session.run(self._at_group(group, ask))

    def commit(self, group: str, offsets: Offsets) -> None:
        """Tell a group how far the query has come, for lag tools; a group that refuses is only worth a warning."""

        async def tell(of_group: GroupOffsets) -> Offsets:
            positions = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
            await of_group.commit(positions, self._session.deadline())
            return offsets

        try:
            self._session.run(self._at_group(group, tell))
        except ClientError as problem:
            _log.warning("group %s does not take the query's offsets: %s", group, problem)

    async def _at_group(self, group: str, step: Callable[[GroupOffsets], Awaitable[Offsets]]) -> Offsets:
        cluster = self._session.cluster
        await cluster.connect(self._session.deadline())
        link = CoordinatorLink(cluster, group)
        try:
            return await step(GroupOffsets(cluster, link, lambda: GroupMetadata(group), lambda code, identity: None))
        finally:
            link.close()

    # --- sizes --------------------------------------------------------------------------------------------------------

    def record_bytes(self, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """About how many bytes an offset takes in each partition, judged by the batches at these positions."""
        sizes: dict[TopicPartition, float] = {}
        for partition, position in starts.items():
            fetcher = Fetcher(self._session, partition, self._options.committed_only, _SAMPLE_BYTES)
            try:
                fetched = self._session.run(fetcher.fetch(position))
            except OutOfRange:  # which the task that reads there will judge
                continue
            headers = [header for _, header in iterate_headers(fetched.data)]
            if headers:
                count = headers[-1].next_offset - headers[0].base_offset
                sizes[partition] = sum(header.size for header in headers) / count
        return sizes
