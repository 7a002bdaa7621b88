"""Whole nodes on a seeded world: booted, killed, cut off from power, paused, stopped, booted again.

Owns: the machines (each a disk and a clock that outlive the processes on it) and the life of the processes. Never
knows: why a node is killed, what clients want. Invariant: a node is the very assembly that a real process runs; only
sockets, files, clock, randomness and threads are simulated.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, cast

from ottla.base.settings.values import BrokerValues
from ottla.base.vocabulary import identity_text
from ottla.client.address import Address
from ottla.client.links import NodeLinks
from ottla.log.files import StorageFailure, World
from ottla.node.assembly import Addresses, Assembly
from ottla.node.formatting import Wishes, format_directories
from ottla.node.listeners import Address as ListenerAddress
from ottla.replicas.context import Platform
from ottla.sim.disk import SimDisk
from ottla.sim.loop import Scheduler, SimLoop, SimThreads
from ottla.sim.network import Network, SimSocket
from ottla.sim.world import BIG_BANG_MS, SimClock, SimRandom

BROKER_PORT, CONTROLLER_PORT = 9092, 9093
BROKER, CONTROLLER = "PLAINTEXT", "CONTROLLER"
DATA = "/data"
RESTART_SECONDS = 2.0
"""After so long a node that could not start is tried again."""


class SimNode:
    """One machine and the process on it, if there is one."""

    def __init__(self, cluster: "SimCluster", node_id: int, roles: str) -> None:
        self.id = node_id
        self.name = f"node-{node_id}"
        self.roles = roles
        self._cluster = cluster
        self._scheduler = cluster.scheduler
        random = cluster.random
        self._random = Random(random.getrandbits(64))
        self.rate = random.choice((1.0, 1.0, 0.99, 1.01))
        self.skew_ms = random.choice((0, 0, random.randint(-500, 500)))
        self._power_cuts = 0
        self.place = "first"
        """Another one after its disk was attached anew."""
        self.sync_seconds = (0.0001, random.choice((0.001, 0.005, 0.02)))
        self.disk = self._new_disk()
        self.values = BrokerValues(cluster.settings_of(self))
        self.loop: SimLoop | None = None
        self.assembly: Assembly | None = None
        self.ready = False
        self.life = 0
        """How often it was booted."""
        self._backlog: list[SimSocket] = []
        self.failure: str | None = None
        """Why its last process ended by itself."""

    @property
    def alive(self) -> bool:
        return self.loop is not None

    @property
    def paused(self) -> bool:
        return self.loop is not None and self.loop.paused

    # --- life and death -----------------------------------------------------------------------------------------------

    def _new_disk(self) -> SimDisk:
        return SimDisk(self._random, lambda: BIG_BANG_MS + int(self._scheduler.now * 1000))

    def replace_disk(self) -> None:
        """While nothing runs here, somebody puts a new disk in, formatted under the node's old number."""
        assert self.loop is None
        self._scheduler.trace.tell(f"{self.name} has a new disk")
        self.disk = self._new_disk()
        self.format(self._cluster.id)

    def replace_data(self) -> None:
        """While nothing runs here, somebody puts new disks in the place of those that hold data, and leaves the one
        with the metadata."""
        assert self.loop is None
        self._scheduler.trace.tell(f"{self.name} has new disks")
        for directory in self.values.listing("log.dirs"):
            self.disk.lose(directory)
        format_directories(self.world, self.values, Wishes(self._cluster.id, ignore_formatted=True))

    def format(self, cluster_id: str) -> None:
        format_directories(self.world, self.values, Wishes(cluster_id))

    @property
    def world(self) -> World:
        """What a program that somebody runs here has, beside the node."""
        return self._world(lambda: self._scheduler.now)

    def _world(self, time: Callable[[], float]) -> World:
        boot = f"boot {self._power_cuts}"
        return World(self.disk, SimClock(time, self.skew_ms), SimRandom(self._random), boot, lambda path: self.place)

    def boot(self) -> None:
        assert self.loop is None, "one process at a time"
        self.life += 1
        self._scheduler.trace.tell(f"{self.name} boots (life {self.life})")
        loop = self.loop = SimLoop(self._scheduler, self.name, self.rate)
        self._cluster.network.attach(loop)
        threads = SimThreads(loop, lambda: self._random.uniform(*self.sync_seconds))
        world = self._world(loop.time)
        addresses = Addresses(
            [ListenerAddress(BROKER, self.name, BROKER_PORT)] if "broker" in self.roles else [],
            [ListenerAddress(CONTROLLER, self.name, CONTROLLER_PORT)] if "controller" in self.roles else [],
        )
        self.assembly = Assembly(Platform(loop, world, threads, NodeLinks()), self.values, addresses, self._give_up)
        self.ready = False
        self.failure = None
        self._backlog = []
        loop.create_task(self._run(loop, self.assembly))

    async def _run(self, loop: SimLoop, assembly: Assembly) -> None:
        try:
            assembly.open()
            if assembly.server is not None:
                self._cluster.network.listen(CONTROLLER_PORT, loop, self._accept_controller)
            if "broker" in self.roles:
                self._cluster.network.listen(BROKER_PORT, loop, self._accept_broker)
            await assembly.start()
        except Exception as problem:
            self._scheduler.trace.tell(f"{self.name} cannot start: {problem!r}")
            self._cluster.start_failed(self, problem)
            return
        self.ready = True
        self._scheduler.trace.tell(f"{self.name} is ready")
        for waiting in self._backlog:
            self._accept_broker(waiting, waiting.peer_host)

    def _accept_broker(self, accepted: SimSocket, peer: str) -> None:
        """Clients that come before the broker serves wait in the system's backlog."""
        assert self.assembly is not None
        if self.assembly.broker is None:
            self._backlog.append(accepted)
        else:
            broker = self.assembly.broker
            broker.connections.accept(cast(Any, accepted), peer, BROKER, broker.dispatcher)

    def _accept_controller(self, accepted: SimSocket, peer: str) -> None:
        assert self.assembly is not None
        assert self.assembly.server is not None
        server = self.assembly.server
        server.connections.accept(cast(Any, accepted), peer, CONTROLLER, server.dispatcher)

    def _give_up(self, reason: str) -> None:
        """Nothing can be stored any more: the process ends."""
        self.failure = reason
        self._scheduler.trace.tell(f"{self.name} gives up: {reason}")
        self._scheduler.after(0.0, partial(self.end_life, self.life))

    def end_life(self, life: int) -> None:
        """The process ends, unless that one is gone already."""
        if self.life == life and self.alive:
            self.kill()

    def kill(self) -> None:
        """The process is gone at once; the machine keeps what it wrote."""
        self._scheduler.trace.tell(f"{self.name} is killed")
        loop = self._bury()
        self.disk.kill()
        self._cluster.network.kill(loop)

    def cut_power(self) -> None:
        """The machine is gone at once, with everything that was not synced."""
        self._scheduler.trace.tell(f"{self.name} loses power")
        loop = self._bury()
        self._power_cuts += 1
        self.disk.cut_power()
        self._cluster.network.cut_power(loop)

    def _bury(self) -> SimLoop:
        loop = self.loop
        assert loop is not None
        loop.kill()
        self._cluster.failures += loop.failures
        self.loop = None
        self.assembly = None
        self.ready = False
        return loop

    def pause(self) -> None:
        assert self.loop is not None
        self._scheduler.trace.tell(f"{self.name} is paused")
        self.loop.pause()

    def resume(self) -> None:
        if self.loop is not None and self.loop.paused:
            self._scheduler.trace.tell(f"{self.name} goes on")
            self.loop.resume()

    def stop(self) -> None:
        """Ask the process to end cleanly; it is gone when it is done."""
        assert self.loop is not None
        assert self.assembly is not None
        self._scheduler.trace.tell(f"{self.name} is told to stop")
        self.ready = False
        loop = self.loop
        loop.create_task(self._stop(loop, self.assembly))

    async def _stop(self, loop: SimLoop, assembly: Assembly) -> None:
        try:
            await assembly.stop()
            self._scheduler.trace.tell(f"{self.name} has stopped")
        except StorageFailure as problem:
            if self.disk.fault is None:
                raise
            self._scheduler.trace.tell(f"{self.name} could not stop cleanly: {problem}")
        self._scheduler.after(0.0, partial(self.end_life, self.life))


