"""AlterConfigs, v0 to v2: all configs of a resource are replaced by those given.

A resource named twice is refused; Kafka leaves such a request without an answer.

KIP-133.
"""

from typing import TYPE_CHECKING

from ottla.metadata.configs import misdirected, refused_resource
from ottla.metadata.portions import ALTER_CONFIGS
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@in_portions(ALTER_CONFIGS)
async def handle(broker: "Broker", request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:
    responses: list[AlterConfigsResourceResponse] = []
    stored: list[AlterConfigsResource] = []
    for resource in request.resources:
        key = (resource.resource_type, resource.resource_name)
        refusal = misdirected(key, broker.node_id)
        if refusal is None:
            stored.append(resource)
        else:
            responses.append(refused_resource(AlterConfigsResourceResponse, key, refusal))
    if stored:
        rest = AlterConfigsRequest(resources=stored, validate_only=request.validate_only)
        responses.extend((await broker.controller.alter_configs(rest)).responses)
    return AlterConfigsResponse(responses=responses)
