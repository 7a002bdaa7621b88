"""What it means when a broker refuses a batch.

Owns: the kinds of refusals and the exception for one. Never knows: what is done about it.
"""

from ottla.base.errors import ErrorCode
from ottla.client.errors import BrokerError, ClientError, RecordTooLarge
from ottla.client.producer.delivery import ProducerBatch
from ottla.wire.messages.produce import PartitionProduceResponse

TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
GAPS = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
BEFORE_WRITING = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)
"""After any other refusal that is worth a repetition the batch may have been written all the same."""
NOBODY_ELSE = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})


def refusal(batch: ProducerBatch, code: ErrorCode, part: PartitionProduceResponse) -> ClientError:
    """The broker's reason; what it says about a single record is the better one."""
    partition = batch.queue.partition
    if code in TOO_LARGE:
        return RecordTooLarge(f"partition {partition} takes no record of {batch.size} bytes: {code.name}")
    for single in part.record_errors:
        if single.batch_index_error_message:
            return BrokerError(code, f"partition {partition}", single.batch_index_error_message)
    return BrokerError(code, f"partition {partition}", part.error_message)
