"""What was fetched and not handed over yet.

Owns: fetched bytes in the order of their arrival, and making records or columns of them one batch at a time, when they
are asked for. Never knows: requests, tasks.

Invariants: taking records moves the partition's position past them, and past batches of which nothing is shown; a chunk
of an older turn is thrown away; chunks of a paused partition are set aside, up to a bound, and fetched again beyond it:
nothing is lost; `size` is the sum of the bytes of all chunks that wait to be taken, `parked` of those set aside.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.ports import ByteView
from ottla.client.consumer.positions import Held
from ottla.client.errors import CorruptRecords, DeserializationFailed
from ottla.records import codec
from ottla.records.batch import read_payload
from ottla.records.header import BatchHeader, CorruptBatch
from ottla.records.record import ConsumedRecord
from ottla.records.visible import Aborted, Sifted, sift_batches

if TYPE_CHECKING:
    from ottla.records.columns import ColumnReader


class FetchedRecords(NamedTuple):
    """What one answer brought of one partition."""

    data: ByteView
    aborted: tuple[Aborted, ...]
    end_offset: int
    """The offset after its last whole batch."""
    end_epoch: int
    """The leader epoch of that batch."""


Read = Callable[[list[ConsumedRecord]], tuple[list[ConsumedRecord], DeserializationFailed | None]]
"""Deserializers at work: the records up to the first that cannot be read, and its failure."""


class Chunk:
    """One partition's part of one answer."""

    __slots__ = ("_checked", "_fetched", "_header", "_sifted", "failure", "held", "index", "records", "size", "turn")

    def __init__(self, held: Held, fetched: FetchedRecords, checked: bool) -> None:
        self.held = held
        self.turn = held.turn
        self.size = len(fetched.data)
        self.records: list[ConsumedRecord] = []
        """Of the batch at hand; those before `index` were handed over."""
        self.index = 0
        self.failure: DeserializationFailed | None = None
        """What is to be raised when the records at hand have been handed over."""
        self._fetched = fetched
        self._checked = checked
        self._sifted: Iterator[Sifted] | None = None
        self._header: BatchHeader | None = None

    @property
    def stale(self) -> bool:
        return self.turn != self.held.turn

    def load(self, read: Read | None) -> bool:
        """Make sure that there are records at hand; False when the chunk is used up. CorruptRecords, and what a
        deserializer failed with, when the next ones cannot be had; the position stays before them."""
        while self.index >= len(self.records):
            if self.failure is not None:
                raise self.failure
            self._pass()
            try:
                if not self._next(read):
                    return False
            except CorruptBatch as problem:
                held = self.held
                position = held.position
                held.forget_buffered()
                raise CorruptRecords(held.partition, position, str(problem)) from None
        return True

    def _pass(self) -> None:
        """The batch at hand has been handed over."""
        if self._header is not None:
            self.held.position = max(self.held.position, self._header.next_offset)
            self.held.epoch = self._header.leader_epoch
            self._header = None

    def _next(self, read: Read | None) -> bool:
        """Decode the next batch that has something to show; False at the end."""
        held = self.held
        data = self._fetched.data
        if self._sifted is None:
            self._sifted = sift_batches(data, held.position, self._fetched.aborted, self._checked)
        for start, header, shown in self._sifted:
            self._header = header
            self.index = 0
            self.records = []
            if shown:
                payload = read_payload(data, header, start)
                topic, number = held.partition
                self.records = codec.decode_consumed(payload, header, topic, number, held.position)
                if read is not None:
                    self.records, self.failure = read(self.records)
                if self.records or self.failure is not None:
                    return True
            self._pass()
        return False

    def detach(self) -> None:
        """Keep a copy of the own bytes only: the rest of the answer they came in need not wait with them."""
        self._fetched = self._fetched._replace(data=bytes(self._fetched.data))
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Look at the bytes again from the position on."""
        self._sifted = None
        self._header = None
        self.records, self.index, self.failure = [], 0, None

    def take(self, limit: int) -> list[ConsumedRecord]:
        """Up to so many of the records at hand."""
        index = self.index
        taken = self.records[index : index + limit] if index or limit < len(self.records) else self.records
        self.index = index + len(taken)
        if taken:
            self.held.position = taken[-1].offset + 1
        if self.index >= len(self.records) and self.failure is None:
            self.records = []
            self.index = 0
            self._pass()
        return taken

    def add_to(self, columns: "ColumnReader", end_offset: int) -> bool:
        """The rest, before `end_offset`, into columns; True when the chunk is used up."""
        held = self.held
        self._begin_anew()  # the records at hand, if any, go into the columns as well, from the position on
        topic, number = held.partition
        fetched = self._fetched
        try:
            added = columns.add(
                fetched.data,
                held.position,
                topic=topic,
                partition=number,
                aborted=fetched.aborted,
                end_offset=min(end_offset, fetched.end_offset),
            )
        except CorruptBatch as problem:
            position = held.position
            held.forget_buffered()
            raise CorruptRecords(held.partition, position, str(problem)) from None
        held.position = max(held.position, added.next_offset)
        if held.position < fetched.end_offset:
            return False
        held.epoch = fetched.end_epoch
        return True


class Buffer:
    """Chunks of all partitions; `drained` is called when there is room again, `most_parked` bounds what is aside."""

    __slots__ = ("_chunks", "_most_parked", "_parked", "drained", "parked", "size")

    def __init__(self, drained: Callable[[], None], most_parked: int) -> None:
        self.size = 0
        self.parked = 0
        self.drained = drained
        self._most_parked = most_parked
        self._chunks: deque[Chunk] = deque()
        self._parked: list[Chunk] = []

    def put(self, chunk: Chunk) -> None:
        self.size += chunk.size
        chunk.held.buffered += chunk.size
        self._chunks.append(chunk)

    def first(self) -> Chunk | None:
        """The chunk to go on with, which is neither stale nor paused."""
        while self._chunks:
            chunk = self._chunks[0]
            if chunk.stale:
                self.remove_first()
            elif chunk.held.paused:
                self._set_aside(chunk)
            else:
                return chunk
        return None

    def _set_aside(self, chunk: Chunk) -> None:
        """What waits for a partition to go on takes no room from the others."""
        if self.parked + chunk.size > self._most_parked:
            chunk.held.fetch_again()
            self.sweep()
        else:
            chunk.detach()
            self._parked.append(self._chunks.popleft())
            self.size -= chunk.size
            self.parked += chunk.size
            self.drained()

    def remove_first(self) -> None:
        """The first chunk is used up, or of no use any more."""
        self._discard(self._chunks.popleft())
        self.drained()

    def resume(self) -> None:
        """Partitions go on: what was set aside comes first."""
        parked, self._parked = self._parked, []
        self.size += self.parked
        self.parked = 0
        self._chunks.extendleft(reversed(parked))

    def sweep(self) -> None:
        """Throw away what is stale, wherever it stands."""
        for chunk in [chunk for chunk in self._chunks if chunk.stale]:
            self._discard(chunk)
        self._chunks = deque(chunk for chunk in self._chunks if not chunk.stale)
        self._parked = [chunk for chunk in self._parked if not chunk.stale]
        self.parked = sum(chunk.size for chunk in self._parked)
        self.drained()

    def _discard(self, chunk: Chunk) -> None:
        self.size -= chunk.size
        if not chunk.stale:
            chunk.held.buffered -= chunk.size
