"""A way to one server that can be held up: whatever is sent meanwhile is kept, seen by the test, and delivered later.

For a link between two nodes of a cluster see `support.proxies`; a relay is for what one of them says to somebody else.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

HOST = "127.0.0.1"
CHUNK = 1 << 16
SECONDS = 10.0


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
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(SECONDS)
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
            asyncio.run_coroutine_threadsafe(end(), self._loop).result(SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
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
