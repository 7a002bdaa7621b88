"""What a client takes from outside: time of day, chance, connections.

Owns: the three together, so that a simulation can hand over its own. Never knows: what a client does with them.
"""

from typing import NamedTuple

from ottla.base.ports import Clock, Random
from ottla.client.cluster import Cluster, ClusterSettings, Opener
from ottla.client.connection import open_connection
from ottla.client.settings import Settings
from ottla.runtime.world import RealClock, RealRandom


class ClientWorld(NamedTuple):
    """The real one unless told otherwise."""

    clock: Clock = RealClock()
    random: Random = RealRandom()
    opener: Opener = open_connection

    def cluster(self, settings: Settings) -> Cluster:
        """The cluster that a client's settings name; needs the running event loop."""
        return Cluster(settings.addresses(), ClusterSettings.of(settings), self.random, self.opener)
