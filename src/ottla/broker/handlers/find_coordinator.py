"""FindCoordinator, v0 to v6: which broker coordinates a group or a transactional id.

The first question makes the internal topic; the answer waits for that, where Kafka lets the client ask again. There are
no coordinators of share groups.

KIP-98 (v1: transactional ids), KIP-699 (v4: several at once), KIP-932 (v6: share groups).
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ottla.base.errors import ErrorCode
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.lists import Lists
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.coordinator.groups.group_coordinator import GroupCoordinator
    from ottla.coordinator.transactions.transaction_coordinator import TransactionCoordinator

GROUP = 0
TRANSACTION = 1
SHARE = 2
SEVERAL_FROM = 4
NOT_AVAILABLE = "The coordinator is not available."
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


@in_portions(Lists(("coordinator_keys",), ("coordinators",)))
def handle(
    broker: "Broker", request: FindCoordinatorRequest, context: Context
) -> FindCoordinatorResponse | Coroutine[Any, Any, FindCoordinatorResponse]:
    host = _host(broker, request.key_type)
    if host is not None and not host.topic_exists:
        return _answer_with_topic(host, broker, request, context)
    return _answer(broker, request, context)


def _host(broker: "Broker", kind: int) -> "GroupCoordinator | TransactionCoordinator | None":
    if kind == GROUP:
        return broker.groups
    return broker.transactions if kind == TRANSACTION else None


async def _answer_with_topic(
    coordinator: "GroupCoordinator | TransactionCoordinator",
    broker: "Broker",
    request: FindCoordinatorRequest,
    context: Context,
) -> FindCoordinatorResponse:
    await coordinator.create_topic()
    return _answer(broker, request, context)


def _answer(broker: "Broker", request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    if context.version >= SEVERAL_FROM:
        return FindCoordinatorResponse(
            coordinators=[_found(broker, request.key_type, key, context) for key in request.coordinator_keys]
        )
    found = _found(broker, request.key_type, request.key, context)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=_message(found.error_code),
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _message(error: int) -> str:
    if error == ErrorCode.NONE:
        return "NONE"
    return NOT_AVAILABLE if error == ErrorCode.COORDINATOR_NOT_AVAILABLE else MALFORMED


def _found(broker: "Broker", kind: int, key: str, context: Context) -> Coordinator:
    machines = _host(broker, kind)
    if machines is None:
        return _nobody(key, ErrorCode.INVALID_REQUEST, "" if kind == SHARE else MALFORMED)
    partition = broker.image.partition(machines.plan.name, machines.partition_of(key))
    leader = -1 if partition is None else partition.leader
    for node_id, host, port, _ in broker.nodes(context.listener):
        if node_id == leader:
            return Coordinator(key=key, node_id=node_id, host=host, port=port)
    return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _nobody(key: str, error: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
