"""Seeded stories of one partition with three replicas: the machines of `replication` on model logs and a model
controller, under crashes with and without power, elections, changes of the in-sync set, lost, late and reordered
messages. What acks=all (with two in sync at least) acknowledged must stay; logs agree below the watermark; it never
moves back under one leader."""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import NamedTuple

import pytest

from ottla.log.epochs import EpochHistory
from ottla.replication import follower
from ottla.replication.leader import Leading, Proposal

SEEDS = 700
NODES = (1, 2, 3)
LEAST_IN_SYNC = 2
LAG_SECONDS = 0.8
STORY_SECONDS = 10.0
NOBODY = -1


class Violation(Exception):
    """A promise was broken."""


class State(NamedTuple):
    """What the controller says of the partition."""

    version: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    in_sync: tuple[int, ...]
    eligible: frozenset[int]


class ModelLog:
    """Epoch and value of each record, and how many of them would outlive a loss of power."""

    def __init__(self) -> None:
        self.records: list[tuple[int, int]] = []
        self.synced = 0
        self.high_watermark = 0
        self.epochs = EpochHistory()

    @property
    def end_offset(self) -> int:
        return len(self.records)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        return self.epochs.end_offset_for(epoch, self.end_offset)

    def append(self, records: list[tuple[int, int]]) -> None:
        for epoch, value in records:
            if epoch != self.epochs.latest_epoch:
                self.epochs.assign(epoch, self.end_offset)
            self.records.append((epoch, value))

    def truncate_to(self, offset: int) -> bool:
        if offset < self.high_watermark:
            raise Violation(f"committed records are cut: {offset} is below the watermark {self.high_watermark}")
        cut = offset < self.end_offset
        del self.records[offset:]
        self.synced = min(self.synced, offset)
        self.epochs.truncate_end(self.end_offset)
        return cut

    def truncate_fully_and_start_at(self, offset: int) -> None:
        raise Violation(f"the log begins anew at {offset}")

    def crash(self, random: Random, power: bool) -> None:
        """The watermark's checkpoint is as old as it happens to be, and so is the file of epochs."""
        if power:
            del self.records[random.randint(self.synced, self.end_offset) :]
        self.high_watermark = random.randint(0, min(self.high_watermark, self.end_offset))
        if power or random.random() < 0.5:
            self.epochs = EpochHistory()
            for offset, (epoch, _) in enumerate(self.records):
                if epoch != self.epochs.latest_epoch:
                    self.epochs.assign(epoch, offset)


class Wait(NamedTuple):
    offset: int
    value: int


