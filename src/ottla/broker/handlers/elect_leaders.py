"""ElectLeaders, v0 to v2: the preferred leader, or any that is left; decided by the controller.

KIP-183; KIP-460 (v1: unclean elections).
"""

from typing import TYPE_CHECKING

from ottla.metadata.portions import ELECT_LEADERS
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@in_portions(ELECT_LEADERS)
async def handle(broker: "Broker", request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    return await broker.controller.elect_leaders(request, context.version)
