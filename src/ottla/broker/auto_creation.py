"""Topics that are made because somebody asked for their metadata.

Owns: which creations are under way. Never knows: who asked, what becomes of the answer: as in Kafka it says that the
topic is unknown, and who wants it asks again. Invariants: a topic is asked for once at a time; a bounded number of
requests is under way, beyond it names are passed over and come with the next question.
"""

import asyncio
import logging
from collections.abc import Iterable

from ottla.base.errors import ErrorCode
from ottla.coordinator.runtime import TopicCreator
from ottla.wire.links import LinkDown
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

logger = logging.getLogger("ottla.broker")

MOST_REQUESTS = 64
AT_ONCE = 200
"""Topics that are made by one request, so that others get their turn meanwhile."""
TIMEOUT_MS = 30_000
_THERE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


class AutoCreation:
    """Topics that clients of one broker asked for and that do not exist yet."""

    def __init__(self, controller: TopicCreator) -> None:
        self._controller = controller
        self._names: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def create(self, names: Iterable[str]) -> None:
        """Let these topics be made with the brokers' defaults, soon."""
        wanted = [name for name in dict.fromkeys(names) if name not in self._names]
        if not wanted or len(self._tasks) >= MOST_REQUESTS:
            return
        self._names.update(wanted)
        task = asyncio.get_running_loop().create_task(self._create(wanted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _create(self, names: list[str]) -> None:
        try:
            for start in range(0, len(names), AT_ONCE):
                await self._create_some(names[start : start + AT_ONCE])
        except LinkDown as problem:
            logger.warning("of %d topics that were asked for some are not made: %s", len(names), problem)
        finally:
            self._names.difference_update(names)

    async def _create_some(self, names: list[str]) -> None:
        topics = [CreatableTopic(name=name, num_partitions=-1, replication_factor=-1) for name in names]
        answer = await self._controller.create_topics(CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS))
        for each in answer.topics:
            if each.error_code not in _THERE:
                why = each.error_message or ErrorCode(each.error_code).name
                logger.warning("the topic %s that was asked for is not made: %s", each.name, why)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
