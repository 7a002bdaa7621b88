"""InitProducerId, v0 to v6: an id for an idempotent producer.

A producer that had an id before gets a new one, as in Kafka. Transactional producers are told that their coordinator is
not available, which they may try again.
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import NO_PRODUCER_ID
from ottla.broker.context import Context
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

NO_PRODUCER_EPOCH = -1


async def handle(broker: "Broker", request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    half_known = (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH)
    if half_known or request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    taken = await broker.producer_ids.take()
    if isinstance(taken, ErrorCode):
        return _refused(taken)
    return InitProducerIdResponse(producer_id=taken, producer_epoch=0)


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
