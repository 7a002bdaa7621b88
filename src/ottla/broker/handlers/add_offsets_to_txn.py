"""AddOffsetsToTxn, v0 to v4: the offsets of a group become part of a transaction.

KIP-98; KIP-890 (v4: errors after which a transaction can still be aborted).
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.coordinator.groups.group_coordinator import OFFSETS_TOPIC
from ottla.coordinator.transactions.shard import answered
from ottla.net.dispatch import Context
from ottla.transactions.decision import Outcome, ProducerIdentity
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

FENCED_FROM = 2


def handle(
    broker: "Broker", request: AddOffsetsToTxnRequest, context: Context
) -> AddOffsetsToTxnResponse | Coroutine[Any, Any, AddOffsetsToTxnResponse]:
    if not request.transactional_id:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    shard = broker.transactions.shard(request.transactional_id)
    if isinstance(shard, ErrorCode):
        return AddOffsetsToTxnResponse(error_code=shard)
    producer = ProducerIdentity(request.transactional_id, request.producer_id, request.producer_epoch)
    holding = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_of(request.group_id))
    added = shard.add(producer, frozenset((holding,)), 0)
    return answered(added, lambda outcome: _told(outcome, context.version))


def _told(outcome: Outcome, version: int) -> AddOffsetsToTxnResponse:
    error = outcome.error
    if error == ErrorCode.PRODUCER_FENCED and version < FENCED_FROM:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=error)
