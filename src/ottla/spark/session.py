"""Clusters as Spark's processes reach them: blocking, and kept between tasks.

Owns: one connection to a cluster for each set of settings in a process, and waiting for work on the loop behind it.
Never knows: what is asked. Invariants: a session belongs to the process that made it; a Python worker of Spark that is
used again finds its connections standing.
"""

import asyncio
import gc
import os
import sys
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from ottla.client.blocking.background import Background, use
from ottla.client.cluster import Cluster, ClusterSettings
from ottla.client.errors import ConnectionFailed, DeadlineExceeded
from ottla.client.settings import ClientKind, Settings, load
from ottla.runtime.world import RealClock
from ottla.spark.errors import Unreachable

T = TypeVar("T")


class Session:
    """A cluster, and the loop it lives on."""

    def __init__(self, kind: ClientKind, settings: Mapping[str, str]) -> None:
        self.settings: Settings = load(kind, settings, {})
        self._clock = RealClock()
        self._background: Background = use()
        self.cluster: Cluster = self._background.run(self._begin())

    async def _begin(self) -> Cluster:
        return Cluster(self.settings.addresses(), ClusterSettings.of(self.settings))

    @property
    def seconds(self) -> float:
        """How long a question to the cluster may take, with its repetitions."""
        kind = "default.api.timeout.ms"
        return self.settings.seconds(kind if kind in self.settings.kind.settings else "max.block.ms")

    def deadline(self) -> float:
        return self._background.loop.time() + self.seconds

    def time(self) -> float:
        """Seconds that only ever go forward."""
        return self._background.loop.time()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns, waited for."""
        try:
            return self._background.run(work)
        except ConnectionFailed as problem:
            raise Unreachable(problem.address, problem.reason) from None
        except DeadlineExceeded as problem:
            if self.cluster.brokers:
                raise
            raise Unreachable(", ".join(map(str, self.settings.addresses())), str(problem)) from None

    def begin(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Let it run while the caller does something else."""
        return asyncio.run_coroutine_threadsafe(work, self._background.loop)


_sessions: dict[object, Session] = {}


def session_for(kind: ClientKind, settings: Mapping[str, str]) -> Session:
    """This process's session with these settings."""
    key = os.getpid(), kind.name, frozenset(settings.items())
    found = _sessions.get(key)
    if found is None:
        found = _sessions[key] = Session(kind, settings)
        if _in_worker():
            # Spark collects garbage after every task: what is loaded by now stays, and looking through all of it again
            # and again is a third of what Python does in a small micro-batch.
            gc.freeze()
    return found


def _in_worker() -> bool:
    """Whether this is a Python worker of Spark's, and no program of somebody else's."""
    module = getattr(sys.modules.get("__main__"), "__spec__", None)
    return module is not None and module.name == "pyspark.daemon"
