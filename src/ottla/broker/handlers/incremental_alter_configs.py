"""IncrementalAlterConfigs, v0 and v1: single configs are set, deleted, appended to or subtracted from.

Levels of loggers are this process's own and are changed here; everything else is decided by the controller.

KIP-339; KIP-412 (loggers).
"""

from collections import Counter
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.broker import loggers
from ottla.metadata.configs import TWICE, misdirected, operations, refused_resource
from ottla.metadata.decision import Refusal
from ottla.metadata.image import ResourceType
from ottla.metadata.portions import ALTER_CONFIGS
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@in_portions(ALTER_CONFIGS)
async def handle(
    broker: "Broker", request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse:
    asked = [resource for resource in request.resources if resource.resource_type == ResourceType.BROKER_LOGGER]
    times = Counter(resource.resource_name for resource in asked)
    responses = [
        _answer(
            resource,
            TWICE
            if times[resource.resource_name] > 1
            else _change_levels(resource, broker.node_id, request.validate_only),
        )
        for resource in asked
    ]
    stored: list[AlterConfigsResource] = []
    for resource in request.resources:
        if resource.resource_type == ResourceType.BROKER_LOGGER:
            continue
        refusal = misdirected((resource.resource_type, resource.resource_name), broker.node_id)
        if refusal is None:
            stored.append(resource)
        else:
            responses.append(_answer(resource, refusal))
    if stored:
        rest = IncrementalAlterConfigsRequest(resources=stored, validate_only=request.validate_only)
        responses.extend((await broker.controller.incremental_alter_configs(rest)).responses)
    return IncrementalAlterConfigsResponse(responses=responses)


def _answer(resource: AlterConfigsResource, refusal: Refusal | None) -> AlterConfigsResourceResponse:
    key = (resource.resource_type, resource.resource_name)
    return refused_resource(AlterConfigsResourceResponse, key, refusal)


def _change_levels(resource: AlterConfigsResource, node_id: int, validate_only: bool) -> Refusal | None:
    name = resource.resource_name
    if name != str(node_id):
        numeric = name.removeprefix("-").isdecimal()
        message = (
            f"Unexpected node id. Expected {node_id}, but received {name}"
            if numeric
            else f"Node id must be an integer, but it is: {name}"
        )
        return Refusal(ErrorCode.INVALID_REQUEST, message)
    alterations = operations(resource.configs)
    if isinstance(alterations, Refusal):
        return alterations
    for alteration in alterations:
        refusal = loggers.refusal(*alteration)
        if refusal is not None:
            return refusal
    if not validate_only:
        for alteration in alterations:
            loggers.change(*alteration)
    return None
