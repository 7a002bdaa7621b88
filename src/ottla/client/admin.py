"""What an operator does to a cluster: topics, partitions, settings, offsets.

Owns: the administrative requests, their retries, and results as plain values. Never knows: who shows them.
Invariants: a call about several things answers for each of them (`Outcome`, keyed as asked) and raises only when the
cluster could not be asked at all; what a broker refuses finally is not tried again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.cluster import Cluster, Topic
from ottla.client.errors import BrokerError, known_code
from ottla.client.offsets import READ_UNCOMMITTED, FoundOffset, find_offsets
from ottla.client.retry import unless_missing
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

DEFAULT_SECONDS = 30.0
TOPICS_AT_ONCE = 500
"""Topics whose settings are asked for in one request."""
BROKER_DEFAULT = -1
"""As partitions or replication factor of a new topic: what the broker's settings say."""


class Outcome(NamedTuple):
    """What became of one thing; `message` is the broker's own sentence, if it gave one."""

    error: ErrorCode
    message: str | None = None


class NewTopic(NamedTuple):
    """A topic to create."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = {}


class Created(NamedTuple):
    """What became of a new topic; the numbers are -1 when the broker does not tell."""

    error: ErrorCode
    message: str | None
    topic_id: bytes
    partitions: int
    replication_factor: int


class ResourceKind(IntEnum):
    """What settings can belong to; the numbers of the protocol."""

    TOPIC = 2
    BROKER = 4


class Resource(NamedTuple):
    """A topic by its name or a broker by its id (as text; empty for the default of all brokers)."""

    kind: ResourceKind
    name: str


class ConfigSource(IntEnum):
    """Where a setting's value comes from."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Config(NamedTuple):
    """One setting; the value is None when it is secret or not set."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    documentation: str | None


class _Operation(IntEnum):
    SET = 0
    DELETE = 1


class Admin:
    """Every call takes the seconds it may last in all."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    # --- topics -------------------------------------------------------------------------------------------------------

    async def topics(self, seconds: float = DEFAULT_SECONDS) -> list[Topic]:
        """Every topic, by name."""
        deadline = self._cluster.deadline(seconds)

        async def ask() -> list[Topic]:
            found = await self._cluster.refresh(None, deadline)
            return [topic for _, topic in sorted(found.items()) if isinstance(topic, Topic)]

        return await self._cluster.retry(ask, deadline)

    async def describe_topics(
        self, names: Sequence[str], seconds: float = DEFAULT_SECONDS
    ) -> dict[str, Topic | BrokerError]:
        deadline = self._cluster.deadline(seconds)
        found = await self._cluster.retry(lambda: self._cluster.refresh(names, deadline), deadline)
        return {name: found.get(name) or _unknown_topic(name) for name in names}

    async def create_topics(
        self, topics: Sequence[NewTopic], seconds: float = DEFAULT_SECONDS, *, validate_only: bool = False
    ) -> dict[str, Created]:
        deadline = self._cluster.deadline(seconds)
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic.name,
                    num_partitions=topic.partitions,
                    replication_factor=topic.replication_factor,
                    configs=[CreatableTopicConfig(name, value) for name, value in topic.configs.items()],
                )
                for topic in topics
            ],
            timeout_ms=milliseconds(seconds),
            validate_only=validate_only,
        )

        async def ask() -> dict[str, Created]:
            answer = await self._cluster.ask_controller(request, CreateTopicsResponse, deadline)
            created = {
                entry.name: Created(
                    known_code(entry.error_code),
                    entry.error_message,
                    entry.topic_id,
                    entry.num_partitions,
                    entry.replication_factor,
                )
                for entry in answer.topics
            }
            require_controller(self._cluster, (result.error for result in created.values()))
            return created

        return await self._cluster.retry(ask, deadline)

    async def delete_topics(self, names: Sequence[str], seconds: float = DEFAULT_SECONDS) -> dict[str, Outcome]:
        deadline = self._cluster.deadline(seconds)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in names],
            topic_names=names,
            timeout_ms=milliseconds(seconds),
        )

        async def ask() -> dict[str, Outcome]:
            answer = await self._cluster.ask_controller(request, DeleteTopicsResponse, deadline)
            outcomes = {
                entry.name or "": Outcome(known_code(entry.error_code), entry.error_message)
                for entry in answer.responses
            }
            require_controller(self._cluster, (outcome.error for outcome in outcomes.values()))
            return outcomes

        outcomes = await self._cluster.retry(ask, deadline)
        for name in names:
            self._cluster.forget(name)
        return outcomes

    async def create_partitions(
        self, totals: Mapping[str, int], seconds: float = DEFAULT_SECONDS
    ) -> dict[str, Outcome]:
        """Let each topic have this many partitions in all."""
        deadline = self._cluster.deadline(seconds)
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=total, assignments=None) for name, total in totals.items()],
            timeout_ms=milliseconds(seconds),
        )

        async def ask() -> dict[str, Outcome]:
            answer = await self._cluster.ask_controller(request, CreatePartitionsResponse, deadline)
            outcomes = {
                entry.name: Outcome(known_code(entry.error_code), entry.error_message) for entry in answer.results
            }
            require_controller(self._cluster, (outcome.error for outcome in outcomes.values()))
            return outcomes

        outcomes = await self._cluster.retry(ask, deadline)
        for name in totals:
            self._cluster.forget(name)
        return outcomes

    # --- settings -----------------------------------------------------------------------------------------------------

    async def describe_configs(
        self, resource: Resource, seconds: float = DEFAULT_SECONDS, *, documentation: bool = False
    ) -> list[Config]:
        """Every setting of a topic or a broker, by name."""
        deadline = self._cluster.deadline(seconds)
        request = DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource.kind, resource.name, None)], include_documentation=documentation
        )

        async def ask() -> list[Config]:
            node = _node_of(resource)
            if node is None:
                answer = await self._cluster.ask_any(request, DescribeConfigsResponse, deadline)
            else:
                answer = await self._cluster.ask_node(node, request, DescribeConfigsResponse, deadline)
            (result,) = answer.results
            if result.error_code:
                raise BrokerError(result.error_code, _subject(resource), result.error_message)
            return sorted(_config(entry) for entry in result.configs)

        return await self._cluster.retry(ask, deadline, unless_missing)

    async def topic_setting(
        self, topics: Iterable[str], setting: str, seconds: float = DEFAULT_SECONDS
    ) -> dict[str, str]:
        """One setting of many topics; a topic that went meanwhile, or has no value for it, is left out."""
        deadline = self._cluster.deadline(seconds)
        names = list(topics)
        found: dict[str, str] = {}
        for start in range(0, len(names), TOPICS_AT_ONCE):
            resources = [
                DescribeConfigsResource(ResourceKind.TOPIC, name, [setting])
                for name in names[start : start + TOPICS_AT_ONCE]
            ]
            ask = partial(self._cluster.ask_any, DescribeConfigsRequest(resources), DescribeConfigsResponse, deadline)
            for result in (await self._cluster.retry(ask, deadline)).results:
                values = [entry.value for entry in result.configs if entry.name == setting]
                if values and values[0] is not None:
                    found[result.resource_name] = values[0]
        return found

    async def alter_configs(
        self,
        resource: Resource,
        settings: Mapping[str, str],
        remove: Iterable[str] = (),
        seconds: float = DEFAULT_SECONDS,
    ) -> Outcome:
        """Set some settings and give others back their default; all of it or nothing."""
        deadline = self._cluster.deadline(seconds)
        changes = [AlterableConfig(name, _Operation.SET, value) for name, value in settings.items()]
        changes += [AlterableConfig(name, _Operation.DELETE, None) for name in remove]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(resource.kind, resource.name, changes)])

        async def ask() -> Outcome:
            node = _node_of(resource)
            if node is None:
                answer = await self._cluster.ask_controller(request, IncrementalAlterConfigsResponse, deadline)
            else:
                answer = await self._cluster.ask_node(node, request, IncrementalAlterConfigsResponse, deadline)
            (result,) = answer.responses
            error = known_code(result.error_code)
            require_controller(self._cluster, [error])
            return Outcome(error, result.error_message)

        return await self._cluster.retry(ask, deadline)

    # --- data ---------------------------------------------------------------------------------------------------------

    async def offsets(
        self,
        moments: Mapping[TopicPartition, int],
        seconds: float = DEFAULT_SECONDS,
        *,
        isolation: int = READ_UNCOMMITTED,
    ) -> dict[TopicPartition, FoundOffset]:
        """See `find_offsets`."""
        return await find_offsets(self._cluster, moments, self._cluster.deadline(seconds), isolation)

    async def delete_records(
        self, before: Mapping[TopicPartition, int], seconds: float = DEFAULT_SECONDS
    ) -> dict[TopicPartition, tuple[Outcome, int]]:
        """Delete the records below each offset (-1: all there are); the outcome and the new first offset of each."""
        deadline = self._cluster.deadline(seconds)
        by_node: dict[int, dict[str, list[DeleteRecordsPartition]]] = defaultdict(lambda: defaultdict(list))
        for partition, offset in before.items():
            leader = await self._cluster.retry(partial(self._cluster.leader, partition, deadline), deadline)
            by_node[leader.leader][partition.topic].append(DeleteRecordsPartition(partition.partition, offset))

        async def ask(node: int, parts: Mapping[str, list[DeleteRecordsPartition]]) -> DeleteRecordsResponse:
            topics = [DeleteRecordsTopic(name, rows) for name, rows in parts.items()]
            request = DeleteRecordsRequest(topics, milliseconds(seconds))
            return await self._cluster.ask_node(node, request, DeleteRecordsResponse, deadline)

        answers = await asyncio.gather(*(ask(node, parts) for node, parts in by_node.items()))
        return {
            TopicPartition(topic.name, part.partition_index): (
                Outcome(known_code(part.error_code)),
                part.low_watermark,
            )
            for answer in answers
            for topic in answer.topics
            for part in topic.partitions
        }

    async def sizes(self, seconds: float = DEFAULT_SECONDS) -> dict[TopicPartition, int]:
        """Bytes on disk of each partition's largest replica, as the brokers report them."""
        deadline = self._cluster.deadline(seconds)
        request = DescribeLogDirsRequest(topics=None)
        answers = await asyncio.gather(
            *(
                self._cluster.ask_node(node, request, DescribeLogDirsResponse, deadline)
                for node in list(self._cluster.brokers)
            )
        )
        sizes: dict[TopicPartition, int] = defaultdict(int)
        for answer in answers:
            if answer.error_code:
                raise BrokerError(answer.error_code, "the log directories")
            for directory in answer.results:
                for topic in directory.topics:
                    for part in topic.partitions:
                        partition = TopicPartition(topic.name, part.partition_index)
                        sizes[partition] = max(sizes[partition], part.partition_size)
        return dict(sizes)


