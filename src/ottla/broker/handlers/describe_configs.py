"""DescribeConfigs, v1 to v4: every setting of topics, of this broker, of all brokers, groups, subscriptions, loggers.

A broker answers for itself (its own id) and for the dynamic defaults of all (the empty name). Groups and subscriptions
need not exist. Answers for many topics are made in steps, between which other requests get their turn.

KIP-133; KIP-226 (v1: synonyms), KIP-569 (v3: types and documentation), KIP-412 (loggers).
"""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.base.settings import describe
from ottla.base.settings.describe import ConfigSource, Described
from ottla.broker import loggers
from ottla.metadata.decision import Refusal
from ottla.metadata.image import ResourceType
from ottla.metadata.names import topic_name_problem
from ottla.net.dispatch import Context
from ottla.net.portions import in_turns
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

AT_ONCE = 8
"""Resources described before other requests get their turn: about a millisecond."""

MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


async def handle(broker: "Broker", request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    answer = _Answer(broker, request.include_synonyms, request.include_documentation)
    results = []
    for position, resource in enumerate(request.resources, 1):
        keys: set[str] = set()
        async for some in in_turns(broker, resource.configuration_keys or ()):
            keys.update(some)
        results.append(answer.describe(resource, keys))
        if position % AT_ONCE == 0:
            await broker.dispatcher.turn()
    return DescribeConfigsResponse(results=results)


class _Answer:
    """One request. Most settings of most topics are the same, so their part of the answer is made once."""

    def __init__(self, broker: "Broker", synonyms: bool, documentation: bool) -> None:
        self._broker = broker
        self._synonyms = synonyms
        self._documentation = documentation
        self._made: dict[int, tuple[Described, DescribeConfigsResourceResult]] = {}
        self._describers: dict[int, Callable[[str], Sequence[Described] | Refusal]] = {
            ResourceType.TOPIC: self._topic,
            ResourceType.BROKER: self._own_broker,
            ResourceType.GROUP: self._group,
            ResourceType.CLIENT_METRICS: self._client_metrics,
        }

    def describe(self, resource: DescribeConfigsResource, keys: Collection[str]) -> DescribeConfigsResult:
        found: Sequence[DescribeConfigsResourceResult] | Refusal
        if resource.resource_type == ResourceType.BROKER_LOGGER:
            found = self._loggers(resource.resource_name)
        else:
            describer = self._describers.get(resource.resource_type)
            described = _refuse(MALFORMED) if describer is None else describer(resource.resource_name)
            found = described if isinstance(described, Refusal) else [self._result(each) for each in described]
        if isinstance(found, Refusal):
            return DescribeConfigsResult(
                error_code=found.error,
                error_message=found.message or "",
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        return DescribeConfigsResult(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            # An empty list asks for everything, as null does.
            configs=[each for each in found if each.name in keys] if keys else found,
        )

    def _result(self, described: Described) -> DescribeConfigsResourceResult:
        made = self._made.get(id(described))
        # Equal ids mean the same setting only while the one that was kept is alive: it is, in the pair.
        if made is not None:
            return made[1]
        result = DescribeConfigsResourceResult(
            name=described.name,
            value=described.value,
            read_only=described.read_only,
            config_source=described.source,
            is_sensitive=described.sensitive,
            synonyms=[
                DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source)
                for each in described.synonyms
            ]
            if self._synonyms
            else (),
            config_type=described.kind,
            documentation=described.documentation if self._documentation else None,
        )
        self._made[id(described)] = (described, result)
        return result

    def _topic(self, name: str) -> Sequence[Described] | Refusal:
        problem = topic_name_problem(name)
        if problem is not None:
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        if name not in self._broker.image.topics:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
        overrides = self._broker.image.config(ResourceType.TOPIC, name)
        return describe.describe_topic(self._broker.values, overrides)

    def _own_broker(self, name: str) -> Sequence[Described] | Refusal:
        if not name:
            return describe.describe_broker_defaults(self._broker.values)
        own = str(self._broker.node_id)
        if name == own:
            return describe.describe_broker(self._broker.values)
        if not name.removeprefix("-").isdecimal():
            return _refuse(f"Broker id must be an integer, but it is: {name}")
        return _refuse(f"Unexpected broker id, expected {own} or empty string, but received {name}")

    def _group(self, name: str) -> Sequence[Described] | Refusal:
        if not name:
            return _refuse("Group name must not be empty")
        return describe.describe_group(self._broker.values, self._broker.image.config(ResourceType.GROUP, name))

    def _client_metrics(self, name: str) -> Sequence[Described] | Refusal:
        if not name:
            return _refuse("Client metrics subscription name must not be empty")
        return describe.describe_client_metrics(self._broker.image.config(ResourceType.CLIENT_METRICS, name))

    def _loggers(self, name: str) -> Sequence[DescribeConfigsResourceResult] | Refusal:
        own = str(self._broker.node_id)
        if not name:
            return _refuse("Broker id must not be empty")
        if not name.removeprefix("-").isdecimal():
            return _refuse(f"Broker id must be an integer, but it is: {name}")
        if name != own:
            return _refuse(f"Unexpected broker id, expected {own} but received {name}")
        source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
        return [
            DescribeConfigsResourceResult(name=logger, value=level, config_source=source)
            for logger, level in loggers.levels().items()
        ]


def _refuse(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)
