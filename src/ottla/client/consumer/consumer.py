"""The consumer that programs use.

Owns: what a program may call, and the order in which a poll does its work: the group, failures, records. Never knows:
how records come (`reading`), how a group agrees (`coordination`). Invariants: one poll or iteration at a time; records
that were handed over, and only those, are behind the positions that are committed.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from re import Pattern
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self, Unpack

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.cluster import Partition
from ottla.client.consumer.deserializers import Deserialization
from ottla.client.consumer.idleness import explain
from ottla.client.consumer.interceptors import Interceptors
from ottla.client.consumer.positions import Held
from ottla.client.consumer.reading import Reading, World, real_world
from ottla.client.consumer.seam import Committed, Coordination, RebalanceListener
from ottla.client.errors import BrokerError, ClientClosed, ConcurrentUse, DeadlineExceeded, Misuse
from ottla.client.groups.vocabulary import BrokerPattern, GroupMetadata, OffsetAndMetadata
from ottla.client.offsets import EARLIEST, LATEST, READ_UNCOMMITTED, FoundOffset, find_offsets, raise_errors
from ottla.client.settings import CONSUMER, ConsumerKeywords, load
from ottla.records.record import ConsumedRecord

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.records.columns import ColumnReader

COLUMNS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp", "timestamp_type")
_COORDINATION_SECONDS = 0.1
"""How often an iteration gives the group its turn."""
MOST_ROWS = 1_000_000
LARGEST_COLUMNS = 64 * 1024 * 1024
"""What one `poll_arrow` gives when nobody says otherwise."""


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a moment."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class Consumer:
    """Reads topics: `async with ottla.Consumer("topic", bootstrap_servers="…", group_id="…") as consumer`.

    Topics are given as text, settings as a mapping of Kafka's names, as keywords, or both. Without a group it reads all
    partitions of its topics. Times are seconds; moments are milliseconds since 1970, or a datetime.
    """

    def __init__(
        self, *given: str | Mapping[str, object], world: World | None = None, **keywords: Unpack[ConsumerKeywords]
    ) -> None:
        mapping: dict[str, object] = {}
        for each in given:
            if not isinstance(each, str):
                mapping.update(each)
        self.settings = load(CONSUMER, mapping, keywords)
        self._topics = [each for each in given if isinstance(each, str)]
        self._world = world
        self._deserialization = Deserialization(self.settings)
        self._interceptors = Interceptors(self.settings.things("interceptor.classes"), self.settings)
        self._max_records = self.settings.integer("max.poll.records")
        self._reading: Reading | None = None
        self._coordination: Coordination | None = None
        self._subscribed: Collection[str] | Pattern[str] | BrokerPattern = ()
        self._polling = False
        self._closed = False
        self._columns: dict[tuple[str, ...], ColumnReader] = {}

    # --- from the beginning to the end --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Done by `async with`. Reaches for no broker yet: a poll does, and `why_idle` tells what it met."""
        if self._closed or self._reading is not None:
            raise Misuse("a consumer is started once")
        read = None if self._deserialization.plain else self._deserialization.read
        self._reading = Reading(self.settings, self._world or real_world(), self._interceptors, read)
        if self.settings.text_or_none("group.id") is not None:
            from ottla.client.consumer.coordination import GroupCoordination
            from ottla.client.consumer.group_settings import GroupSettings

            self._coordination = GroupCoordination(
                self._reading.cluster, GroupSettings.of(self.settings), self._reading
            )
            self._reading.locator.coordination = self._coordination
        if self._topics:
            self.subscribe(self._topics)

    async def close(self, timeout: float = 30.0, *, finished: bool = True) -> None:
        """Commit what is to be committed by itself, leave the group, end every connection. Does nothing twice.

        Unless the program has `finished` what it got last, those records are not committed: the last poll's, or the one
        that an iteration handed over last. A block that is left by an exception closes so.
        """
        if self._closed:
            return
        self._closed = True
        reading = self._reading
        if reading is not None and not finished:
            reading.in_hand.give_back()
        try:
            if reading is not None and self._coordination is not None:
                await self._coordination.close(_now() + timeout)
        finally:
            if reading is not None:
                reading.wake()
                await reading.close()
            self._interceptors.close()
            self._deserialization.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close(finished=kind is None)

    # --- what is read -------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: str | Collection[str] | Pattern[str] | BrokerPattern,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Topics by name or pattern instead of those before; with a group, its members share their partitions."""
        reading = self._open()
        self._subscribed = [topics] if isinstance(topics, str) else topics
        if self._coordination is not None:
            reading.read_alone(())
            self._coordination.subscribe(self._subscribed, listener)
        elif isinstance(self._subscribed, BrokerPattern):
            raise Misuse("a pattern that brokers match needs a group.id and group.protocol=consumer")
        else:
            reading.hold(())
            reading.read_alone(self._subscribed)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions, whatever a group thinks; those read already go on where they are."""
        reading = self._open()
        if self._subscribed:
            raise Misuse("a consumer that subscribes is assigned its partitions: unsubscribe first")
        reading.hold({TopicPartition(*each) for each in partitions})

    async def unsubscribe(self, timeout: float | None = None) -> None:
        """Read nothing, and leave the group."""
        reading = self._open()
        self._subscribed = ()
        if self._coordination is not None:
            await self._coordination.unsubscribe(self._deadline(timeout))
        reading.read_alone(())
        reading.hold(())

    def assignment(self) -> frozenset[TopicPartition]:
        return self._open().holdings.partitions()

    def subscription(self) -> Collection[str] | Pattern[str] | BrokerPattern:
        return self._subscribed

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand over nothing of these until `resume`, and let others use their room. The group is not left."""
        for partition in partitions:
            self._held(partition).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        reading = self._open()
        for partition in partitions:
            self._held(partition).paused = False
        reading.buffer.resume()
        reading.fetcher.wake()
        reading.wake()

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(held.partition for held in self._open().holdings if held.paused)

    # --- records ------------------------------------------------------------------------------------------------------

    async def poll(self, timeout: float = 1.0, max_records: int | None = None) -> list[ConsumedRecord]:
        """Up to `max_records` (`max.poll.records`) records as soon as there are any; none when the time is over."""
        reading = self._begin()
        limit = self._max_records if max_records is None else max_records
        try:
            deadline = _now() + timeout
            await asyncio.sleep(0)  # who polls without ever waiting would keep the answers from coming in
            while True:
                await self._coordinate(deadline)
                reading.raise_failure()
                records = reading.take(limit)
                if records:
                    return self._interceptors.on_consume(records) if self._interceptors else records
                if not await self._wait(reading, deadline):
                    return []
        finally:
            self._polling = False

    async def poll_arrow(
        self,
        timeout: float = 1.0,
        *,
        max_rows: int = MOST_ROWS,
        max_bytes: int = LARGEST_COLUMNS,
        columns: Sequence[str] = COLUMNS,
    ) -> "pa.RecordBatch":
        """Everything that was fetched, as Arrow columns, without an object for each row; no rows when the time is over.

        Deserializers and interceptors have no part in it. Needs pyarrow. `max_bytes` counts the fullest column, and is
        passed by at most what one partition brought at a time.
        """
        reading = self._begin()
        reader = self._column_reader(tuple(columns))
        try:
            deadline = _now() + timeout
            await asyncio.sleep(0)
            while True:
                await self._coordinate(deadline)
                reading.raise_failure()
                reading.take_columns(reader, max_rows, max_bytes)
                if reader.rows or not await self._wait(reading, deadline):
                    return reader.finish()
        finally:
            self._polling = False

    def _column_reader(self, columns: tuple[str, ...]) -> "ColumnReader":
        reader = self._columns.get(columns)
        if reader is None:
            from ottla.records.columns import ColumnReader

            reader = ColumnReader(columns, check_crc=self.settings.boolean("check.crcs"))
            self._columns[columns] = reader
        return reader

    async def __aiter__(self) -> AsyncIterator[ConsumedRecord]:
        """Record after record, for ever; each is behind the position once it was handed over."""
        if self._interceptors:
            while not self._closed:
                # one by one: what an interceptor saw and the loop was not given must not be behind the position
                for record in await self.poll(max_records=1):
                    yield record
            return
        while not self._closed:
            reading = self._begin()
            try:
                await asyncio.sleep(0)
                await self._coordinate(_now() + _COORDINATION_SECONDS)
                reading.raise_failure()
                chunk = reading.first()
                if chunk is None:
                    await self._wait(reading, None if self._coordination is None else _now() + _COORDINATION_SECONDS)
                    continue
            finally:
                self._polling = False
            held = chunk.held
            turn = held.turn
            grouped = self._coordination is not None
            now = asyncio.get_running_loop().time
            due = now() + _COORDINATION_SECONDS
            rest = chunk.records[chunk.index : chunk.index + self._max_records]
            in_hand = reading.in_hand
            in_hand.one_by_one(held)
            polls = in_hand.polls
            for record in rest:
                chunk.index += 1
                held.position = record[2] + 1
                yield record
                # a program that polled meanwhile may have got what comes next
                if in_hand.polls != polls or held.turn != turn or held.paused or (grouped and now() >= due):
                    break

    async def _coordinate(self, deadline: float) -> None:
        coordination = self._coordination
        if coordination is not None:
            coordination.polled(_now())
            await coordination.poll(deadline)

    async def _wait(self, reading: Reading, deadline: float | None) -> bool:
        if self._closed:
            raise ClientClosed("the consumer was closed")
        if not self._subscribed and not len(reading.holdings):
            raise Misuse("nothing is read: subscribe to topics or assign partitions first")
        woken = await reading.wait(deadline)
        if self._closed:
            raise ClientClosed("the consumer was closed")
        return woken

    # --- positions ----------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on with this offset; what was fetched and not handed over is thrown away."""
        target = OffsetAndMetadata.of(offset)
        self._held(partition).jump(target.offset, target.leader_epoch)
        self._moved()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on with the first record there is; without partitions, of all."""
        self._look_up(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on with what comes next; without partitions, of all."""
        self._look_up(partitions, LATEST)

    def seek_to_time(self, moment: int | datetime, *partitions: TopicPartition) -> None:
        """Go on with the first record at or after a moment, or with what comes next; without partitions, of all."""
        self._look_up(partitions, _milliseconds(moment))

    def _look_up(self, partitions: Collection[TopicPartition], moment: int) -> None:
        for partition in partitions or self.assignment():
            self._held(partition).look_up(moment)
        self._moved()

    def _moved(self) -> None:
        reading = self._open()
        reading.buffer.sweep()
        reading.locator.wake()

    async def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record to be handed over; waits until it is known."""
        reading = self._open()
        deadline = self._deadline(timeout)
        held = self._held(partition)
        while held.position < 0:
            reading.raise_failure()
            if not await reading.wait(deadline):
                raise DeadlineExceeded(f"the position in {partition}: {self.why_idle()}")
        return held.position

    def positions(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """What a commit of all positions would say: those that are known, without waiting for others."""
        return self._open().positions()

    def lag(self, partition: TopicPartition) -> int | None:
        """Records between the position and the end, as of the last answer; None before the first."""
        held = self._held(partition)
        end = held.end(self._open().limits.committed_only)
        return None if end < 0 or held.position < 0 else max(0, end - held.position)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        found = await self._find(dict.fromkeys(partitions, EARLIEST), timeout, READ_UNCOMMITTED)
        return {partition: answer.offset for partition, answer in found.items()}

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Where each ends for this consumer: with `read_committed`, before the first open transaction."""
        found = await self._find(dict.fromkeys(partitions, LATEST), timeout, self._open().limits.isolation)
        return {partition: answer.offset for partition, answer in found.items()}

    async def offsets_for_times(
        self, moments: Mapping[TopicPartition, int | datetime], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each moment; None where there is none."""
        times = {partition: _milliseconds(moment) for partition, moment in moments.items()}
        found = await self._find(times, timeout, self._open().limits.isolation)
        return {
            partition: None if row.offset < 0 else OffsetAndTimestamp(row.offset, row.timestamp, row.leader_epoch)
            for partition, row in found.items()
        }

    async def _find(
        self, moments: Mapping[TopicPartition, int], timeout: float | None, isolation: int
    ) -> dict[TopicPartition, FoundOffset]:
        found = await find_offsets(self._open().cluster, moments, self._deadline(timeout), isolation)
        raise_errors(found)
        return found

    async def partitions_for(self, topic: str, timeout: float | None = None) -> tuple[Partition, ...]:
        """The partitions of a topic, with leaders and replicas."""
        cluster = self._open().cluster
        found = (await cluster.refresh([topic], self._deadline(timeout))).get(topic)
        if found is None or isinstance(found, BrokerError):
            raise found or BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r}")
        return found.partitions

    # --- the group ----------------------------------------------------------------------------------------------------

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None, timeout: float | None = None
    ) -> None:
        """Commit these offsets, or all positions, and wait until the group has them."""
        await self._group().commit(self._finished(offsets), self._deadline(timeout))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: Committed | None = None,
    ) -> None:
        """Commit in the background; `callback` hears the offsets, and the failure or None."""
        self._group().commit_async(self._finished(offsets), callback)

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for each; None where nothing is."""
        wanted = list(partitions)
        found = await self._group().committed(wanted, self._deadline(timeout))
        return {partition: found.get(partition) for partition in wanted}

    def group_metadata(self) -> GroupMetadata:
        """Who this member is, for a producer's `send_offsets`."""
        return self._group().group_metadata()

    def _finished(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """What is to be committed: the program's word that it has finished so much."""
        if offsets is None:
            self._open().in_hand.finished_all()
            return self.positions()
        said = {partition: OffsetAndMetadata.of(row) for partition, row in offsets.items()}
        self._open().in_hand.finished(said)
        return said

    # --- how it stands ------------------------------------------------------------------------------------------------

    def why_idle(self) -> str:
        """One readable line: why nothing is received at the moment."""
        reading = self._reading
        if self._closed:
            return "the consumer is closed"
        if reading is None:
            return "the consumer has not been started"
        if not self._subscribed and not len(reading.holdings):
            return "nothing is read: no topics are subscribed and no partitions assigned"
        if self._coordination is not None and self._subscribed and not reading.buffer.size:
            reason = self._coordination.why_idle()
            if reason is not None:
                return reason
        limits = reading.limits
        return explain(reading.cluster, reading.locator, reading.holdings, reading.buffer.size, limits.committed_only)

    def sources(self) -> dict[TopicPartition, int]:
        """The broker that each partition is read from: its leader, or a replica nearby; -1 where none is known."""
        now = _now()
        return {held.partition: held.source(now) for held in self._open().holdings}

    def metrics(self) -> dict[str, float]:
        """Plain numbers, by names that say what they count."""
        reading = self._open()
        lags = [lag for lag in map(self.lag, reading.holdings.partitions()) if lag is not None]
        return {
            "assigned-partitions": len(reading.holdings),
            "bytes-received-total": reading.fetcher.bytes_received,
            "fetch-total": reading.fetcher.fetches,
            "buffered-bytes": reading.buffer.size + reading.buffer.parked,
            "records-lag-max": max(lags, default=0),
        }

    # --- checks -------------------------------------------------------------------------------------------------------

    def _open(self) -> Reading:
        if self._closed:
            raise ClientClosed("the consumer was closed")
        if self._reading is None:
            raise Misuse("the consumer has not been started: use `async with`, or await start()")
        return self._reading

    def _begin(self) -> Reading:
        reading = self._open()
        if self._polling:
            raise ConcurrentUse("two tasks poll one consumer at a time; give each its own")
        self._polling = True
        reading.in_hand.begin_poll()
        return reading

    def _held(self, partition: TopicPartition) -> Held:
        held = self._open().holdings.get(partition)
        if held is None:
            raise Misuse(f"{TopicPartition(*partition)} is not assigned to this consumer")
        return held

    def _group(self) -> Coordination:
        self._open()
        if self._coordination is None:
            raise Misuse("offsets are committed for a group: set group.id")
        return self._coordination

    def _deadline(self, timeout: float | None) -> float:
        seconds = self.settings.seconds("default.api.timeout.ms") if timeout is None else timeout
        return _now() + seconds


def _now() -> float:
    return asyncio.get_running_loop().time()


def _milliseconds(moment: int | datetime) -> int:
    if isinstance(moment, datetime):
        return round(moment.timestamp() * 1000)
    if moment < 0:
        raise Misuse(f"a moment is milliseconds since 1970, not {moment}")
    return moment
