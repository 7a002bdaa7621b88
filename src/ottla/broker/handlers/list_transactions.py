"""ListTransactions, v0 to v2: transactional ids by state, producer id, age of the transaction and name.

KIP-664; KIP-994 (v1: by age), KIP-1152 (v2: by pattern).
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.groups.pattern_syntax import BadPattern
from ottla.groups.patterns import matching
from ottla.net.dispatch import Context
from ottla.net.portions import in_turns
from ottla.transactions.state import STATES, Transaction, TransactionState
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.list_transactions import TransactionState as ListedTransaction

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
    wanted, unknown = await _wanted(broker, request)
    chosen = await broker.dispatcher.in_steps(_chosen(wanted, known, names, broker.clock.now_ms()))
    answer = ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=chosen)
    return broker.transactions.settled(None, answer, lambda error: ListTransactionsResponse(error_code=error))


class _Wanted(NamedTuple):
    states: set[TransactionState] | None
    producer_ids: set[int]
    duration_ms: int


async def _wanted(broker: "Broker", request: ListTransactionsRequest) -> tuple[_Wanted, list[str]]:
    """What is asked for, and the states that there are not."""
    states: set[TransactionState] = set()
    unknown: list[str] = []
    async for names in in_turns(broker, request.state_filters):
        states.update(STATES[name] for name in names if name in STATES)
        unknown += (name for name in names if name not in STATES)
    producer_ids: set[int] = set()
    async for numbers in in_turns(broker, request.producer_id_filters):
        producer_ids.update(numbers)
    return _Wanted(states if request.state_filters else None, producer_ids, request.duration_filter), unknown


def _chosen(
    wanted: _Wanted, known: dict[str, Transaction], names: Collection[str], now_ms: int
) -> "Generator[None, None, list[ListedTransaction]]":
    found: list[ListedTransaction] = []
    for name, held in known.items():
        if (
            name in names
            and (wanted.states is None or held.state in wanted.states)
            and (not wanted.producer_ids or held.producer_id in wanted.producer_ids)
            and (wanted.duration_ms < 0 or now_ms - held.start_ms > wanted.duration_ms)
        ):
            found.append(ListedTransaction(name, held.producer_id, held.state.title))
        yield
    return found
