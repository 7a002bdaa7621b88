"""CreateTopics, v2 to v7: the controller decides; the answer leaves when the topics are stored and can be reached."""

from typing import TYPE_CHECKING

from ottla.net.dispatch import Context
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


async def handle(broker: "Broker", request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
    return await broker.controller.create_topics(request)
