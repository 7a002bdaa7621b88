"""DescribeQuorum, v0 to v2: who leads the metadata log, and how far its voters are.

KIP-595; KIP-836 (v1: times of fetches), KIP-853 (v2: directory ids and endpoints).
"""

from typing import TYPE_CHECKING

from ottla.metadata.portions import DESCRIBE_QUORUM
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@in_portions(DESCRIBE_QUORUM)
async def handle(broker: "Broker", request: DescribeQuorumRequest, context: Context) -> DescribeQuorumResponse:
    return await broker.controller.describe_quorum(request, context.version)
