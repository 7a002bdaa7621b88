"""Quorums as transcripts: several machines, the messages between them, their disks, and the clock in the story's hand.

What is printed: a line for each thing that a machine is told, and below it, in their order, the effects that are done.
Behind one that the disk has not finished, those that wait for it are not done and not printed. A node draws the same
share of every random pause, a low number a small one, so node 0 is first where nothing speaks against it.
`offset@epoch` is a place in a log, `leader@epoch` what somebody believes in; `2b` is the node 2 with its second disk.
"""

from collections import deque
from pathlib import Path
from typing import NamedTuple

import pytest

from kit.machines.raft_disks import ReplicaDisk
from kit.machines.transcripts import Printer, Stage, check_transcript, transcript_name, transcripts_beside
from ottla.base.errors import ErrorCode
from ottla.raft import effects
from ottla.raft.core import ReplicaIdentity, Timing
from ottla.raft.effects import Effect
from ottla.raft.log_view import Diverging, Entry, LogPosition
from ottla.raft.machine import Raft
from ottla.raft.messages import (
    AddVoter,
    Answer,
    Believed,
    RemoveVoter,
    Request,
)
from ottla.raft.roles import Role
from ottla.raft.voters import NO_DIRECTORY, ReplicaKey, VoterSet
from ottla.records.control import Control, ElectionVoter, Endpoint, KraftVersion, Voter, Voters

TIMING = Timing()
SNAPSHOT_BYTES = 5
PORTION_BYTES = 3
OPERATOR = -1
"""Who asks for changes of voters."""


def key_word(key: tuple[int, bytes]) -> str:
    node_id, directory = key
    return f"{node_id}{'' if directory[-1] < 2 else 'abcdefg'[directory[-1] - 1]}"


def entry_word(entry: Entry) -> str:
    kinds = "+".join(type(control).__name__ for control in entry.controls)
    return f"{entry.base_offset}@{entry.epoch}{':' + kinds if kinds else ''}"


shown: Printer = Printer(
    {
        ReplicaKey: key_word,
        Voter: lambda voter: key_word(voter[:2]),
        ElectionVoter: lambda voter: str(voter.voter_id),
        LogPosition: lambda end: f"{end.offset}@{end.epoch}",
        Diverging: lambda end: f"{end.end_offset}@{end.epoch}",
        Believed: lambda believed: f"{'nobody' if believed.leader_id < 0 else believed.leader_id}@{believed.epoch}",
        Entry: entry_word,
        ErrorCode: lambda error: "" if error == ErrorCode.NONE else error.name,
        effects.SaveElection: lambda save: f"Save{shown(save.election)}",
        effects.Send: lambda send: f"Send to {name(send.node_id)}: {shown(send.request)}",
        effects.Reply: lambda reply: f"Reply to {reply.token}: {shown(reply.answer)}",
        effects.ReplyPortion: lambda reply: f"ReplyPortion to {reply.token}: {shown(reply.request)}",
    },
    hidden=["cluster_id", "endpoints", "replica", "candidate", "max_wait", "timeout"],
)


def name(node_id: int) -> str:
    return "somebody" if node_id < 0 else str(node_id)


class Question(NamedTuple):
    """A request that was sent: by which life of which node, to whom."""

    source: int
    life: int
    target: int
    send: effects.Send
    asker: str

    def __str__(self) -> str:
        return self.asker

    @property
    def key(self) -> tuple[int, int, int]:
        return self.source, self.life, self.send.number


class Message(NamedTuple):
    """On its way: a question, or its answer."""

    question: Question
    answer: Answer | None = None

    @property
    def route(self) -> tuple[int, int]:
        there = self.question.source, self.question.target
        return there if self.answer is None else there[::-1]


class Shares:
    """Of every pause a node draws the same share, by its number."""

    def __init__(self, node_id: int) -> None:
        self._share = (node_id + 1) / 10

    def identity(self) -> bytes:
        return bytes(16)

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self._share


