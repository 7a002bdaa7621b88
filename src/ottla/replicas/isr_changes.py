"""Changes of in-sync sets: leaders ask the controller for them.

Owns: which changes wait, which are being asked for, and when a leader looks for followers that lag. Never knows: how
the controller decides. Invariants: one request is under way at a time, with all changes that gathered meanwhile; a
change is asked for with the epochs that it was made with, and not at all when it is not true any more; it counts only
when it comes back in the image; one whose outcome is not known is asked for again, and the larger of the two sets
counts until then.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from ottla.base.errors import ErrorCode
from ottla.metadata.partitions import directory_on, is_online
from ottla.replicas.context import BrokerContext
from ottla.replicas.partitions import Partition
from ottla.replication.leader import Proposal
from ottla.wire.links import LinkDown
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)

logger = logging.getLogger("ottla.broker")

VERSION = 3
RETRY_SECONDS = 0.05
SLICE = 200

_CERTAINLY_NOT = {ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA}
_IMAGE_WILL_TELL = {
    ErrorCode.NONE,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
}
"""After these the change is neither asked for again nor taken back: this broker's image is behind."""


class IsrController(Protocol):
    """Who decides about in-sync sets."""

    async def alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse: ...


class IsrChanges:
    """All changes of in-sync sets that this broker asks for."""

    def __init__(self, context: BrokerContext, partitions: Iterable[Partition], controller: IsrController) -> None:
        self._context = context
        self._partitions = partitions
        self._controller = controller
        self._waiting: dict[Partition, Proposal] = {}
        """Those that nobody was asked for yet."""
        self._unsure: dict[Partition, Proposal] = {}
        """Those that were asked for and may have been decided, or not."""
        self._asking: asyncio.Task[None] | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._stopped = False
        self.lag_seconds = 0.0
        self.take_settings()

    def take_settings(self) -> None:
        """At the start, and when settings have changed."""
        self.lag_seconds = self._context.values.integer("replica.lag.time.max.ms") / 1000

    def start(self) -> None:
        self._look_later()

    async def stop(self) -> None:
        self._stopped = True
        if self._looking is not None:
            self._looking.cancel()
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    def may_join(self, broker_id: int) -> bool:
        """Whether the controller would take a follower on this broker into an in-sync set."""
        other = self._context.image.brokers.get(broker_id)
        return other is not None and other.active

    # --- when ---

    def follower_fetched(self, partition: Partition, follower: int) -> None:
        """A follower came forward: perhaps it has caught up."""
        leading, log = partition.leading, partition.log
        if leading is None or log is None or follower in leading.in_sync or leading.pending is not None:
            return
        image = self._context.image
        other, state = image.brokers.get(follower), image.partition(partition.name.topic, partition.index)
        if other is None or state is None or not other.active or not is_online(directory_on(state, follower), other):
            return
        progress = leading.followers.get(follower)
        if progress is not None and progress.broker_epoch not in (-1, other.epoch):
            return
        proposal = leading.joining(follower, log.high_watermark)
        if proposal is not None:
            self._ask(partition, proposal)

    def recovered(self, partition: Partition) -> None:
        """This leader was elected uncleanly; its log is as it is to be."""
        proposal = partition.leading.recovered() if partition.leading is not None else None
        if proposal is not None:
            self._ask(partition, proposal)

    def _look_later(self) -> None:
        if not self._stopped:
            self._looking = self._context.loop.call_later(self.lag_seconds / 2, self._look)

    def _look(self) -> None:
        """Let followers go that have not caught up for too long."""
        self._slice([partition for partition in self._partitions if partition.leading is not None], 0)

    def _slice(self, partitions: Sequence[Partition], start: int) -> None:
        now = self._context.clock.monotonic()
        for partition in partitions[start : start + SLICE]:
            leading, log = partition.leading, partition.log
            if leading is None or log is None:
                continue
            proposal = leading.leaving(log.end_offset, now, self.lag_seconds)
            if proposal is not None:
                self._ask(partition, proposal)
        if start + SLICE < len(partitions) and not self._stopped:
            self._context.loop.call_soon(self._slice, partitions, start + SLICE)
        else:
            self._look_later()

    # --- asking ---

    def _ask(self, partition: Partition, proposal: Proposal) -> None:
        self._waiting[partition] = proposal
        if self._asking is None and not self._stopped:
            self._asking = asyncio.create_task(self._ask_all())

    async def _ask_all(self) -> None:
        try:
            while self._waiting or self._unsure:
                asked = self._take()
                if not asked:
                    continue
                try:
                    answer = await self._controller.alter_partition(self._request(asked), VERSION)
                except LinkDown as down:
                    logger.warning("the controller was not told of changed in-sync sets: %s", down)
                    self._unsure.update(asked)
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                if self._heard(asked, answer):
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._asking = None

    def _take(self) -> dict[Partition, Proposal]:
        """What the next request asks for. While a change waited for the one before it, the follower that was to join
        may have begun another life, with less in its log; then it is not asked for."""
        waiting, self._waiting = self._waiting, {}
        asked, self._unsure = self._unsure, {}
        for partition, proposal in waiting.items():
            if not _stands(partition, proposal):
                continue
            assert partition.leading is not None
            if partition.leading.holds(proposal):
                asked[partition] = proposal
            else:
                partition.leading.refused(proposal)
                partition.advance()
        return {partition: proposal for partition, proposal in asked.items() if _stands(partition, proposal)}

    def _request(self, asked: dict[Partition, Proposal]) -> AlterPartitionRequest:
        node_id, broker_epoch = self._context.node_id, self._context.broker_epoch
        topics: dict[bytes, list[PartitionData]] = {}
        for partition, proposal in asked.items():
            lives = zip(proposal.in_sync, proposal.broker_epochs, strict=True)
            topics.setdefault(partition.topic_id, []).append(
                PartitionData(
                    partition_index=partition.index,
                    leader_epoch=partition.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(replica, broker_epoch if replica == node_id else life) for replica, life in lives
                    ],
                    leader_recovery_state=0,
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._context.node_id,
            broker_epoch=self._context.broker_epoch,
            topics=[TopicData(topic_id, partitions) for topic_id, partitions in topics.items()],
        )

    def _heard(self, asked: dict[Partition, Proposal], answer: AlterPartitionResponse) -> bool:
        """Whether some of it must be asked for again."""
        if answer.error_code != ErrorCode.NONE:
            self._unsure.update(asked)
            return True
        errors = {
            (topic.topic_id, each.partition_index): ErrorCode(each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        }
        again = False
        for partition, proposal in asked.items():
            if not _stands(partition, proposal):
                continue
            error = errors.get((partition.topic_id, partition.index), ErrorCode.UNKNOWN_SERVER_ERROR)
            if error in _CERTAINLY_NOT:
                assert partition.leading is not None
                partition.leading.refused(proposal)
                partition.advance()
            elif error not in _IMAGE_WILL_TELL:
                self._unsure[partition] = proposal
                again = True
        return again


def _stands(partition: Partition, proposal: Proposal) -> bool:
    """Whether the leader still waits for this change."""
    return partition.leading is not None and partition.leading.pending is proposal
