"""From the cluster's image to this broker's partitions: every committed change of metadata arrives here.

Owns: the order in which a change takes effect (logs first, then the partitions that clients can reach, then settings).
Never knows: how a change came about. Invariants: called on the loop, once per change, in order; a topic that clients
can reach has its logs.
"""

from typing import TYPE_CHECKING

from ottla.base.vocabulary import TopicPartition
from ottla.broker.log_work import LogTask, LogWork
from ottla.broker.partitions import Partition
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.image import ClusterImage, ResourceType, TopicImage

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class Publisher:
    """Keeps one broker in step with the image."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._settings: dict[tuple[tuple[str, str], ...], LogSettings] = {}
        self._logs = LogWork(broker, lambda topic: self.settings_of(broker.image, topic), self._reach)

    # --- at the start ---

    def load(self, image: ClusterImage) -> None:
        """Take in the whole image: partitions whose logs were loaded, and those whose logs are still missing."""
        self._logs.take_over([task for topic in image.topics.values() for task in self._led_here(topic)])

    def settings_of(self, image: ClusterImage, topic: str) -> LogSettings:
        """A topic's log settings; equal ones are made once."""
        overrides = image.config(ResourceType.TOPIC, topic)
        key = tuple(sorted(overrides.items()))
        found = self._settings.get(key)
        if found is None:
            values: dict[str, object] = dict(self._broker.values.topic_values(overrides))
            values["producer.id.expiration.ms"] = self._broker.values.integer("producer.id.expiration.ms")
            found = self._settings[key] = LogSettings.from_values(values)
        return found

    # --- later ---

    def publish(self, delta: ClusterDelta, image: ClusterImage) -> None:
        self._broker.image = image
        if delta.changed_configs:
            self._configure(delta, image)
        tasks: list[LogTask] = []
        for topic_id in delta.removed_topics:
            tasks += self._remove(topic_id)
        for topic_id in delta.created_topics:
            tasks += self._led_here(image.topics_by_id[topic_id])
        for topic_id in delta.changed_topics:
            topic = image.topics_by_id[topic_id]
            for partition in self._broker.partitions.by_id.get(topic_id, ()):
                partition.leader_epoch = topic.partitions[partition.index].leader_epoch
            tasks += self._led_here(topic, from_index=len(delta.before.topics_by_id[topic_id].partitions))
        self._logs.add(tasks)

    def make_missing_logs(self) -> None:
        """Try those again that could not be made for lack of room."""
        self._logs.try_again()

    def _led_here(self, topic: TopicImage, from_index: int = 0) -> list[LogTask]:
        node_id = self._broker.node_id
        return [
            LogTask(TopicPartition(topic.name, index), topic.topic_id, making=True)
            for index, partition in enumerate(topic.partitions)
            if index >= from_index and partition.leader == node_id
        ]

    def _reach(self, task: LogTask, log: PartitionLog | None) -> None:
        """The log is there, or could not be made: from here on clients find the partition."""
        broker = self._broker
        epoch = broker.image.topics_by_id[task.topic_id].partitions[task.name.partition].leader_epoch
        if log is not None:
            log.high_watermark = log.end_offset
            log.epochs.assign(epoch, log.end_offset)
        partition = broker.partitions.get(task.name)
        if partition is None or partition.topic_id != task.topic_id:
            partition = Partition(task.name, task.topic_id, epoch, log)
            broker.partitions.add(partition)
        elif log is None:
            return
        else:
            partition.log = log
        broker.groups.led(partition)
        broker.transactions.led(partition)

    def _remove(self, topic_id: bytes) -> list[LogTask]:
        """Clients no longer find the topic; what is left to do is to remove its logs."""
        broker = self._broker
        going = broker.partitions.remove_topic(topic_id)
        if going:
            broker.groups.removed(going[0].name.topic)
            broker.transactions.removed(going[0].name.topic)
        for partition in going:
            broker.upkeep.forget(partition.name)
            broker.waiting.nudge(partition)
        return [LogTask(partition.name, topic_id, making=False) for partition in going]

    def _configure(self, delta: ClusterDelta, image: ClusterImage) -> None:
        broker = self._broker
        if any(kind == ResourceType.BROKER for kind, _ in delta.changed_configs):
            broker.take_dynamic_values(image)
            broker.groups.take_settings()
            self._settings.clear()
            topics = list(broker.partitions.by_name)
        else:
            topics = [name for kind, name in delta.changed_configs if kind == ResourceType.TOPIC]
        for topic in topics:
            settings = self.settings_of(image, topic)
            for partition in broker.partitions.by_name.get(topic, ()):
                if partition.log is not None:
                    partition.log.settings = settings