class Node:
    """One replica: its disk, and while it is up its machine with the effects that are not done."""

    def __init__(self, node_id: int, can_vote: bool) -> None:
        self.node_id = node_id
        self.can_vote = can_vote
        self.disks = 0
        self.replace_disk()
        self.raft: Raft | None = None
        self.queue: deque[Effect] = deque()
        self.slow = False
        self.life = 0

    def replace_disk(self) -> None:
        self.disk = ReplicaDisk()
        self.disks += 1

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, bytes(15) + bytes([self.disks]))

    def __str__(self) -> str:
        return key_word(self.key)

    @property
    def machine(self) -> Raft:
        assert self.raft is not None, f"{self.node_id} is down"
        return self.raft

    def stop(self) -> None:
        self.raft = None
        self.queue.clear()
        self.life += 1


class QuorumStage(Stage):
    """A quorum and the world around it; the commands are the methods without a leading underscore."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._nodes: dict[int, Node] = {}
        self._first_voters = VoterSet()
        self._dynamic = False
        self._auto_join = False
        self._messages: list[Message] = []
        self._open: dict[tuple[int, int, int], tuple[float, Question]] = {}
        """Questions without an answer: until when."""
        self._asked = 0
        """By the operator."""
        self._cut: set[int] = set()
        self._snapshots: dict[LogPosition, tuple[Control, ...]] = {}

    # --- who there is ------------------------------------------------------------------------------------------------

    def quorum(self, voters: str, *, observers: str = "0", dynamic: str = "", auto_join: str = "") -> None:
        """So many nodes that vote and that do not, none of them started.

        `dynamic`: voters may change (KIP-853); `auto_join`: who could vote and does not asks for it by itself.
        """
        self._dynamic, self._auto_join = bool(dynamic), bool(auto_join)
        for node_id in range(int(voters) + int(observers)):
            self._nodes[node_id] = Node(node_id, self._dynamic or node_id < int(voters))
        self._first_voters = VoterSet.of(self._voter(node) for node in list(self._nodes.values())[: int(voters)])

    def _voter(self, node: Node) -> Voter:
        return Voter(node.node_id, node.key.directory_id if self._dynamic else NO_DIRECTORY, _at(node.node_id), 0, 1)

    def log(self, node: str, *epochs: str) -> None:
        """A node that is not started has records of these epochs."""
        disk = self._nodes[int(node)].disk
        disk.entries = [Entry(offset, offset + 1, int(epoch), (), None) for offset, epoch in enumerate(epochs)]
        disk.synced = disk.end_offset

    def start(self, *nodes: str) -> None:
        for node in self._some(nodes):
            self._start(node)
            self._do(node, f"{node} starts")

    def _start(self, node: Node) -> None:
        controls = self._snapshots[node.disk.snapshot] if node.disk.snapshot is not None else ()
        view = node.disk.view(self._first_voters, int(self._dynamic), controls)
        bootstrap = _at(0) if node.node_id else ()
        identity = ReplicaIdentity("cluster", node.key, node.can_vote, _at(node.node_id), bootstrap, self._auto_join)
        node.raft = Raft(identity, TIMING, view, node.disk.election, Shares(node.node_id))
        node.raft.start(self._now)

    def _some(self, nodes: tuple[str, ...]) -> list[Node]:
        return [self._nodes[int(node)] for node in nodes] if nodes else list(self._nodes.values())

    def crash(self, node: str) -> None:
        """The process and what was not synced are gone."""
        crashed = self._nodes[int(node)]
        crashed.stop()
        crashed.disk.forget(crashed.disk.unsynced)
        for _, question in list(self._open.values()):
            if question.target == crashed.node_id:
                self._tell_unanswered(question, "the connection ended")

    def replace_disk(self, node: str) -> None:
        """A node that is down gets another disk, with nothing on it."""
        self._nodes[int(node)].replace_disk()

    def elected(self, *nodes: str) -> None:
        """Start all, or these, and have node 0 elected and all fetch: the beginning of other stories, told in brief."""
        self.start(*nodes)
        self.run("0.3")
        self.said = []
        assert self._nodes[0].machine.leads
        self.show()

    def show(self) -> None:
        """How everybody stands."""
        for node in self._nodes.values():
            raft = node.raft
            if raft is None:
                self.say(f"{node} is down")
            else:
                believed = shown(raft.believed)
                voters = " ".join(map(key_word, raft.voters.keys))
                ends = f"log {raft.log.start_offset} to {shown(raft.log.end)} committed {raft.high_watermark}"
                self.say(f"{node} {raft.role.value} of {believed} {ends} voters {voters}")

    # --- effects -----------------------------------------------------------------------------------------------------

    def _do(self, node: Node, told: str) -> None:
        """The machine was told something; do what it wants done."""
        self.say(told)
        self._drain(node)

    def _drain(self, node: Node) -> None:
        raft = node.machine
        node.queue += raft.take()
        while node.queue:
            effect = node.queue[0]
            blocking = isinstance(effect, effects.SaveElection | effects.Sync)
            if node.slow and blocking:
                self.say(f"  {shown(effect)} waits for the disk")
                return
            node.queue.popleft()
            self.say(f"  {shown(effect)}")
            self._do_effect(node, raft, effect)
            node.queue += raft.take()
        if raft.role is Role.LEADER and node.disk.unsynced and not node.slow:
            node.disk.synced = node.disk.end_offset
            raft.stored(node.disk.synced, self._now)
            self._do(node, f"{node} has stored up to {node.disk.synced}")

    def _do_effect(self, node: Node, raft: Raft, effect: Effect) -> None:
        node.disk.write(effect)
        if isinstance(effect, effects.SaveElection):
            node.disk.election = effect.election
        elif isinstance(effect, effects.Sync):
            node.disk.synced = node.disk.end_offset
        elif isinstance(effect, effects.Send):
            question = Question(node.node_id, node.life, effect.address.port, effect, str(node))
            self._open[question.key] = self._now + effect.timeout, question
            self._messages.append(Message(question))
        elif isinstance(effect, effects.Reply):
            self._answer(effect.token, node.disk.filled(effect.answer, 100))
        elif isinstance(effect, effects.ReplyPortion):
            data = bytes(min(PORTION_BYTES, SNAPSHOT_BYTES - effect.answer.position))
            self._answer(effect.token, effect.answer._replace(size=SNAPSHOT_BYTES, data=data))
        elif isinstance(effect, effects.InstallSnapshot):
            node.disk.install(effect.snapshot)
            raft.installed(effect.snapshot, self._snapshots[effect.snapshot], self._now)

    def _answer(self, token: object, answer: Answer) -> None:
        assert isinstance(token, Question)
        self._messages.append(Message(token, answer))

    def disk(self, node: str, how: str) -> None:
        """`slow`: what has to last waits; `done`: it lasts; `fails`: it does not, and the machine begins anew."""
        of = self._nodes[int(node)]
        of.slow = how == "slow"
        if how == "done":
            self._do(of, f"{of} has a disk again")
        elif how == "fails":
            of.stop()
            of.disk.forget(of.disk.unsynced)
            self._start(of)
            self._do(of, f"{of} begins anew with what lasts: {shown(of.disk.election)}")

    # --- messages and time -------------------------------------------------------------------------------------------

    def deliver(self, *route: str) -> None:
        """Everything that is on its way now arrives; with a source and a target only what goes there."""
        wanted = tuple(map(int, route))
        chosen = [message for message in self._messages if not route or message.route == wanted]
        for message in chosen:
            self._messages.remove(message)
            self._arrive(message)

    def settle(self) -> None:
        """Messages arrive until none is on its way; no time passes."""
        while self._messages:
            self._arrive(self._messages.pop(0))

    def _arrive(self, message: Message) -> None:
        question, answer = message
        if self._cut & set(message.route):
            return
        if answer is not None:
            self._tell_answer(question, answer)
        elif self._nodes[question.target].raft is None:
            self._tell_unanswered(question, "nobody listens")
        else:
            self._receive(question)

    def _receive(self, question: Question) -> None:
        node, request = self._nodes[question.target], question.send.request
        node.machine.receive(question, request, self._now)
        self._do(node, f"{node} hears {type(request).__name__} of {question}")

    def _tell_answer(self, question: Question, answer: Answer) -> None:
        if self._close(question):
            told = f"{question} hears of {self._nodes[question.target]}: {shown(answer)}"
            if question.source == OPERATOR:
                self.say(told)
            else:
                node, send = self._nodes[question.source], question.send
                node.machine.answered(send.number, send.node_id, send.request, answer, self._now)
                self._do(node, told)

    def _tell_unanswered(self, question: Question, why: str) -> None:
        if self._close(question) and question.source != OPERATOR:
            node, send = self._nodes[question.source], question.send
            node.machine.unanswered(send.number, send.node_id, send.request, why == "nobody listens", self._now)
            self._do(node, f"{node} has no answer to {type(send.request).__name__} of {name(send.node_id)}: {why}")

    def _close(self, question: Question) -> bool:
        """Answers whether somebody still waits for it."""
        waited = self._open.pop(question.key, None) is not None
        return waited and (question.source == OPERATOR or question.life == self._nodes[question.source].life)

    def wait(self, seconds: str) -> None:
        """Time passes, with every tick and time-out that is due; messages stay where they are."""
        self._pass(float(seconds), settling=False)

    def run(self, seconds: str, *, quietly: str = "") -> None:
        """Time passes, and messages arrive at once. `quietly`: only how everybody stands in the end is printed."""
        said = len(self.said)
        self.settle()
        self._pass(float(seconds), settling=True)
        if quietly:
            del self.said[said:]
            self.show()

    def _pass(self, seconds: float, *, settling: bool) -> None:
        until = self._now + seconds
        while True:
            up = [node for node in self._nodes.values() if node.raft is not None]
            ticks = [(node.machine.deadline(), 1, node.node_id, 0, 0) for node in up]
            ends = [(deadline, 0, *key) for key, (deadline, _) in self._open.items()]
            due, is_tick, node_id, life, number = min([*ticks, *ends], default=(until + 1, 0, 0, 0, 0))
            if due > until:
                break
            self._now = max(self._now, due)
            if is_tick:
                self._nodes[node_id].machine.tick(self._now)
                self._do(self._nodes[node_id], f"{self._nodes[node_id]} ticks at {self._now:.6g}")
            else:
                self._tell_unanswered(self._open[node_id, life, number][1], "it took too long")
            if settling:
                self.settle()
        self._now = until

    def cut(self, *nodes: str) -> None:
        """No message reaches these nodes, or comes from them."""
        self._cut.update(map(int, nodes))

    def heal(self) -> None:
        self._cut.clear()

    def lose(self) -> None:
        """What is on its way gets lost."""
        self._messages.clear()

    # --- what leaders are told ---------------------------------------------------------------------------------------

    def append(self, node: str) -> None:
        """A decision is written by the leader."""
        of = self._nodes[int(node)]
        base = of.disk.end_offset
        of.disk.entries.append(Entry(base, base + 1, of.machine.epoch, (), None))
        of.machine.appended(base + 1, self._now)
        self._do(of, f"{of} appends {base}@{of.machine.epoch}")

    def snapshot(self, node: str) -> None:
        """One is made of what is committed, and the log before it goes."""
        of = self._nodes[int(node)]
        position = of.disk.end_below(of.machine.high_watermark)
        assert position is not None, "nothing is committed"
        voters, version = of.machine.log.voters_at(position.offset - 1)
        self._snapshots[position] = (KraftVersion(version), Voters(voters.voters)) if version else ()
        of.disk.trim(position)
        of.machine.log.took_snapshot(position, position.offset)

    def resign(self, node: str) -> None:
        of = self._nodes[int(node)]
        of.machine.resign(self._now)
        self._do(of, f"{of} resigns")

    def add_voter(self, node: str, *, to: str) -> None:
        self._operate(AddVoter("cluster", self._voter(self._nodes[int(node)]), 2.0, when_committed=True), int(to))

    def remove_voter(self, node: str, *, to: str, disk: str = "1") -> None:
        self._operate(RemoveVoter("cluster", ReplicaKey(int(node), bytes(15) + bytes([int(disk)]))), int(to))

    def _operate(self, request: Request, target: int) -> None:
        self._asked += 1
        send = effects.Send(self._asked, target, _at(target)[0], request, TIMING.request_timeout)
        question = Question(OPERATOR, 0, target, send, "the operator")
        self._open[question.key] = self._now + send.timeout, question
        self._receive(question)


def _at(node_id: int) -> tuple[Endpoint, ...]:
    return (Endpoint("CONTROLLER", "host", node_id),)


@pytest.mark.parametrize("transcript", transcripts_beside(__file__), ids=transcript_name)
def test_a_transcript_is_what_the_machines_say(transcript: Path) -> None:
    check_transcript(transcript, QuorumStage())
