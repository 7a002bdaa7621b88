"""One fetch: what it wants, what it found in each partition the last time it looked there, and its answer.

Owns: the limits of an answer, look-ups that would wait for the disk, waiting for more, and the answer itself. Never
knows: who asks; what a client and what a follower may read, and under what each waits, is in `client_fetch` and
`follower_fetch`. Invariants: records are never read here, an answer is file ranges between byte strings; a fetch is
answered once, or its connection ends; nothing of it stays behind in the waiting room.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Iterable
from typing import TYPE_CHECKING, Any

from ottla.base.errors import ErrorCode
from ottla.broker.fetches import long_fetches
from ottla.broker.leader_hints import HINTED, Node, leader_of, nodes_of
from ottla.log.cached_reads import CachedReads
from ottla.log.files import StorageFailure
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import FileRange
from ottla.net.connection import Deferred
from ottla.net.gather import Part
from ottla.records.compression import Compression
from ottla.replicas.fetch_sessions import FetchPlan, FetchSession, Key, Tracked
from ottla.replicas.partitions import Partition
from ottla.wire.apis import FETCH, HotHead, hot_response
from ottla.wire.fetch import FetchRequest, FetchResult, WantedPartition, write_in_steps, write_response

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger("ottla.broker")

HELD_BACK = -1
"""A limit of bytes that lets nothing pass, not even a first batch."""
FIRST_ZSTD = 10
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


class Fetch(ABC):
    """What the two kinds have in common."""

    __slots__ = (
        "_broker",
        "_cached",
        "_enough",
        "_found",
        "_head",
        "_least",
        "_listener",
        "_most",
        "_plan",
        "_request",
        "_results",
        "cold",
        "reply",
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
        self._enough = False
        self._found = 0
        self._results: list[FetchResult | None] = [None] * len(plan.wanted)
        self._cached: CachedReads | None = broker.cached_reads
        """How files are looked into: the first time only as far as they are in memory."""
        self.cold: list[tuple[int, Callable[[], None]]] = []
        """Partitions, by position, whose look-up would have waited for the disk, and what makes it in a thread."""
        self.reply: Deferred | None = None

    # --- what a kind of fetch says ---

    @abstractmethod
    def read(self, start: int, stop: int, again: bool = False) -> bool:
        """Look into some of the partitions; says whether what was found so far is enough for an answer."""

    @abstractmethod
    def _keys(self) -> Iterable[Hashable]:
        """Under what it waits."""

    @abstractmethod
    def _has_changed(self, position: int) -> bool:
        """Whether a partition has something else to tell than when it was looked into."""

    @abstractmethod
    def nudged(self, key: Hashable) -> bool: ...

    @abstractmethod
    def _leave_with(self, results: Results) -> None:
        """These results leave with the answer, or with a portion of it."""

    @abstractmethod
    def _leave(self) -> None:
        """The answer leaves."""

    # --- looking ---

    def _checked(
        self, partition: Partition, wanted: WantedPartition
    ) -> "FetchResult | tuple[PartitionLog, tuple[int, int] | None]":
        """The log, and where the reader's history leaves it (KIP-595), if it does; or why it may not be read."""
        error = partition.fence(wanted.leader_epoch)
        if error != ErrorCode.NONE:
            return FetchResult(wanted.partition, error, -1, -1, -1)
        log = partition.log
        if log is None:
            return FetchResult(wanted.partition, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
        if self._head[0] < FIRST_ZSTD and log.settings.compression == Compression.ZSTD:
            return FetchResult(wanted.partition, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1, -1, -1)
        if wanted.last_fetched_epoch < 0:
            return log, None
        known = log.end_offset_for_epoch(wanted.last_fetched_epoch)
        if known is None:  # an epoch this log has not seen
            return FetchResult(wanted.partition, ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, -1)
        return log, known if _diverges(known, wanted) else None

    def _read_log(
        self,
        log: PartitionLog,
        wanted: WantedPartition,
        limit: int,
        upper: int,
        diverging: tuple[int, int] | None,
        committed: bool = False,
    ) -> FetchResult:
        """What lies below `upper`; with `committed`, also which transactions in it were aborted."""
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
        high_watermark, stable = log.high_watermark, log.last_stable_offset
        if found is None:
            return FetchResult(
                wanted.partition, 0, high_watermark, stable, log.start_offset, aborted=aborted, diverging=diverging
            )
        return FetchResult(wanted.partition, 0, high_watermark, stable, log.start_offset, found, found.length, aborted)

    def _refused(self, topic: str | bytes, wanted: WantedPartition, error: ErrorCode) -> FetchResult:
        leader = None
        if error in HINTED and self._head[0] >= FIRST_HINT:
            leader = leader_of(self._broker, topic, wanted.partition)
        return FetchResult(wanted.partition, error, -1, -1, -1, aborted=[], leader=leader)

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
        assert self.reply is not None
        if self.cold:
            self.warm_up()
        elif self.reply.wanted:
            self._complete_or_wait(enough)

    def _complete_or_wait(self, enough: bool) -> None:
        assert self.reply is not None
        if enough or self._request.max_wait_ms <= 0:
            self._complete()
        else:
            self.wait()
            self.reply.share()
            self._look_again()
            self.reply.only_waits()

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

    # --- waiting ---

    def wait(self) -> None:
        assert self.reply is not None
        self._cached = None
        self.reply.abandoned = self._forgotten
        self._broker.waiting.park(self, self._keys(), self._request.max_wait_ms / 1000)

    def _look_again(self, start: int = 0) -> None:
        """What changed after it was looked into and before this waited has nudged nobody."""
        waiting = self._broker.waiting
        try:
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

    def _forgotten(self) -> None:
        """Nobody is there any more to be answered."""
        self._broker.waiting.leave(self)

    def failed(self) -> None:
        assert self.reply is not None
        self.reply.fail("its fetch failed")

    def expired(self) -> None:
        # Whatever grew since the last look has nudged; only ranges found then may have been deleted meanwhile.
        for position, result in enumerate(self._results):
            if result is not None and result.length:
                self.read(position, position + 1, again=True)
        self._complete()

    # --- the answer ---

    def _complete(self) -> None:
        assert self.reply is not None
        if len(self._results) > NEWS_AT_ONCE:
            long_fetches.answer(self._broker, self)
        else:
            self.reply.complete(self.answer())

    def answer(self) -> list[Part]:
        plan = self._plan
        session = plan.session
        results = [
            (wanted[0], result) for wanted, result in zip(plan.wanted, self._results, strict=True) if result is not None
        ]
        if session is not None:
            results = _news(session, results, plan.full)
        self._leave()
        self._count(results)
        leaders = [result.leader for _, result in results if result.leader is not None]
        nodes = nodes_of(self._broker, leaders, self._listener) if leaders else ()
        return encoded(self._head, ErrorCode.NONE, session.id if session is not None else 0, results, nodes)

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
        self._leave()
        nodes = nodes_of(self._broker, leaders, self._listener) if leaders else ()
        version, correlation_id, _ = self._head
        out = hot_response(FETCH, version, correlation_id)
        session_id = session.id if session is not None else 0
        return (yield from write_in_steps(out, version, session_id, topics, nodes))

    def _count(self, results: Results) -> None:
        if self._enough:  # what was refused always is
            errors = [result.error for _, result in results if result.error]
            if errors:
                self._broker.dispatcher.meter.refused("Fetch", errors)
        self._leave_with(results)

    def remains(self) -> list[Any]:
        """What is left of a fetch that was answered, which keeps none of it."""
        remains: list[Any] = [self._request.topics, self._plan.wanted, self._results]
        self._request = self._request._replace(topics=[])
        self._plan = self._plan._replace(wanted=[])
        self._results = []
        return remains


def at_the_end(partition: Partition, wanted: WantedPartition, tracked: Tracked) -> bool:
    """Whether a reader at the end of a log has been told all there is: so it is with most partitions of a large
    session."""
    log = partition.log
    return (
        log is not None
        and log.end_offset == wanted.offset
        and wanted.offset == tracked.high_watermark
        and wanted.offset == log.high_watermark
        and log.start_offset == tracked.log_start_offset
        and (wanted.leader_epoch == partition.leader_epoch or wanted.leader_epoch == -1)
    )


def _diverges(known: tuple[int, int], wanted: WantedPartition) -> bool:
    """Whether the reader's history leaves this one."""
    epoch, end_offset = known
    return epoch < wanted.last_fetched_epoch or end_offset < wanted.offset


def _aborted(
    log: PartitionLog, offset: int, found: FileRange, upper: int, cached: CachedReads | None
) -> list[tuple[int, int]]:
    """Producer and first offset of the aborted transactions that the records found may belong to."""
    transactions = log.aborted_transactions(offset, min(upper, log.upper_bound(offset, found, cached)), cached)
    return [(transaction.producer_id, transaction.first_offset) for transaction in transactions]


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


def encoded(
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
