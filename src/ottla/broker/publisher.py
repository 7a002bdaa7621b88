"""From the cluster's image to this broker's partitions: every committed change of metadata arrives here.

Owns: the order in which a change takes effect (logs first, then the partitions that clients can reach, then settings).
Never knows: how a change came about. Invariants: called on the loop, once per change, in order; a topic that clients
can reach has its logs.
"""

import logging
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.vocabulary import TopicId, TopicPartition
from ottla.broker.partitions import Partition
from ottla.log.files import StorageFailure
from ottla.log.settings import LogSettings
from ottla.log.store import Creation, NewLog, NoUsableDirectory
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.image import ClusterImage, ResourceType, TopicImage

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger("ottla.broker")

AT_ONCE = 64
"""So many logs are made on the loop (some milliseconds); more are made by a thread, in portions of this size."""


class _Place(NamedTuple):
    """A partition that is to be reached here."""

    name: TopicPartition
    topic_id: bytes


class Publisher:
    """Keeps one broker in step with the image."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._settings: dict[tuple[tuple[str, str], ...], LogSettings] = {}
        self._queue: deque[_Place] = deque()
        self._making = False

    # --- at the start ---

    def load(self, image: ClusterImage) -> None:
        """Take in the whole image: partitions whose logs were loaded, and those whose logs are still missing."""
        for topic in image.topics.values():
            self._adopt(self._led_here(topic))

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
        new: list[_Place] = []
        for topic_id in delta.created_topics:
            new += self._led_here(image.topics_by_id[topic_id])
        for topic_id in delta.changed_topics:
            topic = image.topics_by_id[topic_id]
            for partition in self._broker.partitions.by_id.get(topic_id, ()):
                partition.leader_epoch = topic.partitions[partition.index].leader_epoch
            new += self._led_here(topic, from_index=len(delta.before.topics_by_id[topic_id].partitions))
        self._create(new)

    def _led_here(self, topic: TopicImage, from_index: int = 0) -> list[_Place]:
        node_id = self._broker.node_id
        return [
            _Place(TopicPartition(topic.name, index), topic.topic_id)
            for index, partition in enumerate(topic.partitions)
            if index >= from_index and partition.leader == node_id
        ]

    def _create(self, places: list[_Place]) -> None:
        """Few logs are made at once; many, or those that come while many are being made, are made one after another."""
        if self._making or len(places) > AT_ONCE:
            self._queue.extend(places)
            self._make_some()
        else:
            self._adopt(places)

    def _adopt(self, places: list[_Place]) -> None:
        """Make the logs that are missing, now, and let clients reach the partitions."""
        creation = self._begin(places)
        creation.run()
        self._finish(creation, places)

    def _make_some(self) -> None:
        """Make a portion of the queue in a thread, then the next one."""
        if self._making or not self._queue:
            return
        self._making = True
        places = [self._queue.popleft() for _ in range(min(AT_ONCE, len(self._queue)))]
        creation = self._begin(places)

        def made() -> None:
            self._making = False
            self._finish(creation, places)
            self._make_some()

        self._broker.in_thread(creation.run, made)

    def _begin(self, places: list[_Place]) -> Creation:
        broker = self._broker
        wanted = [
            NewLog(place.name, TopicId(place.topic_id), self.settings_of(broker.image, place.name.topic))
            for place in places
            if broker.store.get(place.name) is None and place.topic_id in broker.image.topics_by_id
        ]
        return broker.store.begin_creation(wanted)

    def _finish(self, creation: Creation, places: list[_Place]) -> None:
        broker = self._broker
        try:
            broker.store.finish_creation(creation)
        except NoUsableDirectory as failure:
            broker.give_up(str(failure))
            return
        for _, problem in creation.failures:
            logger.error("a log could not be made: %s", problem)
        for place in places:
            topic = broker.image.topics_by_id.get(place.topic_id)
            if topic is None:
                # Deleted while its logs were being made.
                self._delete_log(place.name, place.topic_id)
            else:
                self._reach(place, topic.partitions[place.name.partition].leader_epoch)

    def _reach(self, place: _Place, epoch: int) -> None:
        """From here on clients find the partition."""
        broker = self._broker
        log = broker.store.get(place.name)
        if log is not None:
            log.high_watermark = log.end_offset
            log.epochs.assign(epoch, log.end_offset)
        partition = Partition(place.name, place.topic_id, epoch, log)
        broker.partitions.add(partition)
        broker.groups.led(partition)
        broker.transactions.led(partition)

    def _remove(self, topic_id: bytes) -> None:
        broker = self._broker
        going = broker.partitions.remove_topic(topic_id)
        if going:
            broker.groups.removed(going[0].name.topic)
            broker.transactions.removed(going[0].name.topic)
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
