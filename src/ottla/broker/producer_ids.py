"""Producer ids that this broker may give out.

Owns: a block of ids from the controller and how far it is used up. Never knows: who gets them. Invariant: an id is
given out once; a block that was not used up is lost with the process, which costs nothing but numbers.
"""

import asyncio
import logging

from ottla.base.errors import ErrorCode
from ottla.broker.ports import ControllerPort
from ottla.wire.links import LinkDown
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest

logger = logging.getLogger("ottla.broker")

_NOT_NOW = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.NOT_CONTROLLER)
"""The broker, or the controller, is just changing its standing: clients had better ask again."""


class ProducerIds:
    """The producer ids that the controller has allocated to one broker, given out one by one."""

    def __init__(self, controller: ControllerPort, node_id: int) -> None:
        self._controller = controller
        self._node_id = node_id
        self._next = 0
        self._end = 0
        self._refilling = asyncio.Lock()

    async def take(self) -> int | ErrorCode:
        """The next id, or why there is none."""
        if self._next == self._end:
            async with self._refilling:
                # Others may have waited for the same block.
                if self._next == self._end:
                    error = await self._refill()
                    if error != ErrorCode.NONE:
                        return error
        taken = self._next
        self._next += 1
        return taken

    async def _refill(self) -> ErrorCode:
        broker = self._controller.image.brokers.get(self._node_id)
        if broker is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=broker.epoch)
        try:
            answer = await self._controller.allocate_producer_ids(request)
        except LinkDown as problem:
            logger.warning("there are no producer ids for now: %s", problem)
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if answer.error_code in _NOT_NOW:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if answer.error_code != ErrorCode.NONE:
            return ErrorCode(answer.error_code)
        self._next = answer.producer_id_start
        self._end = self._next + answer.producer_id_len
        return ErrorCode.NONE
