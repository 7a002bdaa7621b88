"""CreatePartitions, v0 to v3: more partitions for topics; the answer names every topic that was asked for."""

from typing import TYPE_CHECKING

from ottla.net.dispatch import Context
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


async def handle(broker: "Broker", request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    return await broker.controller.create_partitions(request)
