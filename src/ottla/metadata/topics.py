"""Creating and deleting topics, and giving them more partitions.

Owns: what such requests may ask for, with Kafka's codes and words, and the facts that follow. Never knows: how facts
are stored. Invariants: nothing is changed here; one topic's mistake never spoils another's success, except that a
request for too many partitions is refused whole.
"""

from collections.abc import Generator, Iterable, Sequence

from ottla.base.errors import ErrorCode
from ottla.base.ports import Random
from ottla.base.settings.describe import ConfigSource, describe_created_topic
from ottla.base.settings.topic import TOPIC_SETTINGS
from ottla.base.settings.values import BrokerValues
from ottla.base.vocabulary import identity_text
from ottla.metadata import placement
from ottla.metadata.configs import MOST_CONFIGS, topic_configs_refusal
from ottla.metadata.decision import MOST_FACTS, TOO_MANY_FACTS, MetadataDecision, Refusal
from ottla.metadata.facts import Fact
from ottla.metadata.image import ClusterImage, ResourceType, TopicImage
from ottla.metadata.names import METADATA_TOPIC, topic_name_problem
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.stored.metadata import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord

NO_ID = bytes(16)
UNKNOWN_TOPIC = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
UNKNOWN_ID = Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
TOO_MANY_PARTITIONS = Refusal(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
# Kafka gives no reason here, and clients see what they would see there.
TOO_MUCH_GROWTH = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)


def create(
    request: CreateTopicsRequest, image: ClusterImage, values: BrokerValues, random: Random
) -> MetadataDecision[CreateTopicsResponse]:
    """CreateTopics."""
    counts: dict[str, int] = {}
    for topic in request.topics:
        counts[topic.name] = counts.get(topic.name, 0) + 1
    wanted = [topic for topic in request.topics if counts[topic.name] == 1 and topic.name != METADATA_TOPIC]
    creation = _Creation(image, values, random)
    results: list[CreatableTopicResult] = []
    partitions = sum(_partitions_wanted(topic, values) for topic in wanted)
    refusal = TOO_MANY_PARTITIONS if partitions > MOST_FACTS else None
    if refusal is None:
        results = [creation.create(topic) for topic in wanted]
        refusal = TOO_MANY_FACTS if len(creation.facts) > MOST_FACTS else None
    if refusal is not None:
        return MetadataDecision([], CreateTopicsResponse(topics=[_refused(name, refusal) for name in counts]))
    duplicate = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results.extend(_refused(name, duplicate) for name, count in counts.items() if count > 1)
    if counts.get(METADATA_TOPIC) == 1:
        message = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        results.append(_refused(METADATA_TOPIC, Refusal(ErrorCode.INVALID_REQUEST, message)))
    return MetadataDecision([] if request.validate_only else creation.facts, CreateTopicsResponse(topics=results))


def too_much_to_create(
    request: CreateTopicsRequest, values: BrokerValues
) -> Generator[None, None, CreateTopicsResponse | None]:
    """In steps, whether all topics of a long request, which is decided in portions, are too many: the answer then."""
    wanted: dict[str, int] = {}
    partitions = 0
    for topic in request.topics:
        if topic.name in wanted or topic.name == METADATA_TOPIC:
            partitions -= wanted.get(topic.name, 0)
            wanted[topic.name] = 0
        else:
            partitions += wanted.setdefault(topic.name, _partitions_wanted(topic, values))
        yield
    if partitions <= MOST_FACTS:
        return None
    results: list[CreatableTopicResult] = []
    for name in wanted:
        results.append(_refused(name, TOO_MANY_PARTITIONS))
        yield
    return CreateTopicsResponse(topics=results)


def _partitions_wanted(topic: CreatableTopic, values: BrokerValues) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return values.integer("num.partitions") if topic.num_partitions == -1 else max(topic.num_partitions, 0)


def _refused(name: str, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refusal.error, error_message=refusal.message)


