"""Transactions: all of a producer's records and offsets, or none.

Owns: where the transaction stands, its coordinator, and the exchange with it in both protocols: the first adds every
partition before it is written to, the second (KIP-890) lets brokers do that and gives every transaction an epoch of its
own. Never knows: batches beyond the queue they are in.

Invariants: a transaction in which anything failed cannot be committed; one that is fenced ends the producer; nothing
is on its way when a transaction ends. What may be tried again is, up to the deadline of the call.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.coordinators import CoordinatorKind, find_coordinator
from ottla.client.errors import (
    BrokerError,
    ClientError,
    CommitFailed,
    ConnectionFailed,
    DeadlineExceeded,
    Misuse,
    ProducerFailed,
    ProducerFenced,
    TransactionAborted,
    TransactionFailed,
    UnsupportedRequest,
    fresh,
)
from ottla.client.groups.vocabulary import GroupMetadata, OffsetAndMetadata
from ottla.client.producer.accumulator import PartitionQueue
from ottla.client.producer.identity import LAST_WITHOUT_TWO_PHASES
from ottla.client.producer.sender import LAST_WITH_EXPLICIT_PARTITIONS, Sender
from ottla.client.producer.sequences import Sequences
from ottla.client.retry import any_retriable, pause_before
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ottla.wire.schema import Root

R = TypeVar("R", bound=Root)
T = TypeVar("T")

_LAST_BEFORE_SECOND_PROTOCOL = 4
"""Of EndTxn and TxnOffsetCommit."""
_LAST_FOR_CLIENTS = 3
"""Of AddPartitionsToTxn: the versions behind it are for brokers."""
_FEATURE = "transaction.version"

_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_FATAL = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    }
)
_NOT_THE_COORDINATOR = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_NOT_OF_THE_GROUP = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})


ABORTED = TransactionAborted("the transaction was aborted before the record was sent")


class ProducerState(Enum):
    """Where a transactional producer stands."""

    NEW = "not initialised: call init_transactions first"
    READY = "not in a transaction: begin one first"
    OPEN = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    FAILED = "in a transaction that failed: abort it"


class Transactions:
    """The transactions of one producer; the sender's gate."""

    def __init__(
        self,
        cluster: Cluster,
        sender: Sender,
        sequences: Sequences,
        transactional_id: str,
        timeout_ms: int,
        *,
        two_phases: bool = False,
    ) -> None:
        self.implicit = False
        self.state = ProducerState.NEW
        self.failure: ClientError | None = None
        """Why the open transaction cannot be committed."""
        self._cluster = cluster
        self._sender = sender
        self._sequences = sequences
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._two_phases = two_phases
        """Nothing but this producer, or its successor, ends a transaction (KIP-939)."""
        self._loop = asyncio.get_running_loop()
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}
        self._joined: dict[PartitionQueue, None] = {}
        self._joining: dict[PartitionQueue, None] = {}
        self._adding = False
        self._started = False
        """Whether the coordinator may know of the open transaction."""
        self._commit_sent = False

    # --- the gate -----------------------------------------------------------------------------------------------------

    def may_leave(self, queue: PartitionQueue) -> bool:
        if queue.joined:
            return True
        if self.implicit:
            self._join(queue)
            return True
        self._joining[queue] = None
        if not self._adding:
            self._adding = True
            self._sender.spawn(self._add_partitions())
        return False

    def batch_failed(self, failure: ClientError) -> None:
        """A record of the transaction was not written, so the whole must not be."""
        if isinstance(failure, TransactionAborted) or self.state is ProducerState.NEW:
            return
        if isinstance(failure, BrokerError) and failure.code is ErrorCode.PRODUCER_FENCED:
            self._fence(failure)
        else:
            self._fail(failure)

    def refusal(self) -> ClientError | None:
        """Why no record can be sent now; None when one can."""
        if self._sender.stopped is not None:
            return self._sender.stopped
        if self.state is ProducerState.OPEN:
            return None
        return self.failure if self.state is ProducerState.FAILED else Misuse(f"the producer is {self.state.value}")

    @property
    def doom(self) -> ClientError | None:
        if self.failure is not None:
            return self.failure
        return ABORTED if self.state is ProducerState.ABORTING else None

    # --- the calls ----------------------------------------------------------------------------------------------------

    async def initialise(self, deadline: float) -> None:
        """Get producer id and epoch; whoever had the transactional id before is fenced, its open transaction ended."""
        self._check(ProducerState.NEW)
        await self._ask_identity(deadline)
        self.state = ProducerState.READY

    def begin(self) -> None:
        self._check(ProducerState.READY)
        self.failure = None
        self.state = ProducerState.OPEN

    async def commit(self, deadline: float) -> None:
        """Everything sent is flushed first. May be called again after it ran out of time."""
        self._check(ProducerState.OPEN, ProducerState.COMMITTING)
        self.state = ProducerState.COMMITTING
        await self._drained(deadline)
        if self.failure is not None:
            self.state = ProducerState.FAILED
            raise fresh(self.failure)
        self._commit_sent = True
        await self._end(deadline, committed=True)

    async def abort(self, deadline: float) -> None:
        """What is not sent yet fails; what was sent is never seen by who reads committed records only."""
        self._check(ProducerState.OPEN, ProducerState.FAILED, ProducerState.ABORTING, ProducerState.COMMITTING)
        if self._commit_sent:
            raise Misuse("the transaction may be committed already: call commit_transaction again")
        self.state = ProducerState.ABORTING
        self._sender.fail_waiting(self.failure or ABORTED)
        await self._drained(deadline)
        await self._end(deadline, committed=False)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: GroupMetadata | str, deadline: float
    ) -> None:
        """Offsets that are committed with the transaction."""
        self._check(ProducerState.OPEN)
        if not offsets:
            return
        positions = {partition: OffsetAndMetadata.of(given) for partition, given in offsets.items()}
        metadata = GroupMetadata(group) if isinstance(group, str) else group
        self._started = True
        if not self.implicit:
            await self._retried(lambda: self._add_offsets(metadata.group_id, deadline), deadline)
        await self._retried(lambda: self._commit_offsets(positions, metadata, deadline), deadline)

    # --- the exchange -------------------------------------------------------------------------------------------------

    async def _ask_identity(self, deadline: float, identity: tuple[int, int] = (-1, -1)) -> None:
        async def ask() -> None:
            node = await self._coordinator(deadline)
            connection = await self._cluster.connection(node, deadline)
            highest = LAST_WITHOUT_TWO_PHASES + 1 if self._two_phases else LAST_WITHOUT_TWO_PHASES
            if self._two_phases and connection.version_for(InitProducerIdRequest) < highest:
                raise UnsupportedRequest(str(connection.address), "InitProducerId", "it offers no two-phase commit")
            request = InitProducerIdRequest(
                self._transactional_id, self._timeout_ms, *identity, enable2_pc=self._two_phases
            )
            answer = await self._ask(request, InitProducerIdResponse, deadline, highest)
            self._judge(answer.error_code, "the transactional id")
            self.implicit = (
                connection.features.get(_FEATURE, 0) >= 2
                and connection.version_for(EndTxnRequest) > _LAST_BEFORE_SECOND_PROTOCOL
                and connection.version_for(ProduceRequest) > LAST_WITH_EXPLICIT_PARTITIONS
            )
            self._sequences.identity = answer.producer_id, answer.producer_epoch

        await self._retried(ask, deadline)
        self._sender.wake()

    async def _add_partitions(self) -> None:
        """Tell the coordinator of new partitions until there are none; a failure fails the transaction."""
        attempt = 0
        try:
            while (
                self._joining and self.state in (ProducerState.OPEN, ProducerState.COMMITTING) and self.failure is None
            ):
                queues = list(self._joining)
                try:
                    await self._add(queues)
                except ClientError as failure:
                    if not failure.retriable:
                        self._fail(failure)
                        return
                    self._forget_coordinator(failure)
                    attempt += 1
                    await asyncio.sleep(pause_before(attempt, self._cluster.random, self._cluster.settings.pauses))
                    continue
                attempt = 0
                for queue in queues:
                    self._joining.pop(queue, None)
                    self._join(queue)
                self._sender.wake()
        finally:
            self._adding = False
            self._sender.tell_progress()
            self._sender.wake()

    async def _add(self, queues: list[PartitionQueue]) -> None:
        topics: dict[str, list[int]] = {}
        for queue in queues:
            topics.setdefault(queue.topic, []).append(queue.number)
        named = [AddPartitionsToTxnTopic(name, numbers) for name, numbers in topics.items()]
        request = AddPartitionsToTxnRequest((), self._transactional_id, *self._sequences.identity, named)
        self._started = True
        deadline = self._loop.time() + self._cluster.settings.request_seconds
        answer = await self._ask(request, AddPartitionsToTxnResponse, deadline, _LAST_FOR_CLIENTS)
        for topic in answer.results_by_topic_v3_and_below:
            for part in topic.results_by_partition:
                self._judge(part.partition_error_code, f"partition {topic.name}-{part.partition_index}")

    async def _add_offsets(self, group_id: str, deadline: float) -> None:
        request = AddOffsetsToTxnRequest(self._transactional_id, *self._sequences.identity, group_id)
        answer = await self._ask(request, AddOffsetsToTxnResponse, deadline)
        self._judge(answer.error_code, f"group {group_id!r}")

    async def _commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata, deadline: float
    ) -> None:
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, number), offset in offsets.items():
            epoch = -1 if offset.leader_epoch is None else offset.leader_epoch
            part = TxnOffsetCommitRequestPartition(number, offset.offset, epoch, offset.metadata)
            topics.setdefault(topic, []).append(part)
        request = TxnOffsetCommitRequest(
            self._transactional_id,
            group.group_id,
            *self._sequences.identity,
            group.generation_id,
            group.member_id,
            group.group_instance_id,
            [TxnOffsetCommitRequestTopic(name, parts) for name, parts in topics.items()],
        )
        node = await self._coordinator(deadline, CoordinatorKind.GROUP, group.group_id)
        answer = await self._cluster.ask_node(
            node, request, TxnOffsetCommitResponse, deadline, highest=self._newest_of_protocol()
        )
        for topic_answer in answer.topics:
            for part_answer in topic_answer.partitions:
                self._judge(part_answer.error_code, f"group {group.group_id!r}")

    async def _end(self, deadline: float, *, committed: bool) -> None:
        if self._started:
            known = await self._retried(lambda: self._ask_end(deadline, committed), deadline)
            torn = any(queue.restart or queue.unresolved for queue in self._joined)
            if not known or (torn and not self.implicit):
                # the next epoch: whatever arrives late of this transaction is fenced
                await self._ask_identity(deadline, self._sequences.identity)
        self._started = self._commit_sent = False
        for queue in self._joined:
            queue.joined = False
        self._joined.clear()
        self._joining.clear()
        self.failure = None
        self.state = ProducerState.READY

    async def _ask_end(self, deadline: float, committed: bool) -> bool:
        """False when there is nothing to abort, as the coordinator has forgotten the id: it was not used for long."""
        request = EndTxnRequest(self._transactional_id, *self._sequences.identity, committed)
        answer = await self._ask(request, EndTxnResponse, deadline, self._newest_of_protocol())
        if not committed and answer.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            return False
        self._judge(answer.error_code, "the transaction")
        if self.implicit and answer.producer_id >= 0:
            self._sequences.identity = answer.producer_id, answer.producer_epoch
        return True

    def _newest_of_protocol(self) -> int:
        return _LAST_BEFORE_SECOND_PROTOCOL + 1 if self.implicit else _LAST_BEFORE_SECOND_PROTOCOL

    async def _ask(self, request: Root, answer: type[R], deadline: float, highest: int = 0x7FFF) -> R:
        node = await self._coordinator(deadline)
        return await self._cluster.ask_node(node, request, answer, deadline, highest=highest)

    async def _coordinator(
        self, deadline: float, kind: CoordinatorKind = CoordinatorKind.TRANSACTION, key: str | None = None
    ) -> int:
        name = self._transactional_id if key is None else key
        node = self._coordinators.get((kind, name))
        if node is None:
            node = self._coordinators[kind, name] = await find_coordinator(self._cluster, kind, name, deadline)
        return node

    # --- failures -----------------------------------------------------------------------------------------------------

    async def _retried(self, step: Callable[[], Awaitable[T]], deadline: float) -> T:
        """`step` until it succeeds; what ends it ends the transaction or the producer as well."""

        async def guarded() -> T:
            try:
                return await step()
            except ClientError as failure:
                self._forget_coordinator(failure)
                raise

        try:
            return await self._cluster.retry(guarded, deadline, any_retriable)
        except ClientError as failure:
            if failure.retriable:
                raise DeadlineExceeded(str(failure)) from failure
            if self.state is ProducerState.NEW or isinstance(failure, ProducerFailed):
                raise
            self._fail(failure)
            assert self.failure is not None
            self.state = ProducerState.FAILED
            self._commit_sent = False
            raise fresh(self.failure) from failure

    def _judge(self, code: int, subject: str) -> None:
        """Raise what an answer's error code means."""
        if not code:
            return
        failure = BrokerError(code, subject)
        if failure.code in _FENCED:
            raise self._fence(failure)
        if failure.code in _FATAL and self.state is not ProducerState.NEW:
            stopped = ProducerFailed(failure)
            self._sender.stop(stopped)
            raise stopped
        if failure.code in _NOT_OF_THE_GROUP:
            raise CommitFailed(f"the consumer is no longer in its group: {failure}")
        raise failure

    def _fence(self, failure: ClientError) -> ProducerFenced:
        fenced = ProducerFenced(failure)
        if self._sender.stopped is None:
            self._sender.stop(fenced)
        return fenced

    def _fail(self, failure: ClientError) -> None:
        """The transaction can only be aborted from now on."""
        if self.failure is None:
            self.failure = TransactionFailed(failure)
            if self.state is ProducerState.OPEN:
                self.state = ProducerState.FAILED
            self._sender.wake()

    def _forget_coordinator(self, failure: ClientError) -> None:
        wrong = isinstance(failure, BrokerError) and failure.code in _NOT_THE_COORDINATOR
        if wrong or isinstance(failure, ConnectionFailed | DeadlineExceeded):
            self._coordinators.clear()

    def _join(self, queue: PartitionQueue) -> None:
        queue.joined = True
        self._joined[queue] = None
        self._started = True

    def _check(self, *states: ProducerState) -> None:
        if self._sender.stopped is not None:
            raise fresh(self._sender.stopped)
        if self.state not in states:
            if self.state is ProducerState.FAILED and self.failure is not None:
                raise fresh(self.failure)
            raise Misuse(f"the producer is {self.state.value}")

    async def _drained(self, deadline: float) -> None:
        """Return when nothing of the transaction is on its way any more."""
        self._sender.hurry += 1
        self._sender.wake()
        try:
            while self._sender.busy or self._adding:
                if self._sender.stopped is not None:
                    raise fresh(self._sender.stopped)
                if not await self._sender.progress(deadline):
                    raise DeadlineExceeded("records of the transaction are still on their way")
        finally:
            self._sender.hurry -= 1
        if self._sender.stopped is not None:
            raise fresh(self._sender.stopped)
