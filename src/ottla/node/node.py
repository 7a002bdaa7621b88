"""A process: one node from its settings to its end.

Owns: the order of starting and stopping, signals, the one line that says it is ready. Never knows: requests.
Invariants: a node that cannot start says why in one sentence and leaves nothing behind; one that is told to stop closes
its logs and marks the stop as clean.
"""

import asyncio
import errno
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import ottla
from ottla.base.settings.values import BrokerValues
from ottla.base.vocabulary import TopicId, TopicPartition
from ottla.broker.broker import Broker, Platform
from ottla.client.links import NodeLinks
from ottla.controller.metadata_log import UnreadableMetadata
from ottla.controller.quorum_state import BadQuorumState
from ottla.controller.sole_controller import Controller, Registration
from ottla.controller.sole_controller import Listener as RegisteredListener
from ottla.log.data_directory import METADATA_LOG
from ottla.log.files import StorageFailure, World
from ottla.log.properties import UnusableDirectory
from ottla.log.settings import LogSettings
from ottla.log.store import LogStore, NoUsableDirectory
from ottla.metadata.image import ClusterImage, ResourceType
from ottla.net.listener import Listener, SocketOptions
from ottla.node.listeners import Address, BadListener, parse_listeners
from ottla.node.log_lines import set_up
from ottla.node.options import Options, StartFailure, resolve
from ottla.records.codec import COMPILED
from ottla.runtime.disk import RealDisk
from ottla.runtime.world import RealClock, RealRandom

logger = logging.getLogger("ottla.node")

PROGRESS_SECONDS = 1.0
SWITCH_SECONDS = 0.0005
"""How long an I/O thread may keep the interpreter while the loop wants it."""