class _Creation:
    """The topics of one request, and the facts they have come to so far."""

    def __init__(self, image: ClusterImage, values: BrokerValues, random: Random) -> None:
        self.facts: list[Fact] = []
        self._image = image
        self._values = values
        self._random = random
        self._default_configs: list[CreatableTopicConfigs] = []

    def create(self, topic: CreatableTopic) -> CreatableTopicResult:
        name = topic.name
        if len(topic.configs) > MOST_CONFIGS:
            return _refused(name, TOO_MANY_FACTS)
        configs = {config.name: config.value for config in topic.configs if config.value is not None}
        refusal = _name_refusal(name, self._image) or _config_refusal(topic, configs, self._values)
        if refusal is not None:
            return _refused(name, refusal)
        assignments = _assignments(topic, self._image, self._values, self._random)
        if isinstance(assignments, Refusal):
            return _refused(name, assignments)
        topic_id = new_topic_id(self._random)
        self.facts.append(TopicRecord(name=name, topic_id=topic_id))
        self.facts.extend(
            ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=name, name=key, value=value)
            for key, value in configs.items()
        )
        self.facts.extend(_new_partitions(topic_id, 0, assignments, self._image))
        return CreatableTopicResult(
            name=name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(assignments),
            replication_factor=len(assignments[0]),
            configs=self._described(configs),
        )

    def _described(self, overrides: dict[str, str]) -> list[CreatableTopicConfigs]:
        """All configs of a topic that sets these. The rest is the same for all and described once."""
        if any(TOPIC_SETTINGS[name].hidden for name in overrides):
            return self._described_anew(overrides)
        if not self._default_configs:
            self._default_configs = self._described_anew({})
        return [
            CreatableTopicConfigs(
                name=config.name, value=overrides[config.name], config_source=ConfigSource.DYNAMIC_TOPIC_CONFIG
            )
            if config.name in overrides
            else config
            for config in self._default_configs
        ]

    def _described_anew(self, overrides: dict[str, str]) -> list[CreatableTopicConfigs]:
        return [
            CreatableTopicConfigs(
                name=config.name,
                value=config.value,
                read_only=config.read_only,
                config_source=config.source,
                is_sensitive=config.sensitive,
            )
            for config in describe_created_topic(self._values, overrides)
        ]


def _name_refusal(name: str, image: ClusterImage) -> Refusal | None:
    if name in image.topics:
        return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    problem = topic_name_problem(name)
    if problem is None:
        alike = image.alike.get(name.replace(".", "_"))
        if alike is not None and ("." in name or "_" in name):
            problem = f"Topic '{name}' collides with existing topic: {alike[0]}"
    return None if problem is None else Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def _config_refusal(topic: CreatableTopic, configs: dict[str, str], values: BrokerValues) -> Refusal | None:
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        return Refusal(ErrorCode.INVALID_CONFIG, "Null value not supported for topic configs: " + ",".join(nulls))
    return topic_configs_refusal(configs, values)


def _assignments(
    topic: CreatableTopic, image: ClusterImage, values: BrokerValues, random: Random
) -> Sequence[Sequence[int]] | Refusal:
    if topic.assignments:
        return _manual_assignments(topic, image)
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        return Refusal(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    return placement.place(
        image.brokers.values(),
        values.integer("num.partitions") if topic.num_partitions == -1 else topic.num_partitions,
        values.integer("default.replication.factor") if topic.replication_factor == -1 else topic.replication_factor,
        random,
    )


def _manual_assignments(topic: CreatableTopic, image: ClusterImage) -> list[Sequence[int]] | Refusal:
    for value, what in ((topic.replication_factor, "replication factor"), (topic.num_partitions, "numPartitions")):
        if value != -1:
            return Refusal(
                ErrorCode.INVALID_REQUEST, f"A manual partition assignment was specified, but {what} was not set to -1."
            )
    found: dict[int, Sequence[int]] = {}
    replication_factor: int | None = None
    for assignment in topic.assignments:
        number = assignment.partition_index
        if number in found:
            return Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {number}",
            )
        refusal = placement.check_assignment(assignment.broker_ids, image.brokers, replication_factor, number)
        if refusal is not None:
            return refusal
        replication_factor = len(assignment.broker_ids)
        found[number] = assignment.broker_ids
    if any(number not in found for number in range(len(found))):
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return [found[number] for number in range(len(found))]


