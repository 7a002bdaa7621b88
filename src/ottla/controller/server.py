"""What a controller's listener serves: brokers, other controllers, and tools that ask a controller directly.

Owns: which API goes to the controller and which to the quorum. Never knows: how anything is decided. Invariant: what a
broker's process sends, and the end of its connections, is told to the watch over lost brokers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.ports import Clock
from ottla.controller.controller import Controller
from ottla.controller.lost_brokers import LostBrokers
from ottla.controller.ports import ServedQuorum
from ottla.metadata import portions
from ottla.metadata.topics import too_much_to_create, too_much_to_grow
from ottla.net.connection import Connection
from ottla.net.connections import ConnectionLimits, Connections
from ottla.net.dispatch import Context, Dispatcher, Handler, RequestLimits
from ottla.net.portions import AT_ONCE, Look, at_most, in_portions
from ottla.wire.apis import API_VERSIONS, TABLE, Api
from ottla.wire.links import Links
from ottla.wire.lists import Lists
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.schema import Root

CONTROLLERS = 2
DRAIN_SECONDS = 1.0
"""How long requests in progress may take when the server stops."""
MOST_ELEMENTS = 1000
"""In all lists of a request that is no list of many things; there is one partition of metadata, and few features."""
NOT_ASKED = -(1 << 31)

_QUORUM = (
    "fetch",
    "vote",
    "begin_quorum_epoch",
    "end_quorum_epoch",
    "fetch_snapshot",
    "describe_quorum",
    "add_raft_voter",
    "remove_raft_voter",
    "update_raft_voter",
)
_BY_VERSION = ("delete_topics", "update_features", "alter_partition", "elect_leaders")
"""Methods of the controller that must know the version of a request."""
_METHODS = {
    "create_topics": "create_topics",
    "delete_topics": "delete_topics",
    "create_partitions": "create_partitions",
    "alter_configs": "alter_configs",
    "incremental_alter_configs": "incremental_alter_configs",
    "allocate_producer_ids": "allocate_producer_ids",
    "update_features": "update_features",
    "broker_registration": "register_broker",
    "broker_heartbeat": "broker_heartbeat",
    "unregister_broker": "unregister_broker",
    "alter_partition": "alter_partition",
    "elect_leaders": "elect_leaders",
    "alter_partition_reassignments": "alter_partition_reassignments",
    "list_partition_reassignments": "list_partition_reassignments",
    "assign_replicas_to_dirs": "assign_replicas_to_dirs",
    "controller_registration": "controller_registration",
}
"""The controller's method for each API that it decides."""
_PORTIONS: Mapping[str, Sequence[Lists]] = {
    "create_topics": (portions.CREATE_TOPICS,),
    "delete_topics": portions.DELETE_TOPICS,
    "create_partitions": (portions.CREATE_PARTITIONS,),
    "alter_configs": (portions.ALTER_CONFIGS,),
    "incremental_alter_configs": (portions.ALTER_CONFIGS,),
    "alter_partition": (portions.ALTER_PARTITION,),
    "elect_leaders": (portions.ELECT_LEADERS,),
    "alter_partition_reassignments": (portions.ALTER_PARTITION_REASSIGNMENTS,),
    "list_partition_reassignments": (portions.LIST_PARTITION_REASSIGNMENTS,),
    "assign_replicas_to_dirs": (portions.ASSIGN_REPLICAS_TO_DIRS,),
    "describe_quorum": (portions.DESCRIBE_QUORUM,),
}
"""What is decided a portion at a time."""
_CREATIONS: Mapping[str, tuple[int, Look]] = {
    "create_topics": (
        portions.FACTS_AT_ONCE,
        lambda server, request, context: too_much_to_create(request, server.controller.values),
    ),
    "create_partitions": (
        portions.FACTS_AT_ONCE,
        lambda server, request, context: too_much_to_grow(request, server.controller.image),
    ),
}


class ServerContext(NamedTuple):
    """What a server runs on."""

    loop: asyncio.AbstractEventLoop
    threads: Executor
    links: Links
    clock: Clock
    listener: str | None
    """By which brokers reach each other, as far as this node knows."""


