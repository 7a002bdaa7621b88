"""One machine of the quorum at work, with the clock in the test's hand."""

from typing import TypeVar

from ottla.base.errors import ErrorCode
from ottla.raft import effects
from ottla.raft.core import NOTICE, ReplicaIdentity, Timing
from ottla.raft.effects import Effect
from ottla.raft.log_view import Entry, LogPosition, LogView
from ottla.raft.machine import Raft
from ottla.raft.messages import (
    Answer,
    Answered,
    BeginEpoch,
    Believed,
    Fetch,
    Request,
    Vote,
    Voted,
)
from ottla.raft.roles import Role
from ottla.raft.voters import Election, ReplicaKey, VoterSet
from ottla.records.control import Endpoint, Voter

T = TypeVar("T", bound=Effect)
A = TypeVar("A", bound=Answer)
TIMING = Timing()
NOBODY = Believed(-1, 0)
EMPTY = LogPosition(0, 0)


class HalfRandom:
    """Always the middle."""

    def identity(self) -> bytes:
        return bytes(16)

    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2


def endpoint(node_id: int) -> Endpoint:
    return Endpoint("CONTROLLER", "host", 9000 + node_id)


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, bytes(15) + bytes([node_id + 1]))


def voter(node_id: int, *, dynamic: bool = False) -> Voter:
    return Voter(node_id, key(node_id).directory_id if dynamic else bytes(16), (endpoint(node_id),), 0, 1)


class Replica:
    """A machine at work, with the clock in hand."""

    def __init__(
        self,
        node_id: int = 0,
        voters: int = 3,
        *,
        dynamic: bool = False,
        can_vote: bool = True,
        entries: tuple[Entry, ...] = (),
        election: Election | None = None,
        address: Endpoint | None = None,
    ) -> None:
        view = LogView(VoterSet.of(voter(each, dynamic=dynamic) for each in range(voters)), int(dynamic))
        view.append(entries)
        identity = ReplicaIdentity("cluster", key(node_id), can_vote, (address or endpoint(node_id),))
        self.raft = Raft(identity, TIMING, view, election or Election(), HalfRandom())
        self.now = 100.0
        self.raft.start(self.now)
        self.effects = self.raft.take()

    def ask(self, request: Request, answer: type[A]) -> A:
        """The answer, which must come at once."""
        self.raft.receive("token", request, self.now)
        self.effects = self.raft.take()
        replies = [reply.answer for reply in self.of(effects.Reply) if reply.token == "token"]
        assert len(replies) == 1
        assert isinstance(replies[0], answer)
        return replies[0]

    def answer(self, send: effects.Send, answer: Answer) -> None:
        self.raft.answered(send.number, send.node_id, send.request, answer, self.now)
        self.effects = self.raft.take()

    def fail(self, send: effects.Send, *, refused: bool = False) -> None:
        self.raft.unanswered(send.number, send.node_id, send.request, refused, self.now)
        self.effects = self.raft.take()

    def wait(self, seconds: float) -> None:
        """Time passes, with every tick that is due."""
        until = self.now + seconds
        self.effects = []
        while self.raft.deadline() <= until:
            self.now = max(self.raft.deadline(), self.now)
            self.raft.tick(self.now)
            self.effects += self.raft.take()
        self.now = until

    def of(self, kind: type[T]) -> list[T]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def sends(self, kind: type[Request]) -> list[effects.Send]:
        return [send for send in self.of(effects.Send) if isinstance(send.request, kind)]

    def plays(self, role: Role) -> bool:
        return self.raft.role is role

    @property
    def believed(self) -> Believed:
        return self.raft.believed

    def follow(self, leader_id: int = 1, epoch: int = 1) -> effects.Send:
        """Have it follow; answers its first fetch."""
        told = BeginEpoch("cluster", self.raft.key, leader_id, epoch, (endpoint(leader_id),))
        assert self.ask(told, Answered).error == ErrorCode.NONE
        return self.sends(Fetch)[0]

    def lead(self) -> "Replica":
        """Have it lead three voters, with its first record committed."""
        self.wait(NOTICE)
        for pre_vote in (True, False):
            for send in self.sends(Vote):
                assert isinstance(send.request, Vote)
                if self.raft.role in (Role.PROSPECTIVE, Role.CANDIDATE) and send.request.pre_vote == pre_vote:
                    self.answer(send, Voted(ErrorCode.NONE, Believed(-1, send.request.epoch), granted=True))
                    break
        assert self.raft.role is Role.LEADER
        self.raft.stored(self.raft.log.end_offset, self.now)
        self.fetched_by(1)
        self.fetched_by(1)
        assert self.raft.leads
        return self

    def fetched_by(self, node_id: int, end: LogPosition | None = None, high_watermark: int = 1 << 62) -> list[Effect]:
        request = Fetch("cluster", key(node_id), self.raft.epoch, end or self.raft.log.end, high_watermark, 0.0)
        self.raft.receive("fetch", request, self.now)
        self.effects = self.raft.take()
        return self.effects


def vote(epoch: int, candidate: int = 1, end: LogPosition = EMPTY, *, pre_vote: bool = False, to: int = 0) -> Vote:
    return Vote("cluster", ReplicaKey(to), epoch, key(candidate), end, pre_vote)


def entries(*epochs: int) -> tuple[Entry, ...]:
    return tuple(Entry(offset, offset + 1, epoch, (), None) for offset, epoch in enumerate(epochs))
