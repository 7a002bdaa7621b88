"""Which broker coordinates a group or a transactional id.

Owns: the FindCoordinator exchange. Never knows: what the coordinator is asked for afterwards.
Invariant: a node that is answered is one the cluster names, so that it can be asked.
"""

from enum import IntEnum

from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerError
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse


class CoordinatorKind(IntEnum):
    """What is coordinated; the numbers of the protocol."""

    GROUP = 0
    TRANSACTION = 1


async def find_coordinator(cluster: Cluster, kind: CoordinatorKind, key: str, deadline: float) -> int:
    """The number of the broker that coordinates `key`; a BrokerError, mostly retriable, when there is none now."""
    request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
    answer = await cluster.ask_any(request, FindCoordinatorResponse, deadline)
    found = answer.coordinators[0] if answer.coordinators else answer  # older versions answer for one key
    if found.error_code:
        subject = "group" if kind is CoordinatorKind.GROUP else "transactional id"
        raise BrokerError(found.error_code, f"{subject} {key!r}", found.error_message or None)
    if found.node_id not in cluster.brokers:
        await cluster.refresh((), deadline)
    return found.node_id
