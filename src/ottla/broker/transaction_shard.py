"""One led partition of `__transaction_state` and the machine of the transactional ids it holds.

Owns: that every end that is decided is carried to its partitions, also after a restart, and then completed. Never
knows: what is decided, how a partition is told. Invariant: markers are written only when the decision is committed.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.base.errors import ErrorCode
from ottla.broker.machine_shard import MachineShard, Writer, read_clock, when_safe
from ottla.broker.partitions import Partition
from ottla.broker.transaction_endings import RETRY_SECONDS, Ending, Endings
from ottla.broker.transaction_markers import Markers
from ottla.log.producers import EndMarker
from ottla.transactions.decision import Decision, Limits, Outcome
from ottla.transactions.machine import TransactionMachine
from ottla.transactions.records import written
from ottla.transactions.state import State, TransactionFact

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

R = TypeVar("R")
FEATURE = "transaction.version"


class TransactionShard(MachineShard[TransactionFact, Outcome]):
    """See the module."""

    def __init__(self, broker: "Broker", partition: Partition, limits: Limits) -> None:
        self.machine = TransactionMachine(limits, lambda: broker.image.features.get(FEATURE, 0), read_clock(broker))
        seconds = broker.values.integer("request.timeout.ms") / 1000
        super().__init__(broker, partition, self.machine, written, seconds)
        self._endings = Endings(broker, Markers(broker), self._complete)

    def begin(self) -> None:
        super().begin()
        for transactional_id in self.machine.ending():
            self._end(transactional_id)

    def ask(self, decision: Decision) -> "Outcome | asyncio.Future[Outcome]":
        """Carry out what somebody asked for."""
        answer = self.carry_out(decision, Outcome)
        assert answer is not None
        return answer

    def _apply(self, facts: Sequence[TransactionFact], writer: Writer | None) -> None:
        super()._apply(facts, writer)
        for transactional_id, transaction in facts:
            if transaction is not None and transaction.state.ending:
                self._end(transactional_id)

    def _end(self, transactional_id: str) -> None:
        """Tell the partitions of a transaction how it ends, as soon as that is committed."""
        transaction = self.machine.transactions[transactional_id]
        marker = EndMarker(
            transaction.producer_id,
            transaction.epoch,
            self.epoch,
            transaction.state is State.PREPARE_COMMIT,
            transaction.marker_version,
        )
        self._tell(Ending(transactional_id, marker, sorted(transaction.partitions)), self.place())

    def _tell(self, ending: Ending, decided: tuple[Partition, int]) -> None:
        def safe(error: ErrorCode) -> None:
            if error == ErrorCode.NONE:
                self._endings.add(ending)
            elif self.loaded and self.leads:
                # It is in the log, and as long as this is its leader it will be committed.
                self._broker.loop.call_later(RETRY_SECONDS, self._tell, ending, decided)

        if self.leads:
            when_safe(self._broker, [decided], safe, self.commit_seconds)

    def _complete(self, transactional_id: str) -> bool:
        """Every partition has been told; answers whether that could be stored."""
        if not self.loaded or not self.leads:
            return True
        return self._store(self.machine.decide_complete(transactional_id, self.now()).facts) == ErrorCode.NONE

    def stop(self) -> None:
        self._endings.stop()
        super().stop()


def answered(
    outcome: "Outcome | asyncio.Future[Outcome]", make: Callable[[Outcome], R]
) -> "R | Coroutine[Any, Any, R]":
    """The response made of an outcome, now or when it is there."""
    if not isinstance(outcome, asyncio.Future):
        return make(outcome)
    return _answered_later(outcome, make)


async def _answered_later(outcome: "asyncio.Future[Outcome]", make: Callable[[Outcome], R]) -> R:
    return make(await outcome)
