"""A cluster as a client sees it: brokers, topics, leaders, and connections to them.

Owns: the bootstrap list, the metadata learned last, and at most one connection a broker. Never knows: records, offsets,
what the requests it carries are for. Invariants: metadata is only ever replaced whole per topic; a connection that
ended is never handed out; several callers that need the same connection wait for one attempt.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.ports import Random
from ottla.base.vocabulary import NO_TOPIC_ID, TopicPartition
from ottla.client.address import Address
from ottla.client.connection import Connection, open_connection
from ottla.client.errors import BrokerError, ClientError, ConnectionFailed, known_code
from ottla.client.retry import DEFAULT_PAUSES, Pauses, any_retriable, retry, unless_missing
from ottla.runtime.world import RealRandom
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from ottla.wire.schema import LATEST, Root

if TYPE_CHECKING:
    from ottla.client.settings import Settings

R = TypeVar("R", bound=Root)
T = TypeVar("T")


class Broker(NamedTuple):
    """One broker and where it says it listens."""

    node_id: int
    address: Address
    rack: str | None


class Partition(NamedTuple):
    """One partition of a topic; leader -1 when it has none."""

    number: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]


class Topic(NamedTuple):
    """One topic; partitions are in the order of their indexes, which are 0, 1, 2…"""

    name: str
    topic_id: bytes
    internal: bool
    partitions: tuple[Partition, ...]


class ClusterSettings(NamedTuple):
    """How a client behaves towards its cluster; seconds."""

    client_id: str = "ottla"
    connect_seconds: float = 5.0
    request_seconds: float = 30.0
    in_flight: int = 5
    pauses: Pauses = DEFAULT_PAUSES

    @classmethod
    def of(cls, settings: "Settings") -> "ClusterSettings":
        """What a client's settings say about this."""
        in_flight = "max.in.flight.requests.per.connection"
        return cls(
            client_id=settings.text("client.id") or "ottla",
            connect_seconds=settings.seconds("socket.connection.setup.timeout.ms"),
            request_seconds=settings.seconds("request.timeout.ms"),
            in_flight=settings.integer(in_flight) if in_flight in settings.kind.settings else 5,
            pauses=Pauses(settings.seconds("retry.backoff.ms"), settings.seconds("retry.backoff.max.ms")),
        )


class Opener(Protocol):
    """Where connections come from: real sockets (`open_connection`), or a simulation's."""

    async def __call__(self, address: Address, deadline: float, *, client_id: str, in_flight: int) -> Connection: ...


