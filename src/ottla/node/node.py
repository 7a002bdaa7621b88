"""A process: one node from its settings to its end.

Owns: the order of starting and stopping, signals, the one line that says it is ready. Never knows: requests.
Invariants: a node that cannot start says why in one sentence and leaves nothing behind; one that is told to stop closes
its logs and marks the stop as clean.
"""

import asyncio
import errno
import json
import logging
import socket
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import ottla
from ottla.base.settings.values import BrokerValues
from ottla.broker.broker import Broker
from ottla.broker.controller_channel import ControllerUnavailable
from ottla.broker.lifecycle import CannotRegister
from ottla.client.links import NodeLinks
from ottla.controller.server import ControllerServer
from ottla.log.files import StorageFailure, World, disk_full, how_to_make_room
from ottla.log.open_files import OpenFiles
from ottla.log.properties import UnusableDirectory
from ottla.log.store import NoUsableDirectory
from ottla.metadata.quorum_events import UnreadableMetadata
from ottla.net.listener import Listener, Room, SocketOptions
from ottla.node.assembly import Addresses, Assembly
from ottla.node.collector import Collector
from ottla.node.descriptors import raise_limit, share_out
from ottla.node.listeners import Address, BadListener, parse_listeners
from ottla.node.log_lines import set_up
from ottla.node.options import Options, StartFailure, resolve
from ottla.node.roles import AUTOMATIC_LISTENER, by_zookeeper, controller_listener_names, split_listeners
from ottla.node.signals import ending_signals
from ottla.quorum.state_file import BadQuorumState
from ottla.records.codec import COMPILED
from ottla.replicas.context import Platform, io_threads
from ottla.runtime.disk import RealDisk
from ottla.runtime.world import RealClock, RealRandom, boot_id, place_identity

if TYPE_CHECKING:
    from ottla.node.watching import Watching

logger = logging.getLogger("ottla.node")

FAILURES = (
    UnusableDirectory,
    NoUsableDirectory,
    StorageFailure,
    UnreadableMetadata,
    BadQuorumState,
    CannotRegister,
    ControllerUnavailable,
)
"""Why a node may not start, besides its settings."""
SWITCH_SECONDS = 0.0005
"""How long an I/O thread may keep the interpreter while the loop wants it."""


