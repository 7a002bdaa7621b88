"""Who may end a transaction, and what asking twice means.

Owns: EndTxn in its two generations. In the older one an epoch stays with a producer, so that the same request asked
again is known by the state alone; in the newer one every end takes an epoch, so that it is known by the epoch before.
"""

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import NO_PRODUCER_ID
from ottla.transactions.decision import Outcome, ProducerIdentity, TransactionDecision
from ottla.transactions.state import (
    EPOCH_PER_TRANSACTION,
    LAST_EPOCH,
    Transaction,
    TransactionFact,
    TransactionState,
)


def decide_older_end(held: Transaction, producer: ProducerIdentity, commit: bool, wall_ms: int) -> TransactionDecision:
    """EndTxn up to version 4."""
    if held.producer_id != producer.producer_id:
        return TransactionDecision(Outcome(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    if held.epoch != producer.epoch:
        return TransactionDecision(Outcome(ErrorCode.PRODUCER_FENCED))
    if held.state is TransactionState.ONGOING:
        return _ends(producer, held.prepared(commit, 0, NO_PRODUCER_ID, wall_ms))
    return TransactionDecision(_told_again(held, _again(held.state, commit)))


def decide_newer_end(
    held: Transaction, producer: ProducerIdentity, commit: bool, fresh: int | None, wall_ms: int
) -> TransactionDecision:
    """EndTxn from version 5 on; the answer names the producer id and epoch of the next transaction."""
    overflowed = held.previous_producer_id == producer.producer_id and producer.epoch == LAST_EPOCH and held.epoch == 0
    again = overflowed or held.epoch == producer.epoch + 1
    if held.producer_id != producer.producer_id and not overflowed:
        return TransactionDecision(Outcome(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    if not _epoch_fits(held, producer.epoch, again, overflowed):
        return TransactionDecision(Outcome(ErrorCode.PRODUCER_FENCED))
    if held.state.ending or (again and held.state is not TransactionState.ONGOING):
        return TransactionDecision(_told_again(held, _again(held.state, commit)))
    if commit and held.state is not TransactionState.ONGOING:
        return TransactionDecision(Outcome(ErrorCode.INVALID_TXN_STATE))
    # An abort is possible before anything was written: who does not know whether something was asks for it.
    next_producer_id: int = NO_PRODUCER_ID
    if held.exhausted:
        if fresh is None:
            return TransactionDecision(None, needs_producer_id=True)
        next_producer_id = fresh
    return _ends(producer, held.prepared(commit, EPOCH_PER_TRANSACTION, next_producer_id, wall_ms))


def _epoch_fits(held: Transaction, epoch: int, again: bool, overflowed: bool) -> bool:
    if held.state.ending:
        return again and not overflowed
    if held.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        return again or epoch == held.epoch
    return epoch == held.epoch


def _again(state: TransactionState, commit: bool) -> ErrorCode:
    """What is said to an end of a transaction that has none open."""
    if state is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT):
        return ErrorCode.NONE
    if state is (TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.INVALID_TXN_STATE


def _told_again(held: Transaction, error: ErrorCode) -> Outcome:
    return Outcome(error, held.producer_id, held.epoch) if error == ErrorCode.NONE else Outcome(error)


def _ends(producer: ProducerIdentity, prepared: Transaction) -> TransactionDecision:
    # Where the epochs are used up, the next transaction has the new producer id.
    told = Outcome(ErrorCode.NONE, prepared.producer_id, prepared.epoch)
    if prepared.next_producer_id != NO_PRODUCER_ID:
        told = Outcome(ErrorCode.NONE, prepared.next_producer_id, 0)
    return TransactionDecision(told, [TransactionFact(producer.transactional_id, prepared)])