class ControllerServer:
    """Serves one node's controller and its part of the quorum."""

    def __init__(
        self,
        context: ServerContext,
        controller: Controller,
        quorum: ServedQuorum,
        connection_limits: ConnectionLimits,
        limits: RequestLimits,
    ) -> None:
        self.loop, self._threads, links, self.clock, listener = context
        self.controller = controller
        self.quorum = quorum
        self.connections = Connections(self.loop, connection_limits, self.clock.monotonic)
        self.dispatcher = _ServerDispatcher(self, limits)
        self.lost_brokers = LostBrokers(controller, links, self.clock, listener)
        controller.when_leading(self.lost_brokers.look_at_all)

    def in_thread(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        future = self._threads.submit(work)
        future.add_done_callback(
            lambda ended: self.loop.call_soon_threadsafe(done, None if ended.cancelled() else ended.exception())
        )

    async def stop(self) -> None:
        self.lost_brokers.stop()
        await self.dispatcher.drain(DRAIN_SECONDS)
        self.connections.close()


class _ServerDispatcher(Dispatcher):
    def __init__(self, server: ControllerServer, limits: RequestLimits) -> None:
        super().__init__(server, SERVED, handler_of, limits)
        self._server = server

    def closed(self, connection: Connection, reason: str) -> None:
        super().closed(connection, reason)
        self._server.lost_brokers.closed(connection)


def handler_of(api: Api) -> Handler:
    """What serves an API here, however long its requests are."""
    handle = _whole_handler(api)
    ways = _PORTIONS.get(api.module)
    if ways is None:
        return at_most(MOST_ELEMENTS, "", lambda request, context: None)(handle)
    at_once, look = _CREATIONS.get(api.module, (AT_ONCE, None))
    return in_portions(*ways, at_once=at_once, look=look)(handle)


def _whole_handler(api: Api) -> Handler:
    if api.module == "api_versions":
        return _api_versions
    if api.module == "describe_cluster":
        return _describe_cluster
    if api.module == "broker_heartbeat":
        return _broker_heartbeat
    if api.module == "fetch":
        return _fetch
    if api.module in _QUORUM:
        return lambda server, request, context: server.quorum.handle(request, context.version)
    method = _METHODS[api.module]
    if api.module in _BY_VERSION:
        return lambda server, request, context: getattr(server.controller, method)(request, context.version)
    return lambda server, request, context: getattr(server.controller, method)(request)


def _broker_heartbeat(
    server: ControllerServer, request: BrokerHeartbeatRequest, context: Context
) -> Awaitable[BrokerHeartbeatResponse]:
    if context.connection is not None:
        server.lost_brokers.came_by(context.connection, request.broker_id)
    server.lost_brokers.heartbeat(request.broker_id, request.broker_epoch)
    return server.controller.broker_heartbeat(request)


async def _fetch(server: ControllerServer, request: FetchRequest, context: Context) -> Root:
    connection = context.connection
    if connection is not None:
        # Nodes that follow the quorum go by the id of their broker; which of the fields has it, the version says.
        server.lost_brokers.came_by(connection, max(request.replica_id, request.replica_state.replica_id))
        reply, task = connection.deferred, asyncio.current_task()
        if reply is not None and task is not None:
            # It waits for facts most of the time, and nothing else shows as soon that its process is gone.
            reply.abandoned = task.cancel
    return await server.quorum.handle(request, context.version)


SERVED: Mapping[int, Api] = {
    key: api
    for key, api in TABLE.items()
    if api.module in _QUORUM or api.module in _METHODS or api.module in ("api_versions", "describe_cluster")
}


def _api_versions(server: ControllerServer, request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    served = [
        ApiVersion(api_key=api.key, min_version=api.first, max_version=api.last) for _, api in sorted(SERVED.items())
    ]
    if context.version < 0:
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=served)
    image = server.controller.image
    return ApiVersionsResponse(
        api_keys=served,
        supported_features=[
            SupportedFeatureKey(name=name, min_version=first, max_version=last)
            for name, (first, last) in server.controller.supported_features.items()
            # Older clients refuse a range that begins at 0.
            if context.version >= TABLE[API_VERSIONS].last or first > 0
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in image.features.items()
        ],
    )


def _describe_cluster(
    server: ControllerServer, request: DescribeClusterRequest, context: Context
) -> DescribeClusterResponse:
    if request.endpoint_type != CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type CONTROLLER, "
            "but we wanted an endpoint of type BROKER",
        )
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=server.controller.image.cluster_id,
        controller_id=server.quorum.leader[0],
        brokers=[
            DescribeClusterBroker(broker_id=voter.voter_id, host=endpoint.host, port=endpoint.port)
            for voter in server.quorum.voters
            for endpoint in voter.endpoints[:1]
        ],
        cluster_authorized_operations=NOT_ASKED,
    )
