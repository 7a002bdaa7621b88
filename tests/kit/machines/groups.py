"""A group machine on virtual time, with a log of its records and requests in a line each."""

from __future__ import annotations

from itertools import count
from typing import Any

from ottla.base.errors import ErrorCode
from ottla.base.ports import Random
from ottla.groups.classic import ClassicGroup
from ottla.groups.decision import Caller, GroupDecision, GroupLimits, Now
from ottla.groups.machine import GroupMachine
from ottla.groups.records import written
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUP = "group"
WALL_AHEAD_MS = 1_000_000_000


class Counting:
    """The `Random` port without chance."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def identity(self) -> bytes:
        return next(self._numbers).to_bytes(16, "big")

    def uniform(self, low: float, high: float) -> float:
        return low


class Place:
    """Where the answer to a request arrives, now or later."""

    answer: Any = None

    @property
    def answered(self) -> bool:
        return self.answer is not None


class Coordinator:
    """See the module."""

    def __init__(self, limits: GroupLimits | None = None, random: Random | None = None) -> None:
        self.random = random or Counting()
        self.now_ms = 1_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.disk_full = False
        self.machine = GroupMachine(limits or GroupLimits(initial_delay_ms=0), self.random, self.now)

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms + WALL_AHEAD_MS)

    @property
    def group(self) -> ClassicGroup:
        group = self.machine.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def state(self) -> str:
        return self.group.state.value

    def carry_out(self, decision: GroupDecision) -> Any:
        if decision.facts and self.disk_full:
            return None
        self.log += map(written, decision.facts)
        for fact in decision.facts:
            self.machine.apply(fact)
        self.machine.follow(decision)
        for place, answer in decision.released:
            assert isinstance(place, Place)
            assert not place.answered, "answered twice"
            place.answer = answer
        return decision.reply

    def pass_time(self, milliseconds: int) -> None:
        until = self.now_ms + milliseconds
        while self.machine.next_deadline() <= until:
            self.now_ms = max(self.now_ms, self.machine.next_deadline())
            while (decision := self.machine.expire(self.now)) is not None:
                self.carry_out(decision)
        self.now_ms = until

    # --- requests ---

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: tuple[str, ...] = ("range",),
        protocol_type: str = "consumer",
        metadata: bytes = b"\0\0\0\0\0\0",
        session_ms: int = 10_000,
        rebalance_ms: int = 30_000,
        version: int = 3,
    ) -> Place:
        place = Place()
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name, metadata) for name in protocols],
        )
        caller = Caller(place, "client", "/host", version)
        reply = self.carry_out(self.machine.decide_join(request, caller, self.now))
        if reply is not None:
            place.answer = reply
        self.pass_time(0)
        return place

    def sync(
        self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, instance: str | None = None
    ) -> Place:
        place = Place()
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            assignments=[SyncGroupRequestAssignment(*item) for item in (assignments or {}).items()],
        )
        reply = self.carry_out(self.machine.decide_sync(request, Caller(place, "client", "/host", 5), self.now))
        if reply is not None:
            place.answer = reply
        return place

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(GROUP, generation, member_id, instance)
        return ErrorCode(self.carry_out(self.machine.decide_heartbeat(request, self.now)).error_code)

    def leave(self, *members: tuple[str, str | None]) -> list[ErrorCode]:
        request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(*member) for member in members])
        reply = self.carry_out(self.machine.decide_leave(request, self.now))
        return [ErrorCode(member.error_code) for member in reply.members]

    def commit(
        self,
        offset: int,
        *,
        member_id: str = "",
        generation: int = -1,
        topic: str = "topic",
        metadata: str | None = "",
        retention_ms: int = -1,
        topic_id: bytes = bytes(16),
        version: int = 8,
        group_id: str = GROUP,
    ) -> ErrorCode:
        partitions = [OffsetCommitRequestPartition(0, offset, committed_metadata=metadata)]
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            retention_time_ms=retention_ms,
            topics=[OffsetCommitRequestTopic(topic, topic_id, partitions)],
        )
        reply = self.carry_out(self.machine.decide_commit(request, version, self.now))
        return ErrorCode(reply.topics[0].partitions[0].error_code)

    def committed(self, topic: str = "topic", group_id: str = GROUP) -> int | None:
        found = self.machine.offsets.get(group_id, topic, 0)
        return None if found is None else found.offset

    # --- what most tests begin with ---

    def stable(self, count: int = 2, instances: bool = False) -> list[str]:
        """A stable group; answers its member ids, the leader's first. Each is assigned its own number."""
        names = [f"instance{number}" if instances else None for number in range(count)]
        joined: list[str] = []
        for name in names:
            newcomer = self.join(instance=name)
            # A newcomer's answer waits until everybody has joined again.
            again = [self.join(member_id, instance=own) for member_id, own in zip(joined, names, strict=False)]
            joined = [place.answer.member_id for place in (*again, newcomer)]
        generation = self.group.generation
        leader = self.group.leader
        assert leader is not None
        joined.sort(key=lambda member_id: member_id != leader)
        assignments = {member_id: str(number).encode() for number, member_id in enumerate(joined)}
        own_names = {member.member_id: member.instance_id for member in self.group.members.values()}
        for member_id in reversed(joined):
            given = assignments if member_id == leader else None
            self.sync(member_id, generation, given, own_names[member_id])
        assert self.state == "Stable"
        return joined
