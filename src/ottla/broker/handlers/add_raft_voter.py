"""AddRaftVoter, v0 to v1: one more voter in the quorum; decided by its leader.

KIP-853; KIP-1186 (v1: an answer before the voter is committed).
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.net.dispatch import Context
from ottla.net.portions import at_most
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

MOST_LISTENERS = 100


@at_most(
    MOST_LISTENERS,
    "listeners",
    lambda request, context: AddRaftVoterResponse(
        error_code=ErrorCode.INVALID_REQUEST, error_message=f"A voter has at most {MOST_LISTENERS} listeners."
    ),
)
async def handle(broker: "Broker", request: AddRaftVoterRequest, context: Context) -> AddRaftVoterResponse:
    return await broker.controller.add_raft_voter(request)
