"""Fetching: one task a broker keeps the buffer filled with what a consumer holds there.

Owns: a connection of its own to each broker that is read from (an answer that waits for records holds up no other
request), one fetch on its way on it, the session, and what becomes of each partition's answer. Never knows: groups,
what positions were, how offsets are looked up (`Locator`); records are not looked at beyond the headers of batches.

Invariants: what an answer brings is taken only if the partition is still in the turn in which it was asked for, at the
same offset, under the same leader; a broker is asked again only when every partition that is read from it has room, so
that a fetch that waits for some keeps no other from going on. Memory: a partition's buffer is not filled while it holds
`max.partition.fetch.bytes`, nothing is fetched while half of `fetch.max.bytes` wait, paused partitions have at most as
much again set aside, and each broker's answer has at most `fetch.max.bytes`; only a batch that is larger than all that
comes anyway.
"""

import asyncio
import logging
from typing import NamedTuple, Protocol

from ottla.base.errors import RETRIABLE, ErrorCode
from ottla.base.vocabulary import NO_TOPIC_ID, TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.connection import Connection
from ottla.client.consumer.buffer import Buffer, Chunk, FetchedRecords
from ottla.client.consumer.limits import FetchLimits
from ottla.client.consumer.positions import Held, Holdings, PositionState
from ottla.client.consumer.sessions import FetchSession, WantedRead
from ottla.client.errors import BrokerError, ClientError, CorruptRecords, known_code
from ottla.client.retry import pause_before
from ottla.records.header import CorruptBatch, iterate_headers
from ottla.records.visible import Aborted
from ottla.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from ottla.wire.schema import LATEST

logger = logging.getLogger("ottla.client")

_LAST_WITH_NAMES = 12
"""From the next version on Fetch names topics by id."""
_STALE_SESSION = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
_PATIENT = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID})
"""Tried again although Kafka does not count them among the retriable."""
_AGAIN_SECONDS = 1.0
"""How long a partition rests after an error that trying again does not help against."""


class Owner(Protocol):
    """Whoever the fetcher works for."""

    def arrived(self) -> None:
        """The buffer has something that it did not have."""

    def failed(self, failure: ClientError) -> None:
        """The program must hear of this."""

    def leader_doubtful(self, held: Held) -> None:
        """Look at the metadata again."""

    def out_of_range(self, held: Held) -> None:
        """The log does not have the offset that is to be read next."""


class FetcherParts(NamedTuple):
    """What the fetcher works with."""

    cluster: Cluster
    holdings: Holdings
    buffer: Buffer
    limits: FetchLimits


class _Asked(NamedTuple):
    """A partition of the fetch on its way."""

    held: Held
    turn: int
    offset: int
    leader_epoch: int

    @property
    def current(self) -> bool:
        """Whether an answer still counts: nobody moved the position, and no election came in between."""
        held = self.held
        return (held.turn, held.fetch_offset, held.leader_epoch) == self[1:] and held.standing is PositionState.READING


class Fetcher:
    """`wake` it whenever something changed; `close` it at the end."""

    def __init__(self, reach: FetcherParts, owner: Owner) -> None:
        self.reach = reach
        self.owner = owner
        self.loop = asyncio.get_running_loop()
        self.bytes_received = 0
        self.fetches = 0
        self._readers: dict[int, _BrokerReader] = {}

    def wake(self) -> None:
        """Look again whom to ask: partitions came or went, go on, or have a leader now."""
        now = self.loop.time()
        for held in self.reach.holdings:
            node = held.source(now)
            if node >= 0 and node not in self._readers:
                self._readers[node] = _BrokerReader(self, node)
        self.drained()

    def drained(self) -> None:
        """There is room again."""
        for reader in self._readers.values():
            reader.wake()

    async def close(self) -> None:
        readers = list(self._readers.values())
        self._readers.clear()
        await asyncio.gather(*(reader.close() for reader in readers))

    def trouble(self, held: Held, failure: ClientError) -> None:
        """A partition could not be read: wait a little, and look for its leader."""
        cluster = self.reach.cluster
        held.failure = failure
        held.replica = -1
        held.attempts += 1
        held.due = self.loop.time() + pause_before(held.attempts, cluster.random, cluster.settings.pauses)
        self.owner.leader_doubtful(held)