def _config(entry: DescribeConfigsResourceResult) -> Config:
    try:
        source = ConfigSource(entry.config_source)
    except ValueError:
        source = ConfigSource.UNKNOWN
    return Config(entry.name, entry.value, source, entry.read_only, entry.is_sensitive, entry.documentation)


def _node_of(resource: Resource) -> int | None:
    """Only a broker itself knows its static settings."""
    return int(resource.name) if resource.kind == ResourceKind.BROKER and resource.name else None


def _subject(resource: Resource) -> str:
    if resource.kind == ResourceKind.TOPIC:
        return f"topic {resource.name!r}"
    return f"broker {resource.name}" if resource.name else "the default of all brokers"


def _unknown_topic(name: str) -> BrokerError:
    return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")


def require_controller(cluster: Cluster, errors: Iterable[ErrorCode]) -> None:
    """A request that met a broker that is not the controller changed nothing: look for the controller again."""
    if any(error == ErrorCode.NOT_CONTROLLER for error in errors):
        cluster.controller_id = -1
        raise BrokerError(ErrorCode.NOT_CONTROLLER, "the cluster", "the controller is moving")


def milliseconds(seconds: float) -> int:
    """What the broker may take: a little less than we wait, so that its own answer arrives."""
    return max(1, int(seconds * 900))