def run(options: Options) -> int:
    """Run a node in the foreground until it is told to stop; answers the process's exit code."""
    started = RealClock().monotonic()
    try:
        values = resolve(options)
        set_up(values.text("ottla.log.format"), values.text("ottla.log.level"))
        node = Node(values, started)
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
    """One node of a cluster: broker and controller in one process."""

    def __init__(self, values: BrokerValues, started: float) -> None:
        self.values = values
        self._started = started
        self.world = World(RealDisk(), RealClock(), RealRandom())
        self.node_id = values.integer("node.id")
        self._ending: asyncio.Event | None = None
        self._failure: str | None = None

    async def run(self) -> int:
        """Start, serve until a signal, stop."""
        loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ending.set)
        _raise_descriptor_limit()
        sys.setswitchinterval(SWITCH_SECONDS)
        listeners = self._listen()
        threads = ThreadPoolExecutor(self.values.integer("num.io.threads"), "ottla-io")
        store = LogStore(
            self.values.listing("log.dirs"), self.world, self.values.integer("num.recovery.threads.per.data.dir")
        )
        try:
            cluster_id = store.open(self.node_id)
            controller = self._lead(cluster_id, store, threads, [address for address, _ in listeners])
            self._load(store, controller.image)
            broker = Broker(
                Platform(loop, self.world, threads, NodeLinks()),
                self.node_id,
                self.values,
                store,
                controller,
                self._give_up,
            )
            broker.start()
        except (UnusableDirectory, NoUsableDirectory, StorageFailure, UnreadableMetadata, BadQuorumState) as failure:
            store.release()
            raise StartFailure(str(failure)) from None
        for address, listener in listeners:
            listener.start(loop, partial(_accept, broker, address.name))
        # What start-up made lives as long as the node: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        if not COMPILED:
            logger.info("the compiled record codec is not installed: its Python twin serves")
        self._tell(listeners[0][0], cluster_id)
        warming = loop.create_task(broker.dispatcher.warm_up())
        await self._ending.wait()
        logger.info("stopping")
        warming.cancel()
        for _, listener in listeners:
            listener.close()
        await broker.stop()
        await controller.stop()
        controller.close()
        threads.shutdown()
        if self._failure is not None:
            print(f"ottla: {self._failure}", file=sys.stderr)
            return 1
        return 0

    def _listen(self) -> list[tuple[Address, Listener]]:
        """Bind every listener; answers them with the addresses clients are told."""
        # Kafka's 100 KiB would cap a connection; unless somebody asks for a size, the system finds a better one.
        options = SocketOptions(
            send_buffer=self._asked("socket.send.buffer.bytes"),
            receive_buffer=self._asked("socket.receive.buffer.bytes"),
            backlog=self.values.integer("socket.listen.backlog.size"),
        )
        try:
            bound = parse_listeners(self.values.listing("listeners"), "listeners")
            told = parse_listeners(self.values.listing("advertised.listeners"), "advertised.listeners")
        except BadListener as failure:
            raise StartFailure(str(failure)) from None
        advertised = {address.name: address for address in told}
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

    def _lead(
        self, cluster_id: str, store: LogStore, threads: ThreadPoolExecutor, addresses: list[Address]
    ) -> Controller:
        loop = asyncio.get_running_loop()
        controller = Controller(
            self.world,
            os.path.join(os.path.abspath(self.values.text("metadata.log.dir")), METADATA_LOG),
            cluster_id,
            self.node_id,
            self.values,
            lambda work: loop.run_in_executor(threads, work),
        )
        controller.open()
        rack = self.values.get("broker.rack")
        controller.register(
            Registration(
                broker_id=self.node_id,
                incarnation_id=self.world.random.identity(),
                listeners={address.name: RegisteredListener(address.host, address.port) for address in addresses},
                rack=None if rack is None else str(rack),
                directories=tuple(directory.identity for directory in store.live),
            )
        )
        return controller

    def _load(self, store: LogStore, image: ClusterImage) -> None:
        """Open every log of the data directories."""
        made: dict[tuple[tuple[str, str], ...], LogSettings] = {}

        def settings_of(name: TopicPartition) -> LogSettings:
            overrides = image.config(ResourceType.TOPIC, name.topic)
            key = tuple(sorted(overrides.items()))
            if key not in made:
                made[key] = LogSettings.from_values(self.values.topic_values(overrides))
            return made[key]

        def is_stray(name: TopicPartition, topic_id: TopicId | None) -> bool:
            topic = image.topics.get(name.topic)
            if topic is None or name.partition >= len(topic.partitions):
                return True
            return topic_id is not None and topic_id != topic.topic_id

        told = self.world.clock.monotonic()

        def progress(done: int, total: int) -> None:
            nonlocal told
            now = self.world.clock.monotonic()
            if now - told >= PROGRESS_SECONDS:
                told = now
                logger.info("loaded %d of %d logs", done, total)

        store.load(settings_of, is_stray=is_stray, progress=progress)

    def _tell(self, address: Address, cluster_id: str) -> None:
        seconds = self.world.clock.monotonic() - self._started
        data = ", ".join(self.values.listing("log.dirs"))
        print(
            f"ottla {ottla.__version__} is ready on {address} "
            f"(node {self.node_id}, cluster {cluster_id}, data in {data}, {seconds:.2f} s)",
            flush=True,
        )

    def _give_up(self, reason: str) -> None:
        self._failure = reason
        assert self._ending is not None
        self._ending.set()


def _accept(broker: Broker, listener: str, client: socket.socket, peer: str) -> None:
    broker.accept(client, peer, listener)


def _why_not_bound(address: Address, problem: OSError) -> str:
    if problem.errno == errno.EADDRINUSE:
        return f"port {address.port} is in use by another process; stop it or choose another with --port."
    if problem.errno in (errno.EACCES, errno.EPERM):
        return f"this user may not listen on port {address.port}; choose one above 1023 with --port."
    return f"cannot listen on {address}: {problem.strerror or problem}; see the setting listeners."


def _raise_descriptor_limit() -> None:
    """Every open segment and client is a descriptor, and the usual soft limit is small."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 1 << 20
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            logger.warning("the limit of open files stays at %d", soft)
