"""What this broker asks the coordinators of transactions elsewhere before it appends to one.

Owns: AddPartitionsToTxn between brokers: that partitions become part of a transaction, or whether they are. Never
knows: what is to be appended. Invariants: every question is answered, by an error where no answer came; two questions
about one transactional id do not go in the same request, which has room for one.
"""

from asyncio import Future
from collections.abc import Collection
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.coordinator.transactions.per_broker_queue import LinkContext, PerBrokerQueue
from ottla.transactions.decision import ProducerIdentity
from ottla.wire.links import Link
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

ANSWER_SECONDS = 5.0
"""A producer waits for this answer; it had better hear soon that there is none and try again."""

Errors = dict[TopicPartition, ErrorCode]
"""What a coordinator has against partitions; those that are not in it are part of the transaction."""


class Question(NamedTuple):
    producer: ProducerIdentity
    names: Collection[TopicPartition]
    adds: bool
    reply: "Future[Errors]"

    def settle(self, errors: Errors) -> None:
        if not self.reply.done():
            self.reply.set_result(errors)

    def written(self) -> AddPartitionsToTxnTransaction:
        topics: dict[str, list[int]] = {}
        for topic, index in sorted(self.names):
            topics.setdefault(topic, []).append(index)
        return AddPartitionsToTxnTransaction(
            *self.producer,
            verify_only=not self.adds,
            topics=[AddPartitionsToTxnTopic(topic, indexes) for topic, indexes in topics.items()],
        )


class RemoteCoordinators:
    """Coordinators on other brokers, each asked over a link of its own."""

    def __init__(self, broker: LinkContext) -> None:
        self._broker = broker
        self._queue: PerBrokerQueue[Question] = PerBrokerQueue(broker, _send, _failed, _together)

    def ask(
        self, broker_id: int, producer: ProducerIdentity, names: Collection[TopicPartition], adds: bool
    ) -> "Future[Errors]":
        """Of the broker that coordinates the producer's transactional id."""
        reply: Future[Errors] = self._broker.loop.create_future()
        self._queue.add(broker_id, Question(producer, names, adds, reply))
        return reply

    def gone(self, broker_id: int) -> None:
        self._queue.gone(broker_id)

    async def stop(self) -> None:
        await self._queue.stop()


def _together(questions: list[Question]) -> int:
    seen = set()
    for count, question in enumerate(questions):
        if question.producer.transactional_id in seen:
            return count
        seen.add(question.producer.transactional_id)
    return len(questions)


async def _send(link: Link, questions: list[Question]) -> None:
    request = AddPartitionsToTxnRequest(transactions=[question.written() for question in questions])
    answer = await link.ask(request, AddPartitionsToTxnResponse, ANSWER_SECONDS)
    answered = {result.transactional_id: result for result in answer.results_by_transaction}
    for question in questions:
        found = answered.get(question.producer.transactional_id)
        if answer.error_code != ErrorCode.NONE or found is None:
            error = ErrorCode(answer.error_code or ErrorCode.UNKNOWN_SERVER_ERROR)
            question.settle(dict.fromkeys(question.names, error))
            continue
        question.settle(
            {
                TopicPartition(topic.name, result.partition_index): ErrorCode(result.partition_error_code)
                for topic in found.topic_results
                for result in topic.results_by_partition
                if result.partition_error_code != ErrorCode.NONE
            }
        )


def _failed(questions: list[Question]) -> None:
    for question in questions:
        question.settle(dict.fromkeys(question.names, ErrorCode.NETWORK_EXCEPTION))
