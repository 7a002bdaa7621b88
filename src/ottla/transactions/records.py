"""Facts as records of `__transaction_state`, in Kafka's own formats, so that Kafka's tools read the topic.

Owns: keys and values: a key begins with the number of its kind, a value with its version. Never knows: batches, logs.
Invariants: `read(*written(fact))` is the fact, but for the last epoch, which is not stored; bytes that are no record
give `BadTransactionRecord` and nothing else.
"""

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError

from ottla.base.ports import ByteView
from ottla.base.vocabulary import TopicPartition
from ottla.transactions.state import Transaction, TransactionFact, TransactionState
from ottla.wire import codec
from ottla.wire.stored.transaction import PartitionsSchema, TransactionLogKey, TransactionLogValue

VALUE_VERSION = 1
"""The version that Kafka 4.3 writes."""

_SHORT = Struct(">h")
_KEY_START = _SHORT.pack(TransactionLogKey.KEY)
_VALUE_START = _SHORT.pack(VALUE_VERSION)


class BadTransactionRecord(Exception):
    """Bytes in `__transaction_state` that are no record of it, or one from a newer release."""


def written(fact: TransactionFact) -> tuple[bytes, bytes | None]:
    """The key and the value of the record that says it."""
    key = bytearray(_KEY_START)
    codec.write(key, TransactionLogKey(fact.transactional_id), 0)
    transaction = fact.transaction
    if transaction is None:
        return bytes(key), None
    value = bytearray(_VALUE_START)
    said = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None
        if transaction.state is TransactionState.EMPTY
        else _by_topic(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.version,
    )
    codec.write(value, said, VALUE_VERSION)
    return bytes(key), bytes(value)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic, indexes) for topic, indexes in topics.items()]


def is_known(key: ByteView) -> bool:
    """Whether the record with this key says something about a transactional id."""
    return len(key) >= 2 and _SHORT.unpack_from(key)[0] == TransactionLogKey.KEY


def read(key: bytes, value: bytes | None) -> TransactionFact:
    """The fact that a record of a known kind says."""
    try:
        found, _ = codec.decode(TransactionLogKey, 0, key, 2)
        if value is None:
            return TransactionFact(found.transactional_id, None)
        (version,) = _SHORT.unpack_from(value)
        newest = TransactionLogValue.VERSIONS[1]
        if not 0 <= version <= newest:
            raise BadTransactionRecord(f"this release reads values up to version {newest}, not {version}")
        said, _ = codec.decode(TransactionLogValue, version, value, 2)
        state = TransactionState(said.transaction_status)
    except (codec.MalformedMessage, StructError, ValueError) as problem:
        raise BadTransactionRecord(str(problem)) from None
    partitions = frozenset(
        TopicPartition(topic.topic, index)
        for topic in said.transaction_partitions or ()
        for index in topic.partition_ids
    )
    return TransactionFact(
        found.transactional_id,
        Transaction(
            said.producer_id,
            said.producer_epoch,
            said.transaction_timeout_ms,
            state,
            partitions,
            said.transaction_start_timestamp_ms,
            said.transaction_last_update_timestamp_ms,
            said.previous_producer_id,
            said.next_producer_id,
            said.client_transaction_version,
        ),
    )
