"""AlterPartitionReassignments, v0 to v1: other replicas for partitions, or an end to such a move.

KIP-455; KIP-860 (v1: a replication factor that must stay).
"""

from typing import TYPE_CHECKING

from ottla.metadata.portions import ALTER_PARTITION_REASSIGNMENTS
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@in_portions(ALTER_PARTITION_REASSIGNMENTS)
async def handle(
    broker: "Broker", request: AlterPartitionReassignmentsRequest, context: Context
) -> AlterPartitionReassignmentsResponse:
    return await broker.controller.alter_partition_reassignments(request)
