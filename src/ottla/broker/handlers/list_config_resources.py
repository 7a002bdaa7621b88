"""ListConfigResources, v0 and v1: what configs can be asked for.

Version 0 knows subscriptions to clients' metrics only. Topics and brokers are listed whether or not configs are set on
them, groups and subscriptions only when there are. It is a coroutine because the answer can be long: those are written
in steps.

KIP-1000; KIP-1142 (v1: every type of resource).
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.metadata.image import ClusterImage, ResourceType
from ottla.net.dispatch import Context
from ottla.net.portions import in_turns
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

ALL = (
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
    ResourceType.BROKER_LOGGER,
    ResourceType.BROKER,
    ResourceType.TOPIC,
)


async def handle(
    broker: "Broker", request: ListConfigResourcesRequest, context: Context
) -> ListConfigResourcesResponse:
    asked: set[int] = {ResourceType.CLIENT_METRICS} if context.version == 0 else set()
    async for kinds in in_turns(broker, request.resource_types):
        asked.update(kinds)
    if not asked.issubset(ALL):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    resources: list[ConfigResource] = []
    for kind in ALL:
        if not asked or kind in asked:
            async for names in in_turns(broker, _names(broker.image, kind)):
                resources += (ConfigResource(resource_name=name, resource_type=kind) for name in names)
    return ListConfigResourcesResponse(config_resources=resources)


def _names(image: ClusterImage, kind: ResourceType) -> list[str]:
    if kind == ResourceType.TOPIC:
        return list(image.topics)
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(broker) for broker in image.brokers]
    return [name for found, name in image.configs if found == kind]
