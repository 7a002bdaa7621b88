"""Reading partitions that the caller chose.

Owns: a position for each assigned partition and the fetches that move it; at most one fetch a broker is on its way, and
the next one leaves before the records of the last are handed over. Never knows: groups, what is done with records.
Invariants: records of a partition come in order, each once; a partition that cannot be read is tried again until
`patience_seconds` have passed, then `poll` raises, after it handed over what others brought; memory holds two answers
a broker at most.
"""

import asyncio
from collections.abc import Iterable, Mapping
from enum import Enum
from types import TracebackType
from typing import Any, NamedTuple, Self

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import NO_TOPIC_ID, TopicPartition
from ottla.client.cluster import Cluster, Partition, Topic
from ottla.client.errors import BrokerError, ClientError, ProtocolViolation, known_code
from ottla.client.fetched import Aborted, visible_records
from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, find_offsets, raise_errors
from ottla.client.retry import pause_before
from ottla.records.header import CorruptBatch
from ottla.records.record import Record
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.wire.schema import LATEST as NEWEST_VERSION

_LAST_WITH_NAMES = 12
"""From the next version on Fetch names topics by id."""


class Start(NamedTuple):
    """Where to begin: an offset, or a moment (milliseconds, or EARLIEST or LATEST) that an offset is found for."""

    offset: int = -1
    moment: int = EARLIEST


class OutOfRange(Enum):
    """What to do when a position is not, or no longer, in the log."""

    FAIL = "fail"
    EARLIEST = "earliest"
    LATEST = "latest"


class ConsumerSettings(NamedTuple):
    """Sizes in bytes, times in seconds."""

    committed_only: bool = False
    wait_seconds: float = 0.5
    min_bytes: int = 1
    max_bytes: int = 8 * 1024 * 1024
    partition_bytes: int = 1024 * 1024
    patience_seconds: float = 60.0
    out_of_range: OutOfRange = OutOfRange.FAIL


class Polled(NamedTuple):
    """New records of one partition, and the offset up to which it can be read."""

    partition: TopicPartition
    records: list[Record]
    end_offset: int


