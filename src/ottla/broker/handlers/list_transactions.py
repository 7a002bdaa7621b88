"""ListTransactions, v0 to v2: transactional ids by state, producer id, age of the transaction and name."""

import re
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.broker.context import Context
from ottla.transactions.state import STATES
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: "Broker", request: ListTransactionsRequest, context: Context) -> ListTransactionsResponse:
    states = {STATES[name] for name in request.state_filters if name in STATES}
    unknown = [name for name in request.state_filters if name not in STATES]
    producer_ids = frozenset(request.producer_id_filters)
    pattern = None
    if request.transactional_id_pattern:
        try:
            pattern = re.compile(request.transactional_id_pattern)
        except re.error:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    now_ms = broker.clock.now_ms()
    listed = []
    for shard in broker.transactions.shards():
        if isinstance(shard, ErrorCode):
            return ListTransactionsResponse(error_code=shard)
        for name, held in shard.machine.transactions.items():
            if (
                (not request.state_filters or held.state in states)
                and (not producer_ids or held.producer_id in producer_ids)
                and (request.duration_filter < 0 or now_ms - held.start_ms > request.duration_filter)
                and (pattern is None or pattern.fullmatch(name) is not None)
            ):
                listed.append(TransactionState(name, held.producer_id, held.state.title))
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=listed)
