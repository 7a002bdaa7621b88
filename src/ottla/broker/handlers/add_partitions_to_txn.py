"""AddPartitionsToTxn, v0 to v5: partitions become part of a transaction, all that a transaction names or none.

Up to v3 a client asks for its own transaction; from v4 on brokers ask for several, and may only want to know whether
the partitions are in them.

KIP-98; KIP-890 (v4: brokers verify, v5: errors after which a transaction can still be aborted).
"""

import asyncio
from collections.abc import Coroutine, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.metadata.image import INTERNAL_TOPICS
from ottla.net.dispatch import Context, in_the_end
from ottla.net.portions import AT_ONCE, in_portions, size
from ottla.transactions.decision import Outcome, ProducerIdentity
from ottla.transactions.state import EPOCH_PER_TRANSACTION
from ottla.wire.lists import Lists
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


@in_portions(Lists(("transactions",), ("results_by_transaction",)))
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
    if size(transactions, AT_ONCE) > AT_ONCE:
        return _in_steps(broker, transactions, context.version)
    answers = [in_the_end(_asked(broker, transaction, context.version)) for transaction in transactions]
    waiting = [answer for _, _, answer in answers if isinstance(answer, asyncio.Future)]
    if not waiting:
        return in_the_end(_response(answers, context.version))
    return _response_later(waiting, answers, context.version)


Asked = tuple[AddPartitionsToTxnTransaction, Errors, "Outcome | asyncio.Future[Outcome]"]
_DONE = Outcome(ErrorCode.NONE)


async def _in_steps(
    broker: "Broker", transactions: Sequence[AddPartitionsToTxnTransaction], version: int
) -> AddPartitionsToTxnResponse:
    answers = []
    for transaction in transactions:
        answer = await broker.dispatcher.in_steps(_asked(broker, transaction, version))
        if isinstance(answer[2], asyncio.Future):
            await asyncio.wait((answer[2],))
        answers.append(answer)
    return await broker.dispatcher.in_steps(_response(answers, version))


def _asked(broker: "Broker", asked: AddPartitionsToTxnTransaction, version: int) -> Generator[None, None, Asked]:
    """Errors of single partitions, or else the outcome that all of them share."""
    names: dict[TopicPartition, ErrorCode] = {}
    refused: dict[TopicPartition, ErrorCode] = {}
    for topic in asked.topics:
        for index in topic.partitions:
            name = TopicPartition(topic.name, index)
            names[name] = ErrorCode.OPERATION_NOT_ATTEMPTED
            error = _refusal(broker, name, version)
            if error != ErrorCode.NONE:
                refused[name] = error
            yield
        yield
    if refused:
        names.update(refused)
        return asked, names, _DONE
    if not asked.transactional_id:
        return asked, {}, Outcome(ErrorCode.INVALID_REQUEST)
    shard = broker.transactions.shard(asked.transactional_id)
    if isinstance(shard, ErrorCode):
        return asked, {}, Outcome(shard)
    producer = ProducerIdentity(asked.transactional_id, asked.producer_id, asked.producer_epoch)
    if asked.verify_only:
        errors: dict[TopicPartition, ErrorCode] = {}
        for name in names:
            error = shard.machine.verify(producer, name)
            if error != ErrorCode.NONE:
                errors[name] = error
            yield
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
    return in_the_end(_response(answers, version))


def _response(answers: list[Asked], version: int) -> Generator[None, None, AddPartitionsToTxnResponse]:
    results = []
    for answer in answers:
        result = yield from _result(answer, version)
        results.append(result)
    if version < BROKERS_FROM:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _result(answer: Asked, version: int) -> Generator[None, None, AddPartitionsToTxnResult]:
    asked, errors, outcome = answer
    shared = (outcome.result() if isinstance(outcome, asyncio.Future) else outcome).error
    if shared == ErrorCode.PRODUCER_FENCED and version < FENCED_FROM:
        shared = ErrorCode.INVALID_PRODUCER_EPOCH
    topics = []
    for topic in asked.topics:
        partitions = []
        for index in topic.partitions:
            error = errors.get(TopicPartition(topic.name, index), shared)
            partitions.append(AddPartitionsToTxnPartitionResult(index, error))
            yield
        topics.append(AddPartitionsToTxnTopicResult(topic.name, partitions))
        yield
    return AddPartitionsToTxnResult(asked.transactional_id, topics)
