"""TxnOffsetCommit, v0 to v5: offsets of a group that are committed with a transaction, or not at all.

The transaction must know of the group's partition: up to v4 the client has added it, from v5 on this does.

KIP-98; KIP-447 (v3: the member and its generation), KIP-890 (v5).
"""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.coordinator.groups.group_coordinator import OFFSETS_TOPIC
from ottla.coordinator.shard import BatchWriter
from ottla.coordinator.transactions.admission import VERIFICATION, is_open
from ottla.coordinator.transactions.joining import Joining, join
from ottla.groups.decision import GroupDecision
from ottla.groups.offsets import commit_refused, committed_facts
from ottla.groups.pending_offsets import pending_commit
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.transactions.decision import ProducerIdentity
from ottla.wire.lists import Lists
from ottla.wire.messages.offset_commit import OffsetCommitResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.coordinator.groups.shard import GroupShard
    from ottla.coordinator.transactions.guards import Guard
    from ottla.coordinator.transactions.verification import Errors as Joined

LOADING_FROM = 2
"""The version whose clients know that a coordinator may be loading."""
ABORTABLE_FROM = 4
ADDS_FROM = 5
AT_ONCE = 500
"""Partitions whose offsets are kept together; beyond that other requests get their turn in between."""

Answer = TxnOffsetCommitResponse | Coroutine[Any, Any, TxnOffsetCommitResponse]
Errors = dict[tuple[str, int], ErrorCode]


@in_portions(Lists(("topics", "partitions"), ("topics", "partitions")), at_once=AT_ONCE)
def handle(broker: "Broker", request: TxnOffsetCommitRequest, context: Context) -> Answer:
    asked = [(topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions]
    unknown = {name: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for name in asked if not _exists(broker, name)}
    for topic in request.topics:
        topic.partitions = [each for each in topic.partitions if (topic.name, each.partition_index) not in unknown]
    request.topics = [topic for topic in request.topics if topic.partitions]
    if not request.topics:
        return _response(asked, unknown, context.version)
    shard = broker.groups.shard(request.group_id) if request.group_id else ErrorCode.INVALID_GROUP_ID
    joined = shard if isinstance(shard, ErrorCode) else _join(broker, shard, request, context.version)
    if not isinstance(joined, ErrorCode):
        return _when_joined(broker, request, joined, _Asked(asked, unknown, context.version))
    if isinstance(shard, ErrorCode) or joined != ErrorCode.NONE:
        return _response(asked, dict.fromkeys(asked, joined) | unknown, context.version)
    answer = _commit(shard, request)
    if isinstance(answer, asyncio.Future):
        return _response_later(answer, asked, unknown, context.version)
    return _response(asked, _errors(answer) | unknown, context.version)


class _Asked(NamedTuple):
    places: list[tuple[str, int]]
    unknown: Errors
    version: int


async def _when_joined(
    broker: "Broker", request: TxnOffsetCommitRequest, joining: "Coroutine[Any, Any, ErrorCode]", asked: _Asked
) -> TxnOffsetCommitResponse:
    """The coordinator of the transaction is asked first; the one of the group may be another by then."""
    error = await joining
    shard = broker.groups.shard(request.group_id)
    if isinstance(shard, ErrorCode):
        error = shard
    if isinstance(shard, ErrorCode) or error != ErrorCode.NONE:
        return _response(asked.places, dict.fromkeys(asked.places, error) | asked.unknown, asked.version)
    answer = _commit(shard, request)
    committed = await answer if isinstance(answer, asyncio.Future) else answer
    return _response(asked.places, _errors(committed) | asked.unknown, asked.version)


def _exists(broker: "Broker", name: tuple[str, int]) -> bool:
    return broker.image.partition(*name) is not None


def _join(
    broker: "Broker", shard: "GroupShard", request: TxnOffsetCommitRequest, version: int
) -> "ErrorCode | Coroutine[Any, Any, ErrorCode]":
    """Whether the group's partition is, or becomes, part of the transaction."""
    adds = version >= ADDS_FROM
    if not adds and not broker.values.boolean(VERIFICATION):
        return ErrorCode.NONE
    if is_open(shard.partition, request.producer_id, request.producer_epoch):
        return ErrorCode.NONE
    name = TopicPartition(OFFSETS_TOPIC, shard.partition.index)
    producer = ProducerIdentity(request.transactional_id, request.producer_id, request.producer_epoch)
    errors = join(broker.transactions, Joining(producer, frozenset((name,)), adds))
    if isinstance(errors, dict):
        return _told(errors.get(name, ErrorCode.NONE), version)
    if adds:
        return _added_later(errors, name, version)
    guard = broker.transactions.guards.take(shard.partition, producer.producer_id)
    return _verified_later(broker, errors, guard, version)


async def _added_later(errors: "asyncio.Future[Joined]", name: TopicPartition, version: int) -> ErrorCode:
    return _told((await errors).get(name, ErrorCode.NONE), version)


async def _verified_later(
    broker: "Broker", errors: "asyncio.Future[Joined]", guard: "Guard", version: int
) -> ErrorCode:
    """The transaction may end meanwhile; in newer ones their epoch guards against that."""
    try:
        error = (await errors).get(guard.name, ErrorCode.NONE)
    finally:
        overtaken = broker.transactions.guards.give_back(guard)
    if error == ErrorCode.NONE and overtaken == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return ErrorCode.NOT_COORDINATOR
    return _told(error or overtaken, version)


def _told(error: ErrorCode, version: int) -> ErrorCode:
    """The coordinator's error as a producer of some age understands it."""
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error == ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    if error == ErrorCode.NETWORK_EXCEPTION or (error == ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_FROM):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return error


def _commit(shard: "GroupShard", request: TxnOffsetCommitRequest) -> "Message | asyncio.Future[Message] | None":
    machine = shard.machine
    error, commit = pending_commit(machine.groups.get(request.group_id), request)
    if error != ErrorCode.NONE:
        return commit_refused(commit, error)
    facts, reply = committed_facts(commit, shard.now().wall_ms, machine.limits.metadata_bytes)
    writer = BatchWriter(request.producer_id, request.producer_epoch)
    return shard.carry_out(GroupDecision(reply, facts), lambda error: commit_refused(commit, error), writer)


def _errors(answer: Message | None) -> Errors:
    assert isinstance(answer, OffsetCommitResponse)
    return {
        (topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    }


async def _response_later(
    answer: "asyncio.Future[Message]", asked: list[tuple[str, int]], unknown: Errors, version: int
) -> TxnOffsetCommitResponse:
    return _response(asked, _errors(await answer) | unknown, version)


def _response(asked: list[tuple[str, int]], errors: Errors, version: int) -> TxnOffsetCommitResponse:
    topics: dict[str, list[TxnOffsetCommitResponsePartition]] = {}
    for name, index in asked:
        error = errors.get((name, index), ErrorCode.NONE)
        if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_FROM:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        topics.setdefault(name, []).append(TxnOffsetCommitResponsePartition(index, error))
    results = [TxnOffsetCommitResponseTopic(name, partitions) for name, partitions in topics.items()]
    return TxnOffsetCommitResponse(topics=results)
