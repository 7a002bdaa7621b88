"""The event loop behind blocking clients.

Owns: its thread, and waiting for what runs on it. Never knows: clients. Invariants: a process has at most one such
thread, which lives while anybody uses it; whoever waits holds no interpreter lock and can be interrupted; nothing
started in one process is waited for in its fork.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from ottla.client.errors import ForkedProcess, Misuse

T = TypeVar("T")


class Background:
    """A running event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = _new_loop()
        self.process = os.getpid()
        self.users = 0
        self._thread = threading.Thread(target=self._run, name="ottla-client", daemon=True)
        self._thread.start()

    def is_here(self) -> bool:
        """Whether this is the process it runs in."""
        return self.process == os.getpid()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns, waited for; Ctrl-C cancels it."""
        if threading.current_thread() is self._thread:
            work.close()
            raise Misuse("a callback on the client's own thread cannot wait for the client; hand the work to another")
        waiting: Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return waiting.result()
        except BaseException:
            waiting.cancel()  # has no effect on what has ended
            raise

    def soon(self, step: Callable[[], object]) -> None:
        """Call on the loop's thread."""
        self.loop.call_soon_threadsafe(step)

    def end(self) -> None:
        """Stop the loop once what is under way has been cancelled."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            if left:
                self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            self.loop.close()


_lock = threading.Lock()
_shared: Background | None = None


def use() -> Background:
    """The process's background loop, started for its first user."""
    global _shared  # noqa: PLW0603 — one per process is what it is for
    with _lock:
        if _shared is None:
            _shared = Background()
        _shared.users += 1
        return _shared


def leave(background: Background) -> None:
    """One user less; the last one ends the thread."""
    global _shared  # noqa: PLW0603
    if not background.is_here():
        return  # the parent's thread is not here
    with _lock:
        background.users -= 1
        last = background.users == 0
        if last and _shared is background:
            _shared = None
    if last:
        background.end()


def check_process(background: Background, what: str) -> None:
    """Refuse a client that came here by fork()."""
    if not background.is_here():
        raise ForkedProcess(
            f"this {what} was made before fork() and works only in process {background.process}; make one in each"
        )


def _forget_after_fork() -> None:
    """The thread stayed in the parent, and somebody there may have held the lock."""
    global _lock, _shared
    _lock, _shared = threading.Lock(), None


os.register_at_fork(after_in_child=_forget_after_fork)


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop where there is one; Python's own loop serves everywhere else."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
