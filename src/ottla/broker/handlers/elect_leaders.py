"""ElectLeaders, v0 to v2: the preferred leader, or any that is left; decided by the controller."""

from typing import TYPE_CHECKING

from ottla.net.dispatch import Context
from ottla.net.portions import Lists, in_portions
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@in_portions(Lists(("topic_partitions", "partitions"), ("replica_election_results", "partition_result")))
async def handle(broker: "Broker", request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    return await broker.controller.elect_leaders(request, context.version)