class Consumer:
    """`assign`, then `poll` again and again; `close` at the end, or use it as an async context manager."""

    def __init__(self, cluster: Cluster, settings: ConsumerSettings | None = None) -> None:
        self.settings = settings or ConsumerSettings()
        self.positions: dict[TopicPartition, int] = {}
        self._cluster = cluster
        self._isolation = READ_COMMITTED if self.settings.committed_only else READ_UNCOMMITTED
        self._loop = asyncio.get_running_loop()
        self._fetches: dict[int, asyncio.Task[tuple[FetchRequest, FetchResponse]]] = {}
        self._fetching: dict[int, frozenset[TopicPartition]] = {}
        self._search: asyncio.Task[dict[str, Topic | BrokerError]] | None = None
        """A look for leaders that are not known."""
        self._turns: dict[TopicPartition, None] = {}
        """Assigned partitions in the order they are asked for: who brought records goes to the end."""
        self._stuck: dict[TopicPartition, float] = {}
        """Since when a partition cannot be read."""
        self._attempts = 0
        self._not_before = 0.0
        self._failure: ClientError | None = None
        """To be raised once the records that came with it are handed over."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def assign(self, starts: Mapping[TopicPartition, Start], seconds: float = 30.0) -> None:
        """Read these partitions and no others, each from its start."""
        await self.close()
        deadline = self._loop.time() + seconds
        positions = {partition: start.offset for partition, start in starts.items() if start.offset >= 0}
        moments = {partition: start.moment for partition, start in starts.items() if start.offset < 0}
        if self.settings.out_of_range is OutOfRange.FAIL:
            await self._check_range(positions, deadline)
        positions |= await self._resolve(moments, deadline)
        self.positions = {partition: positions[partition] for partition in starts}
        self._turns = dict.fromkeys(starts)
        self._stuck.clear()

    async def end_offsets(self, seconds: float = 30.0) -> dict[TopicPartition, int]:
        """Where each assigned partition ends now for this consumer."""
        moments = dict.fromkeys(self.positions, LATEST)
        found = await find_offsets(self._cluster, moments, self._loop.time() + seconds, self._isolation)
        raise_errors(found)
        return {partition: answer.offset for partition, answer in found.items()}

    async def poll(self, seconds: float) -> list[Polled]:
        """Wait up to `seconds` for records; an empty list when none came."""
        deadline = self._loop.time() + seconds
        while True:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            self._start_fetches()
            polled = await self._wait(deadline)
            if polled:
                self._start_fetches()
                await asyncio.sleep(0)  # lets the next fetch leave while the caller works on these records
                return polled
            if self._loop.time() >= deadline and self._failure is None:
                return []

    async def _wait(self, deadline: float) -> list[Polled]:
        now = self._loop.time()
        until = min(deadline, self._not_before) if self._not_before > now else deadline
        tasks: list[asyncio.Task[Any]] = [*self._fetches.values()]
        if self._search is not None:
            tasks.append(self._search)
        if not tasks:
            await asyncio.sleep(max(0.0, until - now))
            return []
        done, _ = await asyncio.wait(tasks, timeout=max(0.0, until - now), return_when=asyncio.FIRST_COMPLETED)
        if self._search in done:
            self._end_search()
        finished = [node for node, task in self._fetches.items() if task in done]
        return [row for node in finished for row in await self._take(node)]

    async def close(self) -> None:
        """Stop fetching; what is on its way is thrown away."""
        tasks: list[asyncio.Task[Any]] = [*self._fetches.values()]
        if self._search is not None:
            tasks.append(self._search)
        self._search = None
        self._fetches.clear()
        self._fetching.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- positions ----------------------------------------------------------------------------------------------------

    async def _resolve(self, moments: Mapping[TopicPartition, int], deadline: float) -> dict[TopicPartition, int]:
        if not moments:
            return {}
        found = await find_offsets(self._cluster, moments, deadline, self._isolation)
        raise_errors(found)
        beyond = {partition: LATEST for partition, answer in found.items() if answer.offset < 0}
        positions = {partition: answer.offset for partition, answer in found.items() if answer.offset >= 0}
        return positions | await self._resolve(beyond, deadline)  # nothing at or after the moment: what comes next

    async def _reset(self, partition: TopicPartition) -> None:
        policy = self.settings.out_of_range
        deadline = self._loop.time() + self.settings.patience_seconds
        if policy is OutOfRange.FAIL:
            await self._check_range({partition: self.positions[partition]}, deadline)
            return
        moment = EARLIEST if policy is OutOfRange.EARLIEST else LATEST
        self.positions |= await self._resolve({partition: moment}, deadline)

    async def _check_range(self, positions: Mapping[TopicPartition, int], deadline: float) -> None:
        """Raise when a position is not in the log; one at its end is, since the next record goes there."""
        if not positions:
            return
        firsts = await find_offsets(self._cluster, dict.fromkeys(positions, EARLIEST), deadline)
        ends = await find_offsets(self._cluster, dict.fromkeys(positions, LATEST), deadline)
        raise_errors(firsts)
        raise_errors(ends)
        for partition, position in positions.items():
            first, end = firsts[partition].offset, ends[partition].offset
            if not first <= position <= end:
                subject = f"offset {position} of partition {partition}"
                raise BrokerError(
                    ErrorCode.OFFSET_OUT_OF_RANGE, subject, f"the log begins at {first} and ends at {end}"
                )

    # --- fetching -----------------------------------------------------------------------------------------------------

    def _start_fetches(self) -> None:
        """Ask every leader that has no fetch on its way; look for the leaders that are not known."""
        if self._loop.time() < self._not_before:
            return
        under_way = frozenset[TopicPartition]().union(*self._fetching.values())
        by_node: dict[int, dict[TopicPartition, Partition]] = {}
        unknown: set[str] = set()
        for partition in self._turns:
            if partition in under_way:
                continue
            leader = self._cluster.known_leader(partition)
            if leader is None:
                unknown.add(partition.topic)
            elif leader.leader not in self._fetches:
                by_node.setdefault(leader.leader, {})[partition] = leader
        for node, leaders in by_node.items():
            self._fetching[node] = frozenset(leaders)
            self._fetches[node] = self._loop.create_task(self._fetch(node, self._request(leaders)))
        if unknown and self._search is None:
            deadline = self._loop.time() + self._cluster.settings.request_seconds
            self._search = self._loop.create_task(self._cluster.refresh(unknown, deadline))

    def _end_search(self) -> None:
        """Partitions whose leader is still not known are in trouble."""
        assert self._search is not None
        search, self._search = self._search, None
        lost = [partition for partition in self._turns if self._cluster.known_leader(partition) is None]
        try:
            found = search.result()
        except ClientError as failure:
            self._trouble(lost, failure)
            return
        for partition in lost:
            topic = found.get(partition.topic)
            if isinstance(topic, Topic):
                self._trouble([partition], self._cluster.leaderless(partition, topic))
            elif topic is not None:
                self._trouble([partition], topic)

    async def _fetch(self, node: int, request: FetchRequest) -> tuple[FetchRequest, FetchResponse]:
        deadline = self._loop.time() + self.settings.wait_seconds + self._cluster.settings.request_seconds
        named = any(topic.topic_id == NO_TOPIC_ID for topic in request.topics)
        connection = await self._cluster.connection(node, deadline)
        highest = _LAST_WITH_NAMES if named else NEWEST_VERSION
        return request, await connection.ask(request, FetchResponse, deadline, highest=highest)

    def _request(self, leaders: Mapping[TopicPartition, Partition]) -> FetchRequest:
        settings = self.settings
        topics: dict[str, list[FetchPartition]] = {}
        for partition, leader in leaders.items():
            topics.setdefault(partition.topic, []).append(
                FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=leader.leader_epoch,
                    fetch_offset=self.positions[partition],
                    partition_max_bytes=settings.partition_bytes,
                )
            )
        ids = {name: self._cluster.topics[name].topic_id for name in topics}
        return FetchRequest(
            max_wait_ms=int(settings.wait_seconds * 1000),
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            isolation_level=self._isolation,
            topics=[FetchTopic(name, ids[name], rows) for name, rows in topics.items()],
        )

    async def _take(self, node: int) -> list[Polled]:
        """What the finished fetch of a broker brought; positions move, so the next one can leave."""
        task = self._fetches.pop(node)
        asked = self._fetching.pop(node)
        try:
            request, answer = task.result()
            if answer.error_code:
                raise BrokerError(answer.error_code, "a fetch")
        except ClientError as failure:
            self._trouble(asked, failure)
            return []
        names = {topic.topic_id: topic.topic for topic in request.topics}
        polled = []
        for topic in answer.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for part in topic.partitions:
                partition = TopicPartition(name, part.partition_index)
                if partition not in self.positions:
                    continue
                try:
                    row = await self._read(partition, part)
                except ClientError as failure:
                    self._trouble([partition], failure)
                    continue
                self._stuck.pop(partition, None)
                if row is not None:
                    polled.append(row)
        if not self._stuck:
            self._attempts = 0
        return polled

    async def _read(self, partition: TopicPartition, part: PartitionData) -> Polled | None:
        code = known_code(part.error_code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._reset(partition)
            return None
        if code:
            raise BrokerError(code, f"partition {partition}")
        aborted: tuple[Aborted, ...] = ()
        if self._isolation == READ_COMMITTED:
            aborted = tuple(Aborted(entry.first_offset, entry.producer_id) for entry in part.aborted_transactions or ())
        try:
            visible = visible_records(part.records or b"", self.positions[partition], aborted)
        except CorruptBatch as problem:
            raise ProtocolViolation(f"partition {partition}", f"what was fetched is damaged: {problem}") from None
        self.positions[partition] = visible.next_offset
        if not visible.records:
            return None
        del self._turns[partition]
        self._turns[partition] = None
        end = part.last_stable_offset if self._isolation == READ_COMMITTED else part.high_watermark
        return Polled(partition, visible.records, end)

    def _trouble(self, partitions: Iterable[TopicPartition], failure: ClientError) -> None:
        """Look for the leaders again after a pause; give up when that cannot help or has not for too long."""
        now = self._loop.time()
        for partition in partitions:
            self._cluster.forget(partition.topic)
            since = self._stuck.setdefault(partition, now)
            if not failure.retriable or now - since > self.settings.patience_seconds:
                self._failure = self._failure or failure
        self._attempts += 1
        self._not_before = now + pause_before(self._attempts, self._cluster.random)
