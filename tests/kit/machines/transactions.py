"""A transaction machine on virtual time whose facts go through their stored form, and its requests in a line each."""

from __future__ import annotations

from itertools import count

from ottla.base.errors import ErrorCode
from ottla.base.machines import Now
from ottla.base.vocabulary import TopicPartition
from ottla.transactions.decision import Outcome, ProducerIdentity, TransactionDecision, TransactionLimits
from ottla.transactions.machine import TransactionMachine
from ottla.transactions.records import read, written
from ottla.transactions.state import Transaction

NAME = "an id"
WALL_AHEAD_MS = 1_000_000_000
OLDER = 0
NEWER = 2


def partitions(*indexes: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("topic", index) for index in indexes)


class Coordinator:
    """See the module. `log` has every record ever stored."""

    def __init__(self, limits: TransactionLimits | None = None, server_version: int = NEWER) -> None:
        self.limits = limits or TransactionLimits()
        self.server_version = server_version
        self.steady_ms = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.fresh = count(1000)
        self.machine = self._new()

    def _new(self) -> TransactionMachine:
        return TransactionMachine(self.limits, lambda: self.server_version, self.now)

    @property
    def now(self) -> Now:
        return Now(self.steady_ms, WALL_AHEAD_MS + self.steady_ms)

    def held(self, name: str = NAME) -> Transaction:
        return self.machine.transactions[name]

    def reload(self) -> None:
        """Another coordinator takes over: it knows what is in the log."""
        latest: dict[bytes, bytes | None] = dict(self.log)
        self.machine = self._new()
        for key, value in latest.items():
            self.machine.apply(read(key, value))

    def carry_out(self, decision: TransactionDecision) -> Outcome:
        for fact in decision.facts:
            self.log.append(written(fact))
            self.machine.apply(fact)
        return decision.reply or Outcome(ErrorCode.NONE)

    # --- requests ---

    def init(
        self,
        expected: tuple[int, int] | None = None,
        timeout_ms: int = 60_000,
        name: str = NAME,
        *,
        two_phases: bool = False,
    ) -> Outcome:
        who = None if expected is None else ProducerIdentity(name, *expected)
        decision = self.machine.decide_init(name, timeout_ms, who, None, self.now, two_phases=two_phases)
        if decision.needs_producer_id:
            fresh = next(self.fresh)
            decision = self.machine.decide_init(name, timeout_ms, who, fresh, self.now, two_phases=two_phases)
        return self.carry_out(decision)

    def add(self, who: tuple[int, int], *indexes: int, version: int = NEWER, name: str = NAME) -> ErrorCode:
        producer = ProducerIdentity(name, *who)
        return self.carry_out(self.machine.decide_add(producer, partitions(*indexes), version, self.now)).error

    def end(self, who: tuple[int, int], commit: bool, version: int = NEWER, name: str = NAME) -> Outcome:
        producer = ProducerIdentity(name, *who)
        decision = self.machine.decide_end(producer, commit, version, None, self.now)
        if decision.needs_producer_id:
            decision = self.machine.decide_end(producer, commit, version, next(self.fresh), self.now)
        return self.carry_out(decision)

    def complete(self, name: str = NAME) -> None:
        self.carry_out(self.machine.decide_complete(name, self.now))

    def advance(self, milliseconds: int) -> None:
        """Time passes; whatever comes due is carried out."""
        end = self.steady_ms + milliseconds
        while self.machine.next_deadline() <= end:
            self.steady_ms = max(self.steady_ms, self.machine.next_deadline())
            while (decision := self.machine.expire(self.now)) is not None:
                self.carry_out(decision)
        self.steady_ms = end
