"""ListPartitionReassignments, v0: which partitions are on their way to other replicas.

KIP-455.
"""

from typing import TYPE_CHECKING

from ottla.metadata.portions import LIST_PARTITION_REASSIGNMENTS
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@in_portions(LIST_PARTITION_REASSIGNMENTS)
async def handle(
    broker: "Broker", request: ListPartitionReassignmentsRequest, context: Context
) -> ListPartitionReassignmentsResponse:
    return await broker.controller.list_partition_reassignments(request)
