"""One page of metrics, put together between other work.

Owns: what a node of each role tells, and that whoever asks while a page is being made gets that page. Never knows:
HTTP. Invariants: the loop is held for no longer than a step at a time, however many partitions there are; one page is
made at a time.
"""

import asyncio
from collections.abc import Generator, Iterator

import ottla
from ottla.base.ports import Clock
from ottla.net.dispatch import in_steps
from ottla.node.assembly import Assembly
from ottla.node.metrics import families
from ottla.node.metrics.broker_pages import (
    MessagesOut,
    write_partitions,
    write_replicas,
    write_requests,
    write_standing,
    write_storage,
    write_topics,
)
from ottla.node.metrics.controller_pages import write_controller, write_quorum
from ottla.node.metrics.exposition import Page
from ottla.node.metrics.group_pages import Ends, ends_elsewhere, write_groups, write_transactions
from ottla.node.metrics.process_pages import write_process
from ottla.quorum.node import QuorumNode


# Why nothing is registered or kept up to date for a metric: design/0019.
class Scrape:
    """What a node tells when somebody asks."""

    def __init__(self, assembly: Assembly, clock: Clock) -> None:
        self._assembly = assembly
        self._clock = clock
        self._making: asyncio.Task[bytes] | None = None
        self._messages_out = MessagesOut()
        self.leaving = False
        """Set when the node is told to stop."""

    async def page(self) -> bytes:
        if self._making is None:
            self._making = asyncio.get_running_loop().create_task(self._make())
            self._making.add_done_callback(self._made)
        return await asyncio.shield(self._making)

    def _made(self, task: "asyncio.Task[bytes]") -> None:
        self._making = None
        if not task.cancelled():
            task.exception()  # whoever asked is told; nobody may be left

    async def _make(self) -> bytes:
        loop = asyncio.get_running_loop()
        begun = self._clock.monotonic()
        await asyncio.sleep(0)
        turn = self._clock.monotonic() - begun
        broker = self._assembly.broker
        elsewhere = {} if broker is None else await ends_elsewhere(broker)
        page = Page()
        await in_steps(self._write(page, turn, elsewhere), loop)
        return page.text()

    def _write(self, page: Page, turn: float, elsewhere: Ends) -> Generator[None, None, None]:
        assembly = self._assembly
        page.all_series(families.INFO, [((assembly.node_id, assembly.cluster_id, ottla.__version__), 1)])
        write_process(page, turn)
        hosts = [host for host in (assembly.broker, assembly.server) if host is not None]
        yield from write_requests(page, (host.dispatcher.meter for host in hosts))
        page.all_series(
            families.CONNECTIONS,
            (((name,), count) for host in hosts for name, count in host.connections.by_listener().items()),
        )
        page.all_series(
            families.CONNECTIONS_MADE,
            (((name,), count) for host in hosts for name, count in host.connections.accepted.items()),
        )
        if assembly.roles.broker:
            yield from self._write_broker(page, elsewhere)
        if assembly.cluster_id:
            page.number(families.METADATA_OFFSET, assembly.loader.image.offset)
            if isinstance(assembly.quorum, QuorumNode):
                yield from write_quorum(page, assembly.quorum, asyncio.get_running_loop().time())
        if assembly.server is not None:
            yield from write_controller(page, assembly.server.controller)

    def _write_broker(self, page: Page, elsewhere: Ends) -> Iterator[None]:
        broker = self._assembly.broker
        write_standing(page, broker, self.leaving)
        if broker is None:
            return
        partitions = list(broker.partitions)
        yield from write_topics(page, broker, self._messages_out)
        yield from write_replicas(page, broker, partitions)
        yield from write_partitions(page, broker, partitions)
        yield from write_storage(page, broker)
        yield from write_groups(page, broker, elsewhere)
        yield from write_transactions(page, broker)
