"""Event loops on virtual time: one per node, all on one scheduler.

Owns: the clock that jumps to the next timer, whose turn it is, and what a killed or paused node no longer runs. Never
knows: what the callbacks do, bytes, files. Invariants: callbacks of one loop that were made ready run first in, first
out, as asyncio promises; which loop goes next and the order of timers of the same instant are drawn from the seed; no
thread, socket or real clock is touched; a turn takes a little virtual time, so that nothing spins for ever at one
instant.
"""

import asyncio
from asyncio.events import _get_running_loop, _set_running_loop
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor, Future
from contextvars import Context
from heapq import heappop, heappush
from itertools import count
from random import Random
from traceback import format_exception
from typing import Any, Protocol, TypeVar, TypeVarTuple

from ottla.sim.trace import Trace

T = TypeVar("T")
Args = TypeVarTuple("Args")

TURN_SECONDS = 10e-6
"""What one turn of a loop takes."""


class Deadlock(Exception):
    """Nobody has anything to do, and somebody waits."""


class Descriptor(Protocol):
    """Something a loop can watch."""

    def readable(self) -> bool: ...

    def writable(self) -> bool: ...


class Connector(Protocol):
    """Where a loop's outgoing connections come from."""

    async def connect(
        self, loop: "SimLoop", factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]: ...