def _new_partitions(
    topic_id: bytes, first: int, assignments: Iterable[Sequence[int]], image: ClusterImage
) -> Iterable[PartitionRecord]:
    brokers = image.brokers
    directories = {broker.id: placement.directory_of(broker) for broker in brokers.values()}
    for number, replicas in enumerate(assignments, first):
        in_sync = [broker for broker in replicas if brokers[broker].active]
        yield PartitionRecord(
            partition_id=number,
            topic_id=topic_id,
            replicas=replicas,
            isr=in_sync,
            leader=in_sync[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=[directories[broker] for broker in replicas],
        )


def new_topic_id(random: Random) -> bytes:
    """A random id that command lines do not take for an option."""
    while True:
        raw = bytearray(random.identity())
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        topic_id = bytes(raw)
        if not identity_text(topic_id).startswith("-"):
            return topic_id


def delete(
    request: DeleteTopicsRequest, image: ClusterImage, enabled: bool, version: int
) -> MetadataDecision[DeleteTopicsResponse]:
    """DeleteTopics, by name or by id; `enabled` is the setting delete.topic.enable."""
    by_name = [*request.topic_names, *(topic.name for topic in request.topics if topic.name is not None)]
    if not enabled:
        if version < 3:
            refusal = Refusal(ErrorCode.INVALID_REQUEST, "Topic deletion is disabled.")
        else:
            refusal = Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
        ids = [topic.topic_id for topic in request.topics if topic.name is None]
        results = [_not_deleted(name, NO_ID, refusal) for name in by_name]
        results.extend(_not_deleted(None, topic_id, refusal) for topic_id in ids)
        return MetadataDecision([], DeleteTopicsResponse(responses=results))
    return _Deletion(request, image).decide()


def _not_deleted(name: str | None, topic_id: bytes, refusal: Refusal) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=refusal.error, error_message=refusal.message)


class _Deletion:
    """One request: names and ids are sorted out first, for a topic must not be deleted by both."""

    def __init__(self, request: DeleteTopicsRequest, image: ClusterImage) -> None:
        self.image = image
        self.results: list[DeletableTopicResult] = []
        self.names: dict[str, int] = {}
        self.ids: dict[bytes, int] = {}
        for name in request.topic_names:
            self.names[name] = self.names.get(name, 0) + 1
        for topic in request.topics:
            if topic.name is None and topic.topic_id == NO_ID:
                self.refuse(None, NO_ID, "Neither topic name nor id were specified.")
            elif topic.name is None:
                self.ids[topic.topic_id] = self.ids.get(topic.topic_id, 0) + 1
            elif topic.topic_id == NO_ID:
                self.names[topic.name] = self.names.get(topic.name, 0) + 1
            else:
                self.refuse(topic.name, topic.topic_id, "You may not specify both topic name and topic id.")

    def refuse(self, name: str | None, topic_id: bytes, message: str) -> None:
        self.results.append(_not_deleted(name, topic_id, Refusal(ErrorCode.INVALID_REQUEST, message)))

    def decide(self) -> MetadataDecision[DeleteTopicsResponse]:
        chosen: dict[bytes, TopicImage] = {}
        for topic_id, count in self.ids.items():
            topic = self.image.topics_by_id.get(topic_id)
            if count > 1:
                self.refuse(None, topic_id, "Duplicate topic id.")
            elif topic is None:
                self.results.append(_not_deleted(None, topic_id, UNKNOWN_ID))
            else:
                chosen[topic_id] = topic
        by_id = frozenset(chosen)
        for name, count in self.names.items():
            topic = self.image.topics.get(name)
            if count > 1:
                self.refuse(name, NO_ID, "Duplicate topic name.")
            elif topic is None:
                self.results.append(_not_deleted(name, NO_ID, UNKNOWN_TOPIC))
            elif topic.topic_id in by_id or self.ids.get(topic.topic_id, 0) > 1:
                self.refuse(name, topic.topic_id, "The provided topic name maps to an ID that was already supplied.")
                chosen.pop(topic.topic_id, None)
            else:
                chosen[topic.topic_id] = topic
        self.results.extend(DeletableTopicResult(name=topic.name, topic_id=topic.topic_id) for topic in chosen.values())
        facts: list[Fact] = [RemoveTopicRecord(topic_id=topic_id) for topic_id in chosen]
        return MetadataDecision(facts, DeleteTopicsResponse(responses=self.results))