class Cluster:
    """Use it as an async context manager, or `connect` and `close`. All deadlines are in the event loop's time."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        settings: ClusterSettings | None = None,
        random: Random | None = None,
        opener: Opener = open_connection,
    ) -> None:
        self.settings = settings or ClusterSettings()
        self.random = random or RealRandom()
        self.brokers: Mapping[int, Broker] = {}
        self.topics: dict[str, Topic] = {}
        self.cluster_id: str | None = None
        self.controller_id = -1
        self._bootstrap = tuple(bootstrap)
        self._open = opener
        self._connections: dict[Address, Connection] = {}
        self._opening: dict[Address, asyncio.Lock] = {}
        self._loop = asyncio.get_running_loop()

    def deadline(self, seconds: float) -> float:
        return self._loop.time() + seconds

    async def connect(self, deadline: float) -> None:
        """Reach any bootstrap address and learn the brokers; each address is tried once."""
        await self.refresh((), deadline)

    async def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        await asyncio.sleep(0)  # lets the transports tell that they closed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    # --- metadata -----------------------------------------------------------------------------------------------------

    async def refresh(
        self, topics: Iterable[str] | None, deadline: float, *, create: bool = False
    ) -> dict[str, Topic | BrokerError]:
        """Ask for the metadata of these topics (None: of all) and remember it; says what became of each."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        answer = await self.ask_any(request, MetadataResponse, deadline)
        if answer.error_code:
            raise BrokerError(answer.error_code, "the cluster's metadata")
        self.brokers = {
            entry.node_id: Broker(entry.node_id, Address(entry.host, entry.port), entry.rack)
            for entry in answer.brokers
        }
        self.cluster_id = answer.cluster_id
        self.controller_id = answer.controller_id
        found: dict[str, Topic | BrokerError] = {}
        for entry in answer.topics:
            topic = _topic(entry)
            name = entry.name or ""
            found[name] = topic
            if isinstance(topic, Topic):
                self.topics[name] = topic
            else:
                self.topics.pop(name, None)
        if topics is None:
            self.topics = {name: topic for name, topic in found.items() if isinstance(topic, Topic)}
        return found

    async def topic(self, name: str, deadline: float, *, create: bool = False) -> Topic:
        """A topic from memory or from the cluster. `create` lets the broker make it and so waits until it is there."""
        known = self.topics.get(name)
        if known is not None:
            return known

        async def look() -> Topic:
            found = (await self.refresh([name], deadline, create=create)).get(name)
            if isinstance(found, Topic):
                return found
            raise found or BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")

        retriable = any_retriable if create else unless_missing
        return await self.retry(look, deadline, retriable)

    def forget(self, topic: str) -> None:
        """The next look at this topic asks the cluster."""
        self.topics.pop(topic, None)

    def known_leader(self, partition: TopicPartition) -> Partition | None:
        """The partition, if its leader is known from memory."""
        topic = self.topics.get(partition.topic)
        if topic is None or partition.partition >= len(topic.partitions):
            return None
        found = topic.partitions[partition.partition]
        return found if found.leader in self.brokers else None

    async def leader(self, partition: TopicPartition, deadline: float) -> Partition:
        """The partition with its leader; a retriable BrokerError when it has none or does not exist."""
        topic = await self.topic(partition.topic, deadline)
        found = self.known_leader(partition)
        if found is not None:
            return found
        self.forget(partition.topic)
        raise self.leaderless(partition, topic)

    @staticmethod
    def leaderless(partition: TopicPartition, topic: Topic) -> BrokerError:
        """Why the partition has no leader."""
        if partition.partition < len(topic.partitions):
            return BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition}", "it has no leader")
        subject = f"partition {partition.partition} of topic {partition.topic!r}"
        message = f"the topic has {len(topic.partitions)} partitions"
        return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject, message)

    # --- requests -----------------------------------------------------------------------------------------------------

    async def ask_node(
        self, node_id: int, request: Root, answer: type[R], deadline: float, *, highest: int = LATEST
    ) -> R:
        connection = await self.connection(node_id, deadline)
        return await connection.ask(request, answer, self._request_deadline(deadline), highest=highest)

    async def ask_any(self, request: Root, answer: type[R], deadline: float, *, highest: int = LATEST) -> R:
        """Ask a broker that is connected already, else the first that can be reached."""
        failure: ClientError | None = None
        for address in self._candidates():
            try:
                connection = await self._connect(address, deadline)
                return await connection.ask(request, answer, self._request_deadline(deadline), highest=highest)
            except ClientError as problem:
                failure = problem
                if not problem.retriable or self._loop.time() >= deadline:
                    break
        raise failure or ConnectionFailed("the cluster", "no address is known")

    async def ask_controller(self, request: Root, answer: type[R], deadline: float) -> R:
        """Ask the broker that takes changes to the cluster."""
        if self.controller_id not in self.brokers:
            await self.refresh((), deadline)
        if self.controller_id not in self.brokers:
            raise BrokerError(ErrorCode.NOT_CONTROLLER, "the cluster", "it has no controller at the moment")
        try:
            return await self.ask_node(self.controller_id, request, answer, deadline)
        except ConnectionFailed:
            self.controller_id = -1  # whoever takes over is learned from the others
            raise

    async def retry(
        self,
        step: Callable[[], Awaitable[T]],
        deadline: float,
        retriable: Callable[[ClientError], bool] = any_retriable,
    ) -> T:
        """`step` again and again while its failures are retriable and there is time."""
        return await retry(step, deadline, self.random, retriable, self.settings.pauses)

    async def connection(self, node_id: int, deadline: float) -> Connection:
        broker = self.brokers.get(node_id)
        if broker is None:
            raise ConnectionFailed(f"node {node_id}", "the cluster no longer names it")
        return await self._connect(broker.address, deadline)

    async def dedicated(self, node_id: int, deadline: float) -> Connection:
        """A connection that nobody else is handed; the caller closes it."""
        broker = self.brokers.get(node_id)
        if broker is None:
            raise ConnectionFailed(f"node {node_id}", "the cluster no longer names it")
        settings = self.settings
        until = min(deadline, self._loop.time() + settings.connect_seconds)
        return await self._open(broker.address, until, client_id=settings.client_id, in_flight=settings.in_flight)

    def _request_deadline(self, deadline: float) -> float:
        return min(deadline, self._loop.time() + self.settings.request_seconds)

    def _candidates(self) -> list[Address]:
        connected = [address for address, connection in self._connections.items() if not connection.closed]
        known = [broker.address for broker in self.brokers.values()]
        return list(dict.fromkeys([*connected, *known, *self._bootstrap]))

    async def _connect(self, address: Address, deadline: float) -> Connection:
        connection = self._connections.get(address)
        if connection is not None and not connection.closed:
            return connection
        async with self._opening.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is None or connection.closed:
                settings = self.settings
                connection = self._connections[address] = await self._open(
                    address,
                    min(deadline, self._loop.time() + settings.connect_seconds),
                    client_id=settings.client_id,
                    in_flight=settings.in_flight,
                )
            return connection


def _topic(entry: MetadataResponseTopic) -> Topic | BrokerError:
    name = entry.name or ""
    if entry.error_code:
        return BrokerError(known_code(entry.error_code), f"topic {name!r}")
    partitions = [
        Partition(
            part.partition_index,
            part.leader_id,
            part.leader_epoch,
            tuple(part.replica_nodes),
            tuple(part.isr_nodes),
            tuple(part.offline_replicas),
        )
        for part in entry.partitions
    ]
    partitions.sort()
    return Topic(name, entry.topic_id or NO_TOPIC_ID, entry.is_internal, tuple(partitions))
