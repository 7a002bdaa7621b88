"""Classic groups under seeded simulation: members that join, leave, pause, crash and come back with stale credentials,
a log that sometimes cannot be written and coordinators that are replaced, all on virtual time.

It proves, for every seed: nobody but one member assigns a generation, and within it no partition has two owners; every
request that waits is answered once and by its deadline; what is acknowledged as committed stays; stale credentials
commit nothing; a machine made anew from the records equals the one that wrote them.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.groups.classic import ClassicGroup, GroupState
from ottla.groups.decision import Caller, GroupDecision, GroupLimits, Now
from ottla.groups.facts import OffsetFact
from ottla.groups.machine import GroupMachine
from ottla.groups.records import read, written
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

SEEDS = range(300)
STEPS = 250
PARTITIONS = 8
SESSION_MS = 6_000
REBALANCE_MS = 20_000
LIMITS = GroupLimits(initial_delay_ms=2_000, max_size=7, retention_ms=10**12)
LONGEST_WAIT_MS = REBALANCE_MS + LIMITS.initial_delay_ms + 5_000
ASSIGNORS = (("range",), ("range", "sticky"), ("sticky", "range"))


class Chance:
    """The `Random` port on a seed."""

    def __init__(self, seeded: random.Random) -> None:
        self._seeded = seeded

    def identity(self) -> bytes:
        return self._seeded.randbytes(16)

    def uniform(self, low: float, high: float) -> float:
        return self._seeded.uniform(low, high)


class Waiting:
    """The token of one request."""

    def __init__(self, client: Client, kind: str, since_ms: int, member_id: str, generation: int) -> None:
        self.client = client
        self.kind = kind
        self.since_ms = since_ms
        self.member_id = member_id
        self.generation = generation
        self.answered = False


class Client:
    """A consumer that mostly follows the protocol."""

    def __init__(self, number: int, chance: random.Random) -> None:
        self.name = f"client{number}"
        self.group_id = f"group{number % 2}"
        self.instance_id = f"instance{number}" if chance.random() < 0.3 else None
        self.version = chance.choice((1, 3, 4, 5, 7, 9)) if self.instance_id is None else chance.choice((5, 7, 9))
        self.lazy = chance.random() < 0.15
        """It reports but rarely asks for its assignment."""
        self.asleep_until = 0
        self.past: list[tuple[str, int]] = []
        self.forget()

    def forget(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.assigned = False
        self.leads: JoinGroupResponse | None = None
        self.waiting: Waiting | None = None

    @property
    def identity(self) -> str:
        return self.instance_id or self.member_id


class World:
    """The coordinator, its log, its clients and what they have been told."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now_ms = 1_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.machine = GroupMachine(LIMITS, Chance(self.chance), self.now)
        self.clients = [Client(number, self.chance) for number in range(self.chance.randint(2, 10))]
        self.waiting: set[Waiting] = set()
        self.committed: dict[tuple[str, int], int] = {}
        self.assigners: dict[tuple[str, int], str] = {}
        self.owners: dict[tuple[str, int, int], str] = {}
        self.commits = 0
        self.assignments = 0

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms + 500)

    # --- the host ---

    def carry_out(self, decision: GroupDecision) -> Any:
        """As the broker does it; answers the reply, or None when it waits, or False when nothing could be stored."""
        if decision.facts and self.chance.random() < 0.02:
            return False
        self.log += map(written, decision.facts)
        for fact in decision.facts:
            self.machine.apply(fact)
        self.machine.follow(decision)
        for token, answer in decision.released:
            assert isinstance(token, Waiting)
            self.answer(token, answer)
        return decision.reply

    def answer(self, token: Waiting, answer: Any) -> None:
        assert not token.answered, "answered twice"
        token.answered = True
        self.waiting.discard(token)
        client = token.client
        heard = client.waiting is token
        if heard:
            client.waiting = None
        if token.kind == "join":
            self.joined(client if heard else None, answer)
        else:
            self.synced(client if heard else None, token, answer)

    def joined(self, client: Client | None, answer: JoinGroupResponse) -> None:
        if answer.error_code == ErrorCode.NONE and answer.members and not answer.skip_assignment:
            group_id = client.group_id if client is not None else self.group_of(answer.member_id)
            first = self.assigners.setdefault((group_id, answer.generation_id), answer.member_id)
            assert first == answer.member_id, "two members assign one generation"
        if client is None:
            return
        client.leads = None
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        elif answer.error_code == ErrorCode.NONE:
            client.member_id = answer.member_id
            client.generation = answer.generation_id
            client.assigned = False
            client.past.append((answer.member_id, answer.generation_id))
            if answer.members and not answer.skip_assignment:
                client.leads = answer
        elif answer.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            client.forget()

    def group_of(self, member_id: str) -> str:
        return next(group.group_id for group in self.machine.groups.values() if member_id in group.members)

    def synced(self, client: Client | None, token: Waiting, answer: SyncGroupResponse) -> None:
        if answer.error_code != ErrorCode.NONE:
            if client is not None and answer.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
                client.forget()
            return
        self.assignments += 1
        owner = token.client.instance_id or token.member_id
        for partition in answer.assignment:
            key = (token.client.group_id, token.generation, partition)
            first = self.owners.setdefault(key, owner)
            assert first == owner, f"partition {partition} has two owners in generation {token.generation}"
        if client is not None:
            client.assigned = True

    def pass_time(self, milliseconds: int) -> None:
        until = self.now_ms + milliseconds
        while self.machine.next_deadline() <= until:
            self.now_ms = max(self.now_ms, self.machine.next_deadline())
            while (decision := self.machine.expire(self.now)) is not None:
                self.carry_out(decision)
        self.now_ms = until
        for token in self.waiting:
            assert self.now_ms - token.since_ms <= LONGEST_WAIT_MS, f"a {token.kind} waits for too long"

    # --- what clients do ---

    def act(self, client: Client) -> None:
        if client.waiting is not None:
            what = self.chance.random()
            if what < 0.05:
                client.forget()  # it crashed, or gave the request up
            elif what < 0.10 and client.member_id:
                self.leave(client)  # while another of its requests still waits
            return
        if client.asleep_until > self.now_ms:
            return
        what = self.chance.random()
        if what < 0.04:
            client.asleep_until = self.now_ms + self.chance.randint(1_000, 3 * SESSION_MS)
        elif what < 0.08:
            client.forget()
        elif what < 0.14 and client.past:
            self.be_stale(client)
        elif client.generation < 0 or what < 0.18:
            self.join(client)
        elif not client.assigned and not (client.lazy and self.chance.random() < 0.9):
            self.sync(client, client.member_id, client.generation)
        elif what < 0.24:
            self.leave(client)
        elif what < 0.60:
            self.commit(client, client.member_id, client.generation)
        else:
            self.heartbeat(client)

    def be_stale(self, client: Client) -> None:
        member_id, generation = self.chance.choice(client.past)
        if self.chance.random() < 0.5:
            self.commit(client, member_id, generation)
        else:
            self.sync(client, member_id, generation)

    def caller(self, client: Client, kind: str, generation: int, member_id: str) -> Caller:
        token = Waiting(client, kind, self.now_ms, member_id, generation)
        return Caller(token, client.name, "/host", client.version)

    def ask(self, client: Client, caller: Caller, decision: GroupDecision) -> None:
        token = caller.token
        assert isinstance(token, Waiting)
        client.waiting = token
        self.waiting.add(token)
        reply = self.carry_out(decision)
        if reply is False:
            token.answered = True
            self.waiting.discard(token)
            client.waiting = None
        elif reply is not None:
            self.answer(token, reply)

    def join(self, client: Client) -> None:
        names = self.chance.choice(ASSIGNORS)
        request = JoinGroupRequest(
            group_id=client.group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=self.chance.choice((5_000, REBALANCE_MS)),
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name, b"\0\0\0\0\0\0") for name in names],
        )
        caller = self.caller(client, "join", -1, client.member_id)
        self.ask(client, caller, self.machine.decide_join(request, caller, self.now))

    def sync(self, client: Client, member_id: str, generation: int) -> None:
        assignments = []
        if client.leads is not None and client.leads.generation_id == generation:
            members = [member.member_id for member in client.leads.members]
            assignments = [
                SyncGroupRequestAssignment(name, bytes(range(place, PARTITIONS, len(members))))
                for place, name in enumerate(members)
            ]
        request = SyncGroupRequest(
            group_id=client.group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=client.instance_id,
            assignments=assignments,
        )
        caller = self.caller(client, "sync", generation, member_id)
        self.ask(client, caller, self.machine.decide_sync(request, caller, self.now))

    def heartbeat(self, client: Client) -> None:
        request = HeartbeatRequest(client.group_id, client.generation, client.member_id, client.instance_id)
        reply = self.carry_out(self.machine.decide_heartbeat(request, self.now))
        if reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join(client)
        elif reply.error_code != ErrorCode.NONE:
            client.forget()

    def leave(self, client: Client) -> None:
        request = LeaveGroupRequest(
            group_id=client.group_id, members=[MemberIdentity(client.member_id, client.instance_id)]
        )
        if self.carry_out(self.machine.decide_leave(request, self.now)) is not False:
            client.forget()

    def commit(self, client: Client, member_id: str, generation: int) -> None:
        partition = self.chance.randrange(PARTITIONS)
        self.commits += 1
        request = OffsetCommitRequest(
            group_id=client.group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=client.instance_id,
            topics=[
                OffsetCommitRequestTopic("topic", partitions=[OffsetCommitRequestPartition(partition, self.commits)])
            ],
        )
        group = self.machine.groups.get(client.group_id)
        valid = isinstance(group, ClassicGroup) and generation == group.generation and member_id in group.members
        reply = self.carry_out(self.machine.decide_commit(request, 8, self.now))
        if reply is False:
            return
        error = reply.topics[0].partitions[0].error_code
        if error == ErrorCode.NONE:
            assert valid, "stale credentials have committed"
            self.committed[client.group_id, partition] = self.commits

    # --- what must hold ---

    def check_offsets(self) -> None:
        kept = {(fact.group_id, fact.partition): fact.committed.offset for fact in self.machine.offsets}  # type: ignore[union-attr]
        assert kept == self.committed

    def check_groups(self) -> None:
        for group in self.machine.groups.values():
            assert isinstance(group, ClassicGroup)
            assert (group.leader in group.members) == bool(group.members)
            assert set(group.static.values()) <= set(group.members)
            if group.state in (GroupState.STABLE, GroupState.EMPTY):
                assert not any(member.joining or member.syncing for member in group.members.values())
            if group.state in (GroupState.STABLE, GroupState.COMPLETING):
                assert len(group.members) - len(group.static) <= LIMITS.max_size

    def reloaded(self) -> GroupMachine:
        """A machine made of what compaction would leave of the log."""
        machine = GroupMachine(LIMITS, Chance(self.chance), self.now)
        facts = [read(key, value) for key, value in dict(self.log).items() if value is not None]
        for fact in sorted(facts, key=lambda fact: isinstance(fact, OffsetFact)):
            machine.apply(fact)
        return machine

    def check_reload(self) -> None:
        other = self.reloaded()
        assert set(other.groups) == set(self.machine.groups)
        assert sorted(other.offsets) == sorted(self.machine.offsets)
        for group_id, group in self.machine.groups.items():
            again = other.groups[group_id]
            assert isinstance(group, ClassicGroup)
            assert isinstance(again, ClassicGroup)
            if group.state in (GroupState.STABLE, GroupState.EMPTY):
                assert again.stored() == group.stored()
            else:
                assert again.generation <= group.generation

    def fail_over(self) -> None:
        """The coordinator moves: whoever waits is sent away, and the next one knows what the log knows."""
        for token, answer in self.machine.given_up():
            assert isinstance(token, Waiting)
            self.answer(token, answer)
        assert not self.waiting, "somebody waits whom nobody knows"
        self.machine = self.reloaded()
        self.machine.loaded(self.now)
        self.assigners.clear()
        self.owners.clear()  # generations that were never stored are counted again