class Scheduler:
    """Virtual time and everybody who lives in it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = 0.0
        self.trace = Trace(lambda: self.now)
        self.loops: list[SimLoop] = []
        self._runnable: list[SimLoop] = []
        self._timers: list[tuple[float, float, int, SimLoop | None, asyncio.Handle | Callable[[], None]]] = []
        self._numbers = count()
        self._buried: list[asyncio.Task[Any]] = []

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Do something that belongs to no node (the network, the faults) at a moment of virtual time."""
        heappush(self._timers, (when, self.random.random(), next(self._numbers), None, action))

    def number(self) -> int:
        """A number that nothing else has."""
        return next(self._numbers)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.at(self.now + seconds, action)

    def timer(self, when: float, loop: "SimLoop", handle: asyncio.TimerHandle) -> None:
        heappush(self._timers, (when, self.random.random(), next(self._numbers), loop, handle))

    def wake(self, loop: "SimLoop") -> None:
        """The loop has something to run."""
        if loop not in self._runnable and not loop.paused and not loop.dead:
            self._runnable.append(loop)

    def bury(self, loop: "SimLoop") -> None:
        """A node died: what it had begun is never finished, and is let go of at the very end."""
        if loop in self._runnable:
            self._runnable.remove(loop)
        self._buried.extend(asyncio.all_tasks(loop))

    def hush(self, loop: "SimLoop") -> None:
        if loop in self._runnable:
            self._runnable.remove(loop)

    def step(self) -> bool:
        """One turn of one loop, or a jump to the next timer; False when there is neither."""
        if self._runnable:
            position = int(self.random.random() * len(self._runnable))
            loop = self._runnable[position]
            self.trace.tick(loop.name)
            loop.run_turn()
            self.now += TURN_SECONDS
            if not loop.ready and loop in self._runnable:
                self._runnable.remove(loop)
        elif self._timers:
            self.now = max(self.now, self._timers[0][0])
        else:
            return False
        timers = self._timers
        while timers and timers[0][0] <= self.now:
            _, _, _, owner, what = heappop(timers)
            if isinstance(what, asyncio.Handle):
                assert owner is not None
                if not what.cancelled() and not owner.dead:
                    owner.ready.append(what)
                    self.wake(owner)
            else:
                what()
        return True

    def run_for(self, seconds: float) -> None:
        self.run_until(self.now + seconds)

    def run_until(self, when: float) -> None:
        while self.now < when:
            if not self._runnable and (not self._timers or self._timers[0][0] >= when):
                self.now = when
                return
            self.step()

    def complete(self, loop: "SimLoop", work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Run everybody until this work of one loop is done; TimeoutError when it takes too long."""
        task: asyncio.Task[T] = loop.create_task(work)
        deadline = self.now + seconds
        while not task.done():
            if self.now >= deadline:
                task.cancel()
                raise TimeoutError(f"{loop.name} was not done after {seconds} s")
            if not self.step():
                raise Deadlock(f"{loop.name} waits for something that cannot come")
        return task.result()

    def close(self) -> None:
        """Let go of everything that was never finished, in silence."""
        for loop in self.loops:
            loop.kill()
        for task in self._buried:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            work = task.get_coro()
            assert work is not None
            _set_running_loop(task.get_loop())
            try:
                work.close()
            except Exception:  # a last wish of the dead
                continue
            finally:
                _set_running_loop(None)
        self._buried.clear()
        self._timers.clear()


class SimFuture(asyncio.Future[Any]):
    """Sets of futures are gone through in an order that the seed decides, not the addresses of the objects."""

    def __init__(self, *, loop: "SimLoop") -> None:
        super().__init__(loop=loop)
        self._number = loop.scheduler.number()

    def __hash__(self) -> int:
        return self._number


class SimTask(asyncio.Task[Any]):
    """As `SimFuture`."""

    def __init__(self, work: Any, *, loop: "SimLoop", name: str | None, context: Context | None) -> None:
        self._number = loop.scheduler.number()
        super().__init__(work, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self._number


class SimLoop(asyncio.BaseEventLoop):
    """The event loop of one node. `rate` is how fast its clock runs."""

    virtual = True
    """Nothing here can be gained by staying awake."""
    simulated_sockets = True
    """Descriptors here are the simulation's, not the kernel's."""

    def __init__(self, scheduler: Scheduler, name: str, rate: float = 1.0) -> None:
        super().__init__()
        self.scheduler = scheduler
        self.name = name
        self.rate = rate
        self.ready: deque[asyncio.Handle] = deque()
        self.paused = False
        self.dead = False
        self.connector: Connector | None = None
        self.failures: list[str] = []
        self.descriptors: dict[int, Descriptor] = {}
        self._readers: dict[int, asyncio.Handle] = {}
        self._writers: dict[int, asyncio.Handle] = {}
        self._looking: set[int] = set()
        scheduler.loops.append(self)

    def __del__(self) -> None:
        """It holds nothing of the system, so there is nothing to close."""

    # --- the life of a node -------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """From here on nothing of this node runs."""
        if not self.dead:
            self.scheduler.bury(self)
            self.dead = True
            self.ready.clear()
            self._readers.clear()
            self._writers.clear()

    def pause(self) -> None:
        self.paused = True
        self.scheduler.hush(self)

    def resume(self) -> None:
        self.paused = False
        if self.ready:
            self.scheduler.wake(self)

    def run_turn(self) -> None:
        """Run what is ready now; what that makes ready waits for the next turn."""
        _set_running_loop(self)
        try:
            for _ in range(len(self.ready)):
                if not self.ready:
                    break  # it died of one of them
                handle = self.ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            _set_running_loop(None)

    # --- callbacks ----------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.scheduler.now * self.rate

    def call_soon(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.dead:
            self.ready.append(handle)
            self.scheduler.wake(self)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self.dead:
            self.scheduler.timer(when / self.rate, self, handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer is passed over when its time comes."""

    # --- tasks and futures --------------------------------------------------------------------------------------------

    def create_future(self) -> "asyncio.Future[Any]":
        return SimFuture(loop=self)

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> "asyncio.Task[Any]":
        return SimTask(coro, loop=self, name=None if name is None else str(name), context=context)

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: Any) -> "asyncio.Future[T]":  # type: ignore[override]
        assert executor is not None, "product code is handed its executor"
        return asyncio.wrap_future(executor.submit(func, *args), loop=self)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A callback or a task failed and nobody looked: always a fault of the code."""
        if self.dead:
            return
        problem = context.get("exception")
        # Without the message: it names objects by their addresses, which no seed decides.
        trouble = "".join(format_exception(problem)) if problem is not None else str(context.get("message"))
        self.failures.append(f"{self.name}: {trouble}")
        self.scheduler.trace.tell(f"{self.name}: a callback failed: {type(problem).__name__}")

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return _get_running_loop() is self

    def is_closed(self) -> bool:
        return self.dead

    # --- descriptors --------------------------------------------------------------------------------------------------

    def add_reader(self, fd: Any, callback: Callable[[*Args], Any], *args: *Args) -> None:
        self._readers[fd] = asyncio.Handle(callback, args, self, None)
        self.look(fd)

    def remove_reader(self, fd: Any) -> bool:
        return self._readers.pop(fd, None) is not None

    def add_writer(self, fd: Any, callback: Callable[[*Args], Any], *args: *Args) -> None:
        self._writers[fd] = asyncio.Handle(callback, args, self, None)
        self.look(fd)

    def remove_writer(self, fd: Any) -> bool:
        return self._writers.pop(fd, None) is not None

    def look(self, fd: int) -> None:
        """Something changed at a descriptor: whoever watches it is called when it is ready."""
        if fd in self._looking or self._due(fd) is None:
            return
        self._looking.add(fd)
        self.call_soon(self._serve, fd)

    def _due(self, fd: int) -> asyncio.Handle | None:
        descriptor = self.descriptors.get(fd)
        if descriptor is None:
            return None
        if fd in self._readers and descriptor.readable():
            return self._readers[fd]
        if fd in self._writers and descriptor.writable():
            return self._writers[fd]
        return None

    def _serve(self, fd: int) -> None:
        self._looking.discard(fd)
        handle = self._due(fd)
        if handle is not None:
            handle._run()
            self.look(fd)

    def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> Awaitable[tuple[asyncio.Transport, asyncio.BaseProtocol]]:
        assert self.connector is not None, "this loop has no network"
        return self.connector.connect(self, protocol_factory, host, port)


class SimThreads(Executor):
    """Threads that are none: work is done in one go after a drawn time, and its end comes back as an event."""

    def __init__(self, loop: SimLoop, latency: Callable[[], float]) -> None:
        self._loop = loop
        self._latency = latency

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                outcome = fn(*args, **kwargs)
            except BaseException as problem:
                future.set_exception(problem)
            else:
                future.set_result(outcome)

        self._loop.call_later(self._latency(), work)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing runs on its own."""
