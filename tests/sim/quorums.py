"""A quorum of machines on virtual time: a seeded network and disks that forget what was not synced.

The machines are the real ones; what their host would do is played here in its shortest form. The checks are Raft's:
one leader an epoch, logs that agree below what is committed, leaders that hold everything committed, high watermarks
that only grow.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from kit.machines.raft_disks import ReplicaDisk
from ottla.base.errors import ErrorCode
from ottla.raft import effects as kinds
from ottla.raft.core import ReplicaIdentity, Timing
from ottla.raft.effects import Effect
from ottla.raft.log_view import Entry, LogPosition
from ottla.raft.machine import Raft
from ottla.raft.messages import AddVoter, Answer, Answered, Fetched, FetchedSnapshot, RemoveVoter, Request, Voted
from ottla.raft.roles import Role
from ottla.raft.voters import NO_DIRECTORY, ReplicaKey, VoterSet
from ottla.records.control import Control, Endpoint, KraftVersion, Voter, Voters

TIMING = Timing(0.3, 0.3, 0.6, 0.5, 0.02, 0.15)
PORTION = 7


class SeededRandom:
    """The port of randomness, from the world's seed."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def identity(self) -> bytes:
        return self._source.randbytes(16)

    def uniform(self, low: float, high: float) -> float:
        return self._source.uniform(low, high)


class Universe(NamedTuple):
    """What a seed has drawn."""

    voters: int
    observers: int
    dynamic: bool
    loss: float
    delay: float
    snapshots: bool
    nasty: bool
    """Nodes crash just after they were elected or have voted, and one batch is sent at a time."""


class SnapshotContent(NamedTuple):
    values: tuple[object, ...]
    controls: tuple[Control, ...]
    size: int


class Question:
    """A request under way to a node; answered at most once."""

    def __init__(self, answer: Callable[[Answer], None]) -> None:
        self.answer = answer


