"""Logs that are to be made and removed, in the order in which metadata wants them.

Owns: the queue of that work and its portions. Never knows: topics, clients. Invariants: work is done in order, so
that a name that is removed and made again gets a new log, and never that of the topic that had the name before, though
it could not be removed; few are done at once, many in portions between other requests; a log that could not be made for
lack of room is tried again.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ottla.base.vocabulary import NO_TOPIC_ID, TopicId, TopicPartition
from ottla.log.files import StorageFailure
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.log.store import Creation, NewLog, NoUsableDirectory
from ottla.replicas.context import BrokerContext

logger = logging.getLogger("ottla.broker")

AT_ONCE = 64
"""So many logs are made or removed in one go: some milliseconds."""


class LogTask(NamedTuple):
    """One log to be made (`making`) or removed."""

    name: TopicPartition
    topic_id: bytes
    making: bool


class LogWork:
    """What is left to do. `made` hears of every log that was to be made, with None where that failed."""

    def __init__(
        self,
        context: BrokerContext,
        settings_of: Callable[[str], LogSettings],
        made: Callable[[LogTask, PartitionLog | None], None],
    ) -> None:
        self._context = context
        self._settings_of = settings_of
        self._made = made
        self._queue: deque[LogTask] = deque()
        self._busy = False
        self._missing: list[LogTask] = []

    def add(self, tasks: Sequence[LogTask]) -> None:
        """Few tasks are done at once, when nothing waits before them; others in portions, in order."""
        if not self._busy and len(tasks) <= AT_ONCE:
            self.do_now(tasks)
            return
        self._queue.extend(tasks)
        self._next()

    def do_now(self, tasks: Sequence[LogTask]) -> None:
        self._remove([task for task in tasks if not task.making])
        making = [task for task in tasks if task.making]
        creation = self._begin(making)
        creation.run()
        self._finish(creation, making)

    def take_over(self, tasks: Sequence[LogTask]) -> None:
        """At the start: most logs are there. One that is not is made, unless it may lie in a directory that is offline:
        an empty log in its place would hide what was written."""
        store = self._context.store
        if len(store.live) == len(store.directories):
            self.do_now(tasks)
            return
        for task in tasks:
            self._made(task, self._own_log(task))

    def try_again(self) -> None:
        """Make the logs that could not be made before."""
        missing, self._missing = self._missing, []
        self.add(missing)

    def _next(self) -> None:
        """Do a portion of the queue, then the next one."""
        if self._busy or not self._queue:
            return
        self._busy = True
        making = self._queue[0].making
        tasks: list[LogTask] = []
        while self._queue and len(tasks) < AT_ONCE and self._queue[0].making == making:
            tasks.append(self._queue.popleft())
        if not making:
            self._remove(tasks)
            self._context.loop.call_soon(self._done)
            return
        creation = self._begin(tasks)

        def made(problem: BaseException | None) -> None:
            if problem is not None:  # creation keeps the failures of disks to itself
                logger.error("making logs failed", exc_info=problem)
            self._finish(creation, tasks)
            self._done()

        self._context.in_thread(creation.run, made)

    def _done(self) -> None:
        self._busy = False
        self._next()

    def _wanted(self, task: LogTask) -> bool:
        """Whether the partition is there, and a replica of it is to lie here."""
        topic = self._context.image.topics_by_id.get(task.topic_id)
        return topic is not None and self._context.node_id in topic.partitions[task.name.partition].replicas

    def _begin(self, tasks: Sequence[LogTask]) -> Creation:
        store = self._context.store
        for task in tasks:
            log = store.get(task.name)
            if log is not None and log.topic_id not in (task.topic_id, NO_TOPIC_ID):
                self._remove([LogTask(task.name, log.topic_id, making=False)])
        return store.begin_creation(
            [
                NewLog(task.name, TopicId(task.topic_id), self._settings_of(task.name.topic))
                for task in tasks
                if store.get(task.name) is None and self._wanted(task)
            ]
        )

    def _own_log(self, task: LogTask) -> PartitionLog | None:
        """The log of this very topic; None when another topic's is in its place."""
        log = self._context.store.get(task.name)
        if log is not None and log.topic_id == NO_TOPIC_ID:
            # Older releases of Kafka left none. From here on it is told from a log of another topic of this name.
            try:
                self._context.store.adopt(task.name, TopicId(task.topic_id))
            except StorageFailure as failure:
                self._context.storage_failed(failure)
                log = self._context.store.get(task.name)
        return None if log is None or log.topic_id not in (task.topic_id, NO_TOPIC_ID) else log

    def _finish(self, creation: Creation, tasks: Sequence[LogTask]) -> None:
        store = self._context.store
        try:
            store.finish_creation(creation)
        except NoUsableDirectory as failure:
            self._context.give_up(str(failure))
            return
        for _, problem in creation.failures:
            logger.error("a log could not be made: %s", problem)
        for task in tasks:
            if not self._wanted(task):
                # Its topic was deleted, or it was moved elsewhere, while it was being made.
                self._remove([task])
                continue
            log = self._own_log(task)
            if log is None:
                self._missing.append(task)
            self._made(task, log)

    def _remove(self, tasks: Sequence[LogTask]) -> None:
        store = self._context.store
        for task in tasks:
            log = store.get(task.name)
            if log is None or log.topic_id != task.topic_id:
                continue
            try:
                store.delete(task.name)
            except StorageFailure as failure:
                self._context.storage_failed(failure)
