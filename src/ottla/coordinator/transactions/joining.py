"""Partitions become part of a transaction, or are seen to be, whoever coordinates it.

Owns: the way to the coordinator, here or on another broker, with second tries while the transaction before is still
ending. Never knows: what is to be appended. Invariant: what the coordinator agreed to is committed in its log.
"""

from asyncio import Future
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.coordinator.transactions.transaction_coordinator import STATE_TOPIC
from ottla.transactions.state import EPOCH_PER_TRANSACTION

if TYPE_CHECKING:
    from ottla.coordinator.transactions.transaction_coordinator import TransactionCoordinator
    from ottla.coordinator.transactions.verification import Errors
    from ottla.transactions.decision import Outcome, ProducerIdentity

RETRY_MS = "add.partitions.to.txn.retry.backoff.ms"
RETRIES_END_MS = "add.partitions.to.txn.retry.backoff.max.ms"


class Joining(NamedTuple):
    """Who wants which partitions in its transaction; without `adds` they must be in it."""

    producer: "ProducerIdentity"
    names: frozenset[TopicPartition]
    adds: bool

    def refused(self, error: ErrorCode) -> "Errors":
        return {} if error == ErrorCode.NONE else dict.fromkeys(self.names, error)


def join(coordinator: "TransactionCoordinator", wanted: Joining) -> "Errors | Future[Errors]":
    """What the coordinator has against it, now or when it is known."""
    first = _ask(coordinator, wanted)
    if not wanted.adds or (isinstance(first, dict) and not _is_too_early(first)):
        return first
    return _Tries(coordinator, wanted).after(first)


def _ask(coordinator: "TransactionCoordinator", wanted: Joining) -> "Errors | Future[Errors]":
    producer, names, adds = wanted
    index = coordinator.partition_of(producer.transactional_id)
    partition = coordinator.context.image.partition(STATE_TOPIC, index)
    if partition is None or partition.leader < 0:
        return wanted.refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if partition.leader != coordinator.context.node_id:
        return coordinator.remote_coordinators.ask(partition.leader, producer, names, adds)
    shard = coordinator.shard_at(index)
    if isinstance(shard, ErrorCode):
        return wanted.refused(shard)
    if not adds:
        said = {name: shard.machine.verify(producer, name) for name in names}
        errors: Errors = {name: error for name, error in said.items() if error != ErrorCode.NONE}
        return shard.settled(errors, wanted.refused)
    answer = shard.add(producer, names, EPOCH_PER_TRANSACTION)
    if isinstance(answer, tuple):
        return wanted.refused(answer.error)
    reply: Future[Errors] = coordinator.context.loop.create_future()

    def added(done: "Future[Outcome]") -> None:
        if not reply.done():
            reply.set_result(wanted.refused(done.result().error))

    answer.add_done_callback(added)
    return reply


def _is_too_early(errors: "Errors") -> bool:
    """Whether the transaction before is still ending."""
    return ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()


class _Tries:
    """Asking again, for a short while: it is quicker than to let the producer come back."""

    def __init__(self, coordinator: "TransactionCoordinator", wanted: Joining) -> None:
        self._coordinator = coordinator
        context = coordinator.context
        self._wanted = wanted
        self._pause = context.values.integer(RETRY_MS) / 1000
        self._until = context.loop.time() + context.values.integer(RETRIES_END_MS) / 1000
        self._place: Future[Errors] = coordinator.context.loop.create_future()

    def after(self, answer: "Errors | Future[Errors]") -> "Future[Errors]":
        if isinstance(answer, Future):
            answer.add_done_callback(lambda done: self._answered(done.result()))
        else:
            self._answered(answer)
        return self._place

    def _answered(self, errors: "Errors") -> None:
        loop = self._coordinator.context.loop
        if _is_too_early(errors) and loop.time() + self._pause <= self._until:
            loop.call_later(self._pause, self._again)
        elif not self._place.done():
            self._place.set_result(errors)

    def _again(self) -> None:
        self.after(_ask(self._coordinator, self._wanted))