class Node:
    """One replica and the glue that a broker is."""

    def __init__(self, story: "Story", node_id: int) -> None:
        self.story = story
        self.id = node_id
        self.log = ModelLog()
        self.life = 0
        self.alive = False
        self.unclean = False
        self.state: State | None = None
        self.leading: Leading | None = None
        self.waits: list[Wait] = []
        self.question = 0

    # --- life ---

    def boot(self) -> None:
        self.alive = True
        self.state = self.leading = None
        self.waits = []
        self.question += 1
        self.register(self.life)

    def register(self, life: int) -> None:
        """Until the controller has heard of it."""
        controller = self.story.controller
        if not self.alive or self.life != life or controller.epochs.get(self.id) == life:
            return
        self.story.send_to_controller(lambda: controller.register(self))
        self.story.after(0.3, lambda: self.register(life))

    def crash(self, power: bool) -> None:
        self.alive = False
        self.leading = None
        self.log.crash(self.story.random, power)
        self.unclean = self.unclean or power
        self.life += 1

    # --- what the controller says ---

    def hear(self, state: State) -> None:
        before = self.state
        if before is not None and state.version <= before.version:
            return
        self.state = state
        new = before is None or before.leader_epoch != state.leader_epoch
        if state.leader == self.id:
            if new or self.leading is None:
                self.log.epochs.assign(state.leader_epoch, self.log.end_offset)
                self.leading = Leading(self.id, self.log.end_offset)
            self.leading.assign(NODES, state.in_sync, state.partition_epoch, self.story.now)
            if len(state.in_sync) < LEAST_IN_SYNC:
                self.waits = []
            self.advance()
            return
        self.leading = None
        self.waits = []
        if new:
            follower.truncate_before_following(self.log, self.log.epochs.latest_epoch)
            self.ask()

    # --- leading ---

    def produce(self, value: int) -> None:
        state = self.state
        if self.leading is None or state is None or len(state.in_sync) < LEAST_IN_SYNC:
            return
        self.log.append([(state.leader_epoch, value)])
        self.leading.grew(self.log.end_offset, self.story.now)
        self.waits.append(Wait(self.log.end_offset, value))
        self.advance()

    def may_join(self, node: int) -> bool:
        return node in self.story.controller.unfenced

    def advance(self) -> None:
        state, leading, log = self.state, self.leading, self.log
        if state is None or leading is None or len(state.in_sync) < LEAST_IN_SYNC:
            return
        offset = leading.watermark(log.end_offset, self.may_join, self.story.now, LAG_SECONDS)
        if offset > log.high_watermark:
            log.high_watermark = offset
            self.story.committed(self)
            ready = [wait for wait in self.waits if wait.offset <= offset]
            self.waits = [wait for wait in self.waits if wait.offset > offset]
            for wait in ready:
                self.story.acknowledged[wait.offset - 1] = wait.value

    def serve(self, asker: "Node", life: int, epoch: int, offset: int, last_epoch: int, question: int) -> None:
        state, leading, log = self.state, self.leading, self.log
        answer: Callable[[], None]
        if state is None or leading is None or state.leader_epoch != epoch:
            answer = lambda: asker.failed(question)  # noqa: E731
        else:
            known = log.end_offset_for_epoch(last_epoch) if last_epoch >= 0 else (-1, log.end_offset)
            if known is None:
                raise Violation(f"node {asker.id} follows from epoch {last_epoch}, which its leader does not know")
            if self.story.compares and last_epoch >= 0 and (known[0] < last_epoch or known[1] < offset):
                parting = known
                answer = lambda: asker.diverged(question, *parting)  # noqa: E731
            else:
                records = log.records[offset : offset + self.story.random.randint(1, 4)]
                counted = offset + (len(records) if self.story.counts_early else 0)
                if not leading.fetched(asker.id, counted, 0, life, log.end_offset, self.story.now):
                    return
                if life == self.story.controller.epochs.get(asker.id) and self.may_join(asker.id):
                    self.propose(leading.joining(asker.id, log.high_watermark))
                self.advance()
                watermark = log.high_watermark
                answer = lambda: asker.take(question, offset, records, watermark)  # noqa: E731
        self.story.send(self, asker, answer)

    def look(self) -> None:
        if self.leading is not None:
            self.propose(self.leading.leaving(self.log.end_offset, self.story.now, LAG_SECONDS))

    def propose(self, proposal: Proposal | None) -> None:
        """Ask until it comes back in the image or is refused."""
        leading, state, story = self.leading, self.state, self.story
        if proposal is None or leading is None or state is None or leading.pending is not proposal:
            return
        lives = {each: progress.broker_epoch for each, progress in leading.followers.items()}
        story.send_to_controller(
            lambda: story.controller.alter(self, state.leader_epoch, proposal, lives, lambda: leading.refused(proposal))
        )
        life = self.life
        story.after(0.3, lambda: self.propose(proposal) if self.life == life else None)

    # --- following ---

    def ask(self) -> None:
        """One question at a time; one that is not answered is asked again."""
        state = self.state
        if state is None or not self.alive or state.leader in (self.id, NOBODY):
            return
        self.question += 1
        question, life, log = self.question, self.life, self.log
        leader = self.story.nodes[state.leader]
        epoch, offset, last_epoch = state.leader_epoch, log.end_offset, log.epochs.latest_epoch
        self.story.send(self, leader, lambda: leader.serve(self, life, epoch, offset, last_epoch, question))
        self.story.after(0.25, lambda: self.ask() if self.life == life and self.question == question else None)

    def failed(self, question: int) -> None:
        self.again(question, 0.05)

    def again(self, question: int, seconds: float) -> None:
        if question == self.question:
            self.question += 1
            expected, life = self.question, self.life
            self.story.after(seconds, lambda: self.ask() if (expected, life) == (self.question, self.life) else None)

    def diverged(self, question: int, epoch: int, end_offset: int) -> None:
        if question == self.question and self.leading is None:
            follower.truncate_where_histories_part(self.log, epoch, end_offset)
            self.again(question, 0.0)

    def take(self, question: int, offset: int, records: list[tuple[int, int]], watermark: int) -> None:
        if question != self.question or self.leading is not None or offset != self.log.end_offset:
            return
        self.log.append(records)
        if follower.follow_watermark(self.log, watermark):
            self.story.committed(self)
        self.again(question, 0.0 if records else 0.03)


