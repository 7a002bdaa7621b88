"""A transactional id: which producer holds it, and how far its transaction is.

Owns: the shape of the stored state and the steps from one state to the next. Never knows: who may ask for a step (that
is `machine`), bytes, clocks. Invariant: a step makes a new value, which notes the producer id that it started from.
"""

from enum import IntEnum
from typing import NamedTuple

from ottla.base.vocabulary import NO_PRODUCER_ID, TopicPartition

NO_EPOCH = -1
NO_TIME = -1
NO_TIMEOUT_MS = 2**31 - 1
"""The time-out, as it is stored, of a producer whose transactions are ended by somebody else's two-phase commit."""
LAST_EPOCH = 32_766
"""The highest epoch a client gets: one more is kept for fencing it."""
EPOCH_PER_TRANSACTION = 2
"""The version of the protocol from which on every transaction has an epoch of its own."""


class TransactionState(IntEnum):
    """With the numbers that are stored."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """As clients are told."""
        return _TITLES[self]

    @property
    def ending(self) -> bool:
        """It is decided how the transaction ends, and not every partition has been told."""
        return self is TransactionState.PREPARE_COMMIT or self is TransactionState.PREPARE_ABORT

    @property
    def at_rest(self) -> bool:
        """No transaction is open."""
        return self in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


_TITLES = {state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState}
STATES = {title: state for state, title in _TITLES.items()}
"""By the names that clients use."""


class Transaction(NamedTuple):
    """What is known of a transactional id."""

    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    """Those that its open transaction has written to, or is about to."""
    start_ms: int = NO_TIME
    update_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last step."""
    next_producer_id: int = NO_PRODUCER_ID
    """The one that follows when the transaction is complete, as the epochs are used up."""
    version: int = 0
    """Of the protocol that the last step followed."""
    last_epoch: int = NO_EPOCH
    """The epoch before the last one that a client was given; it is not stored."""

    @property
    def exhausted(self) -> bool:
        return self.epoch >= LAST_EPOCH

    @property
    def marker_version(self) -> int:
        return EPOCH_PER_TRANSACTION if self.version >= EPOCH_PER_TRANSACTION else 0

    def initialised(self, epoch: int, last_epoch: int, timeout_ms: int, wall_ms: int) -> "Transaction":
        """A producer has begun, or begun again."""
        return self._replace(
            epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=frozenset(),
            start_ms=NO_TIME,
            update_ms=wall_ms,
            previous_producer_id=self.producer_id,
        )

    def with_producer_id(self, producer_id: int, last_epoch: int, timeout_ms: int, wall_ms: int) -> "Transaction":
        """The epochs of the old producer id are used up."""
        return self.initialised(0, last_epoch, timeout_ms, wall_ms)._replace(producer_id=producer_id)

    def with_partitions(self, partitions: frozenset[TopicPartition], version: int, wall_ms: int) -> "Transaction":
        """These belong to the transaction, which begins if none is open."""
        return self._replace(
            state=TransactionState.ONGOING,
            partitions=self.partitions | partitions,
            start_ms=wall_ms if self.state.at_rest else self.start_ms,
            update_ms=wall_ms,
            previous_producer_id=self.producer_id,
            version=version,
        )

    def prepared(self, commit: bool, version: int, next_producer_id: int, wall_ms: int) -> "Transaction":
        """How the transaction ends is decided. In the newer protocol that takes an epoch."""
        epoch, last_epoch = self.epoch, self.last_epoch
        if version >= EPOCH_PER_TRANSACTION:
            epoch, last_epoch = min(self.epoch + 1, LAST_EPOCH + 1), self.epoch
        return self._replace(
            epoch=epoch,
            last_epoch=last_epoch,
            state=TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            # A transaction without partitions has not begun yet.
            start_ms=wall_ms if self.state.at_rest else self.start_ms,
            update_ms=wall_ms,
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            version=version,
        )

    def fenced(self, version: int, wall_ms: int) -> "Transaction":
        """The coordinator aborts the transaction; its producer's epoch is no longer good.

        Where epochs are used up by that, whoever asks for the id next gets another producer id.
        """
        if version >= EPOCH_PER_TRANSACTION:
            return self.prepared(False, version, NO_PRODUCER_ID, wall_ms)
        bumped = self._replace(epoch=min(self.epoch + 1, LAST_EPOCH + 1), last_epoch=NO_EPOCH)
        return bumped.prepared(False, 0, NO_PRODUCER_ID, wall_ms)

    def completed(self, wall_ms: int) -> "Transaction":
        """Every partition has been told."""
        producer_id, epoch = self.producer_id, self.epoch
        if self.version >= EPOCH_PER_TRANSACTION and self.next_producer_id != NO_PRODUCER_ID:
            producer_id, epoch = self.next_producer_id, 0
        return self._replace(
            producer_id=producer_id,
            epoch=epoch,
            state=TransactionState.COMPLETE_COMMIT
            if self.state is TransactionState.PREPARE_COMMIT
            else TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
            update_ms=wall_ms,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )


class TransactionFact(NamedTuple):
    """A transactional id is now like this; None: it is forgotten."""

    transactional_id: str
    transaction: Transaction | None