class SimNode:
    """One replica: what lasts, and the machine while it is up."""

    def __init__(self, world: QuorumWorld, key: ReplicaKey, can_vote: bool) -> None:
        self.world = world
        self.key = key
        self.can_vote = can_vote
        self.disk = ReplicaDisk()
        self.generation = 0
        self.raft: Raft | None = None
        self.applied = 0
        self.queue: list[Effect] = []
        self.busy = False
        self.syncing = False
        self.leading = False

    # --- up and down -------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        world = self.world
        self.make_found_last()
        snapshot = self.disk.snapshot
        controls = world.snapshots[snapshot].controls if snapshot is not None else ()
        view = self.disk.view(world.first_voters, 1 if world.universe.dynamic else 0, controls)
        identity = ReplicaIdentity("sim", self.key, self.can_vote, (_endpoint(self.key.node_id),), world.bootstrap)
        self.raft = Raft(identity, TIMING, view, self.disk.election, SeededRandom(world.random))
        self.applied = snapshot.offset if snapshot is not None else 0
        self.generation += 1
        self.queue = []
        self.busy = self.syncing = self.leading = False
        self.raft.start(world.now)
        self.drain()

    def make_found_last(self) -> None:
        """What an earlier life left unsynced is synced before it is counted on, as a node does with its log."""
        self.disk.synced = self.disk.end_offset

    def crash(self) -> None:
        """Everything that was not synced may be gone."""
        self.disk.forget(self.world.random.randint(0, self.disk.unsynced))
        self.raft = None
        self.generation += 1

    # --- effects -----------------------------------------------------------------------------------------------------

    def feed(self, tell: Callable[[Raft], None]) -> None:
        if self.raft is not None:
            tell(self.raft)
            self.drain()

    def drain(self) -> None:
        raft = self.raft
        assert raft is not None
        self.queue += raft.take()
        while self.queue and not self.busy:
            effect = self.queue.pop(0)
            if isinstance(effect, kinds.SaveElection | kinds.Sync):
                self.busy = True
                self.world.later(self.world.disk_delay(), partial(self._lasts, effect, self.disk.end_offset), self)
            else:
                self._do(raft, effect)
                self.queue += raft.take()
        self.world.arm(self)

    def _lasts(self, effect: Effect, end: int) -> None:
        if isinstance(effect, kinds.SaveElection):
            self.disk.election = effect.election
        else:
            self.disk.synced = max(self.disk.synced, min(end, self.disk.end_offset))
        self.busy = False
        self.drain()

    def _do(self, raft: Raft, effect: Effect) -> None:
        world = self.world
        self.disk.write(effect)
        if isinstance(effect, kinds.Send):
            world.send(self, effect)
        elif isinstance(effect, kinds.Reply):
            assert isinstance(effect.token, Question)
            effect.token.answer(self._filled(effect.answer))
            if isinstance(effect.answer, Voted) and effect.answer.granted:
                world.maybe_crash(self, 0.0)
        elif isinstance(effect, kinds.ReplyPortion):
            assert isinstance(effect.token, Question)
            effect.token.answer(self._portion(effect.answer))
        elif isinstance(effect, kinds.WriteControls):
            self.sync_soon()
        elif isinstance(effect, kinds.InstallSnapshot):
            self._install(effect.snapshot)
        elif isinstance(effect, kinds.Commit):
            world.committed_by(self, effect.high_watermark)
        elif isinstance(effect, kinds.BeginLeading):
            self.leading = True
        elif isinstance(effect, kinds.StopLeading):
            self.leading = False
        elif isinstance(effect, kinds.LeaderKnown) and effect.leader_id == self.key.node_id:
            world.elected(self, effect.epoch)
            world.maybe_crash(self, 0.12)

    def _filled(self, answer: Answer) -> Answer:
        if not isinstance(answer, Fetched) or answer.read_from is None:
            return answer
        return self.disk.filled(answer, 1 if self.world.universe.nasty else self.world.random.randint(1, 6))

    def _portion(self, answer: FetchedSnapshot) -> FetchedSnapshot:
        size = self.world.snapshots[answer.snapshot].size
        return answer._replace(size=size, data=b"x" * min(PORTION, size - answer.position))

    def _install(self, position: LogPosition) -> None:
        self.disk.install(position)
        assert position.offset >= self.applied
        self.applied = position.offset
        self.world.installed += 1
        assert self.raft is not None
        self.raft.installed(position, self.world.snapshots[position].controls, self.world.now)

    # --- the leader's writes -----------------------------------------------------------------------------------------

    def propose(self, value: object) -> None:
        raft = self.raft
        if raft is None or not raft.leads or not self.leading:
            return
        for effect in [effect for effect in self.queue if isinstance(effect, kinds.WriteControls)]:
            self.queue.remove(effect)
            self._do(raft, effect)
        end = self.disk.end_offset
        self.disk.entries.append(Entry(end, end + 1, raft.epoch, (), value))
        raft.appended(end + 1, self.world.now)
        self.sync_soon()
        self.drain()

    def sync_soon(self) -> None:
        if not self.syncing:
            self.syncing = True
            raft = self.raft
            assert raft is not None
            self.world.later(self.world.disk_delay(), partial(self._stored, self.disk.end_offset, raft.epoch), self)

    def _stored(self, end: int, epoch: int) -> None:
        self.syncing = False
        raft = self.raft
        assert raft is not None
        if raft.epoch == epoch and raft.role is Role.LEADER:
            self.disk.synced = max(self.disk.synced, end)
            self.feed(lambda raft: raft.stored(end, self.world.now))
            if self.disk.end_offset > self.disk.synced:
                self.sync_soon()


def _endpoint(node_id: int) -> Endpoint:
    return Endpoint("CONTROLLER", "sim", node_id)


