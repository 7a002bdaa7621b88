"""DeleteTopics, v1 to v6, by name and (v6) by id: the answer leaves when the topics are gone from the metadata.

Their files are renamed at once and removed later. Kafka shuffles the results, here they keep an order.

KIP-4; KIP-516 (v6: topic ids).
"""

from typing import TYPE_CHECKING

from ottla.metadata.portions import DELETE_TOPICS
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@in_portions(*DELETE_TOPICS)
async def handle(broker: "Broker", request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse:
    return await broker.controller.delete_topics(request, context.version)
