"""From which replica a client is to read (KIP-392).

Owns: the choice that `replica.selector.class` names. Never knows: fetches. Invariant: a follower is chosen only when it
is in sync, lives, and has the offset that is asked for.
"""

from ottla.replicas.context import BrokerContext
from ottla.replicas.partitions import Partition

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def nearer_replica(context: BrokerContext, partition: Partition, rack: str, offset: int) -> int | None:
    """The follower in the client's rack that is furthest; None when the leader is as good."""
    leading = partition.leading
    brokers = context.image.brokers
    own = brokers.get(context.node_id)
    if (
        leading is None
        or context.values.own_text("replica.selector.class") != RACK_AWARE
        or (own is not None and own.rack == rack)
    ):
        return None
    found: int | None = None
    furthest = -1
    for replica in leading.in_sync:
        progress, other = leading.followers.get(replica), brokers.get(replica)
        if (
            progress is not None
            and other is not None
            and other.rack == rack
            and not other.fenced
            and progress.start_offset <= offset <= progress.end_offset
            and progress.end_offset > furthest
        ):
            found, furthest = replica, progress.end_offset
    return found
