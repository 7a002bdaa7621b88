"""CreatePartitions, v0 to v3: more partitions for topics; the answer names every topic that was asked for.

KIP-195.
"""

from typing import TYPE_CHECKING

from ottla.metadata.portions import CREATE_PARTITIONS, FACTS_AT_ONCE
from ottla.metadata.topics import too_much_to_grow
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@in_portions(
    CREATE_PARTITIONS,
    at_once=FACTS_AT_ONCE,
    look=lambda broker, request, _: too_much_to_grow(request, broker.image),
)
async def handle(broker: "Broker", request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    return await broker.controller.create_partitions(request)
