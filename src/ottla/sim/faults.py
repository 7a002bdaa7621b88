"""What goes wrong in a universe: drawn from the seed, undone by `heal`.

Owns: which faults happen when, and how long each lasts. Never knows: what clients do. Invariants: power is cut only
where the cluster promises to survive it (everything flushed before it is acknowledged, or one machine at a time, the
others being in sync); processes are killed at any time; after `heal` nothing is broken any more and everybody runs.
"""

import errno
from collections.abc import Callable
from enum import Enum
from functools import partial
from random import Random

from ottla.sim.cluster import SimCluster, SimNode

LONGEST_SECONDS = 6.0


class Power(Enum):
    """When machines may lose power."""

    NEVER = "never"
    ONE = "one at a time"
    ANY = "any, as everything is flushed"


class Faults:
    """One fault after the other, until healed."""

    def __init__(self, cluster: SimCluster, random: Random, power: Power, clients: list[str]) -> None:
        self._cluster = cluster
        self._scheduler = cluster.scheduler
        self._network = cluster.network
        self._random = random
        self._power = power
        self._clients = clients
        self._healed = False
        every: list[Callable[[], None]] = [
            self._kill,
            self._kill_leader,
            self._kill_some,
            self._stop,
            self._pause,
            self._cut_pair,
            self._cut_one_way,
            self._isolate,
            self._spikes,
            self._resets,
            self._slow_disk,
            self._full_disk,
        ]
        if power is not Power.NEVER:
            every += [self._cut_power, self._cut_power]
        # Some universes know few faults and those often: that finds what a mixture of all hides.
        self._kinds = random.sample(every, random.randint(2, len(every)))
        self._pause_seconds = random.uniform(0.5, 4.0)
        self.happened = 0

    def start(self) -> None:
        self._scheduler.after(self._random.uniform(0.0, self._pause_seconds), self._next)

    def _next(self) -> None:
        if self._healed:
            return
        self.happened += 1
        self._random.choice(self._kinds)()
        self._scheduler.after(self._random.expovariate(1 / self._pause_seconds), self._next)

    def heal(self) -> None:
        """The end of all faults."""
        self._healed = True
        self._scheduler.trace.tell("everything heals")
        self._network.calm()
        for node in self._cluster.nodes:
            node.disk.fault = None
            node.sync_seconds = (0.0001, 0.002)
            node.resume()
            if not node.alive:
                node.boot()

    def keep_alive(self) -> None:
        """After healing, a process that ended by itself (it had met a failing disk) is started again."""
        for node in self._cluster.nodes:
            if not node.alive:
                node.boot()

    # --- processes ---

    def _living(self) -> list[SimNode]:
        return [node for node in self._cluster.nodes if node.alive and not node.paused]

    def _duration(self) -> float:
        return self._random.uniform(0.05, LONGEST_SECONDS)

    def _kill(self) -> None:
        living = self._living()
        if living:
            self._kill_node(self._random.choice(living))

    def _kill_leader(self) -> None:
        """Whoever leads a partition, as one of the living knows it."""
        living = {node.id: node for node in self._living()}
        ready = [node for node in living.values() if node.ready]
        if not ready:
            return
        assembly = self._random.choice(ready).assembly
        assert assembly is not None
        leaders = [
            partition.leader for topic in assembly.loader.image.topics.values() for partition in topic.partitions
        ]
        leader = living.get(self._random.choice(leaders)) if leaders else None
        if leader is not None:
            self._kill_node(leader)

    def _kill_some(self) -> None:
        """Several at once, or all."""
        living = self._living()
        for node in self._random.sample(living, self._random.randint(0, len(living))):
            self._kill_node(node)

    def _kill_node(self, node: SimNode) -> None:
        node.kill()
        self._boot_later(node)

    def _boot_later(self, node: SimNode) -> None:
        self._scheduler.after(self._duration(), partial(self._boot, node))

    def _boot(self, node: SimNode) -> None:
        if not self._healed and not node.alive:
            node.boot()

    def _stop(self) -> None:
        """A clean stop, and a start some time later."""
        ready = [node for node in self._living() if node.ready]
        if ready:
            node = self._random.choice(ready)
            node.stop()
            self._scheduler.after(LONGEST_SECONDS + self._duration(), partial(self._boot, node))

    def _pause(self) -> None:
        living = self._living()
        if living:
            node = self._random.choice(living)
            node.pause()
            self._scheduler.after(self._random.uniform(0.1, 12.0), node.resume)

    def _cut_power(self) -> None:
        living = self._living()
        if self._power is Power.ONE and not self.everything_in_sync():
            return
        if living:
            node = self._random.choice(living)
            node.cut_power()
            self._boot_later(node)

    def everything_in_sync(self) -> bool:
        """Whether all nodes serve and every partition has all its replicas in sync, as every node knows."""
        if not all(node.ready and not node.paused for node in self._cluster.nodes):
            return False
        for node in self._cluster.nodes:
            assert node.assembly is not None
            image = node.assembly.loader.image
            for topic in image.topics.values():
                for partition in topic.partitions:
                    if len(partition.in_sync) < len(partition.replicas) or partition.leader < 0:
                        return False
        return True

    # --- the network ---

    def _hosts(self) -> list[str]:
        return [node.name for node in self._cluster.nodes] + self._clients

    def _cut_pair(self) -> None:
        one, other = self._random.sample(self._hosts(), 2)
        self._cut([(one, other), (other, one)])

    def _cut_one_way(self) -> None:
        one, other = self._random.sample(self._hosts(), 2)
        self._cut([(one, other)])

    def _isolate(self) -> None:
        """One node from all others; clients may or may not reach it."""
        name = self._random.choice(self._cluster.nodes).name
        others = [node.name for node in self._cluster.nodes if node.name != name]
        if self._random.random() < 0.5:
            others += self._clients
        self._cut([(name, other) for other in others] + [(other, name) for other in others])

    def _cut(self, paths: list[tuple[str, str]]) -> None:
        self._scheduler.trace.tell(f"cut: {' '.join(f'{one}>{other}' for one, other in paths)}")
        for path in paths:
            self._network.cut(*path)

        def mend() -> None:
            if not self._healed:
                self._scheduler.trace.tell(f"mended: {' '.join(f'{one}>{other}' for one, other in paths)}")
                for path in paths:
                    self._network.mend(*path)

        self._scheduler.after(self._random.uniform(0.1, 12.0), mend)

    def _spikes(self) -> None:
        weather = self._network.weather
        weather.spike_chance = self._random.choice((0.0, 0.02, 0.1, 0.3))
        weather.fragment_chance = self._random.choice((0.0, 0.05, 0.5))
        self._scheduler.trace.tell(f"spikes: {weather.spike_chance}")

    def _resets(self) -> None:
        self._network.weather.reset_chance = self._random.choice((0.0, 0.001, 0.01))
        self._scheduler.trace.tell(f"resets: {self._network.weather.reset_chance}")
        self._network.reset_some(self._random.random())

    # --- disks ---

    def _slow_disk(self) -> None:
        node = self._random.choice(self._cluster.nodes)
        node.sync_seconds = (0.0001, self._random.choice((0.002, 0.1, 1.0)))
        self._scheduler.trace.tell(f"{node.name} has a disk of {node.sync_seconds[1]} s")

    def _full_disk(self) -> None:
        node = self._random.choice(self._cluster.nodes)
        self._scheduler.trace.tell(f"{node.name} has a full disk")
        node.disk.fault = lambda operation, path: errno.ENOSPC if operation == "append" else 0

        def clear() -> None:
            self._scheduler.trace.tell(f"{node.name} has room again")
            node.disk.fault = None

        self._scheduler.after(self._duration(), clear)