def too_much_to_grow(
    request: CreatePartitionsRequest, image: ClusterImage
) -> Generator[None, None, CreatePartitionsResponse | None]:
    """In steps, whether all topics of a long request, which is decided in portions, are too many: the answer then."""
    growth = 0
    names: dict[str, None] = {}
    for topic in request.topics:
        names[topic.name] = None
        growth += _growth(topic, image)
        yield
    if len(names) > MOST_FACTS:
        refusal = TOO_MANY_FACTS
    elif growth > MOST_FACTS:
        refusal = TOO_MUCH_GROWTH
    else:
        return None
    results: list[CreatePartitionsTopicResult] = []
    for name in names:
        results.append(_partitions_result(name, refusal))
        yield
    return CreatePartitionsResponse(results=results)


def _growth(topic: CreatePartitionsTopic, image: ClusterImage) -> int:
    known = image.topics.get(topic.name)
    return 0 if known is None else max(topic.count - len(known.partitions), 0)


def create_partitions(
    request: CreatePartitionsRequest, image: ClusterImage, random: Random
) -> MetadataDecision[CreatePartitionsResponse]:
    """CreatePartitions."""
    counts: dict[str, int] = {}
    for topic in request.topics:
        counts[topic.name] = counts.get(topic.name, 0) + 1
    if sum(_growth(topic, image) for topic in request.topics) > MOST_FACTS:
        return MetadataDecision(
            [], CreatePartitionsResponse(results=[_partitions_result(name, TOO_MUCH_GROWTH) for name in counts])
        )
    facts: list[Fact] = []
    results: list[CreatePartitionsTopicResult] = []
    duplicate = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results.extend(_partitions_result(name, duplicate) for name, count in counts.items() if count > 1)
    results.extend(
        _partitions_result(topic.name, _add_partitions(topic, image, random, facts))
        for topic in request.topics
        if counts[topic.name] == 1
    )
    return MetadataDecision([] if request.validate_only else facts, CreatePartitionsResponse(results=results))


def _partitions_result(name: str, refusal: Refusal | None) -> CreatePartitionsTopicResult:
    if refusal is None:
        return CreatePartitionsTopicResult(name=name)
    return CreatePartitionsTopicResult(name=name, error_code=refusal.error, error_message=refusal.message)


def _add_partitions(
    wanted: CreatePartitionsTopic, image: ClusterImage, random: Random, facts: list[Fact]
) -> Refusal | None:
    topic = image.topics.get(wanted.name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    present = len(topic.partitions)
    if wanted.count == present:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if wanted.count < present:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {wanted.name} currently has {present} partition(s); {wanted.count} would not be an increase.",
        )
    assignments = _additional_assignments(wanted, topic, image, random)
    if isinstance(assignments, Refusal):
        return assignments
    facts.extend(_new_partitions(topic.topic_id, present, assignments, image))
    return None


def _additional_assignments(
    wanted: CreatePartitionsTopic, topic: TopicImage, image: ClusterImage, random: Random
) -> Sequence[Sequence[int]] | Refusal:
    present = len(topic.partitions)
    additional = wanted.count - present
    replication_factor = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        return placement.place(image.brokers.values(), additional, replication_factor, random)
    if len(wanted.assignments) != additional:
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(wanted.assignments)} "
            "assignment(s) were specified.",
        )
    for position, assignment in enumerate(wanted.assignments):
        refusal = placement.check_assignment(
            assignment.broker_ids, image.brokers, replication_factor, present + position
        )
        if refusal is not None:
            return refusal
    return [assignment.broker_ids for assignment in wanted.assignments]
