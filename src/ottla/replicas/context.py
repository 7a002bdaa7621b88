"""What the parts of one broker stand on.

Owns: who the broker is, the event loop and the threads it runs on, its settings, the cluster's image and the log store.
Never knows: the parts. Each of them is handed this and, by name, the other parts that it works with. Invariants: it
belongs to one event loop; `image` and `values` are those of the last change of metadata that took effect here.
"""

import asyncio
import errno
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import NamedTuple, TypeVar

from ottla.base.settings.values import BrokerValues
from ottla.log.files import StorageFailure, World
from ottla.log.store import LogStore, NoUsableDirectory
from ottla.metadata.image import ClusterImage, ResourceType
from ottla.wire.links import Links

logger = logging.getLogger("ottla.broker")
T = TypeVar("T")

SEARCHES = 2
"""Searches of clients, by time or by pattern, that are made at once: they take long, and may decompress batches."""
CHECKS = 1
"""Checks of records, which `record_checks.py` makes one after the other."""


def io_threads(values: BrokerValues) -> int:
    """How many threads a node runs on: those of `num.io.threads`, and as many as clients can keep busy with searches
    and checks, so that nobody whose records are to be flushed waits for these."""
    return values.integer("num.io.threads") + SEARCHES + CHECKS


class Platform(NamedTuple):
    """What a broker runs on."""

    loop: asyncio.AbstractEventLoop
    world: World
    threads: Executor
    links: Links


# Parts are handed this and each other, never the broker: design/0028.
class BrokerContext:
    """What the parts of one broker share: its identity, settings, image, clock and loop."""

    def __init__(
        self,
        platform: Platform,
        node_id: int,
        values: BrokerValues,
        store: LogStore,
        image: ClusterImage,
        give_up: Callable[[str], None],
    ) -> None:
        self.loop, self.world, self.threads, self.links = platform
        self.clock = self.world.clock
        self.node_id = node_id
        self.broker_epoch = -1
        """The epoch of this broker's registration; -1 before there is one."""
        self.static_values = values
        self.values = values
        self.store = store
        self.image = image
        self.give_up = give_up
        """Called when nothing can be stored any more; the node then stops."""
        self._between_brokers = values.inter_broker_listener
        self._searches = asyncio.Semaphore(SEARCHES)
        self.take_dynamic_values()

    def take_dynamic_values(self) -> None:
        """Settings that were changed at run time lie over those of the settings file."""
        image = self.image
        self.values = self.static_values.with_dynamic(
            image.config(ResourceType.BROKER, str(self.node_id)), image.config(ResourceType.BROKER, "")
        )

    def address_of(self, broker_id: int) -> tuple[str, int] | None:
        """Where other brokers find this one, or None while it is not known."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or not broker.listeners:
            return None
        return broker.listeners.get(self._between_brokers) or next(iter(broker.listeners.values()))

    def in_thread(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Run `work` in an I/O thread, then `done` on the loop with what went wrong."""
        future = self.threads.submit(work)
        future.add_done_callback(
            lambda ended: self.loop.call_soon_threadsafe(done, None if ended.cancelled() else ended.exception())
        )

    async def run_blocking(self, work: Callable[[], T]) -> T:
        return await self.loop.run_in_executor(self.threads, work)

    async def search(self, work: Callable[[], T]) -> T:
        """Likewise what a client can make last: few at a time."""
        async with self._searches:
            return await self.run_blocking(work)

    def storage_failed(self, failure: StorageFailure) -> None:
        """A file could not be read or written: its directory goes offline, unless it is merely full."""
        if failure.out_of_space:
            short = "descriptors" if failure.errno in (errno.EMFILE, errno.ENFILE) else "room on the disk"
            logger.error("there is a lack of %s: %s", short, failure)
            return
        for directory in self.store.live:
            if not f"{failure.path}/".startswith(f"{directory.path}/"):
                continue
            try:
                self.store.take_offline(directory, failure)
            except NoUsableDirectory as end:
                self.give_up(str(end))
                return
