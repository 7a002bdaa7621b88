"""ListTransactions, v0 to v2: transactional ids by state, producer id, age of the transaction and name."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.groups.pattern_syntax import BadPattern
from ottla.groups.patterns import matching
from ottla.net.dispatch import Context
from ottla.transactions.state import STATES, Transaction
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Generator

    from ottla.broker.broker import Broker


async def handle(
    broker: "Broker", request: ListTransactionsRequest, context: Context
) -> "ListTransactionsResponse | Future[ListTransactionsResponse]":
    known: dict[str, Transaction] = {}
    for shard in broker.transactions.shards():
        if isinstance(shard, ErrorCode):
            return ListTransactionsResponse(error_code=shard)
        known |= shard.machine.transactions
    pattern = request.transactional_id_pattern
    names: Collection[str] = known
    if pattern:
        try:
            # Whatever somebody wrote there is compiled and matched while the loop goes on.
            names = await broker.search(lambda: matching(pattern, known))
        except BadPattern:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    chosen = await broker.dispatcher.in_steps(_chosen(request, known, names, broker.clock.now_ms()))
    answer = ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in STATES],
        transaction_states=chosen,
    )
    return broker.transactions.settled(None, answer, lambda error: ListTransactionsResponse(error_code=error))


def _chosen(
    request: ListTransactionsRequest, known: dict[str, Transaction], names: Collection[str], now_ms: int
) -> "Generator[None, None, list[TransactionState]]":
    states = {STATES[name] for name in request.state_filters if name in STATES}
    producer_ids = frozenset(request.producer_id_filters)
    found: list[TransactionState] = []
    for name, held in known.items():
        if (
            name in names
            and (not request.state_filters or held.state in states)
            and (not producer_ids or held.producer_id in producer_ids)
            and (request.duration_filter < 0 or now_ms - held.start_ms > request.duration_filter)
        ):
            found.append(TransactionState(name, held.producer_id, held.state.title))
        yield
    return found
