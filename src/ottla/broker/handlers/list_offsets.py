"""ListOffsets, v1 to v11: offsets by time, and the ends of a log.

Special times: latest, earliest, greatest timestamp, earliest local, latest tiered (there is no tiered storage here, so
those answer what Kafka answers without it). Clients see what is committed, followers all there is. A leader that does
not know yet how much was committed before its time does not tell clients where the log ends. Batches are kept as they
came, so one of them may hold no records that can be read: that is an error of its own partition. Searches by time read
and decompress batches, so threads make them, few at a time.

KIP-98 (v2: isolation level), KIP-320 (v4: leader epochs), KIP-734 (v7: the greatest timestamp), KIP-405 (v8: earliest
local), KIP-1005 (v9: latest tiered), KIP-1075 (v10: a time-out), KIP-1023 (v11: earliest pending upload).
"""

import logging
from collections.abc import Generator
from errno import ENOENT
from typing import TYPE_CHECKING, Any

from ottla.base.errors import ErrorCode
from ottla.log.files import StorageFailure
from ottla.log.partition_log import PartitionLog
from ottla.log.timestamps import TimedOffset, TimeSearch
from ottla.net.dispatch import Context
from ottla.records.header import CorruptBatch
from ottla.replicas.partitions import Partition
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.release import released

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger("ottla.broker")

AT_ONCE = 200
"""Partitions looked into before other requests get their turn."""
SMALL_SETS = 1024
"""How many sets the partitions of a request are spread over: a large set is slow to grow."""
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
NEVER = 1 << 15
CONSUMER, DEBUGGING = -1, -2
FIRST_NOT_AVAILABLE = 5
NOT_BY_TIME = (LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
ATTEMPTS = 5
"""How often a search begins again because the log was truncated meanwhile."""
NEEDS_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


async def handle(broker: "Broker", request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    twice = await broker.dispatcher.in_steps(_named_twice(request))
    answers: list[ListOffsetsTopicResponse] = []
    remains: list[Any] = [twice.sets]
    looked = 0
    for topic in request.topics:
        looked += 1
        if looked % AT_ONCE == 0:
            await broker.dispatcher.turn()
        partitions: list[ListOffsetsPartitionResponse] = []
        refused = _Names()
        remains.append(refused.sets)
        for asked in topic.partitions:
            looked += 1
            if looked % AT_ONCE == 0:
                await broker.dispatcher.turn()
            name = (topic.name, asked.partition_index)
            if not twice.holds(name):
                partitions.append(await _answer(broker, request, topic.name, asked, context.version))
            elif refused.add(name):  # what is asked for twice is refused once
                partitions.append(_refused(asked, ErrorCode.INVALID_REQUEST))
        answers.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    del twice
    await broker.dispatcher.in_steps(released(remains))
    return ListOffsetsResponse(topics=answers)


class _Names:
    """A set of partitions that may be very many: as many small sets, for one that grows is copied in one go."""

    def __init__(self) -> None:
        self.sets: dict[int, set[tuple[str, int]]] = {}

    def add(self, name: tuple[str, int]) -> bool:
        """Whether it is new."""
        slot = hash(name) % SMALL_SETS
        found = self.sets.get(slot)
        if found is None:
            self.sets[slot] = {name}
            return True
        before = len(found)
        found.add(name)
        return len(found) > before

    def holds(self, name: tuple[str, int]) -> bool:
        return name in self.sets.get(hash(name) % SMALL_SETS, ())


def _named_twice(request: ListOffsetsRequest) -> Generator[None, None, _Names]:
    seen, twice = _Names(), _Names()
    for topic in request.topics:
        for asked in topic.partitions:
            name = (topic.name, asked.partition_index)
            if not seen.add(name):
                twice.add(name)
            yield
        yield
    remains: list[Any] = [seen.sets]
    del seen
    yield from released(remains)
    return twice


def _refused(asked: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, error_code=error, timestamp=-1, offset=-1, leader_epoch=-1
    )


async def _answer(
    broker: "Broker", request: ListOffsetsRequest, topic: str, asked: ListOffsetsPartition, version: int
) -> ListOffsetsPartitionResponse:
    for _ in range(ATTEMPTS):
        answer = await _try(broker, request, topic, asked, version)
        if answer is not None:
            return answer
    return _refused(asked, ErrorCode.OFFSET_NOT_AVAILABLE)


async def _try(
    broker: "Broker", request: ListOffsetsRequest, topic: str, asked: ListOffsetsPartition, version: int
) -> ListOffsetsPartitionResponse | None:
    """The answer for one partition; None when its log was changed under the search."""
    if asked.timestamp < 0 and version < NEEDS_VERSION.get(asked.timestamp, NEVER):
        return _refused(asked, ErrorCode.UNSUPPORTED_VERSION)
    look_up = broker.partitions.held if request.replica_id == DEBUGGING else broker.partitions.find
    partition = look_up(topic, asked.partition_index)
    if isinstance(partition, ErrorCode):
        return _refused(asked, partition)
    error = partition.fence(asked.current_leader_epoch)
    if error != ErrorCode.NONE:
        return _refused(asked, error)
    log = partition.log
    if log is None:
        return _refused(asked, ErrorCode.KAFKA_STORAGE_ERROR)
    timed: TimedOffset | None = None
    if asked.timestamp not in NOT_BY_TIME:
        search = log.time_search(None if asked.timestamp == MAX_TIMESTAMP else asked.timestamp)
        found = await _search(broker, search)
        if partition.log is not log or not log.searched(search):
            return None
        if isinstance(found, StorageFailure):
            if found.errno == ENOENT:  # retention or compaction took the file
                return None
            broker.storage_failed(found)
            return _refused(asked, ErrorCode.KAFKA_STORAGE_ERROR)
        if isinstance(found, CorruptBatch):
            logger.debug("offsets of %s-%d by time: %s", topic, asked.partition_index, found)
            return _refused(asked, ErrorCode.CORRUPT_MESSAGE)
        timed = found
    upper = log.end_offset
    if request.replica_id == CONSUMER:
        upper = log.last_stable_offset if request.isolation_level == 1 else log.high_watermark
    timestamp, offset, epoch = _told(partition, log, asked.timestamp, upper, timed)
    if request.replica_id == CONSUMER and _not_settled(partition, log, asked.timestamp, offset):
        early = version < FIRST_NOT_AVAILABLE
        return _refused(asked, ErrorCode.LEADER_NOT_AVAILABLE if early else ErrorCode.OFFSET_NOT_AVAILABLE)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, error_code=0, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


async def _search(broker: "Broker", search: TimeSearch) -> TimedOffset | StorageFailure | CorruptBatch | None:
    try:
        return await broker.search(search.run)
    except (StorageFailure, CorruptBatch) as problem:
        return problem


def _not_settled(partition: Partition, log: PartitionLog, timestamp: int, offset: int) -> bool:
    """Whether the answer would change once a new leader has heard from its followers."""
    leading = partition.leading
    if leading is None or leading.epoch_start <= log.high_watermark:
        return False
    return timestamp == LATEST or (offset == -1 and timestamp not in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD))


def _told(
    partition: Partition, log: PartitionLog, timestamp: int, upper: int, found: TimedOffset | None
) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch); -1 where there is none."""
    if timestamp == LATEST:
        return -1, upper, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.start_offset, log.earliest_epoch()
    if found is None or found.offset >= upper:
        return -1, -1, -1
    return found
