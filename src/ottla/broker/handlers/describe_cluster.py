"""DescribeCluster, v0 to v2: the cluster's id and its brokers, on the listener that was asked.

Only the endpoint type "brokers" is served on a broker's listener, as in Kafka. Without authorization every operation on
the cluster is allowed.

KIP-700; KIP-919 (v1: endpoint types), KIP-1073 (v2: fenced brokers).
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.net.dispatch import Context
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

BROKERS = 1
CONTROLLERS = 2
NOT_ASKED = -(1 << 31)
ALL_CLUSTER_OPERATIONS = 8096
"""One bit for each operation on a cluster."""


def handle(broker: "Broker", request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    listener = context.listener
    return DescribeClusterResponse(
        cluster_id=broker.image.cluster_id,
        controller_id=broker.controller_id(),
        brokers=[
            DescribeClusterBroker(
                broker_id=each.id,
                host=each.listeners[listener][0],
                port=each.listeners[listener][1],
                rack=each.rack,
                is_fenced=each.fenced,
            )
            for each in broker.image.brokers.values()
            if listener in each.listeners and (request.include_fenced_brokers or not each.fenced)
        ],
        cluster_authorized_operations=ALL_CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )
