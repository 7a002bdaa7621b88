"""One life of an embedded node: a thread with an event loop, from its start to its clean or abrupt end.

Owns: the thread, the loop, the I/O threads, the listeners and the open files of a running node. Never knows: what a
test wants, the other nodes. Invariants: nothing of the host process is changed (no signals, no limits, no settings of
the interpreter, no logging); whichever way a life ends, its threads, sockets and files are gone; the node is the very
assembly that a process of its own runs.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from socket import socket
from threading import Event, Lock, Thread
from typing import Any, NamedTuple, ParamSpec, TypeVar

from ottla.base.settings.values import BrokerValues
from ottla.broker.broker import Broker
from ottla.log.files import World
from ottla.net.connection import Service
from ottla.net.connections import Connections
from ottla.net.listener import Listener, SocketOptions
from ottla.node.assembly import Addresses, Assembly
from ottla.node.listeners import Address
from ottla.node.options import StartFailure
from ottla.replicas.context import Platform, io_threads
from ottla.runtime.world import RealRandom, boot_id, place_identity
from ottla.testing.faults import Faults, FaultyService
from ottla.testing.files import OwnedDisk
from ottla.testing.network import HOST, CuttableLinks, KeptPort, Network
from ottla.testing.steered import Killed, SteeredLoop, SteeredTime

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger("ottla.testing")


class SharedWorld(NamedTuple):
    """What all nodes of a system share."""

    time: SteeredTime
    network: Network
    faults: Faults


class Ports(NamedTuple):
    """Where a node listens, in all its lives."""

    broker: KeptPort
    controller: KeptPort | None

    def hold(self) -> None:
        for port in self:
            if port is not None:
                port.hold()

    def release(self) -> None:
        for port in self:
            if port is not None:
                port.release()


class CountedThreads(ThreadPoolExecutor):
    """I/O threads that know how much is under way."""

    def __init__(self, count: int, name: str) -> None:
        super().__init__(count, name)
        self.under_way = 0
        self._counting = Lock()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        with self._counting:
            self.under_way += 1
        try:
            future = super().submit(fn, *args, **kwargs)
        except BaseException:
            self._ended(None)
            raise
        future.add_done_callback(self._ended)
        return future

    def _ended(self, _: object) -> None:
        with self._counting:
            self.under_way -= 1


class Life:
    """Begins when it is made; `started` and `ended` tell how far it is."""

    def __init__(self, node_id: int, values: BrokerValues, ports: Ports, around: SharedWorld) -> None:
        self.node_id = node_id
        self._values = values
        self._ports = ports
        self._around = around
        self.started: Future[None] = Future()
        """Done when the node serves; fails with the reason why it does not."""
        self.ended: Future[None] = Future()
        self.paused = False
        self._doomed = False
        self._gate = Event()
        self._disk = OwnedDisk()
        self._listeners: list[Listener] = []
        self._loop = SteeredLoop(around.time)
        self._threads = CountedThreads(io_threads(values), f"ottla-io-{node_id}")
        world = World(self._disk, around.time, RealRandom(), boot_id(), place_identity)
        self.assembly = Assembly(
            Platform(self._loop, world, self._threads, CuttableLinks(node_id, around.network)),
            values,
            Addresses(
                [Address("PLAINTEXT", HOST, ports.broker.number)],
                [] if ports.controller is None else [Address("CONTROLLER", HOST, ports.controller.number)],
            ),
            self._give_up,
        )
        Thread(target=self._run, name=f"ottla-node-{node_id}", daemon=True).start()

    # --- asking it for something, from the test's thread ---

    @property
    def serves(self) -> bool:
        """Whether it is there for others: started, neither ended nor paused."""
        return self.started.done() and not self.ended.done() and not self._doomed and not self.paused

    @property
    def broker(self) -> Broker:
        assert self.assembly.broker is not None, "every embedded node is a broker once it has started"
        return self.assembly.broker

    def do(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def turn(self) -> "Future[None]":
        """Done when the loop has had a turn."""
        turned: Future[None] = Future()
        self._loop.call_soon_threadsafe(turned.set_result, None)
        return turned

    @property
    def writes(self) -> bool:
        """Whether its I/O threads are at work."""
        return self._threads.under_way > 0

    def pause(self) -> None:
        """Nothing happens until `resume`; sockets stay open. Returns when the node stands still."""
        if self.paused:
            return
        self.paused = True
        self._gate.clear()
        reached = Event()
        self._loop.call_soon_threadsafe(self._stand_still, reached)
        reached.wait()

    def resume(self) -> None:
        self.paused = False
        self._gate.set()

    def kill(self) -> None:
        """The end, at once. `ended` tells when everything is closed."""
        self._doomed = True
        if self.paused:
            self._gate.set()
        elif not self.ended.done():
            self._loop.call_soon_threadsafe(self._die)

    def stop(self) -> None:
        """The clean end: the node leaves its cluster, flushes and closes."""
        self.resume()
        self._doomed = True
        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._stop()))

    # --- on the thread of the node ---

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            self._loop.run_until_complete(self._start())
            self.started.set_result(None)
            self._loop.run_forever()
        except Killed:
            failure = StartFailure(f"node {self.node_id} was killed while it started.")
        except BaseException as problem:
            failure = problem
        self._bury()
        if not self.started.done():
            self.started.set_exception(failure or StartFailure(f"node {self.node_id} did not start."))
        self.ended.set_result(None)

    async def _start(self) -> None:
        assembly = self.assembly
        self._ports.release()
        for_clients = self._listen(self._ports.broker)
        for_controllers = None if self._ports.controller is None else self._listen(self._ports.controller)
        assembly.open()
        if for_controllers is not None:
            server = assembly.server
            assert server is not None, "a node with such a port is a controller"
            for_controllers.start(
                self._loop, partial(_accept, server.connections, assembly.addresses.controllers[0], server.dispatcher)
            )
        await assembly.start()
        broker = self.broker
        service = FaultyService(broker.dispatcher, self._around.faults, self.node_id, self._loop)
        for_clients.start(self._loop, partial(_accept, broker.connections, assembly.addresses.brokers[0], service))

    def _listen(self, port: KeptPort) -> Listener:
        backlog = self._values.integer("socket.listen.backlog.size")
        listener = Listener(HOST, port.number, SocketOptions(backlog=backlog))
        self._listeners.append(listener)
        return listener

    def _stand_still(self, reached: Event) -> None:
        reached.set()
        self._gate.wait()
        if self._doomed:
            self._die()

    def _die(self) -> None:
        raise Killed

    def _give_up(self, reason: str) -> None:
        logger.error("node %d ends: %s", self.node_id, reason)
        self._doomed = True
        self._loop.call_soon(self._die)

    async def _stop(self) -> None:
        try:
            self._listeners[0].close()
            await self.assembly.stop()
        except Exception:
            logger.exception("node %d did not stop cleanly", self.node_id)
        self._loop.stop()

    def _bury(self) -> None:
        """What the operating system does when a process is gone."""
        assembly = self.assembly
        for listener in self._listeners:
            listener.close()
        self._ports.hold()
        hosts: list[Callable[[], None]] = []
        if assembly.broker is not None:
            hosts.append(assembly.broker.connections.close)
        if assembly.server is not None:
            assembly.server.lost_brokers.stop()
            hosts.append(assembly.server.connections.close)
        for close in hosts:
            close()
        self._loop.die()
        self._threads.shutdown(cancel_futures=True)
        self._disk.close_all()
        self._loop.close()


def _accept(connections: Connections, address: Address, service: Service, client: socket, peer: str) -> None:
    connections.accept(client, peer, address.name, service)