class _BrokerReader:
    """The task that reads from one broker."""

    def __init__(self, fetcher: Fetcher, node: int) -> None:
        self._fetcher = fetcher
        self._node = node
        self._session = FetchSession()
        self._connection: Connection | None = None
        self._changed = asyncio.Event()
        self._task = fetcher.loop.create_task(self._run())

    def wake(self) -> None:
        self._changed.set()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._connection is not None:
            self._connection.close()

    async def _run(self) -> None:
        while True:
            try:
                self._changed.clear()
                asked, due = self._choose()
                if asked:
                    await self._exchange(asked)
                else:
                    await self._rest(due)
            except ClientError as failure:
                self._disconnect()
                for entry in asked.values():
                    if entry.current:
                        self._fetcher.trouble(entry.held, failure)
            except Exception:
                # One answer that cannot be digested must not end the reading.
                logger.exception("what broker %d answered to a fetch could not be taken", self._node)
                self._disconnect()
                await asyncio.sleep(_AGAIN_SECONDS)

    def _disconnect(self) -> None:
        self._session.reset()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _rest(self, due: float | None) -> None:
        """Until something changes, or until a partition is due."""
        try:
            async with asyncio.timeout_at(due):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _choose(self) -> tuple[dict[TopicPartition, _Asked], float | None]:
        """What to ask this broker for now; without that, when to look again."""
        reach = self._fetcher.reach
        limit = reach.limits.partition_bytes
        if reach.buffer.size > reach.limits.max_bytes // 2:
            return {}, None
        now = self._fetcher.loop.time()
        asked: dict[TopicPartition, _Asked] = {}
        due: float | None = None
        for held in reach.holdings:
            if held.paused or held.standing is not PositionState.READING or held.source(now) != self._node:
                continue
            if held.due > now:
                due = held.due if due is None else min(due, held.due)
            elif held.buffered >= max(limit, 1):
                return {}, None
            else:
                asked[held.partition] = _Asked(held, held.turn, held.fetch_offset, held.leader_epoch)
        return asked, due

    async def _exchange(self, asked: dict[TopicPartition, _Asked]) -> None:
        fetcher = self._fetcher
        limits = fetcher.reach.limits
        deadline = fetcher.loop.time() + limits.wait_seconds + limits.request_seconds
        if self._connection is None or self._connection.closed:
            self._disconnect()
            self._connection = await fetcher.reach.cluster.dedicated(self._node, deadline)
        wanted = {
            place: WantedRead(entry.held.topic_id, entry.offset, entry.leader_epoch, limits.partition_bytes)
            for place, entry in asked.items()
        }
        told = self._session.request(wanted)
        request = FetchRequest(
            max_wait_ms=int(limits.wait_seconds * 1000),
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            isolation_level=limits.isolation,
            session_id=told.session_id,
            session_epoch=told.session_epoch,
            topics=told.topics,
            forgotten_topics_data=told.forgotten,
            rack_id=limits.rack,
        )
        named = any(how.topic_id == NO_TOPIC_ID for how in wanted.values())
        highest = _LAST_WITH_NAMES if named else LATEST
        answer = await self._connection.ask(request, FetchResponse, deadline, highest=highest)
        fetcher.fetches += 1
        self._take(answer, asked)

    def _take(self, answer: FetchResponse, asked: dict[TopicPartition, _Asked]) -> None:
        code = known_code(answer.error_code)
        if code in _STALE_SESSION:
            self._session.reset()
            if code in _PATIENT:
                for place, asking in asked.items():
                    self._fetcher.trouble(asking.held, BrokerError(code, f"partition {place}"))
            return
        if code:
            raise BrokerError(code, "a fetch")
        self._session.answered(answer.session_id)
        for topic in answer.responses:
            name = topic.topic or self._session.name_of(topic.topic_id)
            for part in topic.partitions:
                entry = asked.get(TopicPartition(name, part.partition_index))
                if entry is not None and entry.current:
                    self._take_partition(entry.held, part)

    def _take_partition(self, held: Held, part: PartitionData) -> None:
        fetcher = self._fetcher
        code = known_code(part.error_code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(held)
        elif code:
            failure = BrokerError(code, f"partition {held.partition}")
            fetcher.trouble(held, failure)
            if code not in RETRIABLE and code not in _PATIENT:
                held.due = fetcher.loop.time() + _AGAIN_SECONDS
                fetcher.owner.failed(failure)
        elif part.preferred_read_replica >= 0 and not part.records:
            held.replica = part.preferred_read_replica
            held.replica_until = fetcher.loop.time() + fetcher.reach.limits.metadata_seconds
            fetcher.wake()
        else:
            held.works()
            held.high_watermark = part.high_watermark
            held.last_stable_offset = part.last_stable_offset
            held.log_start_offset = part.log_start_offset
            if part.records:
                self._keep(held, part)

    def _out_of_range(self, held: Held) -> None:
        if held.replica >= 0:
            held.replica = -1  # it may only be behind: the leader decides
            self._fetcher.wake()
        elif held.buffered:
            held.due = self._fetcher.loop.time() + _AGAIN_SECONDS  # first what was fetched
        else:
            self._fetcher.owner.out_of_range(held)

    def _keep(self, held: Held, part: PartitionData) -> None:
        """Into the buffer, and the next fetch goes on behind it."""
        fetcher = self._fetcher
        limits = fetcher.reach.limits
        assert part.records is not None
        aborted: tuple[Aborted, ...] = ()
        if limits.committed_only:
            aborted = tuple(Aborted(entry.first_offset, entry.producer_id) for entry in part.aborted_transactions or ())
        last = None
        reason = "not even one batch is whole"
        try:
            for _, header in iterate_headers(part.records):
                last = header
        except CorruptBatch as problem:
            reason = str(problem)
        if last is None:
            held.due = fetcher.loop.time() + _AGAIN_SECONDS
            fetcher.owner.failed(CorruptRecords(held.partition, held.fetch_offset, reason))
            return
        end = last.next_offset
        if end <= held.fetch_offset:
            return
        fetcher.bytes_received += len(part.records)
        fetcher.reach.buffer.put(
            Chunk(held, FetchedRecords(part.records, aborted, end, last.leader_epoch), limits.check_crcs)
        )
        held.fetch_offset = end
        held.fetch_epoch = last.leader_epoch
        fetcher.reach.holdings.to_the_end(held)
        fetcher.owner.arrived()
