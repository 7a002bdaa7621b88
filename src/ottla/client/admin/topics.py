"""Topics, partitions, settings, offsets.

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
from ottla.client.admin.part import Outcome, Part
from ottla.client.cluster import Topic
from ottla.client.errors import BrokerError, known_code
from ottla.client.offsets import READ_UNCOMMITTED, FoundOffset, find_offsets
from ottla.client.retry import unless_missing
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
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
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

TOPICS_AT_ONCE = 500
"""Topics whose settings are asked for in one request."""
BROKER_DEFAULT = -1
"""As partitions or replication factor of a new topic: what the broker's settings say."""


PARTITIONS_AT_ONCE = 2_000


class EligibleLeaders(NamedTuple):
    """Replicas of one partition that are not in sync."""

    eligible: tuple[int, ...]
    """They have everything that was committed and may lead."""
    last_known: tuple[int, ...]
    """Who led last, where nobody may."""


class NewTopic(NamedTuple):
    """A topic to create."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = {}
    assignments: Mapping[int, Sequence[int]] = {}
    """The brokers of each partition, where they are not left to the cluster; then the two numbers stay -1."""


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
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Resource(NamedTuple):
    """A topic or group by its name, or a broker by its id (as text; empty for the default of all brokers)."""

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


class ConfigSynonym(NamedTuple):
    """One of the places a setting's value may come from, and what is there."""

    name: str
    value: str | None
    source: ConfigSource


