"""From the cluster's image to this broker's partitions: every committed change of metadata arrives here.

Owns: the order in which a change takes effect (logs first, then the partitions that clients can reach and their roles,
then settings). Never knows: how a change came about. Invariants: called on the loop, once per change, in order; a
topic that clients can reach has its logs; a log is pulled exactly while its replica follows a leader.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.image import NO_LEADER, ClusterImage, PartitionImage, ResourceType, TopicImage
from ottla.metadata.news import replica_news
from ottla.replicas.log_work import LogTask, LogWork
from ottla.replicas.partitions import Partition
from ottla.replication.leader import Leading

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger("ottla.broker")

Overrides = tuple[tuple[str, str], ...]


class Publisher:
    """Keeps one broker in step with the image."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._awaited: list[asyncio.Future[None]] = []
        self._settings: dict[Overrides, tuple[LogSettings, int]] = {}
        self._logs = LogWork(broker, lambda topic: self.settings_of(broker.image, topic), self._reach)

    # --- at the start ---

    def load(self, image: ClusterImage) -> None:
        """Take in the whole image: partitions whose logs were loaded, and those whose logs are still missing."""
        self._broker.partitions.image = image
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
            values: dict[str, object] = dict(self._broker.values.topic_values(overrides))
            values["producer.id.expiration.ms"] = self._broker.values.integer("producer.id.expiration.ms")
            least = values["min.insync.replicas"]
            assert isinstance(least, int)
            found = self._settings[key] = (LogSettings.from_values(values), least)
        return found

    # --- later ---

    async def next_change(self, seconds: float) -> None:
        """Until the next change of metadata, at most so long."""
        change: asyncio.Future[None] = self._broker.loop.create_future()
        self._awaited.append(change)
        await asyncio.wait((change,), timeout=seconds)

    def publish(self, delta: ClusterDelta, image: ClusterImage) -> None:
        self._broker.image = self._broker.partitions.image = image
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
        news, shrinks, expansions = replica_news(delta, image, self._broker.node_id)
        for each in news:
            logger.info("%s", each.text)
        traffic = self._broker.partitions.traffic
        traffic.in_sync_shrinks += shrinks
        traffic.in_sync_expansions += expansions

    def make_missing_logs(self) -> None:
        """Try those again that could not be made for lack of room."""
        self._logs.try_again()

    def _held_here(self, topic: TopicImage) -> list[LogTask]:
        node_id = self._broker.node_id
        return [
            LogTask(TopicPartition(topic.name, index), topic.topic_id, making=True)
            for index, partition in enumerate(topic.partitions)
            if node_id in partition.replicas
        ]

    def _change(self, topic: TopicImage, number: int) -> list[LogTask]:
        """One partition is new or another; what its log needs."""
        name = TopicPartition(topic.name, number)
        state = topic.partitions[number]
        partition = self._broker.partitions.get(name)
        here = self._broker.node_id in state.replicas
        if partition is None:
            return [LogTask(name, topic.topic_id, making=True)] if here else []
        if here:
            self._take_role(partition, state)
            self._broker.assignments.look(partition, state)
            return []
        self._broker.assignments.forget(partition.topic_id, partition.index)
        self._broker.partitions.remove(partition)
        self._leave(partition, state)
        self._broker.upkeep.forget(name)
        return [LogTask(name, topic.topic_id, making=False)]

    def _reach(self, task: LogTask, log: PartitionLog | None) -> None:
        """The log is there, or could not be made: from here on clients find the partition."""
        broker = self._broker
        state = broker.image.topics_by_id[task.topic_id].partitions[task.name.partition]
        partition = broker.partitions.get(task.name)
        if partition is None or partition.topic_id != task.topic_id:
            partition = Partition(task.name, task.topic_id, state.leader_epoch, log)
            partition.least_in_sync = self.least_in_sync(broker.image, task.name.topic)
            broker.partitions.add(partition)
        elif log is None:
            return
        else:
            partition.log = log
            partition.forget_role()
        self._take_role(partition, state)
        broker.assignments.look(partition, state)

    # --- roles ---

    def _take_role(self, partition: Partition, state: PartitionImage) -> None:
        if partition.log is None:
            partition.take(state)
            partition.leads = state.leader == self._broker.node_id
        elif state.leader == self._broker.node_id:
            self._lead(partition, state)
        else:
            self._follow(partition, state)

    def _lead(self, partition: Partition, state: PartitionImage) -> None:
        broker = self._broker
        led, before = partition.leads and partition.has_role, partition.leading
        new = partition.lead(state, broker.node_id, broker.clock.monotonic())
        partition.advance(broker)
        if not partition.enough_in_sync:
            partition.give_up_commits(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        if state.recovering:
            broker.in_sync.recovered(partition)
        if not new:
            # A follower that has all and left the in-sync set is looked at again.
            partition.stir(broker)
            return
        broker.pullers.release(partition)
        if led:
            self._tell_unled(partition)
            self._wake(partition, before)
        broker.groups.led(partition)
        broker.transactions.led(partition)

    def _follow(self, partition: Partition, state: PartitionImage) -> None:
        new = partition.leads or partition.leader_epoch != state.leader_epoch or not partition.has_role
        if new:
            self._leave(partition, state)
        else:
            partition.follow(state)
        if state.leader == NO_LEADER:
            self._broker.pullers.release(partition)
        elif new:
            self._broker.pullers.assign(partition)

    def _leave(self, partition: Partition, state: PartitionImage) -> None:
        """Whatever this replica did in its role ends."""
        broker = self._broker
        led, before = partition.leads and partition.has_role, partition.leading
        partition.follow(state)
        broker.pullers.release(partition)
        if led:
            self._tell_unled(partition)
        self._wake(partition, before)

    def standing_changed(self, counts: bool) -> None:
        """This broker's registration counts no longer, or does again: without one, nothing more is acknowledged that
        others have to know of."""
        table = self._broker.partitions
        if table.provable == counts:
            return
        table.provable = counts
        for partition in table:
            partition.provable = counts
            partition.count_in_sync()
            if not partition.leads:
                continue
            if partition.enough_in_sync:
                partition.advance(self._broker)
            else:
                partition.give_up_commits(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def log_lost(self, partition: Partition, directory: bytes) -> None:
        """Its directory is offline: until the controller has decided anew, whoever asks here is told so."""
        broker = self._broker
        topic = broker.image.topics_by_id.get(partition.topic_id)
        if topic is not None:
            # A controller that does not know yet where it lay would not take the leadership away.
            broker.assignments.lies_in(partition, topic.partitions[partition.index], directory)
        before = partition.leading
        partition.log = partition.leading = None
        partition.give_up_commits(ErrorCode.KAFKA_STORAGE_ERROR)
        broker.pullers.release(partition)
        if partition.leads:
            self._tell_unled(partition)
        self._wake(partition, before)

    def _wake(self, partition: Partition, before: Leading | None) -> None:
        """Whoever waits for something of this partition looks again: its role, or its log, is another."""
        waiting = self._broker.waiting
        if before is not None:
            waiting.nudge(before)
            waiting.nudge(partition.starts)
        partition.stir(self._broker)
        partition.readers = None
        waiting.nudge(partition)

    def _tell_unled(self, partition: Partition) -> None:
        self._broker.groups.unled(partition)
        self._broker.transactions.unled(partition)

    # --- what goes, and settings ---

    def _remove_topic(self, topic_id: bytes, topic: str) -> list[LogTask]:
        """Clients no longer find the topic; what is left to do is to remove its logs."""
        broker = self._broker
        going = broker.partitions.remove_topic(topic_id)
        # Also where no replica of it is here: groups that are coordinated here may have offsets in it.
        broker.groups.removed(topic)
        broker.transactions.removed(topic)
        for partition in going:
            broker.assignments.forget(topic_id, partition.index)
            broker.pullers.release(partition)
            partition.give_up_commits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            broker.upkeep.forget(partition.name)
            partition.leads = False
            self._wake(partition, partition.leading)
        return [LogTask(partition.name, topic_id, making=False) for partition in going]

    def _configure(self, delta: ClusterDelta, image: ClusterImage) -> None:
        broker = self._broker
        if any(kind == ResourceType.BROKER for kind, _ in delta.changed_configs):
            broker.take_dynamic_values(image)
            broker.dispatcher.take_settings()
            broker.groups.take_settings()
            broker.in_sync.take_settings()
            broker.throttles.take_settings()
            self._settings.clear()
            topics = list(broker.partitions.by_name)
        else:
            topics = [name for kind, name in delta.changed_configs if kind == ResourceType.TOPIC]
        for topic in topics:
            settings, least = self._both(image, topic)
            for partition in broker.partitions.by_name.get(topic, ()):
                if partition is None:
                    continue
                if partition.log is not None:
                    partition.log.settings = settings
                if partition.least_in_sync != least:
                    partition.least_in_sync = least
                    partition.count_in_sync()
                    partition.advance(broker)
                    if not partition.enough_in_sync:
                        partition.give_up_commits(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
