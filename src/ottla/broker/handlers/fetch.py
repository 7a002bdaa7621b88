"""Fetch, v4 to v18, of clients and of followers: sessions, long poll, byte limits, isolation level.

The answer is file ranges between byte strings; records are never read here. Where they begin is looked up in memory; a
look-up that would wait for the disk is made by a thread first. A fetch that finds less than `min_bytes`
waits under its partitions and is looked at again when one of them grows. Clients read what is committed, from the
leader or from the replica it names as the nearer one; followers read all there is, and where they begin to read tells
how far they are.
"""

import logging
from collections.abc import Callable, Generator, Hashable
from typing import TYPE_CHECKING, Any

from ottla.base.errors import ErrorCode
from ottla.broker import long_fetches
from ottla.broker.leader_hints import HINTED, Node, leader_of, nodes_of
from ottla.log.cached_reads import CachedReads, ColdLookUp
from ottla.log.files import StorageFailure
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import FileRange
from ottla.net.connection import Connection, Deferred
from ottla.net.gather import Part
from ottla.records.compression import Compression
from ottla.replicas.fetch_sessions import FetchPlan, FetchSession, Key, Tracked
from ottla.replicas.partitions import Partition
from ottla.replicas.replica_selection import nearer_replica
from ottla.replication.throttle import Throttle
from ottla.wire.apis import FETCH, HotHead, hot_response
from ottla.wire.fetch import (
    FIRST_TOPIC_ID,
    FetchRequest,
    FetchResult,
    WantedPartition,
    read_request,
    write_in_steps,
    write_response,
)
from ottla.wire.primitives import ManyPartitions

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger("ottla.broker")

HELD_BACK = -1
"""A limit of bytes that lets nothing pass, not even a first batch."""
FIRST_ZSTD = 10
FIRST_RACK = 11
FIRST_HINT = 16
AT_ONCE = 500
"""Partitions of one fetch that are looked into before other requests get their turn."""
AT_A_STEP = 4
"""Partitions that are looked into in one step, where there are more."""
NEWS_AT_ONCE = 5000
"""Likewise where a session knows of them: most of its partitions have nothing new, which is quickly seen."""
MOST_BYTES = 2**31 - 2**27
"""What the records of an answer may have: with what goes around them the frame's size must fit 31 bits."""

PORTION = 100
"""Partitions whose results are taken into an answer in one step."""

Results = list[tuple[str | bytes, FetchResult]]
Topics = list[tuple[str | bytes, list[FetchResult]]]
Leader = tuple[int, int]


def handle(broker: "Broker", connection: Connection, frame: memoryview, head: HotHead) -> bool:
    """Answers whether a follower asked."""
    version, _, position = head
    try:
        request = read_request(frame, position, version)
    except ManyPartitions:
        return _handle_long(broker, connection, frame, head)
    plan = broker.fetch_sessions.plan(request, version >= FIRST_TOPIC_ID)
    if plan.error != ErrorCode.NONE:
        broker.dispatcher.meter.refused("Fetch", (plan.error,))
        connection.answer(_encoded(head, plan.error, 0, []))
        return request.replica_id >= 0
    fetch = Fetch(broker, request, head, plan, connection.listener)
    if len(plan.wanted) > (AT_ONCE if plan.full else NEWS_AT_ONCE):
        fetch.place = connection.defer(alone=True)
        fetch.place.patience = request.max_wait_ms / 1000
        long_fetches.look(broker, fetch)
    elif fetch.read(0, len(plan.wanted)) or request.max_wait_ms <= 0 or fetch.cold:
        if fetch.cold:
            fetch.place = connection.defer(alone=True)
            fetch.warm_up()
        else:
            connection.answer(fetch.answer())
    else:
        # Behind one that waits, the next could not be answered before it: no more of them are taken than that.
        fetch.place = connection.defer(alone=connection.waiting > 0)
        fetch.place.patience = request.max_wait_ms / 1000
        fetch.wait()
    return request.replica_id >= 0


def _handle_long(broker: "Broker", connection: Connection, frame: memoryview, head: HotHead) -> bool:
    def planned(request: FetchRequest, plan: FetchPlan, place: Deferred) -> Fetch | None:
        if plan.error != ErrorCode.NONE:
            broker.dispatcher.meter.refused("Fetch", (plan.error,))
            place.complete(_encoded(head, plan.error, 0, []))
            return None
        fetch = Fetch(broker, request, head, plan, connection.listener)
        fetch.place = place
        return fetch

    long_fetches.begin(broker, connection, frame, head, planned)
    return False


