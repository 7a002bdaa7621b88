"""What can go wrong between a client and a cluster, as exceptions.

Owns: the kinds and whether trying again may help. Never knows: how a failure is shown to a person.
Invariant: every exception of this room is a `ClientError`; `retriable` says whether the same call may succeed later.
"""

from collections.abc import Mapping, Sequence

from ottla.base.errors import RETRIABLE, ErrorCode
from ottla.base.vocabulary import TopicPartition


class ClientError(Exception):
    """Base of everything a call on this room can raise for reasons outside the program."""

    retriable = False


class InvalidSetting(ClientError, ValueError):
    """A setting that does not exist or cannot have its value; `nearest` is the name that was probably meant."""

    def __init__(self, name: str, message: str, nearest: str | None = None) -> None:
        super().__init__(name, message, nearest)
        self.name = name
        self.message = message
        self.nearest = nearest

    def __str__(self) -> str:
        return self.message


class ConnectionFailed(ClientError):
    """A broker could not be reached."""

    retriable = True

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.address}: {self.reason}"


class ConnectionLost(ConnectionFailed):
    """A connection that stood ended before everything on it was answered."""


class DeadlineExceeded(ClientError):
    """Nothing failed, but what was asked for did not happen in time."""

    retriable = True

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"no answer in time: {self.what}"


class UnsupportedRequest(ClientError):
    """The broker does not speak any version of a request that this client speaks."""

    def __init__(self, address: str, request: str, offered: str) -> None:
        super().__init__(address, request, offered)
        self.address = address
        self.request = request
        self.offered = offered

    def __str__(self) -> str:
        return f"{self.address} does not support {self.request} ({self.offered})"


class ProtocolViolation(ClientError):
    """A broker sent bytes that are no answer to what it was asked."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.address}: {self.reason}"


class BrokerError(ClientError):
    """A broker answered with an error code about `subject` (a topic, a partition, a setting …)."""

    def __init__(self, code: int, subject: str, message: str | None = None) -> None:
        super().__init__(code, subject, message)
        self.code = known_code(code)
        self.subject = subject
        self.message = message
        self.retriable = self.code in RETRIABLE

    def __str__(self) -> str:
        return f"{self.subject}: {self.code.name}" + (f" ({self.message})" if self.message else "")


class Misuse(ClientError):
    """A call that the object cannot take in its present state; a mistake of the program, in words."""


class ClientClosed(Misuse):
    """The client was closed before or during the call."""


class ConcurrentUse(Misuse):
    """Two threads use an object at a time that belongs to one of them."""


class ForkedProcess(Misuse):
    """A client made before fork() is used in the child, where its connections and its thread are not."""


# --- producing --------------------------------------------------------------------------------------------------------


class BadRecord(ClientError):
    """What was handed to a producer cannot be written as a record; the rest of its batch failed with it."""


class SerializationFailed(BadRecord):
    """A serializer refused a key or a value."""


class RecordTooLarge(BadRecord):
    """A record that fits into no request, or into no memory, by the producer's settings."""


class BufferFull(ClientError):
    """There is no room for a record now; `put` waits for it."""

    retriable = True


class DeliveryTimedOut(DeadlineExceeded):
    """A record was not acknowledged within `delivery.timeout.ms`; it may or may not have been written."""

    retriable = False

    def __str__(self) -> str:
        return f"not delivered in time: {self.what}"


class ProducerFailed(ClientError):
    """An idempotent producer that can no longer promise 'once and in order'; only a new one can go on."""

    def __init__(self, cause: ClientError) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return f"the producer stopped to avoid duplicates or gaps after: {self.cause}"


class ProducerFenced(ProducerFailed):
    """Another producer has taken over the transactional id; this one is over."""

    def __str__(self) -> str:
        return f"another producer uses this transactional id: {self.cause}"


class TransactionAborted(ClientError):
    """The record or the offsets belonged to a transaction that was aborted."""


class TransactionFailed(ClientError):
    """The transaction cannot be committed any more; abort it, then begin the next."""

    def __init__(self, cause: ClientError) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return f"the transaction must be aborted after: {self.cause}"


# --- consuming --------------------------------------------------------------------------------------------------------


class DeserializationFailed(ClientError):
    """A deserializer refused a key or a value; `seek` beyond the record to go on without it."""

    def __init__(self, partition: TopicPartition, offset: int, reason: str) -> None:
        super().__init__(partition, offset, reason)
        self.partition = partition
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return f"record {self.offset} of {self.partition} cannot be read: {self.reason}"


class CorruptRecords(ClientError):
    """Bytes of a partition are not the records that were written; `seek` beyond them to go on."""

    def __init__(self, partition: TopicPartition, offset: int, reason: str) -> None:
        super().__init__(partition, offset, reason)
        self.partition = partition
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return f"records at {self.offset} of {self.partition} are damaged: {self.reason}"


class NoOffset(ClientError):
    """Partitions have no committed offset to start from, and `auto.offset.reset` is `none`."""

    def __init__(self, partitions: Sequence[TopicPartition]) -> None:
        super().__init__(partitions)
        self.partitions = tuple(partitions)

    def __str__(self) -> str:
        return f"no committed offset, and auto.offset.reset is none: {', '.join(map(str, self.partitions))}"


class OffsetOutOfRange(ClientError):
    """Positions are outside of what partitions hold, and `auto.offset.reset` is `none`."""

    def __init__(self, positions: Mapping[TopicPartition, int]) -> None:
        super().__init__(positions)
        self.positions = dict(positions)

    def __str__(self) -> str:
        places = ", ".join(f"{partition} at {offset}" for partition, offset in self.positions.items())
        return f"positions outside of their partitions, and auto.offset.reset is none: {places}"


class LogTruncated(OffsetOutOfRange):
    """Records that were read are gone: a leader without them took over. `diverged` is where the histories part."""

    def __init__(self, positions: Mapping[TopicPartition, int], diverged: Mapping[TopicPartition, int]) -> None:
        super().__init__(positions)
        self.args = (positions, diverged)
        self.diverged = dict(diverged)

    def __str__(self) -> str:
        places = ", ".join(f"{partition} at {offset}" for partition, offset in self.positions.items())
        return f"partitions were cut below positions that were read: {places}"


class CommitFailed(ClientError):
    """Offsets were not committed: the partitions belong to others now. Poll again to get a new assignment."""


class RebalanceInProgress(CommitFailed):
    """Offsets were not committed because the group is rebalancing; poll, then try again."""

    retriable = True


class MemberFenced(ClientError):
    """Another member with the same `group.instance.id` took this one's place."""


def fresh(failure: ClientError) -> ClientError:
    """The same failure to be raised once more: an exception that is raised twice collects the traces of both."""
    again = type(failure)(*failure.args)
    again.__cause__ = failure.__cause__
    return again


def known_code(code: int) -> ErrorCode:
    """The code, or UNKNOWN_SERVER_ERROR for a number newer than this client."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
