"""Limits on replication: how fast replicas that are not in sync are filled.

Owns: the two limits of this broker (as a leader that sends, as a follower that takes) and which replicas they are for
(`leader/follower.replication.throttled.rate` and `.replicas`). Never knows: fetches. Invariant: a replica in sync is
never held back, as producers wait for it.
"""

from functools import lru_cache

from ottla.metadata.image import ResourceType
from ottla.replicas.context import BrokerContext
from ottla.replicas.partitions import Partition
from ottla.replication.throttle import Throttle

LEADER = "leader.replication.throttled."
FOLLOWER = "follower.replication.throttled."


@lru_cache(maxsize=64)
def _named(text: str) -> frozenset[str]:
    return frozenset(each.strip() for each in text.split(","))


class Throttles:
    """The limits of one broker; None where there is none."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self.leader: Throttle | None = None
        self.follower: Throttle | None = None
        self.take_settings()

    def take_settings(self) -> None:
        """At the start, and when settings have changed."""
        self.leader = self._limit(LEADER, self.leader)
        self.follower = self._limit(FOLLOWER, self.follower)

    def _limit(self, side: str, before: Throttle | None) -> Throttle | None:
        text = self._context.values.own_text(side + "rate")
        if text is None:
            return None
        rate = float(text)
        return before if before is not None and before.rate == rate else Throttle(rate, self._context.clock.monotonic())

    def on_leader(self, partition: Partition, follower: int) -> Throttle | None:
        """The limit for what is sent to a follower."""
        if self.leader is None or follower in partition.in_sync or not self._covers(LEADER, partition):
            return None
        return self.leader

    def on_follower(self, partition: Partition) -> Throttle | None:
        """The limit for what this replica takes."""
        if self.follower is None or self._context.node_id in partition.in_sync or not self._covers(FOLLOWER, partition):
            return None
        return self.follower

    def _covers(self, side: str, partition: Partition) -> bool:
        text = self._context.image.config(ResourceType.TOPIC, partition.name.topic).get(side + "replicas")
        if not text:
            return False
        named = _named(text)
        return "*" in named or f"{partition.index}:{self._context.node_id}" in named
