"""Producer ids: blocks of numbers that no other broker will ever hand out.

Owns: AllocateProducerIds. Never knows: producers. Invariant: the fact that moves the next id on is stored before a
block is used.
"""

from ottla.base.errors import ErrorCode
from ottla.metadata.brokers import is_current
from ottla.metadata.decision import MetadataDecision
from ottla.metadata.image import ClusterImage
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.stored.metadata import ProducerIdsRecord

BLOCK = 1000
LARGEST_ID = (1 << 63) - 1


def allocate(request: AllocateProducerIdsRequest, image: ClusterImage) -> MetadataDecision[AllocateProducerIdsResponse]:
    """AllocateProducerIds, for a registered broker."""
    if not is_current(request.broker_id, request.broker_epoch, image):
        return MetadataDecision([], AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    first = image.next_producer_id
    if first > LARGEST_ID - BLOCK:
        return MetadataDecision([], AllocateProducerIdsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
    fact = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + BLOCK
    )
    return MetadataDecision([fact], AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK))
