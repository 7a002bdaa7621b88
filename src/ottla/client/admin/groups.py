"""Groups and their offsets.

Owns: the requests to coordinators, whichever protocol a group speaks, and results as plain values. Never knows: being
a member. Invariant: every group is asked at its own coordinator, again where that moves while there is time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.admin.part import Outcome, Part, by_topic
from ottla.client.coordinators import CoordinatorKind, find_coordinator
from ottla.client.errors import BrokerError, UnsupportedRequest, known_code
from ottla.groups.embedded import BadFormat, read_assignment
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

T = TypeVar("T")

LAST_WITH_NAMES = 9
"""From the next version on OffsetCommit and OffsetFetch name topics by id."""
_REMOVED_BY_ADMIN = "removed by an operator"
_CONSUMER_PROTOCOL = "consumer"


class ListedGroup(NamedTuple):
    """A group as its coordinator lists it; state and kind are empty where the broker is too old to tell."""

    group_id: str
    protocol_type: str
    state: str
    kind: str


class GroupMember(NamedTuple):
    """A member and the partitions it has."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]
    epoch: int = -1
    """Its epoch in a group of the newer protocol, else -1."""


class GroupDescription(NamedTuple):
    """A group, whichever protocol it speaks (`classic` or `consumer`)."""

    group_id: str
    kind: str
    state: str
    assignor: str
    members: tuple[GroupMember, ...]
    coordinator: int
    epoch: int = -1


