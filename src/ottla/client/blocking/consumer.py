"""`ottla.blocking.Consumer`: everything of `ottla.Consumer`, waited for.

Owns: whose turn it is, and the records of a `for` loop that were fetched but not handed over. Never knows: fetching,
groups. Invariants: one thread at a time, another one hears so at once; what a `for` loop has not handed over is not
behind the positions that are committed.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from re import Pattern
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from ottla.base.vocabulary import TopicPartition
from ottla.client.blocking.face import Blocked, Face, Reached
from ottla.client.consumer import ConsumedRecord
from ottla.client.consumer import Consumer as AsyncConsumer
from ottla.client.consumer.consumer import COLUMNS, LARGEST_COLUMNS, MOST_ROWS
from ottla.client.consumer.seam import Committed, RebalanceListener
from ottla.client.errors import ConcurrentUse
from ottla.client.groups.vocabulary import BrokerPattern, OffsetAndMetadata
from ottla.client.settings import ConsumerKeywords

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

_POLL_SECONDS = 60.0
Offsets = Mapping[TopicPartition, int | OffsetAndMetadata]


class Consumer(Face[AsyncConsumer]):
    """As `ottla.Consumer`, for one thread at a time. A rebalance listener runs in a thread while `poll` waits."""

    _what = "consumer"

    def __init__(self, *given: str | Mapping[str, object], **keywords: Unpack[ConsumerKeywords]) -> None:
        self._turn = threading.Lock()
        self._listening: int | None = None
        self._rest: deque[ConsumedRecord] = deque()
        self._in_hand: ConsumedRecord | None = None
        """What a `for` loop handed over last, until the program says that it is finished."""
        self._looping = False
        """Whether the last records are here, in `_rest` and `_in_hand`."""
        super().__init__(lambda: AsyncConsumer(*given, **keywords))
        self.settings = self._inner.settings

    def close(self, timeout: float = 30.0, *, finished: bool = True) -> None:
        """Commit what is to be committed by itself, leave the group, end every connection. Does nothing twice.

        Unless the program has `finished` what it got last, those records are not committed: the last poll's, or the one
        that a `for` loop handed over last. A block that is left by an exception closes so.
        """
        if not self._closed and self._background.is_here():
            if self._looping and not finished:
                last = self._in_hand
                if last is not None and (last.topic, last.partition) in self.assignment():
                    self._rest.appendleft(last)
                finished = True  # of all else that the loop has got
            self._give_back()
        self._end(lambda: self._inner.close(timeout, finished=finished))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(finished=kind is None)

    # --- records ------------------------------------------------------------------------------------------------------

    def poll(self, timeout: float = 1.0, max_records: int | None = None) -> list[ConsumedRecord]:
        """Up to `max_records` (`max.poll.records`) records as soon as there are any; none when the time is over."""
        self._end_loop()
        return self._run(lambda: self._inner.poll(timeout, max_records))

    def poll_arrow(
        self,
        timeout: float = 1.0,
        *,
        max_rows: int = MOST_ROWS,
        max_bytes: int = LARGEST_COLUMNS,
        columns: Sequence[str] = COLUMNS,
    ) -> pa.RecordBatch:
        """Everything that was fetched, as Arrow columns; no rows when the time is over."""
        self._end_loop()
        return self._run(
            lambda: self._inner.poll_arrow(timeout, max_rows=max_rows, max_bytes=max_bytes, columns=columns)
        )

    def __iter__(self) -> Iterator[ConsumedRecord]:
        """Record after record, for ever; each is behind the position once it was handed over."""
        rest = self._rest
        try:
            while not self._closed:
                while rest:
                    self._in_hand = rest.popleft()
                    yield self._in_hand
                self._in_hand = None
                if not self._closed:
                    self._looping = False  # what Ctrl-C keeps a poll from bringing is with the consumer behind
                    rest.extend(self._run(lambda: self._inner.poll(_POLL_SECONDS)))
                    self._looping = True
        finally:
            if not self._closed:
                self._give_back()

    def _end_loop(self) -> None:
        """Records come in another way now: what a `for` loop got is finished, what it did not get is read again."""
        self._give_back()
        self._in_hand, self._looping = None, False

    def _give_back(self, sought: Collection[TopicPartition] = ()) -> None:
        """What was fetched for a `for` loop and not handed over is read again; where the program seeks, that counts."""
        last = self._in_hand
        if last is not None and (last.topic, last.partition) in sought:
            self._in_hand = None
        starts = self._not_handed_over()
        self._rest.clear()
        for start in starts.items():
            self._run(partial(_soon, self._inner.seek, *start))

    def _not_handed_over(self) -> dict[TopicPartition, OffsetAndMetadata]:
        starts: dict[TopicPartition, OffsetAndMetadata] = {}
        for record in self._rest:
            start = OffsetAndMetadata(record.offset, "", record.leader_epoch)
            starts.setdefault(TopicPartition(record.topic, record.partition), start)
        return starts

    # --- what is read -------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: str | Collection[str] | Pattern[str] | BrokerPattern,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Topics by name or pattern instead of those before; with a group, its members share their partitions."""
        self._give_back()
        told = None if listener is None else _Threaded(listener, self)
        self._run(lambda: _soon(self._inner.subscribe, topics, told))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions, whatever a group thinks; those read already go on where they are."""
        self._give_back()
        self._run(lambda: _soon(self._inner.assign, partitions))

    def unsubscribe(self, timeout: float | None = None) -> None:
        """Read nothing, and leave the group."""
        self._give_back()
        self._run(lambda: self._inner.unsubscribe(timeout))

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand over nothing of these until `resume`, and let others use their room. The group is not left."""
        self._give_back()
        self._run(lambda: _soon(self._inner.pause, *partitions))

    assignment = Reached(AsyncConsumer.assignment)
    subscription = Reached(AsyncConsumer.subscription)
    resume = Reached(AsyncConsumer.resume)
    paused = Reached(AsyncConsumer.paused)

    # --- positions ----------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on at this offset."""
        self._give_back(sought=(partition,))
        self._run(lambda: _soon(self._inner.seek, partition, offset))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the first record of these partitions, or of all that are assigned."""
        self._give_back(sought=partitions or self.assignment())
        self._run(lambda: _soon(self._inner.seek_to_beginning, *partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on behind the last record of these partitions, or of all that are assigned."""
        self._give_back(sought=partitions or self.assignment())
        self._run(lambda: _soon(self._inner.seek_to_end, *partitions))

    def seek_to_time(self, moment: Any, *partitions: TopicPartition) -> None:
        """Go on at the first record from this moment on (milliseconds since 1970, or a datetime)."""
        self._give_back(sought=partitions or self.assignment())
        self._run(lambda: _soon(self._inner.seek_to_time, moment, *partitions))

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record of a partition."""
        waiting = self._not_handed_over().get(partition)
        return self._run(lambda: self._inner.position(partition, timeout)) if waiting is None else waiting.offset

    def positions(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """What a commit of all positions would say: those that are known, without waiting for others."""
        known = self._run(lambda: _soon(self._inner.positions))
        return {**known, **{each: start for each, start in self._not_handed_over().items() if each in known}}

    lag = Reached(AsyncConsumer.lag)
    beginning_offsets = Blocked(AsyncConsumer.beginning_offsets)
    end_offsets = Blocked(AsyncConsumer.end_offsets)
    offsets_for_times = Blocked(AsyncConsumer.offsets_for_times)
    partitions_for = Blocked(AsyncConsumer.partitions_for)

    # --- the group ----------------------------------------------------------------------------------------------------

    def commit(self, offsets: Offsets | None = None, timeout: float | None = None) -> None:
        """Commit these offsets, or all positions, and wait until the group has them."""
        wanted = self._finished(offsets)
        self._run(lambda: self._inner.commit(wanted, timeout))

    def commit_async(self, offsets: Offsets | None = None, callback: Committed | None = None) -> None:
        """Commit in the background; `callback` hears the offsets, and the failure or None, on the client's thread."""
        wanted = self._finished(offsets)
        self._run(lambda: _soon(self._inner.commit_async, wanted, callback))

    def _finished(self, offsets: Offsets | None) -> Offsets:
        """What is to be committed: the program's word that it has finished so much."""
        said = self.positions() if offsets is None else offsets
        last = self._in_hand
        if last is not None:
            to = said.get(TopicPartition(last.topic, last.partition))
            if to is not None and OffsetAndMetadata.of(to).offset > last.offset:
                self._in_hand = None
        return said

    committed = Blocked(AsyncConsumer.committed)
    group_metadata = Reached(AsyncConsumer.group_metadata)
    why_idle = Reached(AsyncConsumer.why_idle)
    metrics = Reached(AsyncConsumer.metrics)
    sources = Reached(AsyncConsumer.sources)

    # --- whose turn it is ---------------------------------------------------------------------------------------------

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._check()
        if self._listening == threading.get_ident():
            return self._background.run(work())  # a listener speaks for the thread that polls
        if not self._turn.acquire(blocking=False):
            raise ConcurrentUse("another thread uses this consumer now; a consumer is for one thread at a time")
        try:
            return self._background.run(work())
        finally:
            self._turn.release()

    def listen(self, step: Callable[[], Awaitable[None] | None]) -> None:
        """Run a listener in this thread."""
        self._listening = threading.get_ident()
        try:
            pending = step()
        finally:
            self._listening = None
        if pending is not None:
            self._background.run(_awaited(pending))


class _Threaded:
    """A listener that may wait for the consumer: it runs in a thread, while the client's own goes on."""

    def __init__(self, listener: RebalanceListener, consumer: Consumer) -> None:
        self._listener = listener
        self._consumer = consumer

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        await self._tell(lambda: self._listener.on_partitions_revoked(partitions))

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        await self._tell(lambda: self._listener.on_partitions_assigned(partitions))

    async def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        await self._tell(lambda: self._listener.on_partitions_lost(partitions))

    async def _tell(self, step: Callable[[], Awaitable[None] | None]) -> None:
        await asyncio.to_thread(self._consumer.listen, step)


async def _soon(step: Callable[..., T], *arguments: Any) -> T:
    return step(*arguments)


async def _awaited(pending: Awaitable[T]) -> T:
    return await pending
