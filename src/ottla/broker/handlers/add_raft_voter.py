"""AddRaftVoter, v0 to v1: one more voter in the quorum; decided by its leader."""

from typing import TYPE_CHECKING

from ottla.net.dispatch import Context
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


async def handle(broker: "Broker", request: AddRaftVoterRequest, context: Context) -> AddRaftVoterResponse:
    return await broker.controller.add_raft_voter(request)
