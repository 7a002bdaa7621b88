"""A follower's fetch: it reads all there is, and where it begins to read tells its leader how far it is.

Owns: progress told by fetches, limits on replication, and a follower's session: it knows which partitions are dirty, so
a fetch costs what it brings (design/0010), and it is what the fetch waits under. A follower that was given no session
waits for each of its partitions. Never knows: clients. Invariant: progress is noted when a fetch arrives, once, and
only where the follower's history is its leader's.
"""

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

from ottla.base.errors import ErrorCode
from ottla.broker.fetches.fetch import HELD_BACK, Fetch, Results, at_the_end
from ottla.broker.leader_hints import HINTED
from ottla.log.cached_reads import ColdLookUp
from ottla.replicas.fetch_sessions import FetchPlan, FetchSession, Tracked
from ottla.replicas.partitions import Partition
from ottla.replication.throttle import Throttle
from ottla.wire.apis import HotHead
from ottla.wire.fetch import FetchRequest, FetchResult, WantedPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class FollowerFetch(Fetch):
    """One fetch of a follower."""

    __slots__ = ("_find", "_follower", "_positions", "_session", "_throttled")

    def __init__(self, broker: "Broker", request: FetchRequest, head: HotHead, plan: FetchPlan, listener: str) -> None:
        super().__init__(broker, request, head, plan, listener)
        self._find = broker.partitions.find
        self._follower = request.replica_id
        self._session = plan.session
        self._enough = not plan.wanted and plan.session is None
        self._positions: dict[Hashable, int] = {}
        self._throttled: list[tuple[Throttle, int]] | None = None
        """Limits on what followers get, and the positions they are for."""

    def read(self, start: int, stop: int, again: bool = False) -> bool:
        only_news = not self._plan.full
        results = self._results
        throttled = self._broker.replicas.throttles.leader is not None
        for position in range(start, stop):
            topic, wanted, tracked = self._plan.wanted[position]
            before = results[position]
            if before is not None:
                self._found -= before.length
            partition = self._find(topic, wanted.partition)
            if isinstance(partition, ErrorCode):
                results[position] = self._refused(topic, wanted, partition)
                self._enough = True
                continue
            if self._session is None:
                self._positions[partition.leading] = position
            elif not again:
                partition.read_by(self._follower, self._session, (topic, wanted.partition))
            if only_news and tracked is not None and self._nothing_new(partition, wanted, tracked):
                results[position] = None
                continue
            if not again:
                partition.traffic.fetches += 1
            limit = max(0, self._most - self._found)
            if throttled:
                limit = self._throttle(partition, position, limit)
            try:
                result = self._look(partition, wanted, limit, again)
            except ColdLookUp as cold:
                self.cold.append((position, cold.warm))
                results[position] = None
                continue
            if result.error in HINTED:
                result = self._refused(topic, wanted, ErrorCode(result.error))
            results[position] = result
            if not again and tracked is not None and result.error == 0 and result.diverging is None:
                tracked.settled = wanted
            if _is_news(result, wanted, tracked):
                self._enough = True
            self._found += result.length
        return self._enough or self._found >= self._least

    def _look(self, partition: Partition, wanted: WantedPartition, limit: int, again: bool) -> FetchResult:
        checked = self._checked(partition, wanted)
        if isinstance(checked, FetchResult):
            return checked
        log, diverging = checked
        if not again and diverging is None:
            # A follower has everything before the offset it asks for.
            error = partition.follower_at(
                self._follower, self._request.replica_epoch, wanted.offset, wanted.log_start_offset
            )
            if error != ErrorCode.NONE:
                return FetchResult(wanted.partition, error, -1, -1, -1)
        return self._read_log(log, wanted, limit, log.end_offset, diverging)

    def _nothing_new(self, partition: Partition, wanted: WantedPartition, tracked: Tracked) -> bool:
        """Of a follower that is so only when it counts as in sync; else it may be about to join."""
        return (
            wanted is tracked.settled
            and at_the_end(partition, wanted, tracked)
            and partition.leading is not None
            and self._follower in partition.leading.in_sync
        )

    def _throttle(self, partition: Partition, position: int, limit: int) -> int:
        """The bytes that may be sent to this follower."""
        throttle = self._broker.replicas.throttles.on_leader(partition, self._follower)
        if throttle is None:
            return limit
        if self._throttled is None:
            self._throttled = []
        if (throttle, position) not in self._throttled:
            self._throttled.append((throttle, position))
        return limit if throttle.seconds_until_free(self._broker.clock.monotonic()) == 0 else HELD_BACK

    # --- the answer leaves ---

    def _leave_with(self, results: Results) -> None:
        self._broker.partitions.traffic.replication_bytes_out += sum(result.length for _, result in results)

    def _leave(self) -> None:
        if self._session is not None:
            self._leave_dirty(self._session)
        for throttle, position in self._throttled or ():
            result = self._results[position]
            throttle.passed(result.length if result is not None else 0)

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
        return self._nothing_new(partition, wanted, tracked)

    def remains(self) -> list[Any]:
        positions, self._positions = self._positions, {}
        return [*super().remains(), positions]

    # --- waiting ---

    def _keys(self) -> Iterable[Hashable]:
        return self._positions if self._session is None else (self._session,)

    def nudged(self, key: Hashable) -> bool:
        if self._session is not None:
            enough = self._look_at_dirty(self._session)
        else:
            position = self._positions[key]
            enough = self.read(position, position + 1, again=True)
        if enough:
            self._complete()
        return enough

    def expired(self) -> None:
        if self._session is not None:
            self._look_at_dirty(self._session)
        super().expired()

    def _look_again(self, start: int = 0) -> None:
        if self._session is None:
            super()._look_again(start)
        elif self._session.dirty:
            self._broker.waiting.nudge(self._session)

    def _has_changed(self, position: int) -> bool:
        topic, wanted, tracked = self._plan.wanted[position]
        partition = self._find(topic, wanted.partition)
        if isinstance(partition, ErrorCode) or partition.log is None:
            return True
        result = self._results[position]
        if result is None:
            return tracked is None or not self._nothing_new(partition, wanted, tracked)
        return partition.log.end_offset > wanted.offset and not result.length

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


def _is_news(result: FetchResult, wanted: WantedPartition, tracked: Tracked | None) -> bool:
    """Whether a follower is to hear of it at once, however little there is to read."""
    if result.error != 0 or result.diverging is not None:
        return True
    if tracked is not None and tracked.log_start_offset not in (-1, result.log_start_offset):
        return True  # someone may wait for this follower's log to begin as late as its leader's
    return result.high_watermark > wanted.high_watermark  # someone reads from this follower
