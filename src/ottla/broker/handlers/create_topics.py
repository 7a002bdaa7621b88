"""CreateTopics, v2 to v7: the controller decides; the answer leaves when the topics are stored and can be reached.

KIP-4; KIP-464 (v4: the broker's defaults), KIP-525 (v5: configs in the answer), KIP-516 (v7: topic ids).
"""

from typing import TYPE_CHECKING

from ottla.metadata.portions import CREATE_TOPICS, FACTS_AT_ONCE
from ottla.metadata.topics import too_much_to_create
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@in_portions(
    CREATE_TOPICS,
    at_once=FACTS_AT_ONCE,
    look=lambda broker, request, _: too_much_to_create(request, broker.values),
)
async def handle(broker: "Broker", request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
    return await broker.controller.create_topics(request)
