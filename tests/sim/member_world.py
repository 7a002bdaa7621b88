"""Members of one group on virtual time: the client's machines against the coordinator's, over a network that delays
and loses, with programs that poll, dawdle, crash and come back."""

from __future__ import annotations

import random
from heapq import heappop, heappush
from itertools import count
from typing import Any

from kit.machines.consumer_groups import ModernCoordinator, topic_id
from kit.machines.groups import GROUP, Place
from ottla.base.vocabulary import TopicPartition
from ottla.client.groups.assignors import Assignor, RangeAssignor, RoundRobinAssignor
from ottla.client.groups.classic import ClassicMember
from ottla.client.groups.member import Member
from ottla.client.groups.modern import ModernMember
from ottla.client.groups.sticky import CooperativeStickyAssignor, StickyAssignor
from ottla.client.groups.vocabulary import MemberSettings
from ottla.groups.classic import ClassicGroup
from ottla.groups.decision import Caller
from ottla.groups.modern import ConsumerGroup
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.sync_group import SyncGroupRequest

KINDS: dict[str, type[Assignor]] = {
    kind.name: kind for kind in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}
SETTINGS = MemberSettings(GROUP, session=10.0, heartbeat=1.0, poll_interval=20.0)
UNANSWERED_MS = 6_000


class Program:
    """A consumer around a member: it polls every so often and then carries out what is due."""

    def __init__(self, world: MemberWorld, name: str, protocol: str, topics: frozenset[str]) -> None:
        self.world = world
        self.name = name
        self.gone = False
        self.poll_ms = world.chance.randrange(50, 500)
        self.revoked = 0
        self.failed = False
        now = world.now
        if protocol == "modern":
            self.member: Member = ModernMember(SETTINGS, name, None, now)
        else:
            self.member = ClassicMember(SETTINGS, [KINDS[each]() for each in protocol.split(",")], now)
        self.member.subscribe(topics, now)
        world.after(0, self.run)
        world.after(self.poll_ms, self.poll)

    def run(self) -> None:
        """What the consumer's own task does."""
        if self.gone:
            return
        member, now = self.member, self.world.now
        if member.wanted:
            member.known(dict(self.world.coordinator.topics.counts), now)
        if isinstance(member, ModernMember) and member.unknown_ids:
            member.named({topic_id(name): name for name in self.world.coordinator.topics.counts})
        request = member.step(now)
        if request is not None:
            self.world.send(self, request)
        else:
            assert member.failure is None, (self.name, member.failure)

    def answered(self, request: Any, answer: Any) -> None:
        if self.gone:
            return
        self.member.moved = False
        if answer is None:
            self.member.failed(request, self.world.now)
        else:
            self.member.answered(request, answer, self.world.now)
        self.run()

    def poll(self) -> None:
        if self.gone:
            return
        member = self.member
        member.polled(self.world.now)
        while member.change is not None:
            change = member.begin()
            self.revoked += len(change.revoked)
            member.done(self.world.now)
            self.world.check()
        self.run()
        self.world.after(self.poll_ms, self.poll)

    def leave(self) -> None:
        self.gone = True
        request = self.member.leave()
        if request is not None:
            self.world.send(self, request)

    def crash(self) -> None:
        self.gone = True


