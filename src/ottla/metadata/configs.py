"""Changing the configs of topics, brokers, groups and subscriptions to clients' metrics.

Owns: AlterConfigs (replace everything) and IncrementalAlterConfigs (set, delete, append, subtract), with Kafka's codes
and words, and the facts that follow. Never knows: what a setting does; which values it may have, the settings say.
Loggers are not here: their levels are no facts. Invariant: a resource is changed as a whole or not at all.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.settings import changes
from ottla.base.settings.broker import find_broker_setting
from ottla.base.settings.changes import Operation
from ottla.base.settings.group import CLIENT_METRICS_SETTINGS, GROUP_SETTINGS
from ottla.base.settings.kinds import InvalidSetting, Setting
from ottla.base.settings.topic import TOPIC_SETTINGS
from ottla.base.settings.values import BrokerValues
from ottla.metadata import eligible
from ottla.metadata.decision import TOO_MANY_FACTS, DecisionContext, MetadataDecision, Refusal
from ottla.metadata.facts import Fact
from ottla.metadata.image import ClusterImage, ConfigKey, ResourceType
from ottla.metadata.names import topic_name_problem
from ottla.metadata.partition_change import ELIGIBLE_LEADERS, MIN_IN_SYNC
from ottla.wire.messages import alter_configs as full
from ottla.wire.messages import incremental_alter_configs as incremental
from ottla.wire.stored.metadata import ConfigRecord

MOST_VALUE_BYTES = 32_767
MOST_CONFIGS = 1000
"""Of one resource in a request, which is decided at once; Kafka refuses 10,000 with the same words."""
STORED = (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP, ResourceType.CLIENT_METRICS)
TWICE = Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")

Alteration = tuple[str, Operation, str | None]
Answer = TypeVar("Answer", full.AlterConfigsResourceResponse, incremental.AlterConfigsResourceResponse)


def topic_configs_refusal(configs: Mapping[str, str], values: BrokerValues) -> Refusal | None:
    """Why a topic cannot have these configs."""
    if not configs:
        return None
    try:
        _check_sizes(configs.values())
        changes.check_topic_overrides(configs, values)
    except InvalidSetting as problem:
        return Refusal(problem.error, str(problem))
    return None


def alter(request: full.AlterConfigsRequest, context: DecisionContext) -> MetadataDecision[full.AlterConfigsResponse]:
    """AlterConfigs: what is not named goes back to its default."""
    facts: list[Fact] = []
    keys = [(resource.resource_type, resource.resource_name) for resource in request.resources]
    responses: list[full.AlterConfigsResourceResponse] = []
    times = Counter(keys)
    for key, resource in zip(keys, request.resources, strict=True):
        refusal = TWICE if times[key] > 1 else None
        if refusal is None and len(resource.configs) > MOST_CONFIGS:
            refusal = TOO_MANY_FACTS
        if refusal is None:
            given: list[Alteration] = [(config.name, Operation.SET, config.value) for config in resource.configs]
            named = {config.name for config in resource.configs}
            dropped: list[Alteration] = [
                (name, Operation.DELETE, None) for name in context.image.configs.get(key, {}) if name not in named
            ]
            refusal = _alter_resource(key, [*given, *dropped], context, facts)
        responses.append(refused_resource(full.AlterConfigsResourceResponse, key, refusal))
    facts += eligible.after_settings(facts, context)
    return MetadataDecision([] if request.validate_only else facts, full.AlterConfigsResponse(responses=responses))


def alter_incrementally(
    request: incremental.IncrementalAlterConfigsRequest, context: DecisionContext
) -> MetadataDecision[incremental.IncrementalAlterConfigsResponse]:
    """IncrementalAlterConfigs."""
    facts: list[Fact] = []
    keys = [(resource.resource_type, resource.resource_name) for resource in request.resources]
    responses: list[incremental.AlterConfigsResourceResponse] = []
    times = Counter(keys)
    for key, resource in zip(keys, request.resources, strict=True):
        refusal = TWICE if times[key] > 1 else None
        if refusal is None:
            alterations = operations(resource.configs)
            refusal = (
                alterations if isinstance(alterations, Refusal) else _alter_resource(key, alterations, context, facts)
            )
        responses.append(refused_resource(incremental.AlterConfigsResourceResponse, key, refusal))
    facts += eligible.after_settings(facts, context)
    reply = incremental.IncrementalAlterConfigsResponse(responses=responses)
    return MetadataDecision([] if request.validate_only else facts, reply)


def operations(configs: Sequence[incremental.AlterableConfig]) -> list[Alteration] | Refusal:
    """The changes that are asked for; Kafka fails on an unknown operation, here the client is told."""
    if len(configs) > MOST_CONFIGS:
        return TOO_MANY_FACTS
    found: list[Alteration] = []
    for config in configs:
        try:
            found.append((config.name, Operation(config.config_operation), config.value))
        except ValueError:
            message = f"Unknown operation {config.config_operation} for config {config.name}."
            return Refusal(ErrorCode.INVALID_REQUEST, message)
    return found


def misdirected(key: ConfigKey, node_id: int) -> Refusal | None:
    """Why a broker does not pass a change on: the configs of one broker are changed by way of that broker."""
    kind, name = key
    if kind != ResourceType.BROKER or name in ("", str(node_id)):
        return None
    numeric = name.removeprefix("-").isdecimal()
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"Unexpected broker id, expected {node_id}, but received {name}"
        if numeric
        else f"Node id must be an integer, but it is: {name}",
    )


def refused_resource(kind: type[Answer], key: ConfigKey, refusal: Refusal | None) -> Answer:
    """The answer for one resource; no refusal is success."""
    error, message = (ErrorCode.NONE, None) if refusal is None else refusal
    return kind(error_code=error, error_message=message, resource_type=key[0], resource_name=key[1])


def _alter_resource(
    key: ConfigKey, alterations: list[Alteration], context: DecisionContext, facts: list[Fact]
) -> Refusal | None:
    """Add the facts of one resource, or say why not."""
    kind, name = key
    try:
        if kind not in STORED:
            raise InvalidSetting(f"Unknown resource type {kind}", ErrorCode.INVALID_REQUEST)
        changes.check_alterations(alterations)
        if kind == ResourceType.BROKER:
            _check_broker(name, context.image)
        current = context.image.configs.get(key, {})
        changed = {
            config: changes.alter(config, _setting(kind, config), current.get(config), operation, operand)
            for config, operation, operand in alterations
        }
        result = {config: text for config, text in {**current, **changed}.items() if text is not None}
        _check_sizes(text for text in changed.values() if text is not None)
        _check_resource(kind, name, changed, result, context)
    except InvalidSetting as problem:
        return Refusal(problem.error, str(problem))
    facts.extend(
        ConfigRecord(resource_type=kind, resource_name=name, name=config, value=text)
        for config, text in changed.items()
        # A broker may have to read the same value anew (a key store behind an unchanged path).
        if text != current.get(config) or kind == ResourceType.BROKER
    )
    return None


def _elects_eligible(image: ClusterImage) -> bool:
    return image.features.get(ELIGIBLE_LEADERS, 0) > 0


def _setting(kind: int, name: str) -> Setting | None:
    if kind == ResourceType.TOPIC:
        return TOPIC_SETTINGS.get(name)
    if kind == ResourceType.BROKER:
        return find_broker_setting(name)
    return (GROUP_SETTINGS if kind == ResourceType.GROUP else CLIENT_METRICS_SETTINGS).get(name)


def _check_sizes(texts: Iterable[str]) -> None:
    for text in texts:
        if len(text) * 3 > MOST_VALUE_BYTES and len(text.encode()) > MOST_VALUE_BYTES:
            raise InvalidSetting(
                "The configuration value cannot be added because it exceeds the maximum value size of "
                f"{MOST_VALUE_BYTES} bytes."
            )


def _check_broker(name: str, image: ClusterImage) -> None:
    if not name:
        return
    try:
        broker = int(name)
    except ValueError:
        message = f"Node id must be an integer, but it is: {name}"
        raise InvalidSetting(message, ErrorCode.INVALID_REQUEST) from None
    if broker not in image.brokers and broker not in image.controllers:
        raise InvalidSetting(f"No node with id {broker} found.", ErrorCode.BROKER_ID_NOT_REGISTERED)


def _check_resource(
    kind: int, name: str, changed: Mapping[str, str | None], result: Mapping[str, str], context: DecisionContext
) -> None:
    if kind == ResourceType.TOPIC:
        _check_topic(name, result, context)
    elif kind == ResourceType.BROKER:
        changes.check_broker_dynamic(result, bool(name), context.values)
        if _elects_eligible(context.image) and MIN_IN_SYNC in changed:
            # With it the controller elects by one number for the whole cluster.
            if name:
                raise InvalidSetting(f"Broker-level {MIN_IN_SYNC} cannot be altered while ELR is enabled.")
            if changed[MIN_IN_SYNC] is None:
                raise InvalidSetting(f"Cluster-level {MIN_IN_SYNC} cannot be removed while ELR is enabled.")
    elif kind == ResourceType.GROUP:
        if not name:
            raise InvalidSetting("Default group resources are not allowed.", ErrorCode.INVALID_REQUEST)
        changes.check_group_overrides(result, context.values)
    else:
        if not name:
            raise InvalidSetting("Subscription name can't be empty", ErrorCode.INVALID_REQUEST)
        changes.check_client_metrics(result)


def _check_topic(name: str, result: Mapping[str, str], context: DecisionContext) -> None:
    if not name:
        raise InvalidSetting("Default topic resources are not allowed.", ErrorCode.INVALID_REQUEST)
    problem = topic_name_problem(name)
    if problem is not None:
        raise InvalidSetting(problem, ErrorCode.INVALID_TOPIC_EXCEPTION)
    changes.check_topic_overrides(result, context.values)
    if name not in context.image.topics:
        raise InvalidSetting(f"The topic '{name}' does not exist.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
