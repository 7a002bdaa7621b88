"""One led partition of `__transaction_state` and the machine of the transactional ids it holds.

Owns: that every end that is decided is carried to its partitions, also after a restart, and then completed. Never
knows: what is decided, how a partition is told. Invariant: markers are written only when the decision is committed.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.coordinator.shard import BatchWriter, CoordinatorShard, Decided, read_clock
from ottla.coordinator.transactions.marker_queue import RETRY_SECONDS, MarkerQueue, PendingMarkers
from ottla.coordinator.transactions.markers import Markers
from ottla.log.producers import EndMarker
from ottla.replicas.partitions import Partition
from ottla.transactions.decision import Outcome, ProducerIdentity, TransactionDecision, TransactionLimits
from ottla.transactions.machine import TransactionMachine
from ottla.transactions.records import written
from ottla.transactions.state import Transaction, TransactionFact, TransactionState

if TYPE_CHECKING:
    from ottla.coordinator.transactions.transaction_coordinator import TransactionCoordinator

logger = logging.getLogger("ottla.transactions")

R = TypeVar("R")
FEATURE = "transaction.version"
RETRY_MS = "add.partitions.to.txn.retry.backoff.ms"


class Adding(NamedTuple):
    """Partitions that are to come into a transaction which cannot begin yet."""

    producer: ProducerIdentity
    names: frozenset[TopicPartition]
    version: int
    reply: "asyncio.Future[Outcome]"

    def settle(self, outcome: Outcome) -> None:
        if not self.reply.done():
            self.reply.set_result(outcome)


class TransactionShard(CoordinatorShard[TransactionFact, Outcome]):
    """The transactional ids of one partition."""

    def __init__(self, coordinator: "TransactionCoordinator", partition: Partition, limits: TransactionLimits) -> None:
        context = coordinator.context
        self.machine = TransactionMachine(
            limits, lambda: context.image.features.get(FEATURE, 0), read_clock(context.clock)
        )
        seconds = context.values.integer("request.timeout.ms") / 1000
        super().__init__(context, coordinator.commits, partition, self.machine, written, seconds)
        self._markers = MarkerQueue(context, Markers(coordinator), self._complete)
        self._to_add: dict[str, list[Adding]] = {}
        """Who waits for the end of the transaction before."""
        self._why = ""
        """What the decision that is being carried out would abort a transaction for."""

    def begin(self) -> None:
        super().begin()
        for transactional_id in self.machine.ending():
            self._end(transactional_id)

    def ask(
        self, decision: TransactionDecision, why: str = "its producer asked for that"
    ) -> "Outcome | asyncio.Future[Outcome]":
        """Carry out what somebody asked for; `why` is told where a transaction is aborted by it."""
        self._why = why
        answer = self.carry_out(decision, Outcome)
        assert answer is not None
        return answer

    def add(
        self, producer: ProducerIdentity, names: frozenset[TopicPartition], version: int
    ) -> "Outcome | asyncio.Future[Outcome]":
        """Partitions come into the transaction. While the one before is still ending, that is waited for a moment:
        it is quicker than to let the client come back."""
        decision = self.machine.decide_add(producer, names, version, self.now())
        if decision.reply is None or decision.reply.error != ErrorCode.CONCURRENT_TRANSACTIONS:
            return self.ask(decision)
        adding = Adding(producer, names, version, self._context.loop.create_future())
        self._to_add.setdefault(producer.transactional_id, []).append(adding)
        self._context.loop.call_later(self._context.values.integer(RETRY_MS) / 1000, self._add_no_more, adding)
        return adding.reply

    def _add_no_more(self, adding: "Adding") -> None:
        waiting = self._to_add.get(adding.producer.transactional_id, [])
        if adding in waiting:
            waiting.remove(adding)
            if not waiting:
                del self._to_add[adding.producer.transactional_id]
            adding.settle(Outcome(ErrorCode.CONCURRENT_TRANSACTIONS))

    def _add_waiting(self, transactional_id: str) -> None:
        for producer, names, version, reply in self._to_add.pop(transactional_id, ()):
            answer = self.ask(self.machine.decide_add(producer, names, version, self.now()))
            if isinstance(answer, tuple):
                Adding(producer, names, version, reply).settle(answer)
            else:
                answer.add_done_callback(partial(_pass_on, reply))

    def _apply(self, facts: Sequence[TransactionFact], writer: BatchWriter | None) -> None:
        super()._apply(facts, writer)
        for transactional_id, transaction in facts:
            if transaction is not None and transaction.state.ending:
                if transaction.state is TransactionState.PREPARE_ABORT:
                    self._tell_abort(transactional_id, transaction)
                self._end(transactional_id)

    def _carry_out_due(self, decision: Decided[TransactionFact, Outcome]) -> None:
        self._why = ""
        super()._carry_out_due(decision)

    def _tell_abort(self, transactional_id: str, transaction: Transaction) -> None:
        count = len(transaction.partitions)
        logger.info(
            "transaction %s of producer %d is aborted in %d partition%s: %s",
            transactional_id,
            transaction.producer_id,
            count,
            "s" * (count != 1),
            self._why or f"it took longer than the {transaction.timeout_ms} ms it may",
        )

    def _end(self, transactional_id: str) -> None:
        """Tell the partitions of a transaction how it ends, as soon as that is committed."""
        transaction = self.machine.transactions[transactional_id]
        marker = EndMarker(
            transaction.producer_id,
            transaction.epoch,
            self.epoch,
            transaction.state is TransactionState.PREPARE_COMMIT,
            transaction.marker_version,
        )
        self._tell(PendingMarkers(transactional_id, marker, sorted(transaction.partitions)), self.end_position())

    def _tell(self, ending: PendingMarkers, decided: tuple[Partition, int]) -> None:
        def safe(error: ErrorCode) -> None:
            if error == ErrorCode.NONE:
                self._markers.add(ending)
            elif self.loaded and self.leads:
                # It is in the log, and as long as this is its leader it will be committed.
                self._context.loop.call_later(RETRY_SECONDS, self._tell, ending, decided)

        if self.leads:
            self._commits.when_safe_to_go_on([decided], safe, self.commit_seconds)

    def _complete(self, transactional_id: str) -> bool:
        """Every partition has been told; answers whether that could be stored."""
        if not self.loaded or not self.leads:
            return True
        if self._store(self.machine.decide_complete(transactional_id, self.now()).facts) != ErrorCode.NONE:
            return False
        self._add_waiting(transactional_id)
        return True

    def stop(self) -> None:
        self._markers.stop()
        waiting, self._to_add = self._to_add, {}
        for additions in waiting.values():
            for adding in additions:
                adding.settle(Outcome(ErrorCode.NOT_COORDINATOR))
        super().stop()


def _pass_on(reply: "asyncio.Future[Outcome]", answer: "asyncio.Future[Outcome]") -> None:
    if not reply.done():
        reply.set_result(answer.result())


def answered(
    outcome: "Outcome | asyncio.Future[Outcome]", make: Callable[[Outcome], R]
) -> "R | Coroutine[Any, Any, R]":
    """The response made of an outcome, now or when it is there."""
    if not isinstance(outcome, asyncio.Future):
        return make(outcome)
    return _answered_later(outcome, make)


async def _answered_later(outcome: "asyncio.Future[Outcome]", make: Callable[[Outcome], R]) -> R:
    return make(await outcome)
