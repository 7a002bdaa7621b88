"""Followers at work: what leaders on other brokers have is fetched into the logs here.

Owns: one task for each leader (and each of `num.replica.fetchers`), its fetch session, and the state of each partition
it fetches. Never knows: who leads what (the publisher assigns), where a log is truncated (`replication.follower`).
Invariants: what an answer brings is taken only if the partition still follows the same leader epoch and its log still
ends where was asked; the next fetch, which tells the leader how far this replica is, leaves only when what the last one
brought is in the log, and on the disk where every message is flushed.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.log.files import StorageFailure
from ottla.log.partition_log import PartitionLog
from ottla.replicas.context import BrokerContext
from ottla.replicas.fetcher_log_lines import FetcherLogLines
from ottla.replicas.flusher import Flusher
from ottla.replicas.partitions import Partition
from ottla.replicas.throttles import Throttles
from ottla.replicas.traffic import Traffic
from ottla.replicas.waits import WaitingRoom
from ottla.replication.follower import (
    FetchState,
    follow_watermark,
    start_within,
    truncate_before_following,
    truncate_where_histories_part,
)
from ottla.wire.fetch import NO_WATERMARK
from ottla.wire.links import Link, LinkDown
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

logger = logging.getLogger("ottla.broker")

FIRST_BACKOFF_SECONDS = 0.02
"""The pause after the first error of a partition; each further one doubles it, up to `replica.fetch.backoff.ms`."""
READER_SECONDS = 10.0
"""For how long after somebody last waited for records here the leader is asked to tell a new watermark at once."""
AT_ONCE_BYTES = 1 << 20
"""Bytes taken into logs before other work of the broker gets its turn."""
JUST_SECONDS = 1.0
"""How long a leader that does not answer may still be replaced any moment."""
LATEST, EARLIEST = -1, -2
_NO_SESSION = (0, 0)
_LARGEST_EPOCH = 2**31 - 1
_EXPECTED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
}
"""The two sides have not both heard of the same topic or election yet."""

Key = tuple[bytes, int]


class Asked(NamedTuple):
    """Where a partition was fetched from."""

    leader_epoch: int
    offset: int


class FetchedPartition:
    """One partition that is fetched from its leader."""

    __slots__ = ("asked", "backoff", "due", "partition", "read_until", "state")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.state = FetchState.FETCHING
        self.asked: Asked | None = None
        """None: not part of the session, or to be told anew."""
        self.backoff = 0.0
        self.due = 0.0
        self.read_until = 0.0


class Helpers(NamedTuple):
    """Whom the fetchers work with."""

    traffic: Traffic
    flusher: Flusher
    throttles: Throttles
    waiting: WaitingRoom


class ReplicaFetcher:
    """One connection to one leader."""

    def __init__(self, context: BrokerContext, helpers: Helpers, leader: int) -> None:
        self._context = context
        self._helpers = helpers
        self._leader = leader
        self._partitions: dict[Key, FetchedPartition] = {}
        self._changed: dict[Key, FetchedPartition] = {}
        """Those of which the leader must hear in the next fetch."""
        self._delayed: dict[Key, FetchedPartition] = {}
        self._forgotten: list[Key] = []
        self._session = _NO_SESSION
        self._link: Link | None = None
        self._address: tuple[str, int] | None = None
        self._wake = asyncio.Event()
        self._asking = self._interrupted = False
        self.down_since: float | None = None
        """When the leader stopped answering; None while it answers."""
        self._log_lines = FetcherLogLines(leader)
        self._task = asyncio.create_task(self._run())

    # --- what is fetched ---

    def add(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.index)
        self._partitions[key] = self._changed[key] = FetchedPartition(partition)
        if not self._wake.is_set():
            self._wake.set()
            # In the next turn, when all partitions of this change of metadata are here.
            self._context.loop.call_soon(self._interrupt)

    def remove(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.index)
        if self._partitions.pop(key, None) is not None:
            self._changed.pop(key, None)
            self._delayed.pop(key, None)
            self._forgotten.append(key)

    def _interrupt(self) -> None:
        """A fetch that waits at the leader would let a new partition wait with it."""
        if self._asking and self._link is not None:
            self._interrupted = True
            self._link.close()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._disconnect()

    def _disconnect(self) -> None:
        self._session = _NO_SESSION
        if self._link is not None:
            self._link.close()
            self._link = None

    # --- the loop ---

    async def _run(self) -> None:
        backoff = 0.0
        while True:
            try:
                self._wake.clear()
                request = self._request() if self._partitions else None
                if request is None:
                    if not self._partitions:
                        self._disconnect()
                    await self._rest(self._until_due())
                    continue
                if not await self._exchange(request):
                    backoff = min(max(2 * backoff, FIRST_BACKOFF_SECONDS), self._longest_backoff())
                    await self._rest(backoff)
                else:
                    backoff = 0.0
            except StorageFailure as failure:
                self._context.storage_failed(failure)
                # What the answer said of other partitions was not taken in: all are asked for again.
                self._session = _NO_SESSION
                await self._rest(self._longest_backoff())
            except Exception:
                # One answer that cannot be digested must not end replication.
                logger.exception("fetching from broker %d failed", self._leader)
                self._session = _NO_SESSION
                await self._rest(self._longest_backoff())

    def _longest_backoff(self) -> float:
        return self._context.values.integer("replica.fetch.backoff.ms") / 1000

    async def _rest(self, seconds: float | None) -> None:
        """Wait until something changes, at most `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _until_due(self) -> float | None:
        """Seconds until the first delayed partition is due; None when there is none."""
        if not self._delayed:
            return None
        return max(0.0, min(fetched.due for fetched in self._delayed.values()) - self._context.clock.monotonic())

    async def _exchange(self, request: FetchRequest) -> bool:
        """One fetch; False when the leader did not answer."""
        values = self._context.values
        seconds = (values.integer("replica.socket.timeout.ms") + request.max_wait_ms) / 1000
        self._asking = True
        try:
            answer = await self._open_link().ask(request, FetchResponse, seconds)
        except LinkDown as down:
            self._session = _NO_SESSION
            if self._interrupted:
                return True
            if self.down_since is None:
                logger.info("broker %d cannot be fetched from: %s", self._leader, down)
                self.down_since = self._context.clock.monotonic()
            return False
        finally:
            self._asking = self._interrupted = False
        self.down_since = None
        try:
            await self._take(answer)
        finally:
            if self._log_lines.waiting:
                self._log_lines.tell()
        return True

    def _open_link(self) -> Link:
        address = self._context.address_of(self._leader)
        if address is None:
            raise LinkDown("its address is not known")
        if self._link is None or address != self._address:
            self._disconnect()
            self._link = self._context.links.link(*address)
            self._address = address
        return self._link

    # --- asking ---

    def _request(self) -> FetchRequest | None:
        """What to ask next: all partitions at the start of a session, and later those that changed."""
        values = self._context.values
        self._take_up_due()
        wait_ms = values.integer("replica.fetch.wait.max.ms")
        due = self._until_due()
        if due is not None:
            wait_ms = min(wait_ms, int(due * 1000) + 1)
        whole = self._session == _NO_SESSION
        wanted = dict(self._wanted(self._partitions if whole else self._changed))
        self._changed.clear()
        if whole and not wanted:
            return None
        forgotten: dict[bytes, list[int]] = {}
        for topic_id, index in self._forgotten:
            if not whole and (topic_id, index) not in wanted:
                forgotten.setdefault(topic_id, []).append(index)
        self._forgotten.clear()
        topics: dict[bytes, list[FetchPartition]] = {}
        for (topic_id, _), partition in wanted.items():
            topics.setdefault(topic_id, []).append(partition)
        session_id, session_epoch = self._session
        return FetchRequest(
            replica_state=ReplicaState(self._context.node_id, self._context.broker_epoch),
            max_wait_ms=wait_ms,
            min_bytes=values.integer("replica.fetch.min.bytes"),
            max_bytes=values.integer("replica.fetch.response.max.bytes"),
            session_id=session_id,
            session_epoch=session_epoch,
            topics=[FetchTopic(topic_id=topic_id, partitions=parts) for topic_id, parts in topics.items()],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=indexes) for topic_id, indexes in forgotten.items()
            ],
        )

    def _take_up_due(self) -> None:
        now = self._context.clock.monotonic()
        for key, fetched in tuple(self._delayed.items()):
            if fetched.due <= now:
                fetched.state = FetchState.FETCHING
                self._changed[key] = fetched
                del self._delayed[key]

    def _wanted(self, partitions: dict[Key, FetchedPartition]) -> Iterator[tuple[Key, FetchPartition]]:
        limit = self._context.values.integer("replica.fetch.max.bytes")
        throttles = self._helpers.throttles
        for key, fetched in partitions.items():
            partition = fetched.partition
            log = partition.log
            if log is None:
                fetched.state = FetchState.FAILED
            if fetched.state is not FetchState.FETCHING or log is None:
                continue
            throttle = throttles.on_follower(partition) if throttles.follower is not None else None
            if throttle is not None:
                seconds = throttle.seconds_until_free(self._context.clock.monotonic())
                if seconds > 0:
                    self._set_aside(fetched, seconds)
                    continue
            if fetched.asked is None:
                truncate_before_following(log, log.epochs.latest_epoch)
            fetched.asked = Asked(partition.leader_epoch, log.end_offset)
            yield (
                key,
                FetchPartition(
                    partition=partition.index,
                    current_leader_epoch=partition.leader_epoch,
                    fetch_offset=log.end_offset,
                    last_fetched_epoch=log.epochs.latest_epoch,
                    log_start_offset=log.start_offset,
                    partition_max_bytes=limit,
                    high_watermark=self._watermark(fetched, log),
                ),
            )

    def _watermark(self, fetched: FetchedPartition, log: PartitionLog) -> int:
        """Where clients read from this follower, the watermark it knows: the leader answers as soon as its own is
        higher. Otherwise that would only make for more fetches."""
        now = self._context.clock.monotonic()
        if self._helpers.waiting.has(fetched.partition):
            fetched.read_until = now + READER_SECONDS
        return log.high_watermark if now < fetched.read_until else NO_WATERMARK

    # --- what comes ---

    async def _take(self, answer: FetchResponse) -> None:
        if answer.error_code != ErrorCode.NONE:
            # The leader has forgotten the session: begin another at once.
            self._session = _NO_SESSION
            return
        session_id, session_epoch = self._session
        if session_id == 0:
            session_id, session_epoch = answer.session_id, 0
        following = session_epoch + 1 if session_epoch < _LARGEST_EPOCH else 1
        self._session = (session_id, following) if session_id else _NO_SESSION
        taken = 0
        unflushed: list[Partition] = []
        for topic in answer.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                fetched = self._partitions.get(key)
                if fetched is None or fetched.asked is None or not self._still(fetched):
                    continue
                self._changed[key] = fetched
                if data.error_code != ErrorCode.NONE:
                    await self._failed(key, fetched, ErrorCode(data.error_code))
                    continue
                taken += self._take_data(key, fetched, data)
                log = fetched.partition.log
                if log is not None and log.unflushed_messages >= log.settings.flush_messages:
                    unflushed.append(fetched.partition)
                if taken >= AT_ONCE_BYTES:
                    taken = 0
                    await asyncio.sleep(0)
        if unflushed:
            await self._flushed(unflushed)

    def _still(self, fetched: FetchedPartition) -> bool:
        """Whether the answer to what was asked is wanted."""
        partition, log = fetched.partition, fetched.partition.log
        return (
            log is not None
            and not partition.leads
            and fetched.asked == (partition.leader_epoch, log.end_offset)
            and fetched.state is FetchState.FETCHING
        )

    def _take_data(self, key: Key, fetched: FetchedPartition, data: PartitionData) -> int:
        """Bring one partition forward; answers the bytes that were taken."""
        partition, log = fetched.partition, fetched.partition.log
        assert log is not None
        diverging = data.diverging_epoch
        if diverging is not None and diverging.end_offset >= 0:
            before = log.end_offset
            truncate_where_histories_part(log, diverging.epoch, diverging.end_offset)
            self._log_lines.truncated(partition, (before, log.end_offset), diverging.epoch, diverging.end_offset)
            return 0
        records = memoryview(data.records or b"")
        size = len(records)
        if size:
            outcome = log.append_as_follower(records)
            if outcome.error != ErrorCode.NONE:
                if not fetched.backoff:
                    # Once: a full disk stays full for longer than the pause before the next try.
                    logger.error("what the leader of %s sent was not stored: %s", partition, outcome.message)
                self._delay(fetched)
                return 0
            self._helpers.traffic.replication_bytes_in += size
            throttle = self._helpers.throttles.on_follower(partition)
            if throttle is not None:
                throttle.passed(size)
        fetched.backoff = 0.0
        moved = follow_watermark(log, data.high_watermark)
        begins_later = data.log_start_offset > log.start_offset and self._follow_start(log, data.log_start_offset)
        if moved:
            self._helpers.waiting.nudge(partition)
        if not size and not begins_later and not (moved and fetched.read_until):
            # Nothing that the leader must hear of.
            self._changed.pop(key, None)
        return size

    def _follow_start(self, log: PartitionLog, leader_start: int) -> bool:
        return log.delete_records_before(min(leader_start, log.high_watermark)) == ErrorCode.NONE

    async def _flushed(self, partitions: list[Partition]) -> None:
        done = asyncio.Event()
        self._helpers.flusher.when_flushed(partitions, lambda error: done.set())
        await done.wait()

    # --- what goes wrong ---

    def _delay(self, fetched: FetchedPartition) -> None:
        fetched.backoff = min(max(2 * fetched.backoff, FIRST_BACKOFF_SECONDS), self._longest_backoff())
        self._set_aside(fetched, fetched.backoff)

    def _set_aside(self, fetched: FetchedPartition, seconds: float) -> None:
        """Leave it out of the fetches for this many seconds."""
        fetched.state = FetchState.DELAYED
        fetched.due = self._context.clock.monotonic() + seconds
        key = (fetched.partition.topic_id, fetched.partition.index)
        self._delayed[key] = fetched
        self._forgotten.append(key)

    async def _failed(self, key: Key, fetched: FetchedPartition, error: ErrorCode) -> None:
        if error == ErrorCode.OFFSET_OUT_OF_RANGE and await self._begin_within(fetched):
            return
        if error not in _EXPECTED:
            self._log_lines.refused(fetched.partition, error.name)
        if self._partitions.get(key) is fetched:
            self._delay(fetched)

    async def _begin_within(self, fetched: FetchedPartition) -> bool:
        """Ask where the leader's log begins and ends, and fit this one in."""
        asked = fetched.asked
        try:
            start = await self._offset(fetched.partition, EARLIEST)
            end = await self._offset(fetched.partition, LATEST)
        except LinkDown:
            return False
        log = fetched.partition.log
        if start is None or end is None or log is None or fetched.asked != asked or not self._still(fetched):
            return False
        before = log.end_offset
        start_within(log, start, end)
        self._log_lines.begun(fetched.partition, (before, log.end_offset), start, end)
        return True

    async def _offset(self, partition: Partition, which: int) -> int | None:
        request = ListOffsetsRequest(
            replica_id=self._context.node_id,
            topics=[
                ListOffsetsTopic(
                    partition.name.topic,
                    [ListOffsetsPartition(partition.index, partition.leader_epoch, timestamp=which)],
                )
            ],
        )
        seconds = self._context.values.integer("replica.socket.timeout.ms") / 1000
        answer = await self._open_link().ask(request, ListOffsetsResponse, seconds)
        found = answer.topics[0].partitions[0]
        return found.offset if found.error_code == ErrorCode.NONE else None


class ReplicaFetchers:
    """All fetchers of a broker."""

    def __init__(self, context: BrokerContext, helpers: Helpers) -> None:
        self._context = context
        self._helpers = helpers
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._of: dict[Partition, ReplicaFetcher] = {}

    def assign(self, partition: Partition) -> None:
        """Fetch it from the leader it names, from where its log ends."""
        self.release(partition)
        count = self._context.values.integer("num.replica.fetchers")
        slot = (partition.leader, (int.from_bytes(partition.topic_id[:4]) * 31 + partition.index) % count)
        fetcher = self._fetchers.get(slot)
        if fetcher is None:
            fetcher = self._fetchers[slot] = ReplicaFetcher(self._context, self._helpers, partition.leader)
        self._of[partition] = fetcher
        fetcher.add(partition)

    def release(self, partition: Partition) -> None:
        """It leads, waits for a leader, or is no longer here; no error when it was not fetched."""
        fetcher = self._of.pop(partition, None)
        if fetcher is not None:
            fetcher.remove(partition)

    def just_lost(self) -> set[int]:
        """Leaders that answered until a moment ago: the controller is about to hear of it, or has not told yet."""
        now = self._context.clock.monotonic()
        return {
            leader
            for (leader, _), fetcher in self._fetchers.items()
            if fetcher.down_since is not None and now - fetcher.down_since < JUST_SECONDS
        }

    async def stop(self) -> None:
        await asyncio.gather(*(fetcher.stop() for fetcher in self._fetchers.values()))
        self._fetchers.clear()
        self._of.clear()
