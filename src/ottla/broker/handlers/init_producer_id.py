"""InitProducerId, v0 to v6: a producer id for a producer that wants to write each record once; for one with a
transactional id also an epoch that fences whoever had the id before.

The newest version is not stable in Kafka 4.3 and 4.4 and served with `unstable.api.versions.enable`: it asks for
two-phase commit (KIP-939). To keep a transaction open when its id is taken over is not supported, as in Kafka 4.3.

KIP-98; KIP-360 (v3: a producer asks for the next epoch of its own), KIP-588 (v4: PRODUCER_FENCED), KIP-890 (v5).
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import NO_PRODUCER_ID
from ottla.net.dispatch import Context
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.transactions.decision import Outcome

NO_PRODUCER_EPOCH = -1
FENCED_FROM = 4
"""The version whose clients know that they can be fenced."""

Answer = InitProducerIdResponse | Coroutine[Any, Any, InitProducerIdResponse]


def handle(broker: "Broker", request: InitProducerIdRequest, context: Context) -> Answer:
    half_known = (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH)
    if half_known or request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return _idempotent(broker)
    if request.enable2_pc and not broker.values.boolean("transaction.two.phase.commit.enable"):
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if request.keep_prepared_txn:
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    return _transactional(broker, request, context, None)


async def _idempotent(broker: "Broker") -> InitProducerIdResponse:
    taken = await broker.producer_ids.take()
    if isinstance(taken, ErrorCode):
        return _refused(taken)
    return InitProducerIdResponse(producer_id=taken, producer_epoch=0)


def _transactional(broker: "Broker", request: InitProducerIdRequest, context: Context, fresh: int | None) -> Answer:
    from ottla.coordinator.transactions.shard import answered
    from ottla.transactions.decision import ProducerIdentity

    transactional_id = request.transactional_id
    assert transactional_id is not None
    shard = broker.transactions.shard(transactional_id)
    if isinstance(shard, ErrorCode):
        return _refused(shard)
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = ProducerIdentity(transactional_id, request.producer_id, request.producer_epoch)
    decision = shard.machine.decide_init(
        transactional_id,
        request.transaction_timeout_ms,
        expected,
        fresh,
        shard.now(),
        two_phases=request.enable2_pc,
    )
    if decision.needs_producer_id:
        return _with_producer_id(broker, request, context)
    outcome = shard.ask(decision, "a producer has taken its id over")
    return answered(outcome, lambda outcome: _told(outcome, context.version))


async def _with_producer_id(
    broker: "Broker", request: InitProducerIdRequest, context: Context
) -> InitProducerIdResponse:
    taken = await broker.producer_ids.take()
    if isinstance(taken, ErrorCode):
        return _refused(taken)
    answer = _transactional(broker, request, context, taken)
    return answer if isinstance(answer, InitProducerIdResponse) else await answer


def _told(outcome: "Outcome", version: int) -> InitProducerIdResponse:
    error = outcome.error
    if error == ErrorCode.PRODUCER_FENCED and version < FENCED_FROM:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(error_code=error, producer_id=outcome.producer_id, producer_epoch=outcome.epoch)


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
