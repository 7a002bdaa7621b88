"""What goes wrong in a universe: drawn from the seed, undone by `heal`.

Owns: which faults happen when, and how long each lasts. Some universes know ambushes, which chance alone would hardly
ever find: a leader dies just when its followers lack what it wrote, or when a replica is back that missed what was
acknowledged; a node that is alone loses power again and again. In some, brokers have several directories: one fails, or
a broker comes back without a partition's folder, or with new disks. Never knows: what clients do. Invariants: power is
cut only where the cluster promises to survive it (everything flushed before it is acknowledged, or one machine at a
time, the others being in sync), and data is lost on one machine at a time, the others being in sync; a voter keeps its
metadata; processes are killed at any time; after `heal` nothing is broken any more and everybody runs.
"""

import errno
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from random import Random

from ottla.log.data_directory import parse_name
from ottla.metadata.image import PartitionImage
from ottla.sim.cluster import SimCluster, SimNode

LONGEST_SECONDS = 6.0
PATIENCE_SECONDS = 12.0
"""How long an ambush waits for a follower to fall out of the in-sync set."""
FAILING_SYNCS = 0.3
"""In how many universes syncs fail."""


class Power(Enum):
    """When machines may lose power."""

    NEVER = "never"
    ONE = "one at a time"
    ANY = "any, as everything is flushed"