class Config(NamedTuple):
    """One setting; the value is None when it is secret or not set."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    documentation: str | None
    synonyms: tuple[ConfigSynonym, ...] = ()
    """Every place that says something, the one that counts first."""


class _Operation(IntEnum):
    SET = 0
    DELETE = 1


class TopicAdmin(Part):
    """Topics, their settings and their data; also the settings of brokers and groups."""

    # --- topics -------------------------------------------------------------------------------------------------------

    async def topics(self, seconds: float | None = None) -> list[Topic]:
        """Every topic, by name."""
        deadline = self._deadline(seconds)

        async def ask() -> list[Topic]:
            found = await self._cluster.refresh(None, deadline)
            return [topic for _, topic in sorted(found.items()) if isinstance(topic, Topic)]

        return await self._cluster.retry(ask, deadline)

    async def describe_topics(
        self, names: Sequence[str], seconds: float | None = None
    ) -> dict[str, Topic | BrokerError]:
        deadline = self._deadline(seconds)
        found = await self._cluster.retry(lambda: self._cluster.refresh(names, deadline), deadline)
        return {name: found.get(name) or _unknown_topic(name) for name in names}

    async def eligible_leaders(
        self, names: Sequence[str], seconds: float | None = None
    ) -> dict[TopicPartition, EligibleLeaders]:
        """Who outside the in-sync sets may lead the partitions of topics without loss (KIP-966); Kafka 4.0 or later."""
        deadline = self._deadline(seconds)
        found: dict[TopicPartition, EligibleLeaders] = {}
        cursor: Cursor | None = None
        while True:
            request = DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name) for name in sorted(names)],
                response_partition_limit=PARTITIONS_AT_ONCE,
                cursor=cursor,
            )
            answer = await self._cluster.ask_any(request, DescribeTopicPartitionsResponse, deadline)
            for topic in answer.topics:
                if topic.error_code != ErrorCode.NONE:
                    raise BrokerError(known_code(topic.error_code), f"topic {topic.name!r}")
                for partition in topic.partitions:
                    found[TopicPartition(topic.name or "", partition.partition_index)] = EligibleLeaders(
                        tuple(partition.eligible_leader_replicas or ()), tuple(partition.last_known_elr or ())
                    )
            following = answer.next_cursor
            if following is None:
                return found
            cursor = Cursor(following.topic_name, following.partition_index)

    async def create_topics(
        self, topics: Sequence[NewTopic], seconds: float | None = None, *, validate_only: bool = False
    ) -> dict[str, Created]:
        deadline = self._deadline(seconds)
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic.name,
                    num_partitions=topic.partitions,
                    replication_factor=topic.replication_factor,
                    assignments=[CreatableReplicaAssignment(*each) for each in topic.assignments.items()],
                    configs=[CreatableTopicConfig(name, value) for name, value in topic.configs.items()],
                )
                for topic in topics
            ],
            timeout_ms=self._milliseconds(seconds),
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
            self._require_controller(result.error for result in created.values())
            return created

        return await self._cluster.retry(ask, deadline)

    async def delete_topics(self, names: Sequence[str], seconds: float | None = None) -> dict[str, Outcome]:
        deadline = self._deadline(seconds)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in names],
            topic_names=names,
            timeout_ms=self._milliseconds(seconds),
        )

        async def ask() -> dict[str, Outcome]:
            answer = await self._cluster.ask_controller(request, DeleteTopicsResponse, deadline)
            outcomes = {
                entry.name or "": Outcome(known_code(entry.error_code), entry.error_message)
                for entry in answer.responses
            }
            self._require_controller(outcome.error for outcome in outcomes.values())
            return outcomes

        outcomes = await self._cluster.retry(ask, deadline)
        for name in names:
            self._cluster.forget(name)
        return outcomes

    async def create_partitions(
        self,
        totals: Mapping[str, int],
        seconds: float | None = None,
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> dict[str, Outcome]:
        """Let each topic have this many partitions in all; `assignments` names the brokers of each new one."""
        placed = assignments or {}
        deadline = self._deadline(seconds)
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(
                    name, total, [CreatePartitionsAssignment(row) for row in placed[name]] if name in placed else None
                )
                for name, total in totals.items()
            ],
            timeout_ms=self._milliseconds(seconds),
            validate_only=validate_only,
        )

        async def ask() -> dict[str, Outcome]:
            answer = await self._cluster.ask_controller(request, CreatePartitionsResponse, deadline)
            outcomes = {
                entry.name: Outcome(known_code(entry.error_code), entry.error_message) for entry in answer.results
            }
            self._require_controller(outcome.error for outcome in outcomes.values())
            return outcomes

        outcomes = await self._cluster.retry(ask, deadline)
        for name in totals:
            self._cluster.forget(name)
        return outcomes

    # --- settings -----------------------------------------------------------------------------------------------------

    async def describe_configs(
        self,
        resource: Resource,
        seconds: float | None = None,
        *,
        documentation: bool = False,
        synonyms: bool = False,
    ) -> list[Config]:
        """Every setting of a topic or a broker, by name."""
        deadline = self._deadline(seconds)
        request = DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource.kind, resource.name, None)],
            include_synonyms=synonyms,
            include_documentation=documentation,
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

    async def topic_setting(self, topics: Iterable[str], setting: str, seconds: float | None = None) -> dict[str, str]:
        """One setting of many topics; a topic that went meanwhile, or has no value for it, is left out."""
        deadline = self._deadline(seconds)
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
        seconds: float | None = None,
    ) -> Outcome:
        """Set some settings and give others back their default; all of it or nothing."""
        deadline = self._deadline(seconds)
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
            self._require_controller([error])
            return Outcome(error, result.error_message)

        return await self._cluster.retry(ask, deadline)

    async def config_resources(
        self, kinds: Sequence[ResourceKind] = (), seconds: float | None = None
    ) -> list[Resource]:
        """What has settings of its own, of these kinds or of all the broker knows."""
        deadline = self._deadline(seconds)
        request = ListConfigResourcesRequest([int(kind) for kind in kinds])

        async def ask() -> list[Resource]:
            answer = await self._cluster.ask_any(request, ListConfigResourcesResponse, deadline)
            if answer.error_code:
                raise BrokerError(answer.error_code, "the list of what has settings")
            known = {kind.value for kind in ResourceKind}
            return sorted(
                Resource(ResourceKind(entry.resource_type), entry.resource_name)
                for entry in answer.config_resources
                if entry.resource_type in known
            )

        return await self._cluster.retry(ask, deadline)

    # --- data ---------------------------------------------------------------------------------------------------------

    async def offsets(
        self,
        moments: Mapping[TopicPartition, int],
        seconds: float | None = None,
        *,
        isolation: int = READ_UNCOMMITTED,
    ) -> dict[TopicPartition, FoundOffset]:
        """See `find_offsets`."""
        return await find_offsets(self._cluster, moments, self._deadline(seconds), isolation)

    async def delete_records(
        self, before: Mapping[TopicPartition, int], seconds: float | None = None
    ) -> dict[TopicPartition, tuple[Outcome, int]]:
        """Delete the records below each offset (-1: all there are); the outcome and the new first offset of each."""
        deadline = self._deadline(seconds)
        by_node: dict[int, dict[str, list[DeleteRecordsPartition]]] = defaultdict(lambda: defaultdict(list))
        for partition, offset in before.items():
            leader = await self._cluster.retry(partial(self._cluster.leader, partition, deadline), deadline)
            by_node[leader.leader][partition.topic].append(DeleteRecordsPartition(partition.partition, offset))

        async def ask(node: int, parts: Mapping[str, list[DeleteRecordsPartition]]) -> DeleteRecordsResponse:
            topics = [DeleteRecordsTopic(name, rows) for name, rows in parts.items()]
            request = DeleteRecordsRequest(topics, self._milliseconds(seconds))
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

    async def sizes(self, seconds: float | None = None) -> dict[TopicPartition, int]:
        """Bytes on disk of each partition's largest replica, as the brokers report them."""
        deadline = self._deadline(seconds)
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
    return Config(
        entry.name,
        entry.value,
        _source(entry.config_source),
        entry.read_only,
        entry.is_sensitive,
        entry.documentation,
        tuple(ConfigSynonym(each.name, each.value, _source(each.source)) for each in entry.synonyms),
    )


def _source(number: int) -> ConfigSource:
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN


def _node_of(resource: Resource) -> int | None:
    """Only a broker itself knows its static settings."""
    own = resource.kind in (ResourceKind.BROKER, ResourceKind.BROKER_LOGGER)
    return int(resource.name) if own and resource.name else None


def _subject(resource: Resource) -> str:
    if resource.kind != ResourceKind.BROKER:
        return f"{resource.kind.name.lower().replace('_', ' ')} {resource.name!r}"
    return f"broker {resource.name}" if resource.name else "the default of all brokers"


def _unknown_topic(name: str) -> BrokerError:
    return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
