"""UnregisterBroker, v0: forget a broker that will not come back.

KIP-631.
"""

from typing import TYPE_CHECKING

from ottla.net.dispatch import Context
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


async def handle(broker: "Broker", request: UnregisterBrokerRequest, context: Context) -> UnregisterBrokerResponse:
    return await broker.controller.unregister_broker(request)