class Faults:
    """One fault after the other, until healed."""

    def __init__(
        self,
        cluster: SimCluster,
        random: Random,
        power: Power,
        clients: list[str],
        *,
        ambushes: bool = False,
        disks: bool = False,
    ) -> None:
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
        if disks:
            every.append(self._fail_directory)
            if sum("broker" in node.roles for node in cluster.nodes) > 1:
                every += [self._lose_disks, self._lose_folder]
        # Some universes know few faults and those often: that finds what a mixture of all hides.
        self._kinds = random.sample(every, random.randint(2, len(every)))
        self._pause_seconds = random.uniform(0.5, 4.0)
        if ambushes:
            alone = len(cluster.nodes) == 1
            lurking = [self._cut_power] if alone else [self._strand_leader, self._outrun_follower]
            if disks and not alone:
                lurking.append(self._fall_one_by_one)
            self._kinds += lurking * len(self._kinds)
        # Drawn apart, so that what the other faults of a seed do does not depend on it.
        if Random(cluster.id).random() < FAILING_SYNCS:
            self._kinds += [self._fail_sync] * 2
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
            self._bring_back(node)
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
        partitions = self._partitions(lambda name: True)
        leader = living.get(self._random.choice(partitions).leader) if partitions else None
        if leader is not None:
            self._kill_node(leader)

    def _partitions(self, of: Callable[[str], bool]) -> list[PartitionImage]:
        """The partitions of some topics, as one of the living knows them."""
        ready = [node for node in self._living() if node.ready]
        if not ready:
            return []
        assembly = self._random.choice(ready).assembly
        assert assembly is not None
        topics = assembly.loader.image.topics.values()
        return [partition for topic in topics if of(topic.name) for partition in topic.partitions]

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

    # --- ambushes ---

    def _strand_leader(self) -> None:
        """A leader dies with what clients wrote to it while followers, or only the next leader, did not reach it."""
        found = self._replicas()
        if found is None:
            return
        leader, followers = found
        paths = self._between(leader, followers[: self._random.choice((1, 1, len(followers)))])
        self._break(paths)
        self._scheduler.after(self._random.uniform(0.1, 1.5), partial(self._strike, leader, paths))

    def _outrun_follower(self) -> None:
        """A follower falls out of the in-sync set, and is back when the leader dies."""
        found = self._replicas()
        if found is None:
            return
        leader, followers = found
        paths = self._between(leader, followers[:1])
        self._break(paths)
        deadline = self._scheduler.now + PATIENCE_SECONDS

        def watch() -> None:
            if self._is_out(followers[0], leader) or self._scheduler.now > deadline:
                self._scheduler.after(self._random.uniform(0.1, 0.5), partial(self._strike, leader, paths))
            else:
                self._scheduler.after(0.1, watch)

        watch()

    def _strike(self, leader: SimNode, paths: list[tuple[str, str]]) -> None:
        if not self._healed:
            if leader.alive and not leader.paused:
                leader.kill()
                # Soon: the next ambush needs everybody.
                self._scheduler.after(self._random.uniform(0.05, 1.5), partial(self._boot, leader))
            self._mend(paths)

    def _replicas(self) -> tuple[SimNode, list[SimNode]] | None:
        """The leader and the followers, in the order in which they might lead, of a partition that has all of them."""
        living = {node.id: node for node in self._living()}
        written = self._partitions(lambda name: not name.startswith("__"))
        whole = [each for each in written if len(each.in_sync) > 1 and living.keys() >= set(each.replicas)]
        if not whole:
            return None
        partition = self._random.choice(whole)
        if partition.leader not in living:
            return None
        return living[partition.leader], [living[each] for each in partition.replicas if each != partition.leader]

    def _is_out(self, follower: SimNode, leader: SimNode) -> bool:
        """Whether a partition has left the follower behind, as its leader knows it."""
        if leader.assembly is None:
            return True
        topics = leader.assembly.loader.image.topics.values()
        return any(
            partition.leader == leader.id and follower.id in partition.replicas and follower.id not in partition.in_sync
            for topic in topics
            for partition in topic.partitions
        )

    # --- the network ---

    def _between(self, one: SimNode, others: Sequence[SimNode]) -> list[tuple[str, str]]:
        return [path for other in others for path in ((one.name, other.name), (other.name, one.name))]

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
        self._break(paths)
        self._scheduler.after(self._random.uniform(0.1, 12.0), partial(self._mend, paths))

    def _break(self, paths: list[tuple[str, str]]) -> None:
        self._scheduler.trace.tell(f"cut: {' '.join(f'{one}>{other}' for one, other in paths)}")
        for path in paths:
            self._network.cut(*path)

    def _mend(self, paths: list[tuple[str, str]]) -> None:
        if not self._healed:
            self._scheduler.trace.tell(f"mended: {' '.join(f'{one}>{other}' for one, other in paths)}")
            for path in paths:
                self._network.mend(*path)

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

    def _fail_directory(self) -> None:
        """One of a broker's directories fails at whatever is done there; repaired, it needs another start."""
        node = self._random.choice([node for node in self._cluster.nodes if "broker" in node.roles])
        bad = self._random.choice(node.values.listing("log.dirs"))
        self._scheduler.trace.tell(f"{node.name} has a broken directory: {bad}")

        def fault(operation: str, path: str) -> int:
            return errno.EIO if f"{path}/".startswith(f"{bad}/") else 0

        def repair() -> None:
            if not self._healed and node.disk.fault is fault:
                self._scheduler.trace.tell(f"{node.name} has {bad} repaired")
                node.disk.fault = None
                self._bring_back(node)

        node.disk.fault = fault
        self._scheduler.after(self._duration(), repair)

    def _bring_back(self, node: SimNode) -> None:
        """A directory that went offline comes back with the next process."""
        if node.alive and not node.paused and node.assembly is not None:
            store = node.assembly.store
            if len(store.live) < len(store.directories):
                node.kill()
                node.boot()

    def _bereft(self) -> SimNode | None:
        """A broker that is dead and may have lost what it had, for every other replica has all of it."""
        brokers = [node for node in self._cluster.nodes if "broker" in node.roles]
        if not self.everything_in_sync() or any(node.disk.fault is not None for node in brokers):
            return None
        node = self._random.choice(brokers)
        node.kill()
        self._boot_later(node)
        return node

    def _lose_disks(self) -> None:
        node = self._bereft()
        if node is not None:
            node.replace_data()

    def _lose_folder(self) -> None:
        node = self._bereft()
        if node is not None:
            self._take_folder(node)

    def _fall_one_by_one(self) -> None:
        """All brokers die, one after the other; one of them is back first, and without a partition's folder."""
        brokers = [node for node in self._cluster.nodes if "broker" in node.roles]
        if not self.everything_in_sync() or any(node.disk.fault is not None for node in brokers):
            return
        falling = self._random.sample(brokers, len(brokers))
        self._scheduler.trace.tell(f"one after the other falls: {' '.join(node.name for node in falling)}")
        seconds = 0.0
        for place, node in enumerate(falling):
            seconds += self._random.uniform(0.3, 2.5)
            self._scheduler.after(seconds, partial(self._fall, node, bereft=place == 1))
        for place, node in enumerate(falling):
            later = self._random.uniform(0.5, 1.5) if place == 1 else self._random.uniform(4.0, LONGEST_SECONDS)
            self._scheduler.after(seconds + later, partial(self._boot, node))

    def _fall(self, node: SimNode, *, bereft: bool) -> None:
        if not self._healed and node.alive:
            node.kill()
            if bereft:
                self._take_folder(node)

    def _take_folder(self, node: SimNode) -> None:
        folders = [
            f"{directory}/{name}"
            for directory in node.values.listing("log.dirs")
            for name in node.disk.list(directory)
            if parse_name(name) is not None
        ]
        if folders:
            lost = self._random.choice(folders)
            self._scheduler.trace.tell(f"{node.name} loses {lost}")
            node.disk.lose(lost)

    def _fail_sync(self) -> None:
        """One sync of a node fails; what it was to write is in memory alone then, and seems to be on the disk."""
        node = self._random.choice(self._cluster.nodes)
        self._scheduler.trace.tell(f"{node.name} has a disk whose next sync fails")
        failed: list[str] = []

        def fault(operation: str, path: str) -> int:
            if operation != "sync" or failed:
                return 0
            failed.append(path)
            self._scheduler.trace.tell(f"{node.name} fails to sync {path}")
            return errno.EIO

        def clear() -> None:
            if not self._healed and node.disk.fault is fault:
                node.disk.fault = None
                self._bring_back(node)
                # A broker that cannot trust its only disk has ended.
                self._boot(node)

        node.disk.fault = fault
        self._scheduler.after(self._duration(), clear)