class Fetch:
    """One fetch: what it wants, and what it found in each partition the last time it looked there."""

    __slots__ = (
        "_broker",
        "_cached",
        "_enough",
        "_find",
        "_follower",
        "_found",
        "_head",
        "_least",
        "_listener",
        "_most",
        "_plan",
        "_positions",
        "_request",
        "_results",
        "_session",
        "_throttled",
        "cold",
        "place",
    )

    def __init__(self, broker: "Broker", request: FetchRequest, head: HotHead, plan: FetchPlan, listener: str) -> None:
        self._broker = broker
        self._request = request
        self._head = head
        self._plan = plan
        self._listener = listener
        most = min(request.max_bytes, broker.fetch_max_bytes, MOST_BYTES)
        self._most = most
        self._least = request.min_bytes if request.min_bytes < most else most
        """How many bytes are enough: never more than may be sent."""
        self._follower = request.replica_id >= 0
        self._session = plan.session if self._follower else None
        """A follower's: it knows which partitions to look into, and the fetch waits under it alone."""
        # Clients that can be told of a nearer replica may read from followers.
        leader_only = self._follower or head[0] < FIRST_RACK
        self._find = broker.partitions.find if leader_only else broker.partitions.held
        self._enough = not plan.wanted and self._session is None
        self._found = 0
        self._positions: dict[Hashable, int] = {}
        self._results: list[FetchResult | None] = [None] * len(plan.wanted)
        self._throttled: list[tuple[Throttle, int]] | None = None
        """Limits on what followers get, and the positions they are for."""
        self._cached: CachedReads | None = broker.cached_reads
        """How files are looked into: the first time only as far as they are in memory."""
        self.cold: list[tuple[int, Callable[[], None]]] = []
        """Partitions, by position, whose look-up would have waited for the disk, and what makes it in a thread."""
        self.place: Deferred | None = None

    def read(self, start: int, stop: int, again: bool = False) -> bool:
        """Look into some of the partitions; says whether what was found so far is enough for an answer."""
        find = self._find
        follower = self._follower
        replica = self._request.replica_id
        session = self._session
        arriving = follower and not again
        only_news = not self._plan.full
        results = self._results
        most = self._most
        for position in range(start, stop):
            topic, wanted, tracked = self._plan.wanted[position]
            before = results[position]
            if before is not None:
                self._found -= before.length
            partition = find(topic, wanted.partition)
            if isinstance(partition, ErrorCode):
                results[position] = self._refused(topic, wanted, partition)
                self._enough = True
                continue
            if session is not None:
                if arriving:
                    partition.read_by(replica, session, (topic, wanted.partition))
            elif follower:
                self._positions[partition.leading] = position
            else:
                self._positions[partition] = position
            if only_news and tracked is not None and _nothing_new(partition, wanted, tracked, replica):
                results[position] = None
                continue
            if not again:
                partition.traffic.fetches += 1
            limit = max(0, most - self._found)
            if follower and self._broker.replicas.throttles.leader is not None:
                limit = self._throttle(partition, position, limit)
            try:
                result = self._look(partition, wanted, limit, arriving)
            except ColdLookUp as cold:
                self.cold.append((position, cold.warm))
                results[position] = None
                continue
            if result.error in HINTED:
                result = self._refused(topic, wanted, ErrorCode(result.error))
            results[position] = result
            if arriving and tracked is not None and result.error == 0 and result.diverging is None:
                tracked.settled = wanted
            if result.error != 0 or result.diverging is not None or result.preferred_replica >= 0:
                self._enough = True
            elif follower and tracked is not None and tracked.log_start_offset not in (-1, result.log_start_offset):
                self._enough = True  # someone may wait for this follower's log to begin as late as its leader's
            elif result.high_watermark > wanted.high_watermark:
                self._enough = True  # someone reads from this follower
            self._found += result.length
        return self._enough or self._found >= self._least

    def read_in_steps(self) -> Generator[None, None, bool]:
        """Look into very many partitions; the value in the end says whether what was found is enough for an answer."""
        enough = False
        count = len(self._results)
        for start in range(0, count, AT_A_STEP):
            enough = self.read(start, min(start + AT_A_STEP, count))
            yield
        return enough

    def looked(self, enough: bool) -> None:
        """Every partition was looked into: answer, or wait for more."""
        assert self.place is not None
        if self.cold:
            self.warm_up()
        elif self.place.wanted:
            self._complete_or_wait(enough)

    def _complete_or_wait(self, enough: bool) -> None:
        assert self.place is not None
        if enough or self._request.max_wait_ms <= 0:
            self._complete()
        else:
            self.wait()
            self.place.share()
            self._look_again()
            self.place.only_waits()

    def _look_again(self, start: int = 0) -> None:
        """What changed after it was looked into and before this waited has nudged nobody."""
        waiting = self._broker.waiting
        try:
            if self._session is not None:
                if self._session.dirty and self.nudged(self._session):
                    waiting.leave(self)
                return
            stop = min(start + NEWS_AT_ONCE, len(self._results))
            for position in range(start, stop):
                if self not in waiting:
                    return
                if self._has_changed(position) and self.read(position, position + 1, again=True):
                    waiting.leave(self)
                    self._complete()
            if stop < len(self._results):
                self._broker.loop.call_soon(self._look_again, stop)
        except Exception:
            logger.exception("a fetch of many partitions failed")
            waiting.leave(self)
            self.failed()

    def _has_changed(self, position: int) -> bool:
        """Whether a partition has something else to tell than when it was looked into."""
        topic, wanted, tracked = self._plan.wanted[position]
        partition = self._find(topic, wanted.partition)
        if isinstance(partition, ErrorCode) or partition.log is None:
            return True
        result, log = self._results[position], partition.log
        if result is None:
            return tracked is None or not _nothing_new(partition, wanted, tracked, self._request.replica_id)
        if self._follower:
            return log.end_offset > wanted.offset and not result.length
        return result[2:4] != (log.high_watermark, log.last_stable_offset)

    def warm_up(self) -> None:
        """Have a thread make the look-ups that would wait for the disk, then make them again here."""
        waiting, self.cold, self._cached = self.cold, [], None

        def work() -> None:
            for _, warm in waiting:
                warm()

        def done(_: BaseException | None) -> None:
            try:
                enough = False
                few = len(self._results) <= AT_ONCE
                # Meanwhile others may have grown; of very many, those are found when it begins to wait.
                for position in range(len(self._results)) if few else [each for each, _ in waiting]:
                    enough = self.read(position, position + 1, again=True)
                self._complete_or_wait(enough)
            except Exception:
                logger.exception("a fetch from cold files failed")
                self.failed()

        self._broker.in_thread(work, done)

    def wait(self) -> None:
        assert self.place is not None
        self._cached = None
        self.place.abandoned = self._leave
        keys = self._positions if self._session is None else (self._session,)
        self._broker.waiting.park(self, keys, self._request.max_wait_ms / 1000)

    def _leave(self) -> None:
        """Nobody is there any more to be answered."""
        self._broker.waiting.leave(self)

    def _look(self, partition: Partition, wanted: WantedPartition, limit: int, arriving: bool) -> FetchResult:
        error = partition.fence(wanted.leader_epoch)
        if error != ErrorCode.NONE:
            return FetchResult(wanted.partition, error, -1, -1, -1)
        log = partition.log
        if log is None:
            return FetchResult(wanted.partition, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
        if self._head[0] < FIRST_ZSTD and log.settings.compression == Compression.ZSTD:
            return FetchResult(wanted.partition, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1, -1, -1)
        diverging = None
        if wanted.last_fetched_epoch >= 0:
            known = log.end_offset_for_epoch(wanted.last_fetched_epoch)
            if known is None:  # an epoch this log has not seen
                return FetchResult(wanted.partition, ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, -1)
            if _diverges(known, wanted):
                diverging = known
        if self._follower:
            if arriving and diverging is None:
                error = self._note_progress(partition, wanted)
                if error != ErrorCode.NONE:
                    return FetchResult(wanted.partition, error, -1, -1, -1)
        elif self._request.rack and partition.leading is not None:
            nearer = nearer_replica(self._broker.context, partition, self._request.rack, wanted.offset)
            if nearer is not None:
                start = log.start_offset
                return FetchResult(
                    wanted.partition, 0, log.high_watermark, log.last_stable_offset, start, preferred_replica=nearer
                )
        return self._read_log(log, wanted, limit, diverging)

    def _read_log(
        self, log: PartitionLog, wanted: WantedPartition, limit: int, diverging: tuple[int, int] | None
    ) -> FetchResult:
        committed = self._request.read_committed and not self._follower
        high_watermark = log.high_watermark
        stable = log.last_stable_offset
        upper = log.end_offset if self._follower else stable if committed else high_watermark
        found = None
        aborted: list[tuple[int, int]] | None = [] if committed else None
        if diverging is None and limit != HELD_BACK:
            try:
                found = log.read(wanted.offset, min(wanted.max_bytes, limit), upper, self._found == 0, self._cached)
                if committed and type(found) is FileRange:
                    aborted = _aborted(log, wanted.offset, found, upper, self._cached)
            except StorageFailure as failure:
                self._broker.storage_failed(failure)
                found = ErrorCode.KAFKA_STORAGE_ERROR
        if isinstance(found, ErrorCode):
            return FetchResult(wanted.partition, found, -1, -1, -1)
        if found is None:
            return FetchResult(
                wanted.partition, 0, high_watermark, stable, log.start_offset, aborted=aborted, diverging=diverging
            )
        return FetchResult(wanted.partition, 0, high_watermark, stable, log.start_offset, found, found.length, aborted)

    def _throttle(self, partition: Partition, position: int, limit: int) -> int:
        """The bytes that may be sent to this follower."""
        throttle = self._broker.replicas.throttles.on_leader(partition, self._request.replica_id)
        if throttle is None:
            return limit
        if self._throttled is None:
            self._throttled = []
        if (throttle, position) not in self._throttled:
            self._throttled.append((throttle, position))
        return limit if throttle.seconds_until_free(self._broker.clock.monotonic()) == 0 else HELD_BACK

    def _note_progress(self, partition: Partition, wanted: WantedPartition) -> ErrorCode:
        """A follower has everything before the offset it asks for."""
        request = self._request
        return partition.follower_at(request.replica_id, request.replica_epoch, wanted.offset, wanted.log_start_offset)

    def _refused(self, topic: str | bytes, wanted: WantedPartition, error: ErrorCode) -> FetchResult:
        leader = None
        if error in HINTED and self._head[0] >= FIRST_HINT:
            leader = leader_of(self._broker, topic, wanted.partition)
        return FetchResult(wanted.partition, error, -1, -1, -1, aborted=[], leader=leader)

    def answer_in_steps(self) -> Generator[None, None, list[Part]]:
        """The same answer where it tells of very many partitions, as the value in the end."""
        plan = self._plan
        session = plan.session
        topics: Topics = []
        leaders: list[Leader] = []
        for start in range(0, len(self._results), PORTION):
            entries = zip(plan.wanted[start : start + PORTION], self._results[start : start + PORTION], strict=True)
            results = [(wanted[0], result) for wanted, result in entries if result is not None]
            if session is not None:
                results = _news(session, results, plan.full)
            self._count(results)
            topics += _by_topic(results)
            leaders += [result.leader for _, result in results if result.leader is not None]
            yield
        if self._session is not None:
            self._leave_dirty(self._session)
        self._pass_throttles()
        nodes = nodes_of(self._broker, leaders, self._listener) if leaders else ()
        version, correlation_id, _ = self._head
        out = hot_response(FETCH, version, correlation_id)
        session_id = session.id if session is not None else 0
        return (yield from write_in_steps(out, version, session_id, topics, nodes))

    def remains(self) -> list[Any]:
        """What is left of a fetch that was answered, which keeps none of it."""
        remains: list[Any] = [self._request.topics, self._plan.wanted, self._results, self._positions]
        self._request = self._request._replace(topics=[])
        self._plan = self._plan._replace(wanted=[])
        self._results, self._positions = [], {}
        return remains

    def _pass_throttles(self) -> None:
        for throttle, position in self._throttled or ():
            result = self._results[position]
            throttle.passed(result.length if result is not None else 0)

    def answer(self) -> list[Part]:
        plan = self._plan
        session = plan.session
        results = [
            (wanted[0], result) for wanted, result in zip(plan.wanted, self._results, strict=True) if result is not None
        ]
        if session is not None:
            results = _news(session, results, plan.full)
        if self._session is not None:
            self._leave_dirty(self._session)
        self._count(results)
        if self._throttled:
            self._pass_throttles()
        leaders = [result.leader for _, result in results if result.leader is not None]
        nodes = nodes_of(self._broker, leaders, self._listener) if leaders else ()
        return _encoded(self._head, ErrorCode.NONE, session.id if session is not None else 0, results, nodes)

    def _count(self, results: Results) -> None:
        """What leaves with this answer."""
        if self._enough:  # what was refused always is
            errors = [result.error for _, result in results if result.error]
            if errors:
                self._broker.dispatcher.meter.refused("Fetch", errors)
        traffic = self._broker.partitions.traffic
        if self._follower:
            traffic.replication_bytes_out += sum(result.length for _, result in results)
            return
        by_key = traffic.by_key
        for topic, result in results:
            if result.length:
                of_topic = by_key.get(topic)
                if of_topic is not None:
                    of_topic.bytes_out += result.length
            elif result.error:
                traffic.of(topic).failed_fetches += 1

    def _complete(self) -> None:
        assert self.place is not None
        if len(self._results) > NEWS_AT_ONCE:
            long_fetches.answer(self._broker, self)
        else:
            self.place.complete(self.answer())

    # --- a follower's session ---

    def _leave_dirty(self, session: FetchSession) -> None:
        """Partitions that have not told all are looked into by the next fetch, those that gave records last."""
        left = [
            (result.length if result is not None else 0, topic, wanted.partition)
            for (topic, wanted, tracked), result in zip(self._plan.wanted, self._results, strict=True)
            if result is not None and not self._told_all(topic, wanted, tracked)
        ]
        for length, topic, number in left:
            if not length:
                session.mark_dirty((topic, number))
        for length, topic, number in left:
            if length:
                session.mark_dirty((topic, number))

    def _told_all(self, topic: str | bytes, wanted: WantedPartition, tracked: Tracked | None) -> bool:
        partition = self._find(topic, wanted.partition)
        if tracked is None or isinstance(partition, ErrorCode):
            return False
        return _nothing_new(partition, wanted, tracked, self._request.replica_id)

    def _look_at_dirty(self, session: FetchSession) -> bool:
        """Look into what was marked dirty while this fetch waited; says whether it is enough for an answer."""
        entries = self._plan.wanted
        places = {(topic, wanted.partition): place for place, (topic, wanted, _) in enumerate(entries)}
        enough = False
        for entry in session.take_dirty():
            position = places.get((entry[0], entry[1].partition))
            if position is None:
                position = len(entries)
                entries.append(entry)
                self._results.append(None)
            enough = self.read(position, position + 1, again=True)
        return enough

    # --- while waiting ---

    def nudged(self, key: Hashable) -> bool:
        if self._session is not None:
            if not self._look_at_dirty(self._session):
                return False
            self._complete()
            return True
        position = self._positions[key]
        if not self.read(position, position + 1, again=True):
            return False
        self._complete()
        return True

    def failed(self) -> None:
        assert self.place is not None
        self.place.fail("its fetch failed")

    def expired(self) -> None:
        if self._session is not None:
            self._look_at_dirty(self._session)
        # Whatever grew since the last look has nudged; only ranges found then may have been deleted meanwhile.
        for position, result in enumerate(self._results):
            if result is not None and result.length:
                self.read(position, position + 1, again=True)
        self._complete()


def _aborted(
    log: PartitionLog, offset: int, found: FileRange, upper: int, cached: CachedReads | None
) -> list[tuple[int, int]]:
    """Producer and first offset of the aborted transactions that the records found may belong to."""
    transactions = log.aborted_transactions(offset, min(upper, log.upper_bound(offset, found, cached)), cached)
    return [(transaction.producer_id, transaction.first_offset) for transaction in transactions]


def _nothing_new(partition: Partition, wanted: WantedPartition, tracked: Tracked, replica: int) -> bool:
    """Whether a reader at the end has been told all there is: so it is with most partitions of a large session. Of a
    follower that is so only when it counts as in sync; else it may be about to join."""
    log = partition.log
    if (
        log is None
        or log.end_offset != wanted.offset
        or wanted.offset != tracked.high_watermark
        or wanted.offset != log.high_watermark
        or log.start_offset != tracked.log_start_offset
        or (wanted.leader_epoch != partition.leader_epoch and wanted.leader_epoch != -1)
    ):
        return False
    if replica < 0:
        return wanted.last_fetched_epoch < 0
    return wanted is tracked.settled and partition.leading is not None and replica in partition.leading.in_sync


def _diverges(known: tuple[int, int], wanted: WantedPartition) -> bool:
    """Whether the reader's history leaves this one (KIP-595)."""
    epoch, end_offset = known
    return epoch < wanted.last_fetched_epoch or end_offset < wanted.offset


def _news(session: FetchSession, results: Results, full: bool) -> Results:
    told: Results = []
    gave: list[Key] = []
    for topic, result in results:
        tracked = session.partitions.get((topic, result.partition))
        news = tracked is None or tracked.must_tell(result)
        if news or full:
            told.append((topic, result))
        if result.length:
            gave.append((topic, result.partition))
    session.to_the_end(key for key in gave if key in session.partitions)
    return told


def _encoded(
    head: HotHead, error: ErrorCode, session_id: int, results: Results, nodes: tuple[Node, ...] = ()
) -> list[Part]:
    version, correlation_id, _ = head
    out = hot_response(FETCH, version, correlation_id)
    return write_response(out, version, error, session_id, _by_topic(results), nodes)


def _by_topic(results: Results) -> Topics:
    topics: Topics = []
    last: str | bytes | None = None
    for topic, result in results:
        if topic != last:
            topics.append((topic, []))
            last = topic
        topics[-1][1].append(result)
    return topics
