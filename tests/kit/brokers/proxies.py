"""The network between the nodes of a cluster: every connection goes through here and can be cut, link by link.

A node's inter-broker and controller listeners are advertised at a proxy's port. Who opened a connection is found in the
kernel's tables: its local port leads to a socket, the socket to one of the nodes' processes. So a link is a pair of
nodes although all of them share one address. A cut is what a network does, not what a process does: connections stay
open, what is sent waits, and a link that heals delivers it. A relay is the way to somebody outside, as ZooKeeper, which
can be held up: whatever is sent meanwhile is kept, seen by the test, and delivered later.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import permutations
from pathlib import Path

HOST = "127.0.0.1"
CHUNK = 1 << 18
START_SECONDS = 30.0
RELAY_SECONDS = 10.0
LOOKS, LOOK_SECONDS = 10, 0.05

Pids = Callable[[], Mapping[int, int]]
"""The processes of the nodes that run: node → process."""


class Network:
    """Proxies for any number of listeners; cut and heal between nodes. `close` ends all of it."""

    def __init__(self, pids: Pids) -> None:
        self._pids = pids
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._open: dict[tuple[int, int], asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []

    def proxy(self, node: int, target: int) -> int:
        """The port at which the listener `target` of this node is reached from now on."""

        async def listen() -> int:
            server = await asyncio.start_server(lambda reader, writer: self._carry(node, target, reader, writer), HOST)
            self._servers.append(server)
            port: int = server.sockets[0].getsockname()[1]
            return port

        return asyncio.run_coroutine_threadsafe(listen(), self._loop).result(START_SECONDS)

    def cut(self, some: Iterable[int], others: Iterable[int]) -> None:
        """Nothing passes between the two sides, in neither direction."""
        self._set(some, others, passes=False)

    def heal(self) -> None:
        """Everything passes again."""
        nodes = {node for pair in self._open for node in pair}
        self._set(nodes, nodes, passes=True)

    def _set(self, some: Iterable[int], others: Iterable[int], *, passes: bool) -> None:
        left, right = set(some), set(others)

        async def change() -> None:
            for pair in permutations(left | right, 2):
                if (pair[0] in left and pair[1] in right) or (pair[0] in right and pair[1] in left):
                    gate = self._gate(pair)
                    gate.set() if passes else gate.clear()

        asyncio.run_coroutine_threadsafe(change(), self._loop).result(START_SECONDS)

    def close(self) -> None:
        async def end() -> None:
            for server in self._servers:
                server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(0)  # lets the transports close
            await self._loop.shutdown_default_executor()

        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(end(), self._loop).result(START_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)
        self._loop.close()

    # --- one connection -----------------------------------------------------------------------------------------------

    def _gate(self, pair: tuple[int, int]) -> asyncio.Event:
        if pair not in self._open:
            self._open[pair] = asyncio.Event()
            self._open[pair].set()
        return self._open[pair]

    def _carry(self, node: int, target: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def carry() -> None:
            try:
                source = await self._node_behind(reader, writer)
                await _connect(target, self._gate((source, node)), reader, writer)
            finally:
                writer.transport.abort()

        task = self._loop.create_task(carry())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _node_behind(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        """The node whose process has the socket at the other end; 0 where nobody has it any more.

        It may take a second look: the kernel's table can miss a line while others come and go, and a node may be
        quicker to connect than a test to learn its process.
        """
        ends = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        for _ in range(LOOKS):
            if reader.at_eof() or None in ends:
                break
            # Not on the loop: a look at all connections of a busy machine takes a while, and others send meanwhile.
            node = await asyncio.to_thread(self._owner, ends[0][1], ends[1][1])
            if node:
                return node
            await asyncio.sleep(LOOK_SECONDS)
        return 0

    def _owner(self, port: int, reached: int) -> int:
        inode = _inode_of(port, reached)
        for node, pid in self._pids().items():
            if inode is not None and f"socket:[{inode}]" in _descriptors(pid):
                return node
        return 0


class Relay:
    """Listens at `port` and passes everything on to `target`, in both directions. `close` ends it."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._passes = asyncio.Event()
        self._passes.set()
        self._held = bytearray()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(RELAY_SECONDS)
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def held(self) -> bytes:
        """What was sent to the server since it is held up."""
        return bytes(self._held)

    def hold(self) -> None:
        """Nothing passes from here on, in neither direction."""
        self._loop.call_soon_threadsafe(self._passes.clear)

    def release(self) -> None:
        self._loop.call_soon_threadsafe(self._passes.set)

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(0)  # lets the transports close

        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(end(), self._loop).result(RELAY_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(RELAY_SECONDS)
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, HOST)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            await self._passes.wait()
            onward_reader, onward_writer = await asyncio.open_connection(HOST, self._target)
            ends.append(onward_writer)
            async with asyncio.TaskGroup() as pumps:
                said: asyncio.Queue[bytes] = asyncio.Queue()
                pumps.create_task(self._hear(reader, said))
                pumps.create_task(self._deliver(said, onward_writer))
                answers: asyncio.Queue[bytes] = asyncio.Queue()
                pumps.create_task(self._hear(onward_reader, answers, kept=False))
                pumps.create_task(self._deliver(answers, writer))
        except* OSError:
            pass  # one side went: the other one is told below
        finally:
            for end in ends:
                end.transport.abort()

    async def _hear(self, reader: asyncio.StreamReader, heard: asyncio.Queue[bytes], *, kept: bool = True) -> None:
        while data := await reader.read(CHUNK):
            if kept and not self._passes.is_set():
                self._held += data
            heard.put_nowait(data)
        heard.put_nowait(b"")

    async def _deliver(self, heard: asyncio.Queue[bytes], writer: asyncio.StreamWriter) -> None:
        while data := await heard.get():
            await self._passes.wait()
            writer.write(data)
            await writer.drain()
        await self._passes.wait()
        raise ConnectionResetError  # the end of one direction is the end of the connection


def _inode_of(port: int, remote: int) -> str | None:
    """The kernel gives one local port to several connections, to different remote ends: only both tell which it is."""
    row = re.compile(rf":{port:04X} [0-9A-F]+:{remote:04X} (?:\S+ +){{6}}(\d+)")
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):  # Java opens its sockets for both families
        with suppress(OSError):
            found = row.search(Path(table).read_text())
            if found:
                return found[1]
    return None


def _descriptors(pid: int) -> set[str]:
    found = set()
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found.add(os.readlink(entry.path))
    return found


async def _connect(
    target: int, gate: asyncio.Event, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    onward_writer: asyncio.StreamWriter | None = None
    try:
        await gate.wait()
        onward_reader, onward_writer = await asyncio.open_connection(HOST, target)
        async with asyncio.TaskGroup() as pumps:
            pumps.create_task(_pump(reader, onward_writer, gate))
            pumps.create_task(_pump(onward_reader, writer, gate))
    except* OSError:
        pass  # nobody listens there, or one side went: the other one is told by the end of its connection
    finally:
        if onward_writer is not None:
            onward_writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
    while data := await reader.read(CHUNK):
        await gate.wait()
        writer.write(data)
        await writer.drain()
    await gate.wait()
    raise ConnectionResetError  # the end of one direction is the end of the connection
