"""Seeded stories of one group on virtual time: members of both protocols, topics that come and grow, reloads.

Members join, heartbeat, leave, fall silent and come back with stale epochs, as static and dynamic ones; requests and
answers get lost; the coordinator moves and knows only what the log says. At every moment a partition is worked on by at
most one of the clients that the coordinator counts as members; in the end, when everybody behaves, everything is
assigned. A failure names its seed: OTTLA_SEED=<seed> pytest tests/sim/test_modern_groups.py
"""

from __future__ import annotations

import os
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.groups.classic import ClassicGroup
from ottla.groups.cluster import Topic
from ottla.groups.decision import CONSUMER_DEFAULTS, Caller, GroupDecision, GroupLimits, Now
from ottla.groups.embedded import read_assignment, read_subscription, write_assignment
from ottla.groups.facts import GroupFact, OffsetFact
from ottla.groups.machine import GroupMachine
from ottla.groups.modern import ConsumerGroup
from ottla.groups.patterns import matching
from ottla.groups.records import read, written
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUP = "group"
SEEDS = 300
STEPS = 120
NAMES = ("apple", "banana", "cherry")
SESSION_MS = 3_000
LIMITS = GroupLimits(
    min_session_ms=1,
    initial_delay_ms=0,
    consumer={
        **CONSUMER_DEFAULTS,
        "session.timeout": SESSION_MS,
        "assignment.interval": 300,
    },
)
Place = tuple[bytes, int]


class Chance:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def identity(self) -> bytes:
        return self._chance.randbytes(16)

    def uniform(self, low: float, high: float) -> float:
        return low


class Topics:
    """The cluster port on a table."""

    def __init__(self) -> None:
        self.version = 1
        self.counts: dict[str, int] = {"apple": 3}

    def _topic(self, name: str) -> Topic:
        return Topic(name, name.encode().ljust(16, b"\0"), self.counts[name])

    def topic(self, name: str) -> Topic | None:
        return self._topic(name) if name in self.counts else None

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        return self.topic(topic_id.rstrip(b"\0").decode())

    def matching(self, pattern: str) -> frozenset[str]:
        return matching(pattern, self.counts)

    def group_settings(self, group_id: str) -> Mapping[str, str]:
        return {}


