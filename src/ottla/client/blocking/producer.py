"""`ottla.blocking.Producer`: everything of `ottla.Producer`, waited for.

Owns: the order between records in the inbox and calls that follow them. Never knows: batches, requests. Invariant: a
call about what was sent (flush, the end of a transaction, closing) first lets the inbox run empty.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

from ottla.client.blocking.background import Background
from ottla.client.blocking.face import Blocked, Face, Reached
from ottla.client.blocking.inbox import Delivery, Inbox
from ottla.client.errors import ClientError, DeadlineExceeded, ProducerFailed
from ottla.client.producer import Placed, Record
from ottla.client.producer import Producer as AsyncProducer
from ottla.client.producer.record import GivenHeaders
from ottla.client.settings import ProducerKeywords

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.client.producer.arrow import PlacedRows, TableDelivery

T = TypeVar("T")


class Pending(Generic[T]):
    """Something under way; `result` waits for it."""

    def __init__(self, background: Background, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._background = background
        self._work = work

    def result(self, seconds: float | None = None) -> T:
        """What came of it; DeadlineExceeded when that takes too long."""
        return self._background.run(self._within(seconds))

    async def _within(self, seconds: float | None) -> T:
        import asyncio

        try:
            async with asyncio.timeout(seconds):
                return await self._work()
        except TimeoutError:
            raise DeadlineExceeded("the outcome of a table") from None


class Producer(Face[AsyncProducer]):
    """As `ottla.Producer`, for any number of threads. Callbacks run on the client's own thread."""

    _what = "producer"

    def __init__(
        self, configuration: Mapping[str, object] | None = None, /, **keywords: Unpack[ProducerKeywords]
    ) -> None:
        super().__init__(lambda: AsyncProducer(configuration, **keywords))
        self.settings = self._inner.settings
        self._inbox = Inbox(self._background, self._inner, self.settings.seconds("max.block.ms"))

    def close(self, seconds: float | None = None) -> None:
        """Deliver what was sent, within so many seconds (else `delivery.timeout.ms`); the rest fails."""
        self._end(lambda: self._delivered(self.settings.seconds("delivery.timeout.ms") if seconds is None else seconds))

    async def _delivered(self, seconds: float) -> None:
        loop = self._background.loop
        end = loop.time() + seconds
        with suppress(DeadlineExceeded):
            await self._inbox.emptied(seconds)
        await self._inner.close(max(0.0, end - loop.time()))
        await self._inbox.emptied()  # what was left is refused by the closed producer

    # --- records ------------------------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: GivenHeaders = (),
    ) -> Delivery:
        """Hand over a record without waiting; BufferFull when there is no room (`put` waits for it)."""
        self._check()
        return self._inbox.offer(Record(topic, value, key, partition, timestamp, headers))

    def put(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: GivenHeaders = (),
    ) -> Delivery:
        """Hand over a record; waits for room, up to `max.block.ms`."""
        self._check()
        return self._inbox.put(Record(topic, value, key, partition, timestamp, headers))

    def send_record(self, record: Record) -> Delivery:
        """`send` with everything in one object."""
        self._check()
        return self._inbox.offer(record)

    def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: GivenHeaders = (),
    ) -> Placed:
        """Hand over a record and wait until it has arrived."""
        self._check()
        return self._inbox.put(Record(topic, value, key, partition, timestamp, headers)).result()

    def send_arrow(
        self,
        topic: str,
        table: pa.Table | pa.RecordBatch,
        *,
        key: str | None = "key",
        value: str | None = "value",
        timestamp: str | None = "timestamp",
        headers: str | None = "headers",
        partition: str | None = "partition",
    ) -> Pending[tuple[PlacedRows, ...]]:
        """Hand over every row of a table; see `ottla.Producer.send_arrow`."""
        names = {"key": key, "value": value, "timestamp": timestamp, "headers": headers, "partition": partition}

        async def send() -> TableDelivery:
            return await self._inner.send_arrow(topic, table, **names)

        sent = self._run(lambda: self._after_inbox(send, None))

        async def placed() -> tuple[PlacedRows, ...]:
            return await sent

        return Pending(self._background, placed)

    def flush(self, seconds: float | None = None) -> None:
        """Return when everything sent so far has its outcome; DeadlineExceeded when that takes too long."""
        self._run(lambda: self._after_inbox(lambda: self._inner.flush(seconds), seconds))

    # --- transactions -------------------------------------------------------------------------------------------------

    init_transactions = Blocked(AsyncProducer.init_transactions)
    begin_transaction = Blocked(AsyncProducer.begin_transaction)
    send_offsets = Blocked(AsyncProducer.send_offsets)

    def commit_transaction(self, seconds: float | None = None) -> None:
        """Flush and commit; TransactionFailed when anything in the transaction failed, then abort it."""
        self._run(lambda: self._after_inbox(lambda: self._inner.commit_transaction(seconds), seconds))

    def abort_transaction(self, seconds: float | None = None) -> None:
        """Undo what was sent since `begin_transaction`."""
        self._run(lambda: self._after_inbox(lambda: self._inner.abort_transaction(seconds), seconds))

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """A transaction that is committed at the end of the block, and aborted when the block raises."""
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except ProducerFailed:
            raise  # fenced, or beyond repair: there is nothing to abort with
        except BaseException:
            with suppress(ClientError):
                self.abort_transaction()
            raise

    # --- questions ----------------------------------------------------------------------------------------------------

    partitions_for = Blocked(AsyncProducer.partitions_for)
    metrics = Reached(AsyncProducer.metrics)

    async def _after_inbox(self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float | None) -> T:
        await self._inbox.emptied(seconds)
        return await work()