class QuorumWorld:
    """The network, the clock and the checks."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        draw = self.random
        self.universe = Universe(
            draw.choice((1, 3, 3, 3, 5)),
            draw.choice((0, 0, 1, 2)),
            draw.random() < 0.5,
            draw.choice((0.0, 0.02, 0.1)),
            draw.choice((0.002, 0.02, 0.1)),
            draw.random() < 0.4,
            draw.random() < 0.3,
        )
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._armed: dict[int, float] = {}
        self.cuts: set[tuple[int, int]] = set()
        self.faults = True
        self.snapshots: dict[LogPosition, SnapshotContent] = {}
        self.leaders: dict[int, int] = {}
        self.values: dict[int, Entry] = {}
        self.installed = 0
        self.voters_changed = 0
        self.committed_end = 0
        self._watermarks: dict[tuple[int, int], int] = {}
        keys = [
            ReplicaKey(node_id, draw.randbytes(16)) for node_id in range(self.universe.voters + self.universe.observers)
        ]
        self.first_voters = VoterSet.of(
            Voter(
                key.node_id,
                key.directory_id if self.universe.dynamic else NO_DIRECTORY,
                (_endpoint(key.node_id),),
                0,
                1,
            )
            for key in keys[: self.universe.voters]
        )
        self.bootstrap = (_endpoint(0),)
        self.nodes = [SimNode(self, key, self.universe.dynamic or key.node_id < self.universe.voters) for key in keys]

    # --- time --------------------------------------------------------------------------------------------------------

    def at(self, when: float, action: Callable[[], None]) -> None:
        heappush(self._events, (when, next(self._order), action))

    def later(self, delay: float, action: Callable[[], None], node: SimNode) -> None:
        """Unless the node crashes before."""
        generation = node.generation

        def act() -> None:
            if node.generation == generation and node.raft is not None:
                action()

        self.at(self.now + delay, act)

    def arm(self, node: SimNode) -> None:
        assert node.raft is not None
        due = node.raft.deadline()
        if due == float("inf"):
            return
        due = max(due, self.now)
        known = self._armed.get(node.key.node_id)
        if known is not None and self.now <= known <= due:
            return
        self._armed[node.key.node_id] = due
        self.at(due, lambda: self._tick(node, due))

    def _tick(self, node: SimNode, due: float) -> None:
        if self._armed.get(node.key.node_id) == due:
            del self._armed[node.key.node_id]
        if node.raft is not None:
            if node.raft.deadline() <= self.now:
                node.raft.tick(self.now)
            node.drain()

    def run(self, until: float) -> None:
        events = self._events
        while events and events[0][0] <= until:
            self.now, _, action = heappop(events)
            action()
        self.now = until

    def disk_delay(self) -> float:
        return self.random.choice((0.001, 0.001, 0.003, 0.03 if self.faults else 0.001))

    # --- network -----------------------------------------------------------------------------------------------------

    def _lost(self, source: int, target: int) -> bool:
        return (source, target) in self.cuts or (self.faults and self.random.random() < self.universe.loss)

    def _delay(self) -> float:
        return self.random.uniform(0.0005, self.universe.delay if self.faults else 0.005)

    def send(self, source: SimNode, send: kinds.Send) -> None:
        target = self.nodes[send.address.port]
        here, there = source.key.node_id, target.key.node_id
        open_until = self.now + send.timeout
        state = {"open": True}

        def close(answer: Answer | None, refused: bool = False) -> None:
            if not state["open"]:
                return
            state["open"] = False
            if answer is None:
                source.feed(lambda raft: raft.unanswered(send.number, send.node_id, send.request, refused, self.now))
            else:
                source.feed(lambda raft: raft.answered(send.number, send.node_id, send.request, answer, self.now))

        def back(answer: Answer) -> None:
            if not self._lost(there, here):
                self.later(self._delay(), lambda: close(answer), source)

        def arrive() -> None:
            if target.raft is None:
                if not self._lost(there, here):
                    self.later(self._delay(), lambda: close(None, True), source)
            else:
                self.receive(target, send.request, back)

        self.later(max(open_until - self.now, 0.0), lambda: close(None), source)
        if not self._lost(here, there):
            self.at(self.now + self._delay(), arrive)

    def receive(self, target: SimNode, request: Request, back: Callable[[Answer], None]) -> None:
        target.feed(lambda raft: raft.receive(Question(back), request, self.now))

    # --- what happens ------------------------------------------------------------------------------------------------

    def crash(self, node: SimNode, seconds: float) -> None:
        if node.raft is None:
            return
        node.crash()
        self._armed.pop(node.key.node_id, None)
        self.at(self.now + seconds, lambda: node.begin() if node.raft is None else None)

    def maybe_crash(self, node: SimNode, within: float) -> None:
        """At a bad moment."""
        if self.faults and self.universe.nasty and self.random.random() < 0.4:
            away = self.random.uniform(0.001, 0.3)
            self.later(self.random.uniform(0.0, within), lambda: self.crash(node, away), node)

    def cut(self) -> None:
        """One side of the nodes does not reach the other, perhaps in one direction only."""
        side = {node.key.node_id for node in self.nodes if self.random.random() < 0.5}
        one_way = self.random.random() < 0.3
        for first in range(len(self.nodes)):
            for second in range(len(self.nodes)):
                if first in side and second not in side:
                    self.cuts.add((first, second))
                    if not one_way:
                        self.cuts.add((second, first))

    def change_voters(self) -> None:
        leaders = [node for node in self.nodes if node.leading and node.raft is not None]
        if not leaders:
            return
        leader = self.random.choice(leaders)
        assert leader.raft is not None
        voters = leader.raft.voters
        outside = [node for node in self.nodes if not voters.has(node.key)]
        request: Request
        if outside and self.random.random() < 0.6:
            key = self.random.choice(outside).key
            request = AddVoter("sim", Voter(*key, (_endpoint(key.node_id),), 0, 1), 1.0, self.random.random() < 0.5)
        else:
            request = RemoveVoter("sim", self.random.choice(voters.keys))
        self.receive(leader, request, self._changed)

    def _changed(self, answer: Answer) -> None:
        assert isinstance(answer, Answered)
        self.voters_changed += answer.error == ErrorCode.NONE

    def snapshot(self, node: SimNode) -> None:
        """Take one of what the node has applied, and let the log before it go."""
        raft = node.raft
        if raft is None or node.applied == 0 or node.applied == node.disk.start.offset or node.busy:
            return
        position = node.disk.end_below(node.applied)
        if position is None:
            return
        voters, version = raft.log.voters_at(position.offset - 1)
        controls: tuple[Control, ...] = (KraftVersion(version), Voters(voters.voters)) if version else ()
        values = tuple(
            (self.values[offset].epoch, self.values[offset].data)
            for offset in sorted(self.values)
            if offset < position.offset
        )
        content = SnapshotContent(values, controls, self.random.randint(1, 4 * PORTION))
        known = self.snapshots.setdefault(position, content)
        assert known[:2] == content[:2]
        node.disk.trim(position)
        raft.log.took_snapshot(position, position.offset)

    # --- checks ------------------------------------------------------------------------------------------------------

    def elected(self, node: SimNode, epoch: int) -> None:
        known = self.leaders.setdefault(epoch, node.key.node_id)
        assert known == node.key.node_id, f"epoch {epoch} has the leaders {known} and {node.key.node_id}"
        own = {entry.base_offset: entry for entry in node.disk.entries}
        for offset, entry in self.values.items():
            if offset >= node.disk.start.offset:
                assert _same(own.get(offset), entry), f"leader {node.key.node_id} of {epoch} lacks {entry}"

    def committed_by(self, node: SimNode, high_watermark: int) -> None:
        mark = (node.key.node_id, node.generation)
        assert high_watermark > self._watermarks.get(mark, -1), "a high watermark went back"
        self._watermarks[mark] = high_watermark
        for entry in node.disk.entries:
            if entry.base_offset < node.applied:
                continue
            if entry.next_offset > high_watermark:
                break
            known = self.values.setdefault(entry.base_offset, entry)
            assert _same(known, entry), f"node {node.key.node_id} committed {entry}, another {known}"
            assert entry.base_offset == node.applied, "a hole among what is committed"
            node.applied = entry.next_offset
        self.committed_end = max(self.committed_end, node.applied)

    def check_logs(self) -> None:
        """Two logs that hold an entry of the same epoch at the same offset agree on everything before."""
        for first in self.nodes:
            for second in self.nodes:
                if first.key >= second.key:
                    continue
                theirs = {entry.base_offset: entry for entry in second.disk.entries}
                agreed = False
                for entry in reversed(first.disk.entries):
                    other = theirs.get(entry.base_offset)
                    if other is None:
                        assert not agreed or entry.base_offset < second.disk.start.offset
                    elif agreed or other.epoch == entry.epoch:
                        agreed = True
                        assert _same(entry, other), f"{first.key.node_id} and {second.key.node_id} part at {entry}"


def _same(first: Entry | None, second: Entry | None) -> bool:
    if first is None or second is None:
        return False
    return (first.epoch, first.next_offset, first.data) == (second.epoch, second.next_offset, second.data)
