"""Where this broker's replicas lie: the controller is told whenever it knows otherwise.

Owns: what it has yet to be told, in requests of bounded size, one at a time, again until it has answered. Never knows:
why a replica lies where it does, what the controller makes of it. Invariants: what is told is the directory that holds
the log, or held it until it failed; a replica that the image already has in its place is not told.

The controller needs it to move leadership when one of several directories fails, and to let a broker lead again what
it holds on a disk that took the place of another.
"""

import asyncio
import logging
from itertools import islice
from typing import Protocol

from ottla.base.errors import ErrorCode
from ottla.metadata.image import PartitionImage
from ottla.metadata.partitions import directory_on
from ottla.replicas.context import BrokerContext
from ottla.replicas.partitions import Partition
from ottla.wire.links import LinkDown
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

logger = logging.getLogger("ottla.broker")

AT_ONCE = 500
"""Replicas in one request: the controller decides about as many in some milliseconds."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0

_Replica = tuple[bytes, int]
"""A topic's id and a partition's number."""
_SETTLED = {
    ErrorCode.NONE,
    # The image will tell of it: the replica has gone.
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


class DirectoryController(Protocol):
    """The controller, as far as it is told which directories hold replicas."""

    async def assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse: ...


# Why the controller has to know where replicas lie: design/0023.
class DirectoryAssignments:
    """What the controller has yet to be told of one broker's replicas."""

    def __init__(self, context: BrokerContext, controller: DirectoryController) -> None:
        self._context = context
        self._controller = controller
        self._untold: dict[_Replica, bytes] = {}
        self._telling: asyncio.Task[None] | None = None
        self._stopped = False

    def look(self, partition: Partition, state: PartitionImage) -> None:
        """The partition's log is there, or the image says something new of it."""
        if partition.log is not None:
            self.lies_in(partition, state, self._context.store.directory_of(partition.name).identity)

    def lies_in(self, partition: Partition, state: PartitionImage, directory: bytes) -> None:
        replica = (partition.topic_id, partition.index)
        if directory_on(state, self._context.node_id) == directory:
            self._untold.pop(replica, None)
            return
        self._untold[replica] = directory
        if self._telling is None and not self._stopped:
            self._telling = self._context.loop.create_task(self._tell())

    def forget(self, topic_id: bytes, index: int) -> None:
        """The replica is not here any more."""
        self._untold.pop((topic_id, index), None)

    async def stop(self) -> None:
        self._stopped = True
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)

    async def _tell(self) -> None:
        pause = FIRST_PAUSE
        try:
            while self._untold:
                told = dict(islice(self._untold.items(), AT_ONCE))
                problem = await self._tell_some(told)
                if problem is None:
                    pause = FIRST_PAUSE
                    continue
                logger.warning("the controller was not told where %d replicas lie: %s", len(self._untold), problem)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
        finally:
            self._telling = None

    async def _tell_some(self, told: dict[_Replica, bytes]) -> str | None:
        """One request; answers what is wrong, if some of it has to be told again."""
        try:
            answer = await self._controller.assign_replicas_to_dirs(self._request(told))
        except LinkDown as down:
            return str(down)
        if answer.error_code != ErrorCode.NONE:
            return ErrorCode(answer.error_code).name
        return self._heard(told, answer)

    def _request(self, told: dict[_Replica, bytes]) -> AssignReplicasToDirsRequest:
        places: dict[bytes, dict[bytes, list[PartitionData]]] = {}
        for (topic_id, index), directory in told.items():
            places.setdefault(directory, {}).setdefault(topic_id, []).append(PartitionData(index))
        return AssignReplicasToDirsRequest(
            self._context.node_id,
            self._context.broker_epoch,
            [
                DirectoryData(directory, [TopicData(topic_id, indexes) for topic_id, indexes in topics.items()])
                for directory, topics in places.items()
            ],
        )

    def _heard(self, told: dict[_Replica, bytes], answer: AssignReplicasToDirsResponse) -> str | None:
        errors = {
            (topic.topic_id, each.partition_index): ErrorCode(each.error_code)
            for directory in answer.directories
            for topic in directory.topics
            for each in topic.partitions
        }
        problem = None
        for replica, directory in told.items():
            if self._untold.get(replica) != directory:
                continue
            error = errors.get(replica, ErrorCode.UNKNOWN_SERVER_ERROR)
            del self._untold[replica]
            if error not in _SETTLED:
                # Behind the others: what cannot be told must not keep them waiting.
                self._untold[replica] = directory
                problem = error.name
        return problem
