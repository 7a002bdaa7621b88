"""Transactions that one process begins and another ends.

Owns: the exchanges with a transaction's coordinator, and what its answers mean for somebody who may ask again after a
crash. Never knows: rows, journals, who decides. Invariants: a transaction is ended in the generation of the protocol in
which it was begun; ending one again is harmless; what is `LOST` was not committed and never will be.
"""

import asyncio
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.coordinators import CoordinatorKind, find_coordinator
from ottla.client.errors import BrokerError, known_code
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.schema import LATEST, Root

R = TypeVar("R", bound=Root)

# A decided transaction has no time-out where the cluster can do without: design/0026.
_LAST_WITHOUT_TWO_PHASES = 5
_TWO_PHASES = 6
"""Of InitProducerId: nobody but who knows the transaction ends it, and no time-out (KIP-939)."""
_NO_TRANSACTION_MS = 1_000
"""For who begins none: below whatever a cluster allows at most."""
_FIRST_WITH_PATTERN = 2
"""Of ListTransactions; older brokers tell everything."""
_LAST_FOR_CLIENTS = 3
_LAST_OF_FIRST_PROTOCOL = 4
LAST_WITH_EXPLICIT_PARTITIONS = 11
"""Of Produce."""

LOST = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""What is said to who goes on with a transaction that somebody ended."""
ENDED = "its transaction has ended: it took longer than transaction.timeout.ms, or another driver runs the query"


class TransactionIdentity(NamedTuple):
    """Who writes a transaction; whoever knows it can end the transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    second_protocol: bool
    """Brokers add partitions by themselves, and every transaction has an epoch of its own (KIP-890)."""


class Ending(Enum):
    """What became of it."""

    DONE = "done"
    LOST = "lost"


async def init(
    cluster: Cluster,
    transactional_id: str,
    deadline: float,
    *,
    timeout_ms: int = _NO_TRANSACTION_MS,
    held: bool = False,
) -> TransactionIdentity:
    """Become the one who writes under this id: whatever was open under it is aborted, whoever wrote it is fenced.

    Who writes says how long a transaction may take. With `held` no time-out ends what is begun now, where the cluster
    offers that (two-phase commit) and allows it.
    """

    async def ask() -> TransactionIdentity:
        await _learn(cluster, deadline)
        node = await find_coordinator(cluster, CoordinatorKind.TRANSACTION, transactional_id, deadline)
        connection = await cluster.connection(node, deadline)
        request = InitProducerIdRequest(transactional_id, timeout_ms)
        highest = _LAST_WITHOUT_TWO_PHASES
        if held and connection.version_for(InitProducerIdRequest) >= _TWO_PHASES:
            request.enable2_pc, highest = True, _TWO_PHASES
        answer = await cluster.ask_node(node, request, InitProducerIdResponse, deadline, highest=highest)
        if request.enable2_pc and answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            request.enable2_pc, highest = False, _LAST_WITHOUT_TWO_PHASES
            answer = await cluster.ask_node(node, request, InitProducerIdResponse, deadline, highest=highest)
        _refuse(answer.error_code, transactional_id)
        second = (
            connection.features.get("transaction.version", 0) >= 2
            and connection.version_for(EndTxnRequest) > _LAST_OF_FIRST_PROTOCOL
            and connection.version_for(ProduceRequest) > LAST_WITH_EXPLICIT_PARTITIONS
        )
        return TransactionIdentity(transactional_id, answer.producer_id, answer.producer_epoch, second)

    return await cluster.retry(ask, deadline)


async def init_idempotent(cluster: Cluster, deadline: float) -> tuple[int, int]:
    """A producer id and its epoch for somebody without transactions, whose repetitions brokers are to recognize."""

    async def ask() -> tuple[int, int]:
        request = InitProducerIdRequest(None, _NO_TRANSACTION_MS)
        answer = await cluster.ask_any(request, InitProducerIdResponse, deadline, highest=_LAST_WITHOUT_TWO_PHASES)
        if answer.error_code:
            raise BrokerError(answer.error_code, "a producer id")
        return answer.producer_id, answer.producer_epoch

    return await cluster.retry(ask, deadline)


async def find_open(cluster: Cluster, prefix: str, deadline: float) -> list[str]:
    """The ids that begin with these letters and digits and have a transaction open, of all coordinators."""
    pattern = f"{prefix}.*"

    async def ask_one(node: int) -> list[str]:
        connection = await cluster.connection(node, deadline)
        narrow = connection.version_for(ListTransactionsRequest) >= _FIRST_WITH_PATTERN
        request = ListTransactionsRequest(["Ongoing"], transactional_id_pattern=pattern if narrow else None)
        answer = await cluster.ask_node(node, request, ListTransactionsResponse, deadline)
        _refuse(answer.error_code, f"ids of broker {node}")
        return [row.transactional_id for row in answer.transaction_states]

    async def ask() -> list[str]:
        await cluster.refresh((), deadline)
        answers = await asyncio.gather(*(ask_one(node) for node in cluster.brokers))
        return [name for names in answers for name in names if name.startswith(prefix)]

    return await cluster.retry(ask, deadline)


async def add(
    cluster: Cluster, identity: TransactionIdentity, partitions: Iterable[TopicPartition], deadline: float
) -> None:
    """Name partitions before they are written to; the second protocol needs no such call."""
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=identity.transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name, numbers) for name, numbers in topics.items()],
    )

    async def ask() -> None:
        answer = await _ask(cluster, identity, request, AddPartitionsToTxnResponse, deadline, _LAST_FOR_CLIENTS)
        for topic in answer.results_by_topic_v3_and_below:
            for part in topic.results_by_partition:
                said = ENDED if known_code(part.partition_error_code) in LOST else None
                _refuse(part.partition_error_code, f"{topic.name}-{part.partition_index}", said)

    await cluster.retry(ask, deadline)


async def end(cluster: Cluster, identity: TransactionIdentity, committed: bool, deadline: float) -> Ending:
    """End a transaction that somebody began, once or again."""
    request = EndTxnRequest(identity.transactional_id, identity.producer_id, identity.producer_epoch, committed)
    highest = LATEST if identity.second_protocol else _LAST_OF_FIRST_PROTOCOL

    async def ask() -> Ending:
        answer = await _ask(cluster, identity, request, EndTxnResponse, deadline, highest)
        if known_code(answer.error_code) in LOST:
            return Ending.LOST
        _refuse(answer.error_code, identity.transactional_id)
        return Ending.DONE

    return await cluster.retry(ask, deadline)


async def _ask(
    cluster: Cluster, identity: TransactionIdentity, request: Root, answer: type[R], deadline: float, highest: int
) -> R:
    await _learn(cluster, deadline)
    node = await find_coordinator(cluster, CoordinatorKind.TRANSACTION, identity.transactional_id, deadline)
    return await cluster.ask_node(node, request, answer, deadline, highest=highest)


async def _learn(cluster: Cluster, deadline: float) -> None:
    if not cluster.brokers:
        await cluster.connect(deadline)


def _refuse(code: int, subject: str, said: str | None = None) -> None:
    if code:
        raise BrokerError(code, f"transaction {subject}", said)
