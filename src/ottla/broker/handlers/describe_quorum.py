"""DescribeQuorum, v0 to v2: who leads the metadata log, and how far its voters are."""

from typing import TYPE_CHECKING

from ottla.net.dispatch import Context
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


async def handle(broker: "Broker", request: DescribeQuorumRequest, context: Context) -> DescribeQuorumResponse:
    return await broker.controller.describe_quorum(request, context.version)