class World:
    """The coordinator, its log, the clients and what must hold."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now_ms = 1_000
        self.topics = Topics()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.machine = self._machine()
        self.clients: list[Client] = []
        self.cooperative = self.chance.random() < 0.5
        """Whether classic members keep what they have while they join again."""
        self.waiting: dict[object, Any] = {}
        for number in range(self.chance.randint(1, 5)):
            kind: type[Client] = ClassicClient if self.chance.random() < 0.35 else ModernClient
            self.clients.append(kind(self, f"client{number}", self.chance.random() < 0.3))

    def _machine(self) -> GroupMachine:
        return GroupMachine(LIMITS, Chance(self.chance), self.now, self.topics)

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms + 1_000_000)

    @property
    def members(self) -> Mapping[str, Any]:
        group = self.machine.groups.get(GROUP)
        return {} if group is None else group.members

    def carry_out(self, decision: GroupDecision) -> Any:
        self.log += map(written, decision.facts)
        for fact in decision.facts:
            self.machine.apply(fact)
        self.machine.follow(decision)
        for token, answer in decision.released:
            self.waiting[token] = answer
        return decision.reply

    def pass_time(self, milliseconds: int) -> None:
        until = self.now_ms + milliseconds
        while self.machine.next_deadline() <= until:
            self.now_ms = max(self.now_ms, self.machine.next_deadline())
            while (decision := self.machine.expire(self.now)) is not None:
                self.carry_out(decision)
        self.now_ms = until
        self.check()

    def move(self) -> None:
        """The coordinator moves; the next one knows what compaction has left of the log."""
        for token, answer in self.machine.given_up():
            self.waiting[token] = answer
        before = self.machine
        facts = [read(key, value) for key, value in dict(self.log).items() if value is not None]
        self.chance.shuffle(facts)
        facts.sort(key=lambda fact: isinstance(fact, OffsetFact) * 2 + (not isinstance(fact, GroupFact)))
        self.machine = self._machine()
        for fact in facts:
            self.machine.apply(fact)
        self.check_reloaded(before)
        self.machine.loaded(self.now)

    def check_reloaded(self, before: GroupMachine) -> None:
        old, new = before.groups.get(GROUP), self.machine.groups.get(GROUP)
        assert type(old) is type(new)
        if isinstance(old, ConsumerGroup) and isinstance(new, ConsumerGroup):
            for name in ("epoch", "digest", "target_epoch", "target_ms", "targets", "patterns", "owners", "static"):
                assert getattr(old, name) == getattr(new, name), name
            assert old.members == new.members

    def check(self) -> None:
        """At most one of the members works on a partition, and the group's own books are in order."""
        owners: dict[Place, str] = {}
        for client in self.clients:
            if client.member_id in self.members:
                for place in client.owned:
                    assert place not in owners, f"{place} is with {owners[place]} and {client.member_id}"
                    owners[place] = client.member_id
        group = self.machine.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            check_books(group)

    def behave(self) -> None:
        """Everybody does what they should until nothing is left to do."""
        for _ in range(60):
            for client in self.clients:
                client.gone = False
                client.act(lose=False)
            self.pass_time(500)
        counts = {f"{name}": count for name, count in self.topics.counts.items()}
        wanted = {name for client in self.clients for name in client.wants(self.topics)}
        expected = sorted(
            (name.encode().ljust(16, b"\0"), number) for name in wanted for number in range(counts.get(name, 0))
        )
        assert sorted(place for client in self.clients for place in client.owned) == expected

    def story(self) -> None:
        for _ in range(STEPS):
            deed = self.chance.random()
            client = self.chance.choice(self.clients)
            if deed < 0.75:
                client.act(lose=self.chance.random() < 0.1)
            elif deed < 0.80:
                client.leave()
            elif deed < 0.84:
                client.restart()
            elif deed < 0.88:
                self.pass_time(self.chance.choice([1_000, SESSION_MS, 2 * SESSION_MS]))
            elif deed < 0.92:
                self.move()
            elif deed < 0.96:
                client.resubscribe()
            else:
                name = self.chance.choice(NAMES)
                self.topics.counts[name] = min(self.topics.counts.get(name, 0) + self.chance.randint(1, 3), 12)
                self.topics.version += 1
            self.pass_time(self.chance.randint(0, 400))
        self.behave()


def check_books(group: ConsumerGroup) -> None:
    owners: dict[Place, str] = {}
    for member in group.members.values():
        for owned in (member.current.assigned, member.current.revoking):
            for topic_id, partitions in owned.items():
                assert partitions
                for partition in partitions:
                    assert (topic_id, partition) not in owners
                    owners[topic_id, partition] = member.member_id
    assert owners == group.owners
    assert set(group.targets) <= set(group.members)
    assert set(group.static.values()) <= set(group.members)
    assert {wait[0] for wait in group.deadlines} <= set(group.members)
    promised = [
        (topic_id, number) for target in group.targets.values() for topic_id in target for number in target[topic_id]
    ]
    assert len(promised) == len(set(promised))


class Client(ABC):
    """What both kinds of clients have in common."""

    def __init__(self, world: World, name: str, static: bool) -> None:
        self.world = world
        self.name = name
        self.instance_id = f"static-{name}" if static else None
        self.member_id = ""
        self.epoch = 0
        self.owned: set[Place] = set()
        self.gone = False
        self.topics: frozenset[str] = frozenset()
        self.pattern = ""
        self.choose_topics()

    def choose_topics(self) -> None:
        chance = self.world.chance
        self.topics = frozenset(chance.sample(NAMES, chance.randint(1, 3)))

    def wants(self, topics: Topics) -> set[str]:
        return {name for name in topics.counts if name in self.topics}

    @abstractmethod
    def act(self, lose: bool) -> None: ...

    @abstractmethod
    def leave(self) -> None: ...

    def resubscribe(self) -> None:
        self.choose_topics()

    def restart(self) -> None:
        """The process is gone and another one comes up, which knows nothing."""
        self.owned = set()
        self.member_id = ""
        self.epoch = 0