class MemberWorld:
    """See the module."""

    def __init__(self, seed: int, **counts: int) -> None:
        self.chance = random.Random(seed)
        self.coordinator = ModernCoordinator(None, **counts)
        self.loss = 0.0
        self.programs: list[Program] = []
        self._events: list[tuple[int, int, Any]] = []
        self._order = count()
        self._numbers = count()
        self._waiting: list[tuple[Program, Any, Place, int]] = []

    @property
    def now(self) -> float:
        return self.coordinator.now_ms / 1000

    @property
    def present(self) -> list[Program]:
        return [program for program in self.programs if not program.gone]

    def start(self, protocol: str, *topics: str) -> Program:
        program = Program(self, f"program{next(self._numbers)}", protocol, frozenset(topics or ("t",)))
        self.programs.append(program)
        return program

    def after(self, milliseconds: int, act: Any) -> None:
        heappush(self._events, (self.coordinator.now_ms + milliseconds, next(self._order), act))

    # --- the network ---

    def send(self, program: Program, request: Any) -> None:
        delay = self.chance.randrange(1, 30)
        if self.chance.random() < self.loss:
            self.after(UNANSWERED_MS, lambda: program.answered(request, None))
        else:
            self.after(delay, lambda: self._arrive(program, request))

    def _arrive(self, program: Program, request: Any) -> None:
        place = Place()
        coordinator, machine, now = self.coordinator, self.coordinator.machine, self.coordinator.now
        caller = Caller(place, "client", "/host", type(request).VERSIONS[1])
        if isinstance(request, JoinGroupRequest):
            reply = coordinator.carry_out(machine.decide_join(request, caller, now))
        elif isinstance(request, SyncGroupRequest):
            reply = coordinator.carry_out(machine.decide_sync(request, caller, now))
        elif isinstance(request, HeartbeatRequest):
            reply = coordinator.carry_out(machine.decide_heartbeat(request, now))
        elif isinstance(request, LeaveGroupRequest):
            reply = coordinator.carry_out(machine.decide_leave(request, now))
        else:
            assert isinstance(request, ConsumerGroupHeartbeatRequest)
            reply = coordinator.carry_out(machine.decide_consumer_heartbeat(request, caller, now))
        if reply is not None:
            place.answer = reply
        self._waiting.append((program, request, place, coordinator.now_ms))

    def _deliver(self) -> None:
        still = []
        for program, request, place, since in self._waiting:
            if not place.answered:
                still.append((program, request, place, since))
            elif self.chance.random() < self.loss:
                self.after(UNANSWERED_MS, lambda p=program, r=request: p.answered(r, None))
            else:
                delay = self.chance.randrange(1, 30)
                self.after(delay, lambda p=program, r=request, a=place.answer: p.answered(r, a))
        self._waiting = still

    # --- time ---

    def run(self, milliseconds: int) -> None:
        until = self.coordinator.now_ms + milliseconds
        while self._events and self._events[0][0] <= until:
            at, _, act = heappop(self._events)
            self.coordinator.pass_time(max(0, at - self.coordinator.now_ms))
            self._deliver()
            act()
            self.coordinator.pass_time(0)
            self._deliver()
            self.check()
        self.coordinator.pass_time(max(0, until - self.coordinator.now_ms))
        self._deliver()

    # --- what must hold ---

    def check(self) -> None:
        """No partition has two holders whom the coordinator counts on."""
        group = self.coordinator.machine.groups.get(GROUP)
        holders: dict[TopicPartition, str] = {}
        for program in self.present:
            who = program.member.metadata
            if isinstance(group, ClassicGroup):
                counts = who.member_id in group.members and who.generation_id == group.generation
            else:
                counts = isinstance(group, ConsumerGroup) and who.member_id in group.members and who.generation_id > 0
            for partition in program.member.owned if counts else ():
                assert partition not in holders, f"{partition}: {holders[partition]} and {program.name}"
                holders[partition] = program.name

    @property
    def settled(self) -> bool:
        """Whether every partition that somebody wants has one holder and nobody has anything to do."""
        owned = [partition for program in self.present for partition in program.member.owned]
        wanted = frozenset[str]().union(*(program.member.watched for program in self.present))
        existing = sum(number for name, number in self.coordinator.topics.counts.items() if name in wanted)
        idle = all(program.member.idle is None and program.member.change is None for program in self.present)
        return idle and len(owned) == len(set(owned)) == existing

    def settle(self, milliseconds: int = 120_000) -> None:
        for _ in range(milliseconds // 500):
            if self.settled:
                return
            self.run(500)
        raise AssertionError(f"not settled: {[(p.name, p.member.idle, sorted(p.member.owned)) for p in self.present]}")
