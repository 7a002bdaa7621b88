"""AddPartitionsToTxn, v0 to v5: partitions become part of a transaction, all that a transaction names or none.

Up to v3 a client asks for its own transaction; from v4 on brokers ask for several, and may only want to know whether
the partitions are in them.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.metadata.image import INTERNAL_TOPICS
from ottla.net.dispatch import Context
from ottla.transactions.decision import Outcome, Producer
from ottla.transactions.state import EPOCH_PER_TRANSACTION
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

BROKERS_FROM = 4
FENCED_FROM = 2

Errors = Mapping[TopicPartition, ErrorCode]


def handle(
    broker: "Broker", request: AddPartitionsToTxnRequest, context: Context
) -> AddPartitionsToTxnResponse | Coroutine[Any, Any, AddPartitionsToTxnResponse]:
    transactions = request.transactions
    if context.version < BROKERS_FROM:
        transactions = [
            AddPartitionsToTxnTransaction(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
        ]
    answers = [_asked(broker, transaction, context.version) for transaction in transactions]
    waiting = [answer for _, _, answer in answers if isinstance(answer, asyncio.Future)]
    if not waiting:
        return _response(answers, context.version)
    return _response_later(waiting, answers, context.version)


Asked = tuple[AddPartitionsToTxnTransaction, Errors, "Outcome | asyncio.Future[Outcome]"]
_DONE = Outcome(ErrorCode.NONE)


def _asked(broker: "Broker", asked: AddPartitionsToTxnTransaction, version: int) -> Asked:
    """Errors of single partitions, or else the outcome that all of them share."""
    names = [TopicPartition(topic.name, index) for topic in asked.topics for index in topic.partitions]
    refused = {name: error for name in names if (error := _refusal(broker, name, version)) != ErrorCode.NONE}
    if refused:
        return asked, dict.fromkeys(names, ErrorCode.OPERATION_NOT_ATTEMPTED) | refused, _DONE
    if not asked.transactional_id:
        return asked, {}, Outcome(ErrorCode.INVALID_REQUEST)
    shard = broker.transactions.shard(asked.transactional_id)
    if isinstance(shard, ErrorCode):
        return asked, {}, Outcome(shard)
    producer = Producer(asked.transactional_id, asked.producer_id, asked.producer_epoch)
    if asked.verify_only:
        said = {name: shard.machine.verify(producer, name) for name in names}
        errors = {name: error for name, error in said.items() if error != ErrorCode.NONE}
        return asked, errors, shard.settled(_DONE, Outcome)
    protocol = EPOCH_PER_TRANSACTION if version >= BROKERS_FROM else 0
    return asked, {}, shard.add(producer, frozenset(names), protocol)


def _refusal(broker: "Broker", name: TopicPartition, version: int) -> ErrorCode:
    if version < BROKERS_FROM and name.topic in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE if broker.image.partition(*name) is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _response_later(
    waiting: "list[asyncio.Future[Outcome]]", answers: list[Asked], version: int
) -> AddPartitionsToTxnResponse:
    await asyncio.wait(waiting)
    return _response(answers, version)


def _response(answers: list[Asked], version: int) -> AddPartitionsToTxnResponse:
    results = [_result(answer, version) for answer in answers]
    if version < BROKERS_FROM:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _result(answer: Asked, version: int) -> AddPartitionsToTxnResult:
    asked, errors, outcome = answer
    shared = (outcome.result() if isinstance(outcome, asyncio.Future) else outcome).error
    if shared == ErrorCode.PRODUCER_FENCED and version < FENCED_FROM:
        shared = ErrorCode.INVALID_PRODUCER_EPOCH
    topics = [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(index, errors.get(TopicPartition(topic.name, index), shared))
                for index in topic.partitions
            ],
        )
        for topic in asked.topics
    ]
    return AddPartitionsToTxnResult(asked.transactional_id, topics)
