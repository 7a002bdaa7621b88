"""Bytes of one partition, from whoever should be asked for them.

Owns: the Fetch exchange of one partition: leader or nearest replica, repetitions, what an answer means. Never knows:
records, Spark. Invariants: `next_offset` never goes back and passes every whole batch of the answer; an answer without
a whole batch means that nothing was there in time.
"""

from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.ports import ByteView
from ottla.base.vocabulary import NO_TOPIC_ID, TopicPartition, identity_text
from ottla.client.errors import BrokerError, ClientError, ProtocolViolation, known_code
from ottla.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from ottla.client.settings import CONSUMER
from ottla.records.header import CorruptBatch, iterate_headers
from ottla.records.visible import Aborted
from ottla.spark.session import Session
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.wire.schema import LATEST

_LAST_WITH_NAMES = 12
"""From the next version on Fetch names topics by id."""


class FetchedRows(NamedTuple):
    """What one answer brought."""

    data: ByteView
    aborted: tuple[Aborted, ...]
    next_offset: int
    end_offset: int
    """Up to where the partition can be read at the moment."""


class OutOfRange(Exception):
    """The position is not in the log."""


class Remade(Exception):
    """The topic has the name but not the id of the one that is to be read."""


class Fetcher:
    """One partition; on the session's loop. With a topic's id, of that topic alone."""

    def __init__(
        self, session: Session, partition: TopicPartition, committed_only: bool, size: int, topic_id: str = ""
    ) -> None:
        assert session.settings.kind is CONSUMER
        self._session = session
        self._partition = partition
        self._size = size
        self._isolation = READ_COMMITTED if committed_only else READ_UNCOMMITTED
        self._topic_id = topic_id
        self._replica = -1
        """Whom the leader sent us to."""

    async def fetch(self, position: int) -> FetchedRows:
        """The batches from `position` on; OutOfRange, Remade, or a ClientError once repetitions did not help."""
        return await self._session.cluster.retry(lambda: self._attempt(position), self._session.deadline())

    async def _attempt(self, position: int) -> FetchedRows:
        try:
            part = await self._ask(position)
            if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and self._replica >= 0:
                self._replica = -1  # a follower may be behind: the leader knows
                part = await self._ask(position)
            if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise OutOfRange
            if part.error_code:
                raise BrokerError(known_code(part.error_code), f"partition {self._partition}")
        except ClientError:
            self._replica = -1
            self._session.cluster.forget(self._partition.topic)
            raise
        if part.preferred_read_replica >= 0 and part.preferred_read_replica != self._replica:
            self._replica = part.preferred_read_replica
            return await self._attempt(position)
        return self._fetched(part, position)

    async def _ask(self, position: int) -> PartitionData:
        session = self._session
        cluster, settings, partition = session.cluster, session.settings, self._partition
        deadline = cluster.deadline(cluster.settings.request_seconds)
        leader = await cluster.leader(partition, deadline)
        if self._is_other(cluster.topics[partition.topic].topic_id):
            cluster.forget(partition.topic)  # what this process remembers may be of the topic before
            leader = await cluster.leader(partition, deadline)
            if self._is_other(cluster.topics[partition.topic].topic_id):
                raise Remade
        topic_id = cluster.topics[partition.topic].topic_id
        row = FetchPartition(
            partition=partition.partition,
            current_leader_epoch=leader.leader_epoch,
            fetch_offset=position,
            partition_max_bytes=self._size,
        )
        request = FetchRequest(
            max_wait_ms=settings.integer("fetch.max.wait.ms"),
            min_bytes=settings.integer("fetch.min.bytes"),
            max_bytes=max(settings.integer("fetch.max.bytes"), 1),
            isolation_level=self._isolation,
            topics=[FetchTopic(partition.topic, topic_id, [row])],
            rack_id=settings.text("client.rack"),
        )
        node = self._replica if self._replica in cluster.brokers else leader.leader
        highest = _LAST_WITH_NAMES if topic_id == NO_TOPIC_ID else LATEST
        answer = await cluster.ask_node(node, request, FetchResponse, deadline, highest=highest)
        if answer.error_code:
            raise BrokerError(answer.error_code, "a fetch")
        for topic in answer.responses:
            for part in topic.partitions:
                return part
        raise ProtocolViolation(f"partition {partition}", "a fetch was answered without it")

    def _is_other(self, topic_id: bytes) -> bool:
        return bool(self._topic_id) and topic_id != NO_TOPIC_ID and identity_text(topic_id) != self._topic_id

    def _fetched(self, part: PartitionData, position: int) -> FetchedRows:
        data = part.records or b""
        end = part.last_stable_offset if self._isolation == READ_COMMITTED else part.high_watermark
        aborted: tuple[Aborted, ...] = ()
        if self._isolation == READ_COMMITTED:
            aborted = tuple(Aborted(entry.first_offset, entry.producer_id) for entry in part.aborted_transactions or ())
        following = position
        try:
            for _, header in iterate_headers(data):
                following = max(following, header.next_offset)
        except CorruptBatch as problem:
            if following == position:
                raise ProtocolViolation(f"partition {self._partition}", f"damaged: {problem}") from None
        return FetchedRows(data, aborted, following, end)