def run(options: Options, *, as_json: bool = False) -> int:
    """Run a node in the foreground until it is told to stop; answers the process's exit code.

    With `as_json` the line that says it is ready is a JSON object.
    """
    started = RealClock().monotonic()
    try:
        values = resolve(options)
        set_up(values.text("ottla.log.format"), values.text("ottla.log.level"))
        node = Node(values, started, as_json=as_json)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(node.run())
    except StartFailure as failure:
        print(f"ottla: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where there is one; Python's own loop serves everywhere else."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class Node:
    """One node of a cluster, with real sockets, files and signals."""

    def __init__(self, values: BrokerValues, started: float, *, as_json: bool = False) -> None:
        self.values = values
        self._started = started
        self._as_json = as_json
        self._descriptors = share_out(raise_limit())
        clock = RealClock()
        open_files = OpenFiles(self._descriptors.log_files, clock.monotonic)
        self.world = World(RealDisk(), clock, RealRandom(), boot_id(), place_identity, open_files)
        self._ending: asyncio.Event | None = None
        self._failure: str | None = None
        self._watching: Watching | None = None
        self._metrics: Address | None = None

    async def run(self) -> int:
        """Start, serve until a signal, stop."""
        loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        for number in ending_signals():
            loop.add_signal_handler(number, self._ending.set)
        sys.setswitchinterval(SWITCH_SECONDS)
        listeners = self._listen()
        threads = ThreadPoolExecutor(io_threads(self.values), "ottla-io")
        self._assembly = Assembly(
            Platform(loop, self.world, threads, NodeLinks()),
            self.values,
            Addresses(*split_listeners(self.values, [address for address, _ in listeners])),
            self._give_up,
        )
        try:
            await self._watch(self._assembly)
            if await self._start(self._assembly, listeners):
                await self._serve(self._assembly, listeners)
        finally:
            if self._watching is not None:
                self._watching.stop()
            for _, listener in listeners:
                listener.close()
            threads.shutdown()
        if self._failure is not None:
            print(f"ottla: {self._failure}", file=sys.stderr)
            return 1
        return 0

    async def _watch(self, assembly: Assembly) -> None:
        """Let others watch this node, from here on, where the settings want it. Raises StartFailure."""
        port = self.values.get("ottla.metrics.port")
        if port is None:
            return
        # Only who wants metrics waits for what makes them.
        from ottla.node.watching import Watching

        assert isinstance(port, int)
        host = self.values.text("ottla.metrics.host")
        watching = Watching(assembly, self.world.clock)
        try:
            bound = await watching.start(host, port)
        except OSError as problem:
            raise StartFailure(
                f"metrics cannot be served on {host}:{port} ({problem.strerror or problem}); choose another port with "
                "--metrics-port."
            ) from None
        self._watching = watching
        self._metrics = Address("", host or socket.gethostname(), bound)

    async def _start(self, assembly: Assembly, listeners: list[tuple[Address, Listener]]) -> bool:
        """Whether the node came up; if not, it was told to stop before it did. Raises StartFailure."""
        loop = asyncio.get_running_loop()
        try:
            if not await self._unless_ended(assembly.connect()):
                return False
            assembly.open()
            for address, listener in listeners:
                if assembly.server is not None and address in assembly.addresses.controllers:
                    listener.start(loop, partial(_accept, assembly.server, address.name), self._room(for_nodes=True))
            if not await self._unless_ended(assembly.start()):
                logger.info("stopping before it came up")
                await assembly.stop()
                return False
        except (StartFailure, *FAILURES) as failure:
            assembly.release()
            if isinstance(failure, StorageFailure) and disk_full(failure):
                raise StartFailure(f"{failure}; {how_to_make_room(failure.path)}") from None
            raise StartFailure(str(failure)) from None
        for address, listener in listeners:
            if assembly.broker is not None and address in assembly.addresses.brokers:
                own = address.name == self.values.inter_broker_listener and len(assembly.addresses.brokers) > 1
                listener.start(loop, partial(_accept, assembly.broker, address.name), self._room(for_nodes=own))
        return True

    def _room(self, *, for_nodes: bool) -> Room:
        """Whether another connection leaves the logs the descriptors that they need."""

        def refusal() -> str | None:
            hosts = (self._assembly.broker, self._assembly.server)
            count = sum(len(host.connections) for host in hosts if host is not None)
            return self._descriptors.refusal(count, for_nodes=for_nodes)

        return refusal

    async def _unless_ended(self, work: Coroutine[None, None, None]) -> bool:
        """Whether the work was done; if not, the node was told to stop before."""
        loop = asyncio.get_running_loop()
        assert self._ending is not None
        working = loop.create_task(work)
        ending = loop.create_task(self._ending.wait())
        await asyncio.wait((working, ending), return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if not working.done():
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            return False
        working.result()
        return True

    async def _serve(self, assembly: Assembly, listeners: list[tuple[Address, Listener]]) -> None:
        """Until a signal, or until nothing can be stored any more."""
        Collector(asyncio.get_running_loop()).start()
        if not COMPILED:
            logger.info("the compiled record codec is not installed: its Python twin serves")
        self._tell([address for address, _ in listeners], assembly)
        warming = None
        if assembly.broker is not None:
            warming = asyncio.get_running_loop().create_task(assembly.broker.dispatcher.warm_up())
        assert self._ending is not None
        await self._ending.wait()
        logger.info("stopping")
        if self._watching is not None:
            self._watching.leaving()
        if warming is not None:
            warming.cancel()
        for address, listener in listeners:
            if address in assembly.addresses.brokers:
                listener.close()
        await assembly.stop()

    def _listen(self) -> list[tuple[Address, Listener]]:
        """Bind every listener; answers them with the addresses clients are told."""
        # Kafka's 100 KiB would cap a connection; unless somebody asks for a size, the system finds a better one.
        options = SocketOptions(
            send_buffer=self._asked("socket.send.buffer.bytes"),
            receive_buffer=self._asked("socket.receive.buffer.bytes"),
            backlog=self.values.integer("socket.listen.backlog.size"),
        )
        try:
            bound_texts = self.values.listing("listeners")
            bound = parse_listeners(bound_texts, "listeners")
            # A controller alone tells clients nothing.
            told = parse_listeners(self.values.listing("advertised.listeners") or bound_texts, "advertised.listeners")
        except BadListener as failure:
            raise StartFailure(str(failure)) from None
        advertised = {address.name: address for address in told}
        if by_zookeeper(self.values) and not controller_listener_names(self.values) & {each.name for each in bound}:
            first = advertised.get(bound[0].name, bound[0])
            advertised[AUTOMATIC_LISTENER] = Address(AUTOMATIC_LISTENER, first.host, 0)
            bound.append(Address(AUTOMATIC_LISTENER, bound[0].host, 0))
        opened: list[tuple[Address, Listener]] = []
        for address in bound:
            try:
                listener = Listener(address.host, address.port, options)
            except OSError as problem:
                for _, other in opened:
                    other.close()
                raise StartFailure(_why_not_bound(address, problem)) from None
            known = advertised.get(address.name, address)
            host = known.host if known.host not in ("", "0.0.0.0", "::") else socket.gethostname()
            port = known.port if known != address and known.port else listener.port
            opened.append((Address(address.name, host, port), listener))
        return opened

    def _asked(self, name: str) -> int:
        return self.values.integer(name) if self.values.own_text(name) is not None else -1

    def _tell(self, addresses: list[Address], assembly: Assembly) -> None:
        seconds = self.world.clock.monotonic() - self._started
        directories = list(self.values.listing("log.dirs"))
        if self._as_json:
            document = {
                "event": "ready",
                "version": ottla.__version__,
                "address": str(addresses[0]),
                "listeners": {each.name: str(each) for each in addresses},
                "node_id": assembly.node_id,
                "cluster_id": assembly.cluster_id,
                "data": directories,
                "metrics": None if self._metrics is None else str(self._metrics),
                "seconds": round(seconds, 3),
            }
            print(json.dumps(document, ensure_ascii=False), flush=True)
            return
        metrics = "" if self._metrics is None else f", metrics on {self._metrics}"
        print(
            f"ottla {ottla.__version__} is ready on {addresses[0]} "
            f"(node {assembly.node_id}, cluster {assembly.cluster_id}, data in {', '.join(directories)}{metrics}, "
            f"{seconds:.2f} s)",
            flush=True,
        )

    def _give_up(self, reason: str) -> None:
        self._failure = reason
        assert self._ending is not None
        self._ending.set()


def _accept(host: Broker | ControllerServer, listener: str, client: socket.socket, peer: str) -> None:
    host.connections.accept(client, peer, listener, host.dispatcher)


def _why_not_bound(address: Address, problem: OSError) -> str:
    if problem.errno == errno.EADDRINUSE:
        return f"port {address.port} is in use by another process; stop it or choose another with --port."
    if problem.errno in (errno.EACCES, errno.EPERM):
        return f"this user may not listen on port {address.port}; choose one above 1023 with --port."
    return f"cannot listen on {address}: {problem.strerror or problem}; see the setting listeners."
