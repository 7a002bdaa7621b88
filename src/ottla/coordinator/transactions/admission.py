"""Whether transactional batches may be appended: the coordinator must know of their partitions.

Owns: what Produce asks the coordinator: that a partition is part of the transaction (older clients have added it), or
that it becomes part of it (newer clients leave that to the broker). Never knows: logs beyond who has a transaction open
in them. Invariant: no batch begins a transaction in a partition that the coordinator would not end there: it has
agreed, its agreement is committed, and no end has come since. Of a producer whose transaction is open in a partition
nothing is asked again.
"""

from collections.abc import Callable, Mapping
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.coordinator.transactions.joining import Joining, join
from ottla.records.header import HEADER_SIZE, TRANSACTIONAL
from ottla.replicas.partitions import Partition, PartitionTable
from ottla.transactions.decision import ProducerIdentity
from ottla.wire.produce import ProduceRequest

if TYPE_CHECKING:
    from asyncio import Future

    from ottla.coordinator.transactions.transaction_coordinator import TransactionCoordinator
    from ottla.coordinator.transactions.verification import Errors

VERIFICATION = "transaction.partition.verification.enable"
ABORTABLE_FROM = 11
"""The version of Produce whose clients know that they should abort."""
ADDS_FROM = 12
"""The version of Produce that adds partitions to the transaction."""
_PRODUCER = Struct(">qhi")
_PRODUCER_AT = 43
_FLAGS_AT = 22

_NOT_NOW = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
)


class AppendRefusal(NamedTuple):
    """Why a partition's records are not appended."""

    error: ErrorCode
    message: str | None = None


class Admission(NamedTuple):
    """What may not be appended, by partition."""

    refused: Mapping[TopicPartition, AppendRefusal]


class Postponed:
    """An admission that waits for the coordinator."""

    __slots__ = ("_errors", "_finish")

    def __init__(self, errors: "Future[Errors]", finish: "Callable[[Errors], Admission]") -> None:
        self._errors = errors
        self._finish = finish

    def then(self, done: Callable[[Admission], None]) -> None:
        """Call it with the admission, which holds at that moment only: whatever is admitted is to be appended there."""
        self._errors.add_done_callback(lambda errors: done(self._finish(errors.result())))


class Client(NamedTuple):
    """What decides how a client is told of a refusal."""

    adds: bool
    abortable: bool


class TransactionalBatch(NamedTuple):
    """What the header of a transactional batch says, and where it goes."""

    partition: Partition
    producer_id: int
    epoch: int
    sequence: int


EVERYTHING = Admission({})
SEVERAL_PRODUCERS = AppendRefusal(
    ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID"
)
OUT_OF_ORDER = AppendRefusal(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
_OVERTAKEN = {
    ErrorCode.INVALID_TXN_STATE: AppendRefusal(
        ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction"
    ),
    ErrorCode.NOT_LEADER_OR_FOLLOWER: AppendRefusal(ErrorCode.NOT_LEADER_OR_FOLLOWER),
}


def admit(coordinator: "TransactionCoordinator", request: ProduceRequest, version: int) -> Admission | Postponed:
    """Of a request with a transactional id."""
    assert request.transactional_id is not None
    client = Client(version >= ADDS_FROM, version >= ABORTABLE_FROM)
    if not client.adds and not coordinator.context.values.boolean(VERIFICATION):
        return EVERYTHING
    batches = _transactional(coordinator.partitions, request)
    if len({(batch.producer_id, batch.epoch) for batch in batches}) > 1:
        return Admission({batch.partition.name: SEVERAL_PRODUCERS for batch in batches})
    beginning = [batch for batch in batches if not is_open(batch.partition, batch.producer_id, batch.epoch)]
    if not beginning:
        return EVERYTHING
    producer = ProducerIdentity(request.transactional_id, beginning[0].producer_id, beginning[0].epoch)
    names = frozenset(batch.partition.name for batch in beginning)
    errors = join(coordinator, Joining(producer, names, client.adds))
    if isinstance(errors, dict):
        return Admission(_refused(beginning, errors, client))
    guards = coordinator.guards
    # Where every transaction has an epoch of its own, its end makes the log refuse what comes late; and the end that
    # comes while this waits is that of the transaction before.
    guarded = () if client.adds else beginning
    held = [guards.take(batch.partition, batch.producer_id) for batch in guarded]

    def finish(errors: "Errors") -> Admission:
        overtaken = {guard.name: _OVERTAKEN[error] for guard in held if (error := guards.give_back(guard))}
        return Admission(overtaken | _refused(beginning, errors, client))

    return Postponed(errors, finish)


def _refused(
    beginning: "list[TransactionalBatch]", errors: "Errors", client: Client
) -> dict[TopicPartition, AppendRefusal]:
    refused = {name: _told(error, client) for name, error in errors.items()}
    if client.adds and not refused:
        refused = {batch.partition.name: OUT_OF_ORDER for batch in beginning if _skips(batch)}
    return refused


def _transactional(partitions: PartitionTable, request: ProduceRequest) -> list[TransactionalBatch]:
    """The transactional batches for partitions that are here."""
    batches = []
    for topic, parts in request.topics:
        for index, records in parts:
            if records is None or len(records) < HEADER_SIZE or not records[_FLAGS_AT] & TRANSACTIONAL:
                continue
            partition = partitions.find(topic, index)
            if isinstance(partition, Partition) and not partition.internal:
                batches.append(TransactionalBatch(partition, *_PRODUCER.unpack_from(records, _PRODUCER_AT)))
    return batches


def _skips(batch: TransactionalBatch) -> bool:
    """Whether a producer that is not known in a partition begins there with another sequence number than zero.

    Where every transaction has an epoch of its own, something was then lost before.
    """
    log = batch.partition.log
    return batch.sequence != 0 and log is not None and log.producers.state(batch.producer_id) is None


def is_open(partition: Partition, producer_id: int, epoch: int) -> bool:
    """Whether a transaction of the producer has begun in a partition: then its coordinator knows."""
    state = None if partition.log is None else partition.log.producers.state(producer_id)
    return state is not None and state.transaction_first_offset >= 0 and state.epoch == epoch


def _told(error: ErrorCode, client: Client) -> AppendRefusal:
    """The coordinator's error as a producer of some age understands it."""
    if error == ErrorCode.PRODUCER_FENCED:
        return AppendRefusal(ErrorCode.INVALID_PRODUCER_EPOCH)
    if error == ErrorCode.TRANSACTION_ABORTABLE and not client.abortable:
        return AppendRefusal(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")
    if error in _NOT_NOW or (error == ErrorCode.CONCURRENT_TRANSACTIONS and not client.adds):
        message = "Unable to verify the partition has been added to the transaction. Underlying error: " + error.name
        return AppendRefusal(ErrorCode.NOT_ENOUGH_REPLICAS, message)
    return AppendRefusal(error)
