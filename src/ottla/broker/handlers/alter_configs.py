"""AlterConfigs, v0 to v2: all configs of a resource are replaced by those given.

A resource named twice is refused; Kafka leaves such a request without an answer.
"""

from typing import TYPE_CHECKING

from ottla.broker.context import Context
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


async def handle(broker: "Broker", request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:
    return await broker.controller.alter_configs(request)
