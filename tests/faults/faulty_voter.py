"""One voter on a disk that fails, and the two others, who hold it to everything it has said: for fault stories.

The voter is the real one, on virtual time. The others are played: they keep the true history, answer its fetches, ask
for its votes, follow it when it leads, and never fail. What must hold, however its disk failed and its process ended:
a vote is given once in an epoch; a log that was compared with the true history and found to agree is never shorter
again; what is told is the true history, in order. A sole voter has nobody to hold it to its word: what it told stays
told, and what it refused never happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from random import Random
from typing import Any, TypeVar

from kit.disks.faulty_disk import FaultyDisk, LosesAll, in_memory
from kit.worlds.quorum_nodes import Heard, topic
from ottla.base.errors import ErrorCode
from ottla.log.files import StorageFailure, World
from ottla.metadata.facts import Fact, decode_facts, encode_facts
from ottla.metadata.quorum_events import Stored
from ottla.quorum.log import read_entries
from ottla.quorum.node import QuorumNode
from ottla.quorum.settings import QuorumIdentity, QuorumPlatform, QuorumSettings
from ottla.quorum.snapshots import Snapshots, SnapshotState
from ottla.raft import messages as flat
from ottla.raft.log_view import Diverging, Entry, LogPosition, LogView
from ottla.raft.messages import Answered, Believed, Fetched, FetchedSnapshot, Voted
from ottla.raft.translation import read_answer, read_request, write_answer, write_request
from ottla.raft.voters import ReplicaKey, VoterSet
from ottla.records.batch import read_records
from ottla.records.builder import build_batch
from ottla.records.control import Endpoint, LeaderChange, Voter, control_record
from ottla.records.header import read_header
from ottla.records.record import Record
from ottla.sim.disk import SimDisk
from ottla.sim.loop import Scheduler, SimLoop, SimThreads
from ottla.sim.world import BIG_BANG_MS, SimClock, SimRandom
from ottla.wire.links import LinkDown
from ottla.wire.schema import LATEST, Root
from ottla.wire.stored.metadata import TopicRecord

R = TypeVar("R", bound=Root)
DIRECTORY = "/data/__cluster_metadata-0"
PATIENCE = 2.0
"""Seconds of virtual time that anything is waited for."""
SETTINGS = QuorumSettings(
    election_timeout=30.0,
    election_backoff_max=0.2,
    fetch_timeout=30.0,
    request_timeout=1.0,
    retry_backoff=0.02,
    snapshot_max_bytes=150,
    segment_bytes=260,
    retention_bytes=300,
)


def _endpoint(node_id: int) -> Endpoint:
    return Endpoint("CONTROLLER", "here", node_id)


def _voter(node_id: int) -> Voter:
    return Voter(node_id, bytes(16), (_endpoint(node_id),), 0, 1)


class Others:
    """Nodes 1 and 2, and all that the voter under test, node 0, has said to them."""

    def __init__(self) -> None:
        self.history: list[Entry] = []
        self.start = LogPosition(0, 0)
        self.snapshot: tuple[LogPosition, bytes] | None = None
        self.names: list[str] = []
        self.leader = -1
        self.epoch = 0
        self.granting = False
        self.silent = False
        self.votes: dict[int, int] = {}
        self.agreed = LogPosition(0, 0)
        """As far as its log was found to agree with the true one."""
        self._changed = asyncio.Event()

    # --- the true history --------------------------------------------------------------------------------------------

    @property
    def end(self) -> LogPosition:
        return LogPosition(self.history[-1].next_offset, self.history[-1].epoch) if self.history else self.start

    def view(self) -> LogView:
        view = LogView(VoterSet.of([_voter(node_id) for node_id in range(3)]), 0)
        if self.snapshot is not None:
            view.restart_behind(self.snapshot[0], ())
        view.begin_at(self.start)
        view.append(self.history)
        return view

    def lead(self, leader: int, epoch: int) -> None:
        """One of them is elected."""
        assert epoch > self.epoch
        self.leader, self.epoch = leader, epoch
        change = control_record(LeaderChange(leader, (), ()), self.end.offset, BIG_BANG_MS)
        self._add(build_batch([change], base_offset=self.end.offset, leader_epoch=epoch, control=True))

    def decide(self, name: str) -> None:
        base = self.end.offset
        (value,) = encode_facts([topic(name)])
        self._add(build_batch([Record(base, BIG_BANG_MS, None, value)], base_offset=base, leader_epoch=self.epoch))
        self.names.append(name)

    def _add(self, batch: bytearray) -> None:
        self.history += read_entries(bytes(batch))
        self.stir()

    def stir(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def trim(self, keep: int) -> None:
        """They write a snapshot of everything and keep the last entries only."""
        disk = SimDisk(LosesAll(), lambda: 0)
        disk.make_directory(DIRECTORY)
        snapshots = Snapshots(World(disk, SimClock(lambda: 0.0, 0), SimRandom(Random(1))), DIRECTORY)
        position = self.end
        snapshots.write(SnapshotState(position, 0, VoterSet()), [topic(name) for name in self.names])
        found = snapshots.read_portion(position, 0, 1 << 20)
        assert found is not None
        self.snapshot = position, found[1]
        gone = self.history[: len(self.history) - keep]
        self.start = LogPosition(gone[-1].next_offset, gone[-1].epoch)
        self.history = self.history[len(gone) :]

    # --- what it says, and whether it may ----------------------------------------------------------------------------

    def hear_vote(self, epoch: int, candidate: int) -> None:
        assert self.votes.setdefault(epoch, candidate) == candidate, f"a second vote in epoch {epoch}"

    def hear_end(self, end: LogPosition) -> None:
        assert (end.epoch, end.offset) >= (self.agreed.epoch, self.agreed.offset), f"{self.agreed} was forgotten: {end}"

    def agree(self, end: LogPosition) -> None:
        self.hear_end(end)
        self.agreed = end

    async def answer(self, target: int, request: flat.Request) -> flat.Answer | None:
        """None: no answer."""
        if isinstance(request, flat.Vote):
            return self._answer_vote(request)
        believed = Believed(self.leader, self.epoch, _endpoint(self.leader) if self.leader > 0 else None)
        if isinstance(request, flat.Fetch | flat.FetchSnapshot):
            if self.silent:
                return None
            error = ErrorCode.NONE if self.leader == target else ErrorCode.NOT_LEADER_OR_FOLLOWER
            if error == ErrorCode.NONE and request.epoch != self.epoch:
                error = ErrorCode.FENCED_LEADER_EPOCH if request.epoch < self.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
            if isinstance(request, flat.Fetch):
                return Fetched(error, believed) if error else await self._answer_fetch(request, believed)
            return self._answer_portion(request, believed, error)
        if isinstance(request, flat.BeginEpoch):
            self.leader, self.epoch = 0, request.epoch
        return Answered(ErrorCode.NONE, Believed(self.leader, self.epoch))

    def _answer_vote(self, request: flat.Vote) -> Voted:
        self.hear_end(request.log_end)
        if not request.pre_vote:
            self.hear_vote(request.epoch, 0)
            if self.granting and request.epoch > self.epoch:
                self.leader, self.epoch = -1, request.epoch
        newer = (request.log_end.epoch, request.log_end.offset) >= (self.end.epoch, self.end.offset)
        granted = self.granting and newer and request.epoch >= self.epoch
        return Voted(ErrorCode.NONE, Believed(-1, max(self.epoch, 0)), granted)

    async def _answer_fetch(self, request: flat.Fetch, believed: Believed) -> Fetched | None:
        self.hear_end(request.log_end)
        apart = self.view().compare(*request.log_end)
        if isinstance(apart, Diverging):
            return Fetched(ErrorCode.NONE, believed, self.end.offset, diverging=apart)
        if apart is not None:
            return Fetched(ErrorCode.NONE, believed, self.end.offset, snapshot=apart)
        self.agree(request.log_end)
        news = tuple(entry for entry in self.history if entry.base_offset >= request.log_end.offset)
        if not news and request.high_watermark >= self.end.offset:
            try:
                async with asyncio.timeout(request.max_wait):
                    await self._changed.wait()
            except TimeoutError:
                return Fetched(ErrorCode.NONE, believed, self.end.offset)
            return await self.answer_again(request)
        return Fetched(ErrorCode.NONE, believed, self.end.offset, entries=news[:2])

    async def answer_again(self, request: flat.Fetch) -> Fetched | None:
        answer = await self.answer(self.leader, request)
        assert answer is None or isinstance(answer, Fetched)
        return answer

    def _answer_portion(self, request: flat.FetchSnapshot, believed: Believed, error: ErrorCode) -> FetchedSnapshot:
        answer = FetchedSnapshot(error, believed, request.snapshot, request.position)
        if error:
            return answer
        assert self.snapshot is not None
        position, data = self.snapshot
        assert position == request.snapshot
        some = data[request.position : request.position + SETTINGS.snapshot_max_bytes]
        return answer._replace(size=len(data), data=some)


class _PlayedLink:
    def __init__(self, others: Others, target: int) -> None:
        self._others = others
        self._target = target

    async def ask(self, request: Root, answer: type[R], seconds: float, *, highest: int = LATEST) -> R:
        asked = read_request(request, type(request).VERSIONS[1])
        assert asked is not None
        await asyncio.sleep(0.001)
        said = await self._others.answer(self._target, asked)
        if said is None:
            await asyncio.sleep(seconds)
            raise LinkDown("silence")
        entries = said.entries if isinstance(said, Fetched) else ()
        found = write_answer(request, said, b"".join(bytes(entry.data) for entry in entries))  # type: ignore[call-overload]
        assert isinstance(found, answer)
        return found

    def close(self) -> None:
        pass


class _PlayedLinks:
    def __init__(self, others: Others) -> None:
        self._others = others

    def link(self, host: str, port: int) -> _PlayedLink:
        return _PlayedLink(self._others, port)


class Told(Heard):
    """What the voter told, and of which epoch that was."""

    epoch = 0

    def committed(self, batches: Sequence[Stored]) -> None:
        super().committed(batches)
        self.epoch = batches[-1].epoch

    def snapshot(self, facts: Iterable[Fact], offset: int, epoch: int) -> None:
        super().snapshot(facts, offset, epoch)
        self.epoch = epoch


class FaultyVoter:
    """Node 0, life after life."""

    def __init__(self, voters: int = 3) -> None:
        self.scheduler = Scheduler(Random(7))
        self.disk: FaultyDisk = in_memory(lambda: BIG_BANG_MS + int(self.scheduler.now * 1000))
        self.others = Others()
        self._voters = tuple(_voter(node_id) for node_id in range(voters))
        self._loop: SimLoop | None = None
        self._node: QuorumNode | None = None
        self.heard = Told()
        self.refused: set[str] = set()
        """What it would not write."""
        self.refusal: Exception | None = None
        """Why it did not start."""

    @property
    def loop(self) -> SimLoop:
        assert self._loop is not None
        return self._loop

    @property
    def node(self) -> QuorumNode:
        assert self._node is not None
        return self._node

    @property
    def up(self) -> bool:
        return self._node is not None

    @property
    def alone(self) -> bool:
        return len(self._voters) == 1

    # --- its lives ---------------------------------------------------------------------------------------------------

    def boot(self) -> bool:
        """Start the process; answers whether it runs. One that does not start has said why and is gone."""
        loop = self._loop = SimLoop(self.scheduler, "voter")
        threads = SimThreads(loop, lambda: 0.001)

        def run_blocking(work: Callable[[], None]) -> Awaitable[None]:
            return loop.run_in_executor(threads, work)

        world = World(self.disk, SimClock(loop.time, 0), SimRandom(Random(3)))
        self.heard = Told()
        self.others.stir()
        node = QuorumNode(
            QuorumPlatform(loop, world, run_blocking, DIRECTORY),
            QuorumIdentity("test", 0, bytes(15) + b"0", self._voters, True, endpoints=(_endpoint(0),)),
            SETTINGS,
            _PlayedLinks(self.others),
            self.heard,
        )

        async def begin() -> None:
            node.open()
            node.start()

        self.refusal = None
        try:
            self._run(begin())
        except StorageFailure as failure:
            self.refusal = failure
            self.kill()
            return False
        self._node = node
        return True

    def stop(self) -> None:
        """Cleanly, as far as the disk lets it."""
        node = self.node

        async def end() -> None:
            await node.stop()
            try:
                node.close()
            except StorageFailure as failure:
                self.refusal = failure

        self._run(end())
        self._bury()

    def kill(self) -> None:
        self._bury()
        self.disk.kill()

    def cut_power(self, chance: Random | None = None) -> None:
        self._bury()
        self.disk.cut_power(chance)

    def _bury(self) -> None:
        if self._loop is not None:
            failures = self._loop.failures
            self._loop.kill()
            self._loop = self._node = None
            assert not failures, failures[0]

    def close(self) -> None:
        self._bury()
        self.scheduler.close()

    # --- what is done to it ------------------------------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self.scheduler.complete(self.loop, work, 60.0)

    def until(self, condition: Callable[[], bool]) -> bool:
        """Whether it came true in time; where a disk fails it need not."""
        deadline = self.scheduler.now + PATIENCE
        while not condition():
            if self.scheduler.now >= deadline:
                return False
            self.scheduler.run_for(0.005)
        return True

    def ask(self, request: flat.Request) -> flat.Answer | None:
        """Of another node; None where it does not answer."""
        wire, _ = write_request(request, 0)
        answers: list[flat.Answer] = []

        async def ask() -> None:
            try:
                async with asyncio.timeout(PATIENCE):
                    answer = await self.node.handle(wire, type(wire).VERSIONS[1])
                answers.append(read_answer(request, answer, read_entries))
            except (StorageFailure, TimeoutError):
                return

        if self.up:
            self._run(ask())
        return answers[0] if answers else None

    def ask_for_vote(self, candidate: int, epoch: int, end: LogPosition) -> bool:
        answer = self.ask(flat.Vote("test", ReplicaKey(0), epoch, ReplicaKey(candidate), end, False))
        granted = isinstance(answer, Voted) and answer.granted
        if granted:
            self.others.hear_vote(epoch, candidate)
        return granted

    @property
    def next_epoch(self) -> int:
        """One that nobody has used."""
        own = self.node.epoch if self.up else 0
        return max(self.others.epoch, own, *self.others.votes, 0) + 1

    def follow(self, leader: int) -> None:
        """One of the others is elected, and says so."""
        self.others.granting = False
        self.others.lead(leader, self.next_epoch)
        self.tell_leader()

    def tell_leader(self) -> None:
        others = self.others
        self.ask(flat.BeginEpoch("test", ReplicaKey(0), others.leader, others.epoch, (_endpoint(others.leader),)))

    def settle(self) -> bool:
        """Until it knows all that the others know."""
        return self.until(lambda: self.up and self.node.high_watermark >= self.others.end.offset)

    def decide(self, name: str) -> bool:
        """As the leader; answers whether it was taken."""
        if not self.up or not self.node.leads:
            return False
        taken: list[int] = []

        async def append() -> None:
            try:
                taken.append(self.node.append([topic(name)]))
            except StorageFailure:
                self.refused.add(name)

        self._run(append())
        return bool(taken)

    def pull(self) -> None:
        """Node 1 follows it for a while and stores what it has; together they are a majority."""
        others = self.others
        for _ in range(8):
            if not self.up or self.node.leader[0] != 0:
                return
            epoch = self.node.epoch
            asked = flat.Fetch("test", ReplicaKey(1), epoch, others.end, others.end.offset, 0.0)
            answer = self.ask(asked)
            if not isinstance(answer, Fetched) or answer.error != ErrorCode.NONE or answer.diverging is not None:
                return
            # What it counted itself with, it has to keep.
            if answer.high_watermark > 0 and answer.high_watermark == others.end.offset:
                others.agree(others.end)
            others.history += answer.entries
            others.names += _names(answer.entries)

    def take_snapshot(self) -> None:
        """Of all that it was told."""
        if not self.up or not self.heard.offsets:
            return
        node, offset, epoch = self.node, self.heard.offsets[-1], self.heard.epoch
        facts = [topic(name) for name in self.heard.names]

        async def take() -> None:
            node.take_snapshot(facts, offset, epoch)

        self._run(take())
        self.until(lambda: not node.writing_snapshot)


def _names(entries: tuple[Entry, ...]) -> Iterator[str]:
    for entry in entries:
        if not entry.controls:
            assert isinstance(entry.data, bytes)
            records = read_records(memoryview(entry.data), read_header(entry.data))
            for fact in decode_facts(record.value for record in records):
                assert isinstance(fact, TopicRecord)
                yield fact.name
