"""EndTxn, v0 to v5: commit or abort. It is answered when the decision is stored; partitions are told in the background.
From v5 on the answer names the producer id and epoch of the next transaction.

KIP-98; KIP-890 (v4: errors after which a transaction can still be aborted, v5: an epoch for each transaction).
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ottla.base.errors import ErrorCode
from ottla.coordinator.transactions.shard import answered
from ottla.net.dispatch import Context
from ottla.transactions.decision import Outcome, ProducerIdentity
from ottla.transactions.state import EPOCH_PER_TRANSACTION
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

FENCED_FROM = 2
NEWER_FROM = 5

Answer = EndTxnResponse | Coroutine[Any, Any, EndTxnResponse]


def handle(broker: "Broker", request: EndTxnRequest, context: Context) -> Answer:
    if not request.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    return _end(broker, request, context.version, None)


def _end(broker: "Broker", request: EndTxnRequest, version: int, fresh: int | None) -> Answer:
    shard = broker.transactions.shard(request.transactional_id)
    if isinstance(shard, ErrorCode):
        return EndTxnResponse(error_code=shard)
    producer = ProducerIdentity(request.transactional_id, request.producer_id, request.producer_epoch)
    protocol = EPOCH_PER_TRANSACTION if version >= NEWER_FROM else 0
    decision = shard.machine.decide_end(producer, request.committed, protocol, fresh, shard.now())
    if decision.needs_producer_id:
        return _with_producer_id(broker, request, version)
    return answered(shard.ask(decision), lambda outcome: _told(outcome, version))


async def _with_producer_id(broker: "Broker", request: EndTxnRequest, version: int) -> EndTxnResponse:
    """The epochs of the producer id are used up by this transaction."""
    taken = await broker.producer_ids.take()
    if isinstance(taken, ErrorCode):
        return EndTxnResponse(error_code=taken)
    answer = _end(broker, request, version, taken)
    return answer if isinstance(answer, EndTxnResponse) else await answer


def _told(outcome: Outcome, version: int) -> EndTxnResponse:
    error = outcome.error
    if error == ErrorCode.PRODUCER_FENCED and version < FENCED_FROM:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(error_code=error, producer_id=outcome.producer_id, producer_epoch=outcome.epoch)