class ModernClient(Client):
    """A member of the consumer protocol: gives up what it is told to before it says so, then takes what is new."""

    def __init__(self, world: World, name: str, static: bool) -> None:
        self.assignment: set[Place] | None = None
        self.full = True
        super().__init__(world, name, static)

    def choose_topics(self) -> None:
        super().choose_topics()
        self.pattern = ""
        if self.world.chance.random() < 0.3:
            self.topics, self.pattern = frozenset(), "[ab].*"
        self.full = True

    def wants(self, topics: Topics) -> set[str]:
        named = super().wants(topics)
        return named | {name for name in topics.counts if self.pattern and name[0] in "ab"}

    def restart(self) -> None:
        super().restart()
        self.assignment, self.full = None, True

    def _ask(self, epoch: int, owned: set[Place] | None) -> Any:
        by_topic: dict[bytes, list[int]] = {}
        for topic_id, number in owned or ():
            by_topic.setdefault(topic_id, []).append(number)
        full = self.full or epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=4_000 if full else -1,
            subscribed_topic_names=sorted(self.topics) if full else None,
            subscribed_topic_regex=self.pattern if full else None,
            server_assignor=self.world.chance.choice([None, "uniform", "range"]) if full else None,
            topic_partitions=None
            if owned is None
            else [TopicPartitions(topic_id, numbers) for topic_id, numbers in by_topic.items()],
        )
        machine = self.world.machine
        decision = machine.decide_consumer_heartbeat(request, Caller(None, self.name, "/host", 1), self.world.now)
        return self.world.carry_out(decision)

    def act(self, lose: bool) -> None:
        chance = self.world.chance
        if not self.member_id:
            self.member_id = f"{self.name}-{chance.randrange(10**9)}"
            self.epoch = 0
        reported: set[Place] | None = None
        if self.assignment is not None and chance.random() < 0.8:
            # The work on what must be given up is over.
            self.owned = set(self.assignment)
            reported, self.assignment = set(self.owned), None
        elif self.full or chance.random() < 0.2:
            reported = set(self.owned)
        if self.epoch == 0:
            reported = set()
        if lose and chance.random() < 0.5:
            self.full = True
            return
        answer = self._ask(self.epoch, reported)
        if lose:
            self.full = True
            return
        self._learn(ErrorCode(answer.error_code), answer)
        self.world.check()

    def _learn(self, error: ErrorCode, answer: Any) -> None:
        if error == ErrorCode.NONE:
            self.full = False
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assignment = {
                    (topic.topic_id, number)
                    for topic in answer.assignment.topic_partitions
                    for number in topic.partitions
                }
            return
        assert error in (
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
            ErrorCode.UNRELEASED_INSTANCE_ID,
            ErrorCode.FENCED_INSTANCE_ID,
        ), error
        self.owned, self.assignment, self.epoch, self.full = set(), None, 0, True

    def leave(self) -> None:
        if self.member_id and self.epoch > 0:
            self.owned, self.assignment = set(), None
            answer = self._ask(-2 if self.instance_id else -1, None)
            assert answer.error_code in (
                ErrorCode.NONE,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
                ErrorCode.FENCED_INSTANCE_ID,
            )
        self.restart()