@pytest.mark.parametrize("seeds", [SEEDS[start : start + 50] for start in range(0, len(SEEDS), 50)], ids=str)
def test_groups_keep_their_promises_whatever_their_members_do(seeds: range) -> None:
    for seed in seeds:
        world = World(seed)
        try:
            _run(world)
        except Exception as problem:
            raise AssertionError(f"seed {seed}: {problem!r}") from problem


def _run(world: World) -> None:
    for step in range(STEPS):
        world.pass_time(int(world.chance.expovariate(1 / 400)))
        world.act(world.chance.choice(world.clients))
        world.check_groups()
        if step % 25 == 0:
            world.check_offsets()
            world.check_reload()
        if world.chance.random() < 0.005:
            world.fail_over()
    world.check_reload()
    # Everybody falls silent: the groups end empty, and nobody is left waiting.
    world.pass_time(10 * 60 * 1000)
    assert not world.waiting
    assert all(group.state is GroupState.EMPTY for group in world.machine.groups.values())
    world.check_offsets()
    world.check_reload()


def test_the_simulation_reaches_assignments_and_commits() -> None:
    worlds = [World(seed) for seed in range(20)]
    for world in worlds:
        _run(world)
    assert sum(world.assignments for world in worlds) > 200
    assert sum(len(world.committed) for world in worlds) > 50
