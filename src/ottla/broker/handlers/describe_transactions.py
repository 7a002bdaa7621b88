"""DescribeTransactions, v0: what is known of transactional ids.

KIP-664.
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.lists import Lists
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from asyncio import Future

    from ottla.broker.broker import Broker


@in_portions(Lists(("transactional_ids",), ("transaction_states",)))
def handle(
    broker: "Broker", request: DescribeTransactionsRequest, context: Context
) -> "DescribeTransactionsResponse | Future[DescribeTransactionsResponse]":
    names = request.transactional_ids
    return broker.transactions.settled(
        names,
        DescribeTransactionsResponse(transaction_states=[_described(broker, name) for name in names]),
        lambda error: DescribeTransactionsResponse(
            transaction_states=[TransactionState(error, name) for name in names]
        ),
    )


def _described(broker: "Broker", transactional_id: str) -> TransactionState:
    if not transactional_id:
        return TransactionState(ErrorCode.INVALID_REQUEST, transactional_id)
    shard = broker.transactions.shard(transactional_id)
    if isinstance(shard, ErrorCode):
        return TransactionState(shard, transactional_id)
    held = shard.machine.transactions.get(transactional_id)
    if held is None:
        return TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(held.partitions):
        topics.setdefault(topic, []).append(index)
    return TransactionState(
        ErrorCode.NONE,
        transactional_id,
        held.state.title,
        held.timeout_ms,
        held.start_ms,
        held.producer_id,
        held.epoch,
        [TopicData(topic, indexes) for topic, indexes in topics.items()],
    )