class ClassicClient(Client):
    """A member of the classic protocol: an eager one gives everything up before it joins again, a cooperative one says
    what it has, gives up what it is not assigned any more and then joins once more."""

    def __init__(self, world: World, name: str, static: bool) -> None:
        self.phase = "out"
        self.token: object = None
        self.seen_version = 0
        self.shares: dict[str, bytes] = {}
        super().__init__(world, name, static)

    def restart(self) -> None:
        super().restart()
        self.phase, self.token, self.seen_version = "out", None, 0

    def _caller(self) -> Caller:
        self.token = object()
        return Caller(self.token, self.name, "/host", 5)

    def _answer(self, reply: Any) -> Any:
        return self.world.waiting.pop(self.token, None) if reply is None else reply

    def act(self, lose: bool) -> None:
        if lose:
            return
        if self.phase in ("out", "joining"):
            self._join()
        elif self.phase in ("joined", "syncing"):
            self._sync()
        else:
            self._heartbeat()
        self.world.check()

    def _fall_out(self, error: ErrorCode) -> None:
        if error != ErrorCode.REBALANCE_IN_PROGRESS or not self.world.cooperative:
            self.owned = set()
        self.phase = "out"
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""

    def _join(self) -> None:
        if self.phase == "out":
            if not self.world.cooperative or not self.member_id:
                self.owned = set()
            request = JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=4_000,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol("range", self._metadata())],
            )
            machine = self.world.machine
            decision = machine.decide_join(request, self._caller(), self.world.now)
            answer = self._answer(self.world.carry_out(decision))
        else:
            answer = self.world.waiting.pop(self.token, None)
        if answer is None:
            self.phase = "joining"
            return
        if answer.error_code == ErrorCode.NONE:
            self.member_id, self.epoch, self.phase = answer.member_id, answer.generation_id, "joined"
            self.shares = self._shared_out(answer) if answer.leader == answer.member_id else {}
        elif answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id, self.phase = answer.member_id, "out"
        else:
            self._fall_out(ErrorCode(answer.error_code))

    def _metadata(self) -> bytes:
        topics = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in sorted(self.topics))
        by_name: dict[str, list[int]] = {}
        for topic_id, number in self.owned:
            by_name.setdefault(topic_id.rstrip(b"\0").decode(), []).append(number)
        # Owned partitions stand in it as they do in an assignment, between its version and the data behind them.
        owned = write_assignment(by_name, 1)[2:-4]
        return b"\0\1" + len(self.topics).to_bytes(4, "big") + topics + b"\xff\xff\xff\xff" + owned

    def _shared_out(self, answer: Any) -> dict[str, bytes]:
        given: dict[str, dict[str, list[int]]] = {member.member_id: {} for member in answer.members}
        holders = {
            (name, number): member.member_id
            for member in answer.members
            for name, numbers in read_subscription(member.metadata).owned.items()
            for number in numbers
        }
        for name, count in self.world.topics.counts.items():
            takers = [one.member_id for one in answer.members if name in read_subscription(one.metadata).topics]
            for number in range(count if takers else 0):
                taker = takers[number % len(takers)]
                # What another still has is given up first, and shared out when that one joins once more.
                if holders.get((name, number), taker) == taker:
                    given[taker].setdefault(name, []).append(number)
        return {member_id: write_assignment(share, 0) for member_id, share in given.items()}

    def _sync(self) -> None:
        if self.phase == "joined":
            request = SyncGroupRequest(
                group_id=GROUP,
                generation_id=self.epoch,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                assignments=[SyncGroupRequestAssignment(*share) for share in self.shares.items()],
            )
            decision = self.world.machine.decide_sync(request, self._caller(), self.world.now)
            answer = self._answer(self.world.carry_out(decision))
        else:
            answer = self.world.waiting.pop(self.token, None)
        if answer is None:
            self.phase = "syncing"
        elif answer.error_code == ErrorCode.NONE:
            before, self.phase = self.owned, "in"
            self.owned = {
                (name.encode().ljust(16, b"\0"), number)
                for name, numbers in read_assignment(bytes(answer.assignment)).items()
                for number in numbers
            }
            if before - self.owned:
                self.phase = "out"
        else:
            self._fall_out(ErrorCode(answer.error_code))

    def _heartbeat(self) -> None:
        group = self.world.machine.groups.get(GROUP)
        request = HeartbeatRequest(GROUP, self.epoch, self.member_id, self.instance_id)
        answer = self.world.carry_out(self.world.machine.decide_heartbeat(request, self.world.now))
        if answer.error_code != ErrorCode.NONE:
            self._fall_out(ErrorCode(answer.error_code))
        elif isinstance(group, ClassicGroup) and group.leader == self.member_id and self._topics_grew():
            # The leader of a classic group watches the topics and asks for a rebalance.
            self.phase = "out"

    def _topics_grew(self) -> bool:
        known, self.seen_version = self.seen_version, self.world.topics.version
        return known != self.seen_version

    def resubscribe(self) -> None:
        super().resubscribe()
        self._fall_out(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(self) -> None:
        if self.phase == "in" and self.instance_id is None:
            request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(self.member_id)])
            self.world.carry_out(self.world.machine.decide_leave(request, self.world.now))
        self.restart()


def seeds() -> Iterator[int]:
    if (chosen := os.environ.get("OTTLA_SEED")) is not None:
        yield int(chosen)
    else:
        yield from range(SEEDS)


def test_a_partition_has_one_owner_whatever_happens_and_everybody_gets_their_part_in_the_end() -> None:
    for seed in seeds():
        try:
            World(seed).story()
        except BaseException as failure:
            pytest.fail(f"seed {seed}: {type(failure).__name__}: {failure}", pytrace=True)
