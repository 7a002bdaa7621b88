"""A client's fetch: it reads what is committed, from the leader or from the replica that the leader names as nearer.

Owns: what a client may read (up to the watermark, or the last stable offset), and that it waits under the partitions it
wants. Never knows: followers. Invariant: a partition that has nothing new for a session costs a look, no more.
"""

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

from ottla.base.errors import ErrorCode
from ottla.broker.fetches.fetch import Fetch, Results, at_the_end
from ottla.broker.leader_hints import HINTED
from ottla.log.cached_reads import ColdLookUp
from ottla.replicas.fetch_sessions import FetchPlan, Tracked
from ottla.replicas.partitions import Partition
from ottla.replicas.replica_selection import nearer_replica
from ottla.wire.apis import HotHead
from ottla.wire.fetch import FetchRequest, FetchResult, WantedPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

FIRST_RACK = 11


class ClientFetch(Fetch):
    """One fetch of a client."""

    __slots__ = ("_find", "_positions")

    def __init__(self, broker: "Broker", request: FetchRequest, head: HotHead, plan: FetchPlan, listener: str) -> None:
        super().__init__(broker, request, head, plan, listener)
        # Clients that can be told of a nearer replica may read from followers.
        self._find = broker.partitions.find if head[0] < FIRST_RACK else broker.partitions.held
        self._enough = not plan.wanted
        self._positions: dict[Hashable, int] = {}

    def read(self, start: int, stop: int, again: bool = False) -> bool:
        find = self._find
        only_news = not self._plan.full
        results = self._results
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
            self._positions[partition] = position
            if only_news and tracked is not None and _nothing_new(partition, wanted, tracked):
                results[position] = None
                continue
            if not again:
                partition.traffic.fetches += 1
            try:
                result = self._look(partition, wanted, max(0, self._most - self._found))
            except ColdLookUp as cold:
                self.cold.append((position, cold.warm))
                results[position] = None
                continue
            if result.error in HINTED:
                result = self._refused(topic, wanted, ErrorCode(result.error))
            results[position] = result
            if result.error != 0 or result.diverging is not None or result.preferred_replica >= 0:
                self._enough = True
            self._found += result.length
        return self._enough or self._found >= self._least

    def _look(self, partition: Partition, wanted: WantedPartition, limit: int) -> FetchResult:
        checked = self._checked(partition, wanted)
        if isinstance(checked, FetchResult):
            return checked
        log, diverging = checked
        request = self._request
        if request.rack and partition.leading is not None:
            nearer = nearer_replica(self._broker.context, partition, request.rack, wanted.offset)
            if nearer is not None:
                start = log.start_offset
                return FetchResult(
                    wanted.partition, 0, log.high_watermark, log.last_stable_offset, start, preferred_replica=nearer
                )
        committed = request.read_committed
        upper = log.last_stable_offset if committed else log.high_watermark
        return self._read_log(log, wanted, limit, upper, diverging, committed)

    def _leave_with(self, results: Results) -> None:
        traffic = self._broker.partitions.traffic
        by_key = traffic.by_key
        for topic, result in results:
            if result.length:
                of_topic = by_key.get(topic)
                if of_topic is not None:
                    of_topic.bytes_out += result.length
            elif result.error:
                traffic.of(topic).failed_fetches += 1

    def _leave(self) -> None:
        """Nobody is waiting for what a client did not get."""

    def remains(self) -> list[Any]:
        positions, self._positions = self._positions, {}
        return [*super().remains(), positions]

    # --- waiting ---

    def _keys(self) -> Iterable[Hashable]:
        return self._positions

    def nudged(self, key: Hashable) -> bool:
        position = self._positions[key]
        if not self.read(position, position + 1, again=True):
            return False
        self._complete()
        return True

    def _has_changed(self, position: int) -> bool:
        topic, wanted, tracked = self._plan.wanted[position]
        partition = self._find(topic, wanted.partition)
        if isinstance(partition, ErrorCode) or partition.log is None:
            return True
        result, log = self._results[position], partition.log
        if result is None:
            return tracked is None or not _nothing_new(partition, wanted, tracked)
        return (result.high_watermark, result.last_stable_offset) != (log.high_watermark, log.last_stable_offset)


def _nothing_new(partition: Partition, wanted: WantedPartition, tracked: Tracked) -> bool:
    return wanted.last_fetched_epoch < 0 and at_the_end(partition, wanted, tracked)
