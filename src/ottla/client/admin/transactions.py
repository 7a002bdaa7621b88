"""Transactions and the producers behind them.

Owns: the requests about them, and results as plain values. Never knows: being a producer.
Invariant: every transactional id is asked for at its own coordinator, every partition at its leader.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.admin.part import Outcome, Part
from ottla.client.coordinators import CoordinatorKind, find_coordinator
from ottla.client.errors import BrokerError, known_code
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

T = TypeVar("T")


class ListedTransaction(NamedTuple):
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int = -1


class TransactionDescription(NamedTuple):
    """A transactional id and its transaction; times in milliseconds, `started` -1 when none is open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout: int
    started: int
    partitions: tuple[TopicPartition, ...]
    coordinator: int


class ActiveProducer(NamedTuple):
    """A producer a partition remembers; `transaction_start` is the offset its open transaction began at, or -1."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start: int


class TransactionAdmin(Part):
    """Transactions, idempotent producers, and getting rid of what hangs."""

    async def transactions(
        self,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        seconds: float | None = None,
        *,
        longer_than: int = -1,
    ) -> list[ListedTransaction]:
        """Every transactional id of every coordinator; open for longer than so many milliseconds if asked."""
        deadline = self._deadline(seconds)
        request = ListTransactionsRequest(states, producer_ids, longer_than)

        async def ask_one(node: int) -> list[ListedTransaction]:
            answer = await self._cluster.ask_node(node, request, ListTransactionsResponse, deadline)
            if answer.error_code:
                raise BrokerError(answer.error_code, f"the transactions of broker {node}")
            return [ListedTransaction(each.transactional_id, each.producer_id, each.transaction_state, node)
                    for each in answer.transaction_states]  # fmt: skip

        async def ask() -> list[ListedTransaction]:
            await self._cluster.refresh((), deadline)
            answers = await asyncio.gather(*(ask_one(node) for node in self._cluster.brokers))
            return sorted({each for found in answers for each in found})

        return await self._cluster.retry(ask, deadline)

    async def describe_transactions(
        self, transactional_ids: Sequence[str], seconds: float | None = None
    ) -> dict[str, TransactionDescription | BrokerError]:
        deadline = self._deadline(seconds)

        async def describe(name: str, node: int) -> TransactionDescription:
            request = DescribeTransactionsRequest([name])
            answer = await self._cluster.ask_node(node, request, DescribeTransactionsResponse, deadline)
            (state,) = answer.transaction_states
            _refuse(state.error_code, name)
            partitions = sorted(TopicPartition(row.topic, number) for row in state.topics for number in row.partitions)
            return TransactionDescription(
                name,
                state.transaction_state,
                state.producer_id,
                state.producer_epoch,
                state.transaction_timeout_ms,
                state.transaction_start_time_ms,
                tuple(partitions),
                node,
            )

        async def one(name: str) -> TransactionDescription | BrokerError:
            try:
                return await self._at_transactions(name, deadline, partial(describe, name))
            except BrokerError as refused:
                return refused

        return dict(zip(transactional_ids, await asyncio.gather(*map(one, transactional_ids)), strict=True))

    async def fence_producers(
        self, transactional_ids: Sequence[str], seconds: float | None = None
    ) -> dict[str, Outcome]:
        """Take transactional ids away from whoever uses them; open transactions are aborted."""
        deadline = self._deadline(seconds)

        async def fence(name: str, node: int) -> Outcome:
            # A time-out of one millisecond is what the broker needs least: the new owner never opens a transaction.
            request = InitProducerIdRequest(name, 1)
            answer = await self._cluster.ask_node(node, request, InitProducerIdResponse, deadline)
            _refuse(answer.error_code, name)
            return Outcome(ErrorCode.NONE)

        async def one(name: str) -> Outcome:
            try:
                return await self._at_transactions(name, deadline, partial(fence, name))
            except BrokerError as refused:
                return Outcome(refused.code, refused.message)

        return dict(zip(transactional_ids, await asyncio.gather(*map(one, transactional_ids)), strict=True))

    async def producers(
        self, partitions: Collection[TopicPartition], seconds: float | None = None
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...]]:
        """The producers each partition remembers, as its leader knows them."""
        deadline = self._deadline(seconds)

        async def ask() -> dict[TopicPartition, tuple[ActiveProducer, ...]]:
            by_node: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
            for place in partitions:
                leader = await self._cluster.leader(place, deadline)
                by_node[leader.leader][place.topic].append(place.partition)
            answers = await asyncio.gather(*(
                self._cluster.ask_node(
                    node, DescribeProducersRequest([TopicRequest(*row) for row in rows.items()]),
                    DescribeProducersResponse, deadline,
                )
                for node, rows in by_node.items()
            ))  # fmt: skip
            found: dict[TopicPartition, tuple[ActiveProducer, ...]] = {}
            for answer in answers:
                for topic in answer.topics:
                    for part in topic.partitions:
                        place = TopicPartition(topic.name, part.partition_index)
                        if part.error_code:
                            self._cluster.forget(topic.name)
                            raise BrokerError(part.error_code, f"partition {place}", part.error_message)
                        found[place] = tuple(
                            ActiveProducer(
                                each.producer_id,
                                each.producer_epoch,
                                each.last_sequence,
                                each.last_timestamp,
                                each.coordinator_epoch,
                                each.current_txn_start_offset,
                            )
                            for each in part.active_producers
                        )
            return found

        return await self._cluster.retry(ask, deadline)

    async def abort_transaction(
        self, partition: TopicPartition, producer: ActiveProducer, seconds: float | None = None
    ) -> Outcome:
        """End a transaction that hangs in a partition because its coordinator does not know it any more."""
        deadline = self._deadline(seconds)
        marker = WritableTxnMarker(
            producer.producer_id,
            producer.producer_epoch,
            False,
            [WritableTxnMarkerTopic(partition.topic, [partition.partition])],
            max(0, producer.coordinator_epoch),
        )

        async def ask() -> Outcome:
            leader = await self._cluster.leader(partition, deadline)
            request = WriteTxnMarkersRequest([marker])
            answer = await self._cluster.ask_node(leader.leader, request, WriteTxnMarkersResponse, deadline)
            (error,) = (p.error_code for m in answer.markers for t in m.topics for p in t.partitions)
            return Outcome(known_code(error))

        return await self._cluster.retry(ask, deadline)

    async def _at_transactions(self, name: str, deadline: float, step: Callable[[int], Awaitable[T]]) -> T:
        async def ask() -> T:
            return await step(await find_coordinator(self._cluster, CoordinatorKind.TRANSACTION, name, deadline))

        return await self._cluster.retry(ask, deadline)


def _refuse(error: int, transactional_id: str) -> None:
    if error:
        raise BrokerError(error, f"transactional id {transactional_id!r}")
