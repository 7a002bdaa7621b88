"""Where a client that asked the wrong broker finds the leader (KIP-951).

Owns: what Produce and Fetch tell beside NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH. Never knows: requests.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.metadata.image import NO_LEADER

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Node = tuple[int, str, int, str | None]
HINTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def leader_of(broker: "Broker", topic: str | bytes, index: int) -> tuple[int, int]:
    """(id, epoch) of the leader, as far as this broker knows."""
    image = broker.image
    found = image.topics.get(topic) if isinstance(topic, str) else image.topics_by_id.get(topic)
    if found is None or not 0 <= index < len(found.partitions):
        return NO_LEADER, -1
    partition = found.partitions[index]
    return partition.leader, partition.leader_epoch


def nodes_of(broker: "Broker", leaders: Iterable[tuple[int, int]], listener: str) -> tuple[Node, ...]:
    """Addresses of those leaders on the listener the client uses."""
    wanted = {leader for leader, _ in leaders}
    return tuple(node for node in broker.nodes(listener) if node[0] in wanted)