class Controller:
    """A model of the rules of KIP-966: who lost power is neither in sync nor eligible until it has caught up."""

    def __init__(self, story: "Story") -> None:
        self.story = story
        self.unfenced: set[int] = set()
        self.epochs: dict[int, int] = {}
        self.state = State(0, NOBODY, 0, 0, NODES, frozenset())

    def publish(self, leader: int, in_sync: tuple[int, ...], eligible: frozenset[int], renew: bool = False) -> None:
        before = self.state
        eligible = eligible - set(in_sync) if len(in_sync) < LEAST_IN_SYNC else frozenset()
        self.state = state = State(
            before.version + 1,
            leader,
            before.leader_epoch + (leader != before.leader or renew),
            before.partition_epoch + 1,
            in_sync,
            eligible,
        )
        for node in self.story.nodes.values():
            self.tell(node, state)

    def tell(self, node: Node, state: State) -> None:
        """Nodes follow the state from their registration on: before it, it may be about a life with a longer log."""
        life = node.life
        if self.epochs.get(node.id) == life:
            self.story.after(self.story.delay(), lambda: node.hear(state) if node.alive and node.life == life else None)

    def elect(self, in_sync: tuple[int, ...], eligible: frozenset[int], avoid: int = NOBODY) -> None:
        leader = next((node for node in in_sync if node in self.unfenced and node != avoid), NOBODY)
        if leader == NOBODY:
            leader = next((node for node in NODES if node in eligible and node in self.unfenced), NOBODY)
            if leader != NOBODY:
                in_sync = (leader,)
        self.publish(leader, in_sync, eligible)

    def without(self, node: int, clean: bool) -> tuple[tuple[int, ...], frozenset[int]]:
        state = self.state
        in_sync = tuple(each for each in state.in_sync if each != node)
        if not clean:
            return in_sync, state.eligible - {node}
        gone = frozenset({node}) if node in state.in_sync else frozenset()
        return in_sync, state.eligible | gone

    def fence(self, node: int) -> None:
        self.unfenced.discard(node)
        in_sync, eligible = self.without(node, clean=True)
        if self.state.leader in (node, NOBODY):
            self.elect(in_sync, eligible)
        else:
            self.publish(self.state.leader, in_sync, eligible)

    def register(self, node: Node) -> None:
        if not node.alive or self.epochs.get(node.id) == node.life:
            return
        if node.id in self.unfenced:
            self.fence(node.id)
        if node.unclean:
            self.publish(self.state.leader, *self.without(node.id, clean=False))
            node.unclean = False
        self.epochs[node.id] = node.life
        self.unfenced.add(node.id)
        self.tell(node, self.state)
        if self.state.leader == NOBODY:
            self.elect(self.state.in_sync, self.state.eligible)

    def expire(self, node: Node, life: int) -> None:
        """A session ends when its node is gone for long."""
        if node.id in self.unfenced and self.epochs.get(node.id) == life and (not node.alive or node.life != life):
            self.fence(node.id)

    def alter(
        self, node: Node, leader_epoch: int, proposal: Proposal, lives: dict[int, int], refused: Callable[[], None]
    ) -> None:
        state = self.state
        if state.leader != node.id or leader_epoch != state.leader_epoch:
            return
        if proposal.partition_epoch != state.partition_epoch:
            return
        for each in proposal.in_sync:
            if each not in self.unfenced or (each != node.id and lives[each] not in (-1, self.epochs[each])):
                self.story.after(self.story.delay(), refused)
                return
        gone = frozenset(state.in_sync) - set(proposal.in_sync)
        self.publish(node.id, proposal.in_sync, state.eligible | gone)

    def move_leadership(self) -> None:
        state = self.state
        others = [each for each in state.in_sync if each in self.unfenced and each != state.leader]
        if others:
            self.publish(self.story.random.choice(others), state.in_sync, state.eligible)


