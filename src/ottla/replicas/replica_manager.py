"""The replicas of one broker, kept in step with the cluster's image: every committed change of metadata arrives here.

Owns: the parts that replicas need (the table of partitions, flushes, waiting requests, changes of in-sync sets,
fetchers, throttles, upkeep) and the order in which a change takes effect: logs first, then the partitions that clients
can reach and their roles, then settings. Never knows: how a change came about, requests, what coordinators do with a
partition that is led here. Invariants: called on the loop, once per change, in order; a topic that clients can reach
has its logs; a log is fetched into exactly while its replica follows a leader.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.image import NO_LEADER, ClusterImage, PartitionImage, ResourceType, TopicImage
from ottla.metadata.log_lines import replica_log_lines
from ottla.replicas import directory_assignments, fetcher, isr_changes, partitions
from ottla.replicas.commits import Commits
from ottla.replicas.context import BrokerContext
from ottla.replicas.directory_assignments import DirectoryAssignments
from ottla.replicas.fetcher import ReplicaFetchers
from ottla.replicas.flusher import Flusher
from ottla.replicas.isr_changes import IsrChanges
from ottla.replicas.log_work import LogTask, LogWork
from ottla.replicas.partitions import Partition, PartitionTable
from ottla.replicas.throttles import Throttles
from ottla.replicas.upkeep import Upkeep
from ottla.replicas.waits import WaitingRoom
from ottla.replication.leader import Leading

logger = logging.getLogger("ottla.broker")

Overrides = tuple[tuple[str, str], ...]


class ReplicaController(directory_assignments.DirectoryController, isr_changes.IsrController, Protocol):
    """What leaders and directories ask of the controller."""


class LeadershipObserver(Protocol):
    """Who keeps something on partitions that are led here."""

    def led(self, partition: Partition) -> None:
        """This broker leads a partition from now on."""
        ...

    def unled(self, partition: Partition) -> None:
        """This broker no longer leads a partition, or not in the epoch that it did."""
        ...

    def removed(self, topic: str) -> None:
        """A topic is gone."""
        ...


class ReplicaManager:
    """All replicas of one broker."""

    def __init__(self, context: BrokerContext, controller: ReplicaController) -> None:
        self._context = context
        self.partitions = PartitionTable()
        self.waiting = WaitingRoom(context.loop)
        self.flusher = Flusher(context.loop, context.threads, context.storage_failed)
        self.commits = Commits(context.loop, self.flusher)
        self.isr_changes = IsrChanges(context, self.partitions, controller)
        self.assignments = DirectoryAssignments(context, controller)
        self.throttles = Throttles(context)
        self.fetchers = ReplicaFetchers(
            context, fetcher.Helpers(self.partitions.traffic, self.flusher, self.throttles, self.waiting)
        )
        self._helpers = partitions.Helpers(self.waiting, self.isr_changes, context.clock.monotonic)
        self._logs = LogWork(context, lambda topic: self.settings_of(context.image, topic), self._reach)
        self.upkeep = Upkeep(context, self.partitions, self.flusher, self.make_missing_logs)
        self.observers: list[LeadershipObserver] = []
        """They hear of leaderships in this order."""
        self.when_settings_change: list[Callable[[], None]] = [
            self.isr_changes.take_settings,
            self.throttles.take_settings,
        ]
        self._awaited: list[asyncio.Future[None]] = []
        self._settings: dict[Overrides, tuple[LogSettings, int]] = {}

    def start(self) -> None:
        self.isr_changes.start()
        self.upkeep.start()

    async def stop(self) -> None:
        await self.fetchers.stop()
        await self.isr_changes.stop()
        await self.assignments.stop()
        await self.upkeep.stop()

    # --- at the start ---

    def load(self, image: ClusterImage) -> None:
        """Take in the whole image: partitions whose logs were loaded, and those whose logs are still missing."""
        self.partitions.image = image
        self._logs.take_over([task for topic in image.topics.values() for task in self._held_here(topic)])

    def settings_of(self, image: ClusterImage, topic: str) -> LogSettings:
        """A topic's log settings; equal ones are made once."""
        return self._both(image, topic)[0]

    def least_in_sync(self, image: ClusterImage, topic: str) -> int:
        """`min.insync.replicas` of a topic."""
        return self._both(image, topic)[1]

    def _both(self, image: ClusterImage, topic: str) -> tuple[LogSettings, int]:
        overrides = image.config(ResourceType.TOPIC, topic)
        key = tuple(sorted(overrides.items()))
        found = self._settings.get(key)
        if found is None:
            values: dict[str, object] = dict(self._context.values.topic_values(overrides))
            values["producer.id.expiration.ms"] = self._context.values.integer("producer.id.expiration.ms")
            least = values["min.insync.replicas"]
            assert isinstance(least, int)
            found = self._settings[key] = (LogSettings.from_values(values), least)
        return found

    # --- later ---

    async def next_change(self, seconds: float) -> None:
        """Wait until the next change of metadata, at most this many seconds."""
        change: asyncio.Future[None] = self._context.loop.create_future()
        self._awaited.append(change)
        await asyncio.wait((change,), timeout=seconds)

    def publish(self, delta: ClusterDelta, image: ClusterImage) -> None:
        self._context.image = self.partitions.image = image
        awaited, self._awaited = self._awaited, []
        for change in awaited:
            if not change.done():
                change.set_result(None)
        if delta.changed_configs:
            self._configure(delta, image)
        tasks: list[LogTask] = []
        for topic_id in delta.removed_topics:
            tasks += self._remove_topic(topic_id, delta.before.topics_by_id[topic_id].name)
        for topic_id in delta.created_topics:
            tasks += self._held_here(image.topics_by_id[topic_id])
        for topic_id, numbers in delta.changed_topics.items():
            topic = image.topics_by_id[topic_id]
            for number in sorted(numbers):
                tasks += self._change(topic, number)
        self._logs.add(tasks)
        self._tell(delta, image)

    def _tell(self, delta: ClusterDelta, image: ClusterImage) -> None:
        if not delta.changed_topics and not delta.created_topics:
            return
        lines, shrinks, expansions = replica_log_lines(delta, image, self._context.node_id)
        for each in lines:
            logger.info("%s", each.text)
        traffic = self.partitions.traffic
        traffic.in_sync_shrinks += shrinks
        traffic.in_sync_expansions += expansions

    def make_missing_logs(self) -> None:
        """Try those again that could not be made for lack of room."""
        self._logs.try_again()

    def _held_here(self, topic: TopicImage) -> list[LogTask]:
        node_id = self._context.node_id
        return [
            LogTask(TopicPartition(topic.name, index), topic.topic_id, making=True)
            for index, partition in enumerate(topic.partitions)
            if node_id in partition.replicas
        ]

    def _change(self, topic: TopicImage, number: int) -> list[LogTask]:
        """One partition is new or another; what its log needs."""
        name = TopicPartition(topic.name, number)
        state = topic.partitions[number]
        partition = self.partitions.get(name)
        here = self._context.node_id in state.replicas
        if partition is None:
            return [LogTask(name, topic.topic_id, making=True)] if here else []
        if here:
            self._take_role(partition, state)
            self.assignments.look(partition, state)
            return []
        self.assignments.forget(partition.topic_id, partition.index)
        self.partitions.remove(partition)
        self._leave(partition, state)
        self.upkeep.forget(name)
        return [LogTask(name, topic.topic_id, making=False)]

    def _reach(self, task: LogTask, log: PartitionLog | None) -> None:
        """The log is there, or could not be made: from here on clients find the partition."""
        state = self._context.image.topics_by_id[task.topic_id].partitions[task.name.partition]
        partition = self.partitions.get(task.name)
        if partition is None or partition.topic_id != task.topic_id:
            partition = Partition(task.name, task.topic_id, state.leader_epoch, log, self._helpers)
            partition.least_in_sync = self.least_in_sync(self._context.image, task.name.topic)
            self.partitions.add(partition)
        elif log is None:
            return
        else:
            partition.log = log
            partition.forget_role()
        self._take_role(partition, state)
        self.assignments.look(partition, state)

    # --- roles ---

    def _take_role(self, partition: Partition, state: PartitionImage) -> None:
        if partition.log is None:
            partition.take(state)
            partition.leads = state.leader == self._context.node_id
        elif state.leader == self._context.node_id:
            self._lead(partition, state)
        else:
            self._follow(partition, state)

    def _lead(self, partition: Partition, state: PartitionImage) -> None:
        led, before = partition.leads and partition.has_role, partition.leading
        new = partition.lead(state, self._context.node_id)
        partition.advance()
        if not partition.enough_in_sync:
            partition.give_up_commits(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        if state.recovering:
            self.isr_changes.recovered(partition)
        if not new:
            # A follower that has all and left the in-sync set is looked at again.
            partition.mark_dirty()
            return
        self.fetchers.release(partition)
        if led:
            self._tell_unled(partition)
            self._wake(partition, before)
        for observer in self.observers:
            observer.led(partition)

    def _follow(self, partition: Partition, state: PartitionImage) -> None:
        new = partition.leads or partition.leader_epoch != state.leader_epoch or not partition.has_role
        if new:
            self._leave(partition, state)
        else:
            partition.follow(state)
        if state.leader == NO_LEADER:
            self.fetchers.release(partition)
        elif new:
            self.fetchers.assign(partition)

    def _leave(self, partition: Partition, state: PartitionImage) -> None:
        """Whatever this replica did in its role ends."""
        led, before = partition.leads and partition.has_role, partition.leading
        partition.follow(state)
        self.fetchers.release(partition)
        if led:
            self._tell_unled(partition)
        self._wake(partition, before)

    def registration_changed(self, counts: bool) -> None:
        """This broker's registration counts no longer, or does again: without one, nothing more is acknowledged that
        others have to know of."""
        table = self.partitions
        if table.registered == counts:
            return
        table.registered = counts
        for partition in table:
            partition.registered = counts
            partition.count_in_sync()
            if not partition.leads:
                continue
            if partition.enough_in_sync:
                partition.advance()
            else:
                partition.give_up_commits(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def log_lost(self, name: TopicPartition, directory: bytes) -> None:
        """Its directory is offline: until the controller has decided anew, whoever asks here is told so."""
        self.upkeep.forget(name)
        partition = self.partitions.get(name)
        if partition is None:
            return
        topic = self._context.image.topics_by_id.get(partition.topic_id)
        if topic is not None:
            # A controller that does not know yet where it lay would not take the leadership away.
            self.assignments.lies_in(partition, topic.partitions[partition.index], directory)
        before = partition.leading
        partition.log = partition.leading = None
        partition.give_up_commits(ErrorCode.KAFKA_STORAGE_ERROR)
        self.fetchers.release(partition)
        if partition.leads:
            self._tell_unled(partition)
        self._wake(partition, before)

    def _wake(self, partition: Partition, before: Leading | None) -> None:
        """Whoever waits for something of this partition looks again: its role, or its log, is another."""
        waiting = self.waiting
        if before is not None:
            waiting.nudge(before)
            waiting.nudge(partition.starts)
        partition.mark_dirty()
        partition.readers = None
        waiting.nudge(partition)

    def _tell_unled(self, partition: Partition) -> None:
        for observer in self.observers:
            observer.unled(partition)

    # --- what goes, and settings ---

    def _remove_topic(self, topic_id: bytes, topic: str) -> list[LogTask]:
        """Clients no longer find the topic; what is left to do is to remove its logs."""
        going = self.partitions.remove_topic(topic_id)
        # Also where no replica of it is here: groups that are coordinated here may have offsets in it.
        for observer in self.observers:
            observer.removed(topic)
        for partition in going:
            self.assignments.forget(topic_id, partition.index)
            self.fetchers.release(partition)
            partition.give_up_commits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.upkeep.forget(partition.name)
            partition.leads = False
            self._wake(partition, partition.leading)
        return [LogTask(partition.name, topic_id, making=False) for partition in going]

    def _configure(self, delta: ClusterDelta, image: ClusterImage) -> None:
        if any(kind == ResourceType.BROKER for kind, _ in delta.changed_configs):
            self._context.take_dynamic_values()
            for take_settings in self.when_settings_change:
                take_settings()
            self._settings.clear()
            topics = list(self.partitions.by_name)
        else:
            topics = [name for kind, name in delta.changed_configs if kind == ResourceType.TOPIC]
        for topic in topics:
            settings, least = self._both(image, topic)
            for partition in self.partitions.by_name.get(topic, ()):
                if partition is None:
                    continue
                if partition.log is not None:
                    partition.log.settings = settings
                if partition.least_in_sync != least:
                    partition.least_in_sync = least
                    partition.count_in_sync()
                    partition.advance()
                    if not partition.enough_in_sync:
                        partition.give_up_commits(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
