"""From the cluster's image to this broker's partitions: every committed change of metadata arrives here.

Owns: the order in which a change takes effect (logs first, then the partitions that clients can reach, then settings).
Never knows: how a change came about. Invariants: called on the loop, once per change, in order; a topic that clients
can reach has its logs.
"""

import logging
from typing import TYPE_CHECKING

from ottla.base.vocabulary import TopicId, TopicPartition
from ottla.broker.partitions import Partition
from ottla.log.files import StorageFailure
from ottla.log.settings import LogSettings
from ottla.log.store import NewLog, NoUsableDirectory
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.image import ClusterImage, ResourceType, TopicImage

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger("ottla.broker")

AT_ONCE = 64
"""So many logs are made on the loop (some milliseconds); more are made by a thread, in portions of this size."""


class Publisher:
    """Keeps one broker in step with the image."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._settings: dict[tuple[tuple[str, str], ...], LogSettings] = {}

    # --- at the start ---

    def load(self, image: ClusterImage) -> None:
        """Take in the whole image: partitions whose logs were loaded, and those whose logs are still missing."""
        for topic in image.topics.values():
            self._adopt(topic, self._led_here(topic))

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
        for topic_id in delta.removed_topics:
            self._remove(topic_id)
        if delta.changed_configs:
            self._configure(delta, image)
        for topic_id in delta.created_topics:
            topic = image.topics_by_id[topic_id]
            self._create(topic, self._led_here(topic))
        for topic_id in delta.changed_topics:
            topic = image.topics_by_id[topic_id]
            known = self._broker.partitions.by_id.get(topic_id, [])
            for partition in known:
                partition.leader_epoch = topic.partitions[partition.index].leader_epoch
            self._create(topic, [index for index in self._led_here(topic) if index >= len(known)])

    def _led_here(self, topic: TopicImage) -> list[int]:
        node_id = self._broker.node_id
        return [index for index, partition in enumerate(topic.partitions) if partition.leader == node_id]

    def _create(self, topic: TopicImage, indexes: list[int]) -> None:
        if len(indexes) <= AT_ONCE:
            self._adopt(topic, indexes)
        else:
            self._create_some(topic, indexes)

    def _new_logs(self, topic: TopicImage, indexes: list[int]) -> list[NewLog]:
        settings = self.settings_of(self._broker.image, topic.name)
        store = self._broker.store
        return [
            NewLog(name, TopicId(topic.topic_id), settings)
            for name in (TopicPartition(topic.name, index) for index in indexes)
            if store.get(name) is None
        ]

    def _adopt(self, topic: TopicImage, indexes: list[int]) -> None:
        """Make the logs that are missing, now, and let clients reach the partitions."""
        missing = self._new_logs(topic, indexes)
        if missing:
            store = self._broker.store
            creation = store.begin_creation(missing)
            creation.run()
            try:
                store.finish_creation(creation)
            except NoUsableDirectory as failure:
                self._broker.give_up(str(failure))
            for _, failure_of_one in creation.failures:
                logger.error("a log of %s could not be made: %s", topic.name, failure_of_one)
        self._reach(topic, indexes)

    def _create_some(self, topic: TopicImage, indexes: list[int]) -> None:
        """Make a portion of the logs in a thread, then the next one."""
        broker = self._broker
        portion, rest = indexes[:AT_ONCE], indexes[AT_ONCE:]
        creation = broker.store.begin_creation(self._new_logs(topic, portion))

        def made() -> None:
            try:
                broker.store.finish_creation(creation)
            except NoUsableDirectory as failure:
                broker.give_up(str(failure))
                return
            if topic.topic_id not in broker.image.topics_by_id:
                # Deleted while its logs were being made.
                for name in (TopicPartition(topic.name, index) for index in portion):
                    self._delete_log(name, topic.topic_id)
                return
            self._reach(topic, portion)
            if rest:
                self._create_some(topic, rest)

        broker.in_thread(creation.run, made)

    def _reach(self, topic: TopicImage, indexes: list[int]) -> None:
        broker = self._broker
        for index in indexes:
            name = TopicPartition(topic.name, index)
            log = broker.store.get(name)
            epoch = topic.partitions[index].leader_epoch
            if log is not None:
                log.high_watermark = log.end_offset
                log.epochs.assign(epoch, log.end_offset)
            partition = Partition(name, topic.topic_id, epoch, log)
            broker.partitions.add(partition)
            broker.groups.led(partition)

    def _remove(self, topic_id: bytes) -> None:
        broker = self._broker
        going = broker.partitions.remove_topic(topic_id)
        if going:
            broker.groups.removed(going[0].name.topic)
        for partition in going:
            if partition.log is not None:
                broker.upkeep.forget(partition.name)
                self._delete_log(partition.name, topic_id)
            broker.waiting.nudge(partition)

    def _delete_log(self, name: TopicPartition, topic_id: bytes) -> None:
        log = self._broker.store.get(name)
        if log is None or log.topic_id != topic_id:
            return
        try:
            self._broker.store.delete(name)
        except StorageFailure as failure:
            self._broker.storage_failed(failure)

    def _configure(self, delta: ClusterDelta, image: ClusterImage) -> None:
        broker = self._broker
        if any(kind == ResourceType.BROKER for kind, _ in delta.changed_configs):
            broker.take_dynamic_values(image)
            self._settings.clear()
            topics = list(broker.partitions.by_name)
        else:
            topics = [name for kind, name in delta.changed_configs if kind == ResourceType.TOPIC]
        for topic in topics:
            settings = self.settings_of(image, topic)
            for partition in broker.partitions.by_name.get(topic, ()):
                if partition.log is not None:
                    partition.log.settings = settings