class SimCluster:
    """All nodes, on one network and one scheduler."""

    def __init__(
        self, scheduler: Scheduler, network: Network, roles: Sequence[str], settings: Mapping[str, str]
    ) -> None:
        self.scheduler = scheduler
        self.network = network
        self.random = scheduler.random
        self._settings = settings
        self._roles = roles
        self.failures: list[str] = []
        """What no code should let happen: exceptions nobody caught, starts that failed without a disk fault."""
        self.nodes = [SimNode(self, number, role) for number, role in enumerate(roles, 1)]
        self.id = identity_text(self.random.randbytes(16))
        for node in self.nodes:
            node.format(self.id)

    @property
    def addresses(self) -> list[Address]:
        return [Address(node.name, BROKER_PORT) for node in self.nodes if "broker" in node.roles]

    def settings_of(self, node: SimNode) -> dict[str, str]:
        listeners = []
        if "broker" in node.roles:
            listeners.append(f"{BROKER}://{node.name}:{BROKER_PORT}")
        if "controller" in node.roles:
            listeners.append(f"{CONTROLLER}://{node.name}:{CONTROLLER_PORT}")
        voters = [
            f"{number}@node-{number}:{CONTROLLER_PORT}"
            for number, roles in enumerate(self._roles, 1)
            if "controller" in roles
        ]
        return {
            "node.id": str(node.id),
            "process.roles": node.roles,
            "log.dirs": DATA,
            "metadata.log.dir": DATA,
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(listeners),
            "controller.listener.names": CONTROLLER,
            "controller.quorum.voters": ",".join(voters),
            **self._settings,
        }

    def start_failed(self, node: SimNode, problem: Exception) -> None:
        """A disk that fails is reason enough; nothing else is."""
        if node.disk.fault is None:
            self.failures.append(f"{node.name} cannot start: {problem!r}")
        self.scheduler.after(0.0, partial(node.end_life, node.life))
        self.scheduler.after(RESTART_SECONDS, lambda: None if node.alive else node.boot())

    def boot(self) -> None:
        for node in self.nodes:
            node.boot()

    def client(self, name: str) -> SimLoop:
        """A loop of its own for a client."""
        loop = SimLoop(self.scheduler, name)
        self.network.attach(loop)
        return loop