class Story:
    """One seed."""

    def __init__(self, seed: int, *, compares: bool = True, counts_early: bool = False) -> None:
        self.random = Random(seed)
        self.compares = compares
        self.counts_early = counts_early
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self.calm = False
        self.cut: set[tuple[int, int]] = set()
        self.acknowledged: dict[int, int] = {}
        self.readable: dict[int, tuple[int, int]] = {}
        """What some reader may have seen, by offset."""
        self.highest: dict[tuple[int, int], int] = {}
        self.nodes = {number: Node(self, number) for number in NODES}
        self.controller = Controller(self)
        self.value = 0

    # --- time and messages ---

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self._number += 1
        heappush(self._events, (self.now + seconds, self._number, action))

    def delay(self) -> float:
        late = not self.calm and self.random.random() < 0.05
        return self.random.uniform(0.05, 0.5) if late else self.random.uniform(0.001, 0.01)

    def send(self, sender: Node, receiver: Node, action: Callable[[], None]) -> None:
        if (sender.id, receiver.id) in self.cut or (not self.calm and self.random.random() < 0.01):
            return
        life = receiver.life
        self.after(self.delay(), lambda: action() if receiver.alive and receiver.life == life else None)

    def send_to_controller(self, action: Callable[[], None]) -> None:
        if self.calm or self.random.random() > 0.02:
            self.after(self.delay(), action)

    # --- what must hold ---

    def committed(self, node: Node) -> None:
        """A node's watermark moved: readers may see what is below."""
        state, log = node.state, node.log
        assert state is not None
        if node.leading is not None:
            key = (node.id, state.leader_epoch)
            if log.high_watermark < self.highest.get(key, 0):
                raise Violation("the watermark moved back under one leader")
            self.highest[key] = log.high_watermark
        for offset in range(max(0, log.high_watermark - 8), log.high_watermark):
            if self.readable.setdefault(offset, log.records[offset]) != log.records[offset]:
                raise Violation(f"offset {offset} was {self.readable[offset]} and is {log.records[offset]}")

    def finish(self) -> None:
        """When all is well again, everything acknowledged is on all three."""
        logs = [node.log.records for node in self.nodes.values()]
        if not logs[0] == logs[1] == logs[2]:
            raise Violation(f"the logs do not become one: {[len(log) for log in logs]}, {self.controller.state}")
        for offset, value in self.acknowledged.items():
            if offset >= len(logs[0]) or logs[0][offset][1] != value:
                raise Violation(f"the acknowledged record {value} at {offset} is lost")
        for offset, record in self.readable.items():
            if offset >= len(logs[0]) or logs[0][offset] != record:
                raise Violation(f"what was read at {offset} is lost")

    # --- the story ---

    def tell(self) -> "Story":
        for node in self.nodes.values():
            node.boot()
        self._every(0.02, 0.1, self._produce)
        self._every(0.3, 0.5, self._look)
        self._every(0.1, 0.6, self._sync)
        self._every(0.2, 1.2, self._harm)
        self._run(STORY_SECONDS)
        self._calm_down()
        self._run(STORY_SECONDS + 6.0)
        self.finish()
        return self

    def _every(self, low: float, high: float, action: Callable[[], None]) -> None:
        def again() -> None:
            if self.now < STORY_SECONDS + 2.0 or action != self._produce:
                action()
                self.after(self.random.uniform(low, high), again)

        self.after(self.random.uniform(low, high), again)

    def _run(self, until: float) -> None:
        while self._events and self._events[0][0] < until:
            self.now, _, action = heappop(self._events)
            action()
        self.now = until

    def _produce(self) -> None:
        for node in self.nodes.values():
            if node.alive and node.leading is not None:
                self.value += 1
                node.produce(self.value)

    def _look(self) -> None:
        for node in self.nodes.values():
            if node.alive:
                node.look()

    def _sync(self) -> None:
        node = self.random.choice(list(self.nodes.values()))
        if node.alive:
            node.log.synced = node.log.end_offset

    def _harm(self) -> None:
        if self.calm:
            return
        node = self.random.choice(list(self.nodes.values()))
        chance = self.random.random()
        if not node.alive:
            node.boot()
        elif chance < 0.35:
            self._crash(node, power=False)
        elif chance < 0.6 and self._can_lose_power(node):
            self._crash(node, power=True)
        elif chance < 0.8:
            self.controller.move_leadership()
        else:
            pair = tuple(self.random.sample(NODES, 2))
            assert len(pair) == 2
            ways = {pair, pair[::-1]} if self.random.random() < 0.5 else {pair}
            self.cut |= ways
            self.after(self.random.uniform(0.1, 1.5), lambda: self.cut.difference_update(ways))

    def _crash(self, node: Node, power: bool) -> None:
        life = node.life
        node.crash(power)
        self.after(self.random.uniform(0.05, 0.9), lambda: self.controller.expire(node, life))
        if self.random.random() < 0.6:
            self.after(self.random.uniform(0.05, 1.5), lambda: None if node.alive or self.calm else node.boot())

    def _can_lose_power(self, node: Node) -> bool:
        """Two losses of power before the first is made good may lose what was on no disk: nobody promises otherwise."""
        state = self.controller.state
        trusted = {*state.in_sync, *state.eligible} - {node.id}
        return bool(trusted) and not any(each.unclean for each in self.nodes.values())

    def _calm_down(self) -> None:
        self.calm = True
        self.cut.clear()
        for node in self.nodes.values():
            if not node.alive:
                node.boot()


def broken(seeds: range, story: Callable[[int], Story]) -> int:
    """The first seed whose story breaks a promise; -1 when none does."""
    for seed in seeds:
        try:
            story(seed).tell()
        except Violation:
            return seed
    return -1


@pytest.mark.parametrize("hundred", range(SEEDS // 100))
def test_what_was_acknowledged_stays_and_replicas_agree(hundred: int) -> None:
    acknowledged = 0
    for seed in range(hundred * 100, hundred * 100 + 100):
        try:
            acknowledged += len(Story(seed).tell().acknowledged)
        except Violation as violation:
            pytest.fail(f"seed {seed}: {violation}")
    assert acknowledged > 2_000  # the stories are about something


def test_a_leader_that_counts_a_follower_before_it_has_the_records_is_noticed() -> None:
    assert broken(range(200), lambda seed: Story(seed, counts_early=True)) >= 0


def test_a_leader_that_does_not_compare_histories_is_noticed() -> None:
    assert broken(range(200), lambda seed: Story(seed, compares=False)) >= 0


def test_a_follower_that_forgets_to_cut_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "truncate_where_histories_part", lambda log, epoch, end_offset: None)
    assert broken(range(200), Story) >= 0
