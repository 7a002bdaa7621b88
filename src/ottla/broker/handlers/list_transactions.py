"""ListTransactions, v0 to v2: transactional ids by state, producer id, age of the transaction and name."""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.groups.patterns import ALPHABET, BadPattern, Pattern
from ottla.net.dispatch import Context
from ottla.transactions.state import STATES, Transaction
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from asyncio import Future

    from ottla.broker.broker import Broker


def handle(
    broker: "Broker", request: ListTransactionsRequest, context: Context
) -> "ListTransactionsResponse | Future[ListTransactionsResponse]":
    known: dict[str, Transaction] = {}
    for shard in broker.transactions.shards():
        if isinstance(shard, ErrorCode):
            return ListTransactionsResponse(error_code=shard)
        known |= shard.machine.transactions
    pattern = None
    if request.transactional_id_pattern:
        try:
            pattern = Pattern(request.transactional_id_pattern, ALPHABET.union(*known))
        except BadPattern:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    states = {STATES[name] for name in request.state_filters if name in STATES}
    producer_ids = frozenset(request.producer_id_filters)
    now_ms = broker.clock.now_ms()
    answer = ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in STATES],
        transaction_states=[
            TransactionState(name, held.producer_id, held.state.title)
            for name, held in known.items()
            if (not request.state_filters or held.state in states)
            and (not producer_ids or held.producer_id in producer_ids)
            and (request.duration_filter < 0 or now_ms - held.start_ms > request.duration_filter)
            and (pattern is None or pattern.matches(name))
        ],
    )
    return broker.transactions.settled(None, answer, lambda error: ListTransactionsResponse(error_code=error))