class CommittedOffset(NamedTuple):
    """Where a group goes on to read."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class GroupAdmin(Part):
    """Groups, their members and their offsets."""

    async def groups(
        self, states: Sequence[str] = (), kinds: Sequence[str] = (), seconds: float | None = None
    ) -> list[ListedGroup]:
        """Every group of every coordinator, by name; of these states and kinds (`classic`, `consumer`) if named."""
        deadline = self._deadline(seconds)
        request = ListGroupsRequest(states, kinds)

        async def ask_one(node: int) -> list[ListedGroup]:
            answer = await self._cluster.ask_node(node, request, ListGroupsResponse, deadline)
            if answer.error_code:
                raise BrokerError(answer.error_code, f"the groups of broker {node}")
            return [ListedGroup(each.group_id, each.protocol_type, each.group_state, each.group_type)
                    for each in answer.groups]  # fmt: skip

        async def ask() -> list[ListedGroup]:
            await self._cluster.refresh((), deadline)
            answers = await asyncio.gather(*(ask_one(node) for node in self._cluster.brokers))
            return sorted({group for groups in answers for group in groups})

        return await self._cluster.retry(ask, deadline)

    async def describe_groups(
        self, names: Sequence[str], seconds: float | None = None
    ) -> dict[str, GroupDescription | BrokerError]:
        """Each group with its members; GROUP_ID_NOT_FOUND for one that is not there."""
        deadline = self._deadline(seconds)

        async def one(name: str) -> GroupDescription | BrokerError:
            try:
                return await self._at_coordinator(name, deadline, lambda node: self._describe(name, node, deadline))
            except BrokerError as refused:
                return refused

        return dict(zip(names, await asyncio.gather(*(one(name) for name in names)), strict=True))

    async def _describe(self, name: str, node: int, deadline: float) -> GroupDescription:
        try:
            return await self._describe_modern(name, node, deadline)
        except UnsupportedRequest:
            pass
        except BrokerError as refused:
            if refused.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                raise
        return await self._describe_classic(name, node, deadline)

    async def _describe_modern(self, name: str, node: int, deadline: float) -> GroupDescription:
        request = ConsumerGroupDescribeRequest([name])
        answer = await self._cluster.ask_node(node, request, ConsumerGroupDescribeResponse, deadline)
        (group,) = answer.groups
        _refuse(group.error_code, name, group.error_message)
        members = [
            GroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                _assigned(member.assignment),
                member.member_epoch,
            )
            for member in group.members
        ]
        return GroupDescription(
            name, "consumer", group.group_state, group.assignor_name, tuple(members), node, group.group_epoch
        )

    async def _describe_classic(self, name: str, node: int, deadline: float) -> GroupDescription:
        answer = await self._cluster.ask_node(node, DescribeGroupsRequest([name]), DescribeGroupsResponse, deadline)
        (group,) = answer.groups
        _refuse(group.error_code, name, group.error_message)
        if group.group_state == "Dead":  # how versions before 6 say that there is none
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {name!r}")
        consumers = group.protocol_type == _CONSUMER_PROTOCOL
        members = [
            GroupMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                _embedded(bytes(member.member_assignment)) if consumers else (),
            )
            for member in group.members
        ]
        return GroupDescription(name, "classic", group.group_state, group.protocol_data, tuple(members), node)

    async def delete_groups(self, names: Sequence[str], seconds: float | None = None) -> dict[str, Outcome]:
        """Forget groups that have no members, with their offsets."""
        deadline = self._deadline(seconds)

        async def delete(name: str, node: int) -> Outcome:
            answer = await self._cluster.ask_node(node, DeleteGroupsRequest([name]), DeleteGroupsResponse, deadline)
            (result,) = answer.results
            _refuse(result.error_code, name)
            return Outcome(ErrorCode.NONE)

        async def one(name: str) -> Outcome:
            return await self._outcome(self._at_coordinator(name, deadline, lambda node: delete(name, node)))

        return dict(zip(names, await asyncio.gather(*(one(name) for name in names)), strict=True))

    async def remove_members(
        self, group: str, instance_ids: Collection[str] | None = None, seconds: float | None = None
    ) -> dict[str, Outcome]:
        """Let static members of a classic group leave, or all members; by instance id, else by member id."""
        deadline = self._deadline(seconds)
        if instance_ids is None:
            described = (await self.describe_groups([group], seconds))[group]
            if isinstance(described, BrokerError):
                raise described
            leaving = [
                MemberIdentity(each.member_id, each.instance_id, _REMOVED_BY_ADMIN) for each in described.members
            ]
        else:
            leaving = [MemberIdentity("", name, _REMOVED_BY_ADMIN) for name in instance_ids]
        if not leaving:
            return {}

        async def leave(node: int) -> dict[str, Outcome]:
            answer = await self._cluster.ask_node(
                node, LeaveGroupRequest(group, members=leaving), LeaveGroupResponse, deadline
            )
            _refuse(answer.error_code, group)
            return {
                each.group_instance_id or each.member_id: Outcome(known_code(each.error_code))
                for each in answer.members
            }

        return await self._at_coordinator(group, deadline, leave)

    # --- offsets ------------------------------------------------------------------------------------------------------

    async def group_offsets(
        self,
        group: str,
        partitions: Collection[TopicPartition] | None = None,
        seconds: float | None = None,
        *,
        stable: bool = False,
    ) -> dict[TopicPartition, CommittedOffset]:
        """What a group has committed, for these partitions or all; `stable` waits for open transactions."""
        deadline = self._deadline(seconds)
        topics = None if partitions is None else by_topic(partitions)
        request = OffsetFetchRequest(
            group,
            None if topics is None else [OffsetFetchRequestTopic(*each) for each in topics.items()],
            [
                OffsetFetchRequestGroup(
                    group,
                    topics=None
                    if topics is None
                    else [OffsetFetchRequestTopics(name, partition_indexes=rows) for name, rows in topics.items()],
                )
            ],
            stable,
        )

        async def fetch(node: int) -> dict[TopicPartition, CommittedOffset]:
            answer = await self._cluster.ask_node(node, request, OffsetFetchResponse, deadline, highest=LAST_WITH_NAMES)
            found = answer.groups[0] if answer.groups else answer
            _refuse(found.error_code, group)
            committed: dict[TopicPartition, CommittedOffset] = {}
            for topic in found.topics:
                for part in topic.partitions:
                    _refuse(part.error_code, group)
                    if part.committed_offset >= 0:
                        committed[TopicPartition(topic.name, part.partition_index)] = CommittedOffset(
                            part.committed_offset, part.committed_leader_epoch, part.metadata or ""
                        )
            return committed

        return await self._at_coordinator(group, deadline, fetch)

    async def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | CommittedOffset],
        seconds: float | None = None,
    ) -> dict[TopicPartition, Outcome]:
        """Let a group without members go on elsewhere; a group that is not there comes to be."""
        deadline = self._deadline(seconds)
        rows = {
            place: CommittedOffset(offset) if isinstance(offset, int) else offset for place, offset in offsets.items()
        }
        topics = [
            OffsetCommitRequestTopic(
                name,
                partitions=[
                    OffsetCommitRequestPartition(number, *rows[TopicPartition(name, number)]) for number in numbers
                ],
            )
            for name, numbers in by_topic(rows).items()
        ]
        request = OffsetCommitRequest(group, topics=topics)

        async def commit(node: int) -> dict[TopicPartition, Outcome]:
            answer = await self._cluster.ask_node(
                node, request, OffsetCommitResponse, deadline, highest=LAST_WITH_NAMES
            )
            return _by_partition(group, ((t.name, p.partition_index, p.error_code) for t in answer.topics
                                         for p in t.partitions))  # fmt: skip

        return await self._at_coordinator(group, deadline, commit)

    async def delete_group_offsets(
        self, group: str, partitions: Collection[TopicPartition], seconds: float | None = None
    ) -> dict[TopicPartition, Outcome]:
        """Forget offsets of topics the group does not read now."""
        deadline = self._deadline(seconds)
        topics = [
            OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(number) for number in numbers])
            for name, numbers in by_topic(partitions).items()
        ]

        async def delete(node: int) -> dict[TopicPartition, Outcome]:
            request = OffsetDeleteRequest(group, topics)
            answer = await self._cluster.ask_node(node, request, OffsetDeleteResponse, deadline)
            _refuse(answer.error_code, group)
            return _by_partition(group, ((t.name, p.partition_index, p.error_code) for t in answer.topics
                                         for p in t.partitions))  # fmt: skip

        return await self._at_coordinator(group, deadline, delete)

    async def _at_coordinator(self, group: str, deadline: float, step: Callable[[int], Awaitable[T]]) -> T:
        async def ask() -> T:
            return await step(await find_coordinator(self._cluster, CoordinatorKind.GROUP, group, deadline))

        return await self._cluster.retry(ask, deadline)

    @staticmethod
    async def _outcome(work: Awaitable[Outcome]) -> Outcome:
        try:
            return await work
        except BrokerError as refused:
            return Outcome(refused.code, refused.message)


def _refuse(error: int, group: str, message: str | None = None) -> None:
    if error:
        raise BrokerError(error, f"group {group!r}", message or None)


def _by_partition(group: str, rows: Iterable[tuple[str, int, int]]) -> dict[TopicPartition, Outcome]:
    """The outcomes; what concerns the coordinator itself concerns the whole request."""
    outcomes = {TopicPartition(name, number): Outcome(known_code(error)) for name, number, error in rows}
    moved = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    for outcome in outcomes.values():
        if outcome.error in moved:
            raise BrokerError(outcome.error, f"group {group!r}")
    return outcomes


def _assigned(assignment: Assignment | None) -> tuple[TopicPartition, ...]:
    rows = assignment.topic_partitions if assignment is not None else ()
    return tuple(sorted(TopicPartition(row.topic_name, number) for row in rows for number in row.partitions))


def _embedded(assignment: bytes) -> tuple[TopicPartition, ...]:
    if not assignment:
        return ()
    try:
        topics = read_assignment(assignment)
    except BadFormat:
        return ()  # a member with a format of its own
    return tuple(sorted(TopicPartition(name, number) for name, numbers in topics.items() for number in numbers))
