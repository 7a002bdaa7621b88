"""Committed offsets: writing and reading them at the group's coordinator.

Owns: the OffsetCommit and OffsetFetch exchanges and which of their errors mean what. Never knows: when to commit, who
reads. Invariants: a commit is made under the identity the member has at that moment; whatever says that the member is
not what it thinks is told to it.
"""

from collections.abc import Callable, Collection, Mapping

from ottla.base.errors import RETRIABLE, ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.consumer.coordinator_link import CoordinatorLink, Lane
from ottla.client.errors import (
    BrokerError,
    ClientError,
    CommitFailed,
    MemberFenced,
    RebalanceInProgress,
    known_code,
)
from ottla.client.groups.assignors import by_topic
from ottla.client.groups.member import ELSEWHERE
from ottla.client.groups.vocabulary import GroupMetadata, OffsetAndMetadata
from ottla.client.retry import unless_missing
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

BY_NAME = 9
"""The last versions of both that name topics; later ones have their ids."""
NO_OFFSET = -1
_NOT_A_MEMBER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_MEMBER_EPOCH})

Refused = Callable[[ErrorCode, GroupMetadata], None]


class GroupOffsets:
    """`identity` says who commits; `refused` hears what the coordinator thinks of that."""

    def __init__(
        self, cluster: Cluster, link: CoordinatorLink, identity: Callable[[], GroupMetadata], refused: Refused
    ) -> None:
        self._cluster = cluster
        self._link = link
        self._identity = identity
        self._refused = refused

    # --- commits ---

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: float, *, await_topics: bool = True
    ) -> None:
        """Again and again until it is done, is refused for good, or time is over.

        A coordinator may not have heard yet of a topic that is read already; `await_topics` is for who has the time.
        """

        async def once() -> None:
            await self.commit_once(offsets, deadline)

        def worth_another_try(failure: ClientError) -> bool:
            return _worth_another_try(failure) and (await_topics or unless_missing(failure))

        await self._cluster.retry(once, deadline, worth_another_try)

    async def commit_once(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: float) -> None:
        if not offsets:
            return
        identity = self._identity()
        request = OffsetCommitRequest(
            group_id=identity.group_id,
            generation_id_or_member_epoch=identity.generation_id,
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[_entry(number, offsets[TopicPartition(topic, number)]) for number in numbers],
                )
                for topic, numbers in by_topic(offsets).items()
            ],
        )
        soon = min(deadline, self._cluster.deadline(self._cluster.settings.request_seconds))
        answer = await self._link.ask(Lane.OFFSETS, request, OffsetCommitResponse, soon, highest=BY_NAME)
        for topic in answer.topics:
            for part in topic.partitions:
                if part.error_code:
                    raise self._problem(
                        known_code(part.error_code), f"partition {topic.name}-{part.partition_index}", identity
                    )

    def _problem(self, code: ErrorCode, subject: str, identity: GroupMetadata) -> ClientError:
        if code in ELSEWHERE:
            self._link.lost()
            return BrokerError(code, subject)
        self._refused(code, identity)
        if code is ErrorCode.FENCED_INSTANCE_ID:
            return MemberFenced(f"another member is {identity.group_instance_id!r} in group {identity.group_id!r} now")
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            return RebalanceInProgress(f"group {identity.group_id!r} is rebalancing; poll, then commit again")
        if code in _NOT_A_MEMBER:
            return CommitFailed(
                f"the partitions of group {identity.group_id!r} were given to others ({code.name}): "
                "the time between two polls was longer than max.poll.interval.ms, or the session ended"
            )
        return BrokerError(code, subject)

    # --- reading ---

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: float, *, stable: bool
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What was committed; partitions without are left out. `stable`: none that a transaction may still change."""

        async def once() -> dict[TopicPartition, OffsetAndMetadata]:
            return await self._fetch(partitions, deadline, stable)

        return await self._cluster.retry(once, deadline, _worth_another_try) if partitions else {}

    async def _fetch(
        self, partitions: Collection[TopicPartition], deadline: float, stable: bool
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        identity = self._identity()
        topics = by_topic(partitions)
        group = OffsetFetchRequestGroup(
            identity.group_id,
            topics=[
                OffsetFetchRequestTopics(name=topic, partition_indexes=numbers) for topic, numbers in topics.items()
            ],
        )
        older = [OffsetFetchRequestTopic(topic, numbers) for topic, numbers in topics.items()]
        request = OffsetFetchRequest(identity.group_id, older, [group], stable)
        soon = min(deadline, self._cluster.deadline(self._cluster.settings.request_seconds))
        answer = await self._link.ask(Lane.OFFSETS, request, OffsetFetchResponse, soon, highest=BY_NAME)
        said = answer.groups[0] if answer.groups else answer  # older versions answer for one group
        if said.error_code:
            raise self._problem(known_code(said.error_code), f"group {identity.group_id!r}", identity)
        found = {}
        for topic in said.topics:
            for part in topic.partitions:
                if part.error_code:
                    subject = f"partition {topic.name}-{part.partition_index}"
                    raise self._problem(known_code(part.error_code), subject, identity)
                if part.committed_offset != NO_OFFSET:
                    found[TopicPartition(topic.name, part.partition_index)] = OffsetAndMetadata(
                        part.committed_offset, part.metadata or "", part.committed_leader_epoch
                    )
        return found


def _entry(number: int, position: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(number, position.offset, position.leader_epoch, position.metadata)


def _worth_another_try(failure: ClientError) -> bool:
    if isinstance(failure, BrokerError):
        return failure.code in RETRIABLE or failure.code is ErrorCode.STALE_MEMBER_EPOCH
    return failure.retriable and not isinstance(failure, CommitFailed)
