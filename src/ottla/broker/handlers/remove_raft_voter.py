"""RemoveRaftVoter, v0: one voter less in the quorum; decided by its leader.

KIP-853.
"""

from typing import TYPE_CHECKING

from ottla.net.dispatch import Context
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


async def handle(broker: "Broker", request: RemoveRaftVoterRequest, context: Context) -> RemoveRaftVoterResponse:
    return await broker.controller.remove_raft_voter(request)
