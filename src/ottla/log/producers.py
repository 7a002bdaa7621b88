"""Who has written to a partition: what makes producers idempotent and transactions readable.

Owns: per producer id the epoch, the last five batches and the open transaction; which offsets are unstable. Never
knows: files, the clock, batches' bytes.
Invariants: a producer is alive by the broker's clock (when its last batch was written here), never by what stands in
its records; a batch is examined before it is written and noted after, so a failed write leaves no trace; open
transactions are kept in the order of their first offsets; `end_offset` is the offset up to which the table is true.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.log.index import AbortedTransaction
from ottla.records.header import MAX_SEQUENCE, TRANSACTIONAL, BatchHeader

KEPT_BATCHES = 5
LARGEST_EPOCH = 32767

KeptBatch: TypeAlias = tuple[int, int, int, int, int]
"""First sequence, last sequence, first offset, last offset, timestamp: a plain tuple, made for every append."""


class ProducerRefusal(NamedTuple):
    """Why a batch may not be written."""

    error: ErrorCode
    message: str


class EndMarker(NamedTuple):
    """The end of a transaction, as its coordinator wants it written."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int = 0


class ProducerState:
    """What is known of one producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "producer_id",
        "transaction_first_offset",
        "written_ms",
    )

    def __init__(self, producer_id: int, epoch: int = -1) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.written_ms = -1
        self.transaction_first_offset = -1
        self.batches: list[KeptBatch] = []

    @property
    def last_sequence(self) -> int:
        return self.batches[-1][1] if self.batches else -1


class ProducerTable:
    """The producers of one partition."""

    __slots__ = ("_completed", "_name", "_open", "_states", "end_offset")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self._name = topic_partition
        self._states: dict[int, ProducerState] = {}
        self._open: dict[int, int] = {}
        self._completed: dict[int, int] = {}
        self.end_offset = 0

    # Batches of producers

    def examine(self, header: BatchHeader, offset: int, *, sequenced: bool) -> KeptBatch | ProducerRefusal | None:
        """Hold a data batch against what is known: None to write it, the earlier batch it repeats, or a refusal.

        `offset` is where it would go, for messages; `sequenced` is false for batches of coordinators, which carry
        no sequence numbers.
        """
        producer_id = header.producer_id
        epoch = header.producer_epoch
        state = self._states.get(producer_id)
        if state is None:
            return None
        known = state.epoch
        if sequenced:
            first = header.base_sequence
            batches = state.batches
            if epoch == known:
                last = batches[-1][1] if batches else -1
                if first != last + 1 and not (first == 0 and last == MAX_SEQUENCE):
                    end = header.last_sequence
                    for kept in batches:
                        if kept[0] == first and kept[1] == end:
                            return kept
                    return ProducerRefusal(
                        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                        f"Out of order sequence number for producer {producer_id} at offset {offset} in partition "
                        f"{self._name}: {first} (incoming seq. number), {last} (current end sequence number)",
                    )
            elif epoch > known and first != 0 and known != -1:
                return ProducerRefusal(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of producer {producer_id} at offset {offset} in partition "
                    f"{self._name}: {epoch} (request epoch), {first} (seq. number), {known} (current producer epoch)",
                )
        if epoch < known:
            return self._stale(producer_id, epoch, known, offset)
        if state.transaction_first_offset >= 0 and not header.attributes & TRANSACTIONAL:
            return ProducerRefusal(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {producer_id} at offset {offset} in {self._name}",
            )
        return None

    def _stale(self, producer_id: int, epoch: int, known: int, offset: int) -> ProducerRefusal:
        return ProducerRefusal(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {producer_id} at offset {offset} in {self._name} is {epoch}, which is smaller than "
            f"the last seen epoch {known}",
        )

    def note(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """Take in a data batch that has been written at `base_offset`."""
        _, _, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, first, _ = header
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(producer_id, epoch)
        batches = state.batches
        if state.epoch != epoch:
            batches.clear()
            state.epoch = epoch
        elif len(batches) == KEPT_BATCHES:
            del batches[0]
        last = first + delta if 0 <= first <= MAX_SEQUENCE - delta else header.last_sequence
        batches.append((first, last, base_offset, base_offset + delta, timestamp))
        state.last_timestamp = timestamp
        state.written_ms = now_ms
        if attributes & TRANSACTIONAL and state.transaction_first_offset < 0:
            state.transaction_first_offset = base_offset
            self._open[base_offset] = producer_id

    # Ends of transactions

    def examine_marker(self, marker: EndMarker, offset: int) -> ProducerRefusal | None:
        """Whether a transaction may be ended this way."""
        state = self._states.get(marker.producer_id)
        if state is None:
            return None
        epoch, known = marker.producer_epoch, state.epoch
        repeated = epoch == known and (state.transaction_first_offset < 0 or epoch == LARGEST_EPOCH)
        stale = epoch <= known if marker.transaction_version >= 2 else epoch < known
        if stale and not (marker.transaction_version >= 2 and repeated):
            return self._stale(marker.producer_id, epoch, known, offset)
        if state.coordinator_epoch > marker.coordinator_epoch:
            return ProducerRefusal(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producerId {marker.producer_id} at offset {offset} in partition "
                f"{self._name}: {marker.coordinator_epoch} (zombie), {state.coordinator_epoch} (current)",
            )
        return None

    def note_marker(self, marker: EndMarker, offset: int, timestamp: int, now_ms: int) -> AbortedTransaction | None:
        """Take in a marker that has been written; answers what belongs in the transaction index, if anything."""
        state = self._states.get(marker.producer_id)
        if state is None:
            state = self._states[marker.producer_id] = ProducerState(marker.producer_id, marker.producer_epoch)
        if state.epoch != marker.producer_epoch:
            state.batches.clear()
            state.epoch = marker.producer_epoch
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_timestamp = timestamp
        state.written_ms = now_ms
        first = state.transaction_first_offset
        if first < 0:
            return None
        state.transaction_first_offset = -1
        self._open.pop(first, None)
        self._completed[first] = offset
        if marker.commit:
            return None
        stable = next(iter(self._open), offset + 1)
        return AbortedTransaction(marker.producer_id, first, offset, stable)

    # What the log asks

    def first_unstable_offset(self) -> int | None:
        """The first offset of the earliest transaction that is open, or whose end is not yet replicated."""
        first = next(iter(self._open), None)
        if self._completed:
            earliest = min(self._completed)
            return earliest if first is None or earliest < first else first
        return first

    @property
    def stable(self) -> bool:
        """Whether no transaction holds the last stable offset back."""
        return not self._open and not self._completed

    def release_below(self, offset: int) -> None:
        """The log is replicated up to `offset`: transactions whose markers lie below it are settled."""
        completed = self._completed
        if completed:
            for first in [first for first, last in completed.items() if last < offset]:
                del completed[first]

    def states(self) -> Iterable[ProducerState]:
        return self._states.values()

    def state(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    def __len__(self) -> int:
        return len(self._states)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have been silent this long and have no open transaction; answers how many.

        A time that cannot be (other brokers keep that of the records in their snapshots) counts from now.
        """
        gone = []
        for producer_id, state in self._states.items():
            if not 0 <= state.written_ms <= now_ms:
                state.written_ms = now_ms
            elif state.transaction_first_offset < 0 and now_ms - state.written_ms >= expiration_ms:
                gone.append(producer_id)
        for producer_id in gone:
            del self._states[producer_id]
        return len(gone)

    def restart(self, states: Iterable[ProducerState], end_offset: int) -> None:
        """Begin again from a snapshot (or from nothing) that was true at `end_offset`."""
        self._states = {state.producer_id: state for state in states}
        opened = (state for state in self._states.values() if state.transaction_first_offset >= 0)
        self._open = {state.transaction_first_offset: state.producer_id for state in sorted(opened, key=_first_offset)}
        self._completed = {}
        self.end_offset = end_offset


def _first_offset(state: ProducerState) -> int:
    return state.transaction_first_offset
