"""From one image to the next: facts in, changes and a new image out.

Owns: what each fact does to the image. Never knows: whether the facts come from a request just decided or from a log
being loaded; both go through `replay`, which is why a reload gives the same image.
Invariants: the image it starts from is never touched; cost is proportional to the facts and, once, to the number of
topics (two dictionary copies), never to the number of partitions of topics that do not change.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from ottla.metadata.facts import BadFact, Fact, alike
from ottla.metadata.image import (
    BrokerImage,
    ClusterImage,
    ConfigKey,
    ControllerImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from ottla.wire.stored import metadata as stored

UNCHANGED_LEADER = -2


class ClusterDelta:
    """The facts since an image. Public attributes say what changed, for those who follow the image.

    A topic that is created and removed by the same facts shows in neither.
    """

    def __init__(self, image: ClusterImage) -> None:
        self.before = image
        self.created_topics: dict[bytes, str] = {}
        """Name by topic id."""
        self.changed_topics: dict[bytes, set[int]] = {}
        """New and changed partitions of topics that were there before, by topic id."""
        self.removed_topics: dict[bytes, TopicImage] = {}
        """What they last were, by topic id."""
        self.changed_configs: set[ConfigKey] = set()
        self.changed_brokers: set[int] = set()
        """Registered, changed or gone."""
        self.features_changed = False
        self._topics: dict[str, TopicImage] | None = None
        self._topics_by_id: dict[bytes, TopicImage] | None = None
        self._alike: dict[str, tuple[str, ...]] | None = None
        self._partitions: dict[bytes, list[PartitionImage]] = {}
        self._configs: dict[ConfigKey, dict[str, str]] = {}
        self._brokers: dict[int, BrokerImage] | None = None
        self._controllers: dict[int, ControllerImage] | None = None
        self._features: dict[str, int] | None = None
        self._next_producer_id = image.next_producer_id
        # A cluster has many partitions and few different states of them: equal ones are kept once.
        self._last: tuple[stored.PartitionRecord, PartitionImage] | None = None
        self._shared: dict[PartitionImage, PartitionImage] = {}

    def replay(self, fact: Fact) -> None:
        """Take in the next fact. Raises BadFact for one that contradicts what is known."""
        self._replays[type(fact)](self, fact)

    def replay_all(self, facts: Iterable[Fact]) -> None:
        replays = self._replays
        for fact in facts:
            replays[type(fact)](self, fact)

    def apply(self, offset: int, epoch: int) -> ClusterImage:
        """The image after all facts replayed so far; `offset` is that of the last one."""
        before = self.before
        for topic_id, partitions in self._partitions.items():
            assert self._topics is not None
            assert self._topics_by_id is not None
            topic = self._topics_by_id[topic_id]._replace(partitions=tuple(partitions))
            self._topics_by_id[topic_id] = self._topics[topic.name] = topic
        self._partitions.clear()
        return ClusterImage(
            cluster_id=before.cluster_id,
            offset=offset,
            epoch=epoch,
            topics=before.topics if self._topics is None else self._topics,
            topics_by_id=before.topics_by_id if self._topics_by_id is None else self._topics_by_id,
            brokers=before.brokers if self._brokers is None else self._brokers,
            configs=self._applied_configs(),
            features=before.features if self._features is None else self._features,
            next_producer_id=self._next_producer_id,
            alike=before.alike if self._alike is None else self._alike,
            controllers=before.controllers if self._controllers is None else self._controllers,
        )

    def _applied_configs(self) -> Any:
        if not self._configs:
            return self.before.configs
        configs = dict(self.before.configs)
        for key, values in self._configs.items():
            if values:
                configs[key] = values
            else:
                configs.pop(key, None)
        return configs

    # --- topics ------------------------------------------------------------------------------------------------------

    def _own_topics(self) -> tuple[dict[str, TopicImage], dict[bytes, TopicImage]]:
        if self._topics is None or self._topics_by_id is None:
            self._topics = dict(self.before.topics)
            self._topics_by_id = dict(self.before.topics_by_id)
        return self._topics, self._topics_by_id

    def _own_alike(self) -> dict[str, tuple[str, ...]]:
        if self._alike is None:
            self._alike = dict(self.before.alike)
        return self._alike

    def _own_partitions(self, topic_id: bytes) -> list[PartitionImage]:
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            topic = self._own_topics()[1].get(topic_id)
            if topic is None:
                raise BadFact("it is about a partition of a topic that is not there")
            partitions = self._partitions[topic_id] = list(topic.partitions)
        return partitions

    def _partition(self, fact: stored.PartitionRecord) -> PartitionImage:
        if self._last is not None and alike(self._last[0], fact):
            return self._last[1]
        partition = PartitionImage(
            tuple(fact.replicas),
            tuple(fact.isr),
            fact.leader,
            fact.leader_epoch,
            fact.partition_epoch,
            tuple(fact.directories),
            tuple(fact.adding_replicas),
            tuple(fact.removing_replicas),
            tuple(fact.eligible_leader_replicas or ()),
            tuple(fact.last_known_elr or ()),
            fact.leader_recovery_state == 1,
        )
        partition = self._shared.setdefault(partition, partition)
        self._last = (fact, partition)
        return partition

    def _replay_topic(self, fact: stored.TopicRecord) -> None:
        topics, by_id = self._own_topics()
        if fact.name in topics or fact.topic_id in by_id:
            raise BadFact(f"it creates the topic {fact.name}, which is there")
        topics[fact.name] = by_id[fact.topic_id] = TopicImage(fact.name, fact.topic_id, ())
        self.created_topics[fact.topic_id] = fact.name
        if "." in fact.name or "_" in fact.name:
            alike = self._own_alike()
            key = fact.name.replace(".", "_")
            alike[key] = (*alike.get(key, ()), fact.name)

    def _replay_partition(self, fact: stored.PartitionRecord) -> None:
        topic_id = fact.topic_id
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            partitions = self._own_partitions(topic_id)
        number = fact.partition_id
        partition = self._partition(fact)
        if number == len(partitions):
            partitions.append(partition)
        elif 0 <= number < len(partitions):
            partitions[number] = partition
        else:
            raise BadFact(f"it is about partition {number} of a topic with {len(partitions)} partitions")
        if topic_id not in self.created_topics:
            self.changed_topics.setdefault(topic_id, set()).add(number)

    def _replay_partition_change(self, fact: stored.PartitionChangeRecord) -> None:
        partitions = self._own_partitions(fact.topic_id)
        number = fact.partition_id
        if not 0 <= number < len(partitions):
            raise BadFact(f"it changes partition {number} of a topic with {len(partitions)} partitions")
        partition = partitions[number]
        changes: dict[str, Any] = {
            ours: tuple(theirs)
            for ours, theirs in (
                ("replicas", fact.replicas),
                ("in_sync", fact.isr),
                ("directories", fact.directories),
                ("adding", fact.adding_replicas),
                ("removing", fact.removing_replicas),
                ("eligible", fact.eligible_leader_replicas),
                ("last_known", fact.last_known_elr),
            )
            if theirs is not None
        }
        if fact.leader != UNCHANGED_LEADER:
            changes["leader"] = fact.leader
            changes["leader_epoch"] = partition.leader_epoch + 1
        if fact.leader_recovery_state >= 0:
            changes["recovering"] = fact.leader_recovery_state == 1
        changed = partition._replace(partition_epoch=partition.partition_epoch + 1, **changes)
        partitions[number] = self._shared.setdefault(changed, changed)
        if fact.topic_id not in self.created_topics:
            self.changed_topics.setdefault(fact.topic_id, set()).add(number)

    def _replay_clear_eligible(self, fact: stored.ClearElrRecord) -> None:
        """The least number of in-sync replicas changed: who was eligible by the old one may not be by the new one."""
        topics = self._own_topics()[0]
        if fact.topic_name and fact.topic_name not in topics:
            raise BadFact(f"it is about the topic {fact.topic_name}, which is not there")
        for topic in [topics[fact.topic_name]] if fact.topic_name else list(topics.values()):
            for number, partition in enumerate(self._partitions.get(topic.topic_id, topic.partitions)):
                if partition.eligible or partition.last_known:
                    self._replay_partition_change(
                        stored.PartitionChangeRecord(
                            partition_id=number, topic_id=topic.topic_id, eligible_leader_replicas=[], last_known_elr=[]
                        )
                    )

    def _replay_remove_topic(self, fact: stored.RemoveTopicRecord) -> None:
        topics, by_id = self._own_topics()
        topic = by_id.pop(fact.topic_id, None)
        if topic is None:
            raise BadFact("it removes a topic that is not there")
        del topics[topic.name]
        self._partitions.pop(fact.topic_id, None)
        self.changed_topics.pop(fact.topic_id, None)
        if self.created_topics.pop(fact.topic_id, None) is None:
            self.removed_topics[fact.topic_id] = topic
        key = (ResourceType.TOPIC, topic.name)
        if key in self._configs or key in self.before.configs:
            self._configs[key] = {}
            self.changed_configs.add(key)
        if "." in topic.name or "_" in topic.name:
            alike = self._own_alike()
            normalized = topic.name.replace(".", "_")
            others = tuple(name for name in alike[normalized] if name != topic.name)
            if others:
                alike[normalized] = others
            else:
                del alike[normalized]

    # --- the rest ----------------------------------------------------------------------------------------------------

    def _replay_config(self, fact: stored.ConfigRecord) -> None:
        key = (fact.resource_type, fact.resource_name)
        values = self._configs.get(key)
        if values is None:
            values = self._configs[key] = dict(self.before.configs.get(key, {}))
        if fact.value is None:
            values.pop(fact.name, None)
        else:
            values[fact.name] = fact.value
        self.changed_configs.add(key)

    def _own_brokers(self, broker_id: int) -> dict[int, BrokerImage]:
        if self._brokers is None:
            self._brokers = dict(self.before.brokers)
        self.changed_brokers.add(broker_id)
        return self._brokers

    def _replay_register_broker(self, fact: stored.RegisterBrokerRecord) -> None:
        self._own_brokers(fact.broker_id)[fact.broker_id] = BrokerImage(
            id=fact.broker_id,
            epoch=fact.broker_epoch,
            incarnation_id=fact.incarnation_id,
            listeners=_listeners(fact.end_points),
            protocols={end.name: end.security_protocol for end in fact.end_points},
            features=_ranges(fact.features),
            rack=fact.rack,
            fenced=fact.fenced,
            in_controlled_shutdown=fact.in_controlled_shutdown,
            directories=tuple(fact.log_dirs),
            cordoned=tuple(fact.cordoned_log_dirs or ()),
        )

    def _replay_register_controller(self, fact: stored.RegisterControllerRecord) -> None:
        if self._controllers is None:
            self._controllers = dict(self.before.controllers)
        self._controllers[fact.controller_id] = ControllerImage(
            id=fact.controller_id,
            incarnation_id=fact.incarnation_id,
            listeners=_listeners(fact.end_points),
            protocols={end.name: end.security_protocol for end in fact.end_points},
            features=_ranges(fact.features),
        )

    def _replay_unregister_broker(self, fact: stored.UnregisterBrokerRecord) -> None:
        if self._own_brokers(fact.broker_id).pop(fact.broker_id, None) is None:
            raise BadFact(f"it unregisters broker {fact.broker_id}, which is not registered")

    def _replay_fence_broker(self, fact: stored.FenceBrokerRecord) -> None:
        self._change_broker(fact.id, fact.epoch, {"fenced": True})

    def _replay_unfence_broker(self, fact: stored.UnfenceBrokerRecord) -> None:
        self._change_broker(fact.id, fact.epoch, {"fenced": False})

    def _replay_broker_change(self, fact: stored.BrokerRegistrationChangeRecord) -> None:
        changes: dict[str, Any] = {}
        if fact.fenced:
            changes["fenced"] = fact.fenced > 0
        if fact.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = True
        if fact.log_dirs:
            changes["directories"] = tuple(fact.log_dirs)
        if fact.cordoned_log_dirs is not None:
            changes["cordoned"] = tuple(fact.cordoned_log_dirs)
        self._change_broker(fact.broker_id, fact.broker_epoch, changes)

    def _change_broker(self, broker_id: int, epoch: int, changes: dict[str, Any]) -> None:
        brokers = self._own_brokers(broker_id)
        broker = brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise BadFact(f"it is about registration {epoch} of broker {broker_id}, which is not there")
        brokers[broker_id] = broker._replace(**changes)

    def _replay_feature(self, fact: stored.FeatureLevelRecord) -> None:
        if self._features is None:
            self._features = dict(self.before.features)
        self.features_changed = True
        if fact.feature_level == 0:
            self._features.pop(fact.name, None)
        else:
            self._features[fact.name] = fact.feature_level

    def _replay_producer_ids(self, fact: stored.ProducerIdsRecord) -> None:
        if fact.next_producer_id < self._next_producer_id:
            raise BadFact(
                f"it takes the next producer id back from {self._next_producer_id} to {fact.next_producer_id}"
            )
        self._next_producer_id = fact.next_producer_id

    def _ignore(self, fact: Fact) -> None:
        """A fact that changes nothing in the image."""

    def _refuse(self, fact: Fact) -> None:
        """A fact of a subject that this release does not serve: leaving it out, an ACL say, would not be safe."""
        raise BadFact(f"this release does not know what to do with a {type(fact).__name__}")

    _replays: ClassVar[dict[type[Fact], Callable[["ClusterDelta", Any], None]]] = {
        stored.TopicRecord: _replay_topic,
        stored.PartitionRecord: _replay_partition,
        stored.PartitionChangeRecord: _replay_partition_change,
        stored.RemoveTopicRecord: _replay_remove_topic,
        stored.ConfigRecord: _replay_config,
        stored.RegisterBrokerRecord: _replay_register_broker,
        stored.UnregisterBrokerRecord: _replay_unregister_broker,
        stored.FenceBrokerRecord: _replay_fence_broker,
        stored.UnfenceBrokerRecord: _replay_unfence_broker,
        stored.BrokerRegistrationChangeRecord: _replay_broker_change,
        stored.FeatureLevelRecord: _replay_feature,
        stored.ProducerIdsRecord: _replay_producer_ids,
        stored.NoOpRecord: _ignore,
        stored.RegisterControllerRecord: _replay_register_controller,
        stored.ZkMigrationStateRecord: _ignore,
        stored.ClearElrRecord: _replay_clear_eligible,
        stored.AccessControlEntryRecord: _refuse,
        stored.RemoveAccessControlEntryRecord: _refuse,
        stored.ClientQuotaRecord: _refuse,
        stored.DelegationTokenRecord: _refuse,
        stored.RemoveDelegationTokenRecord: _refuse,
        stored.UserScramCredentialRecord: _refuse,
        stored.RemoveUserScramCredentialRecord: _refuse,
        stored.BeginTransactionRecord: _refuse,
        stored.EndTransactionRecord: _refuse,
        stored.AbortTransactionRecord: _refuse,
    }


def _listeners(
    end_points: Iterable[stored.BrokerEndpoint | stored.ControllerEndpoint],
) -> dict[str, tuple[str, int]]:
    return {end.name: (end.host, end.port) for end in end_points}


def _ranges(
    features: Iterable[stored.BrokerFeature | stored.ControllerFeature],
) -> dict[str, tuple[int, int]]:
    return {feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in features}


def difference(before: ClusterImage, after: ClusterImage) -> ClusterDelta:
    """What changed between two images when the facts in between are not known, as after a snapshot."""
    delta = ClusterDelta(before)
    for topic_id, topic in after.topics_by_id.items():
        old = before.topics_by_id.get(topic_id)
        if old is None:
            delta.created_topics[topic_id] = topic.name
        elif old.partitions != topic.partitions:
            delta.changed_topics[topic_id] = {
                number
                for number, partition in enumerate(topic.partitions)
                if number >= len(old.partitions) or old.partitions[number] != partition
            }
    delta.removed_topics = {
        topic_id: topic for topic_id, topic in before.topics_by_id.items() if topic_id not in after.topics_by_id
    }
    delta.changed_configs = {
        key for key in {*before.configs, *after.configs} if before.configs.get(key) != after.configs.get(key)
    }
    delta.changed_brokers = {
        broker
        for broker in {*before.brokers, *after.brokers}
        if before.brokers.get(broker) != after.brokers.get(broker)
    }
    delta.features_changed = before.features != after.features
    return delta
