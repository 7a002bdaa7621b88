"""Transactions in both protocols, against a coordinator that answers as it is told."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kit.wire.producing import TOPIC_ID, Act, Fault, LogBroker
from kit.wire.scripted_broker import ScriptedBroker, request_class
from kit.worlds.loop_time import LoopTime
from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.errors import (
    BrokerError,
    ClientError,
    CommitFailed,
    DeadlineExceeded,
    Misuse,
    ProducerFailed,
    ProducerFenced,
    TransactionAborted,
    TransactionFailed,
    UnsupportedRequest,
)
from ottla.client.producer import Producer
from ottla.records.header import TRANSACTIONAL
from ottla.wire.messages import APIS
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.wire.schema import Root

FIRST, SECOND = 1, 2
"""The protocols."""


class Office:
    """A coordinator: codes for each kind of request are used up one by one, then everything is fine."""

    def __init__(self, protocol: int, acts: Sequence[Act] = (), **codes: Sequence[int]) -> None:
        self.protocol = protocol
        self.log = LogBroker(acts)
        self.broker: ScriptedBroker | None = None
        self.ended: list[tuple[int, bool]] = []
        self.epoch = -1
        self.versions: dict[int, tuple[int, int]] | None = None
        self._codes = {name: deque(each) for name, each in codes.items()}

    def code(self, name: str) -> int:
        codes = self._codes.get(name)
        return codes.popleft() if codes else 0

    def kinds(self) -> list[str]:
        """What was asked, in order, without what every producer asks."""
        assert self.broker is not None
        dull = ("ApiVersions", "Metadata", "FindCoordinator")
        names = [type(request).__name__.removesuffix("Request") for request in self.broker.requests]
        return [name for name in names if name not in dull]

    def answers(self) -> dict[type[Root], Callable[[Any], Root | None]]:
        return {
            ProduceRequest: self.log.produce,
            FindCoordinatorRequest: self._found,
            InitProducerIdRequest: self._initialise,
            AddPartitionsToTxnRequest: self._add,
            AddOffsetsToTxnRequest: lambda _: AddOffsetsToTxnResponse(0, self.code("offsets")),
            TxnOffsetCommitRequest: self._offsets,
            EndTxnRequest: self._end,
        }

    def _found(self, request: FindCoordinatorRequest) -> Root:
        assert self.broker is not None
        found = Coordinator(request.coordinator_keys[0], 1, *self.broker.address, error_code=self.code("find"))
        return FindCoordinatorResponse(coordinators=[found])

    def _initialise(self, request: InitProducerIdRequest) -> Root:
        code = self.code("initialise")
        if code:
            return InitProducerIdResponse(error_code=code)
        self.epoch += 1
        return InitProducerIdResponse(producer_id=50, producer_epoch=self.epoch)

    def _add(self, request: AddPartitionsToTxnRequest) -> Root:
        code = self.code("add")
        results = [
            AddPartitionsToTxnTopicResult(
                topic.name, [AddPartitionsToTxnPartitionResult(number, code) for number in topic.partitions]
            )
            for topic in request.v3_and_below_topics
        ]
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)

    def _offsets(self, request: TxnOffsetCommitRequest) -> Root:
        part = TxnOffsetCommitResponsePartition(0, self.code("commit_offsets"))
        return TxnOffsetCommitResponse(0, [TxnOffsetCommitResponseTopic("source", [part])])

    def _end(self, request: EndTxnRequest) -> Root:
        code = self.code("end")
        if code:
            return EndTxnResponse(0, code)
        assert request.producer_epoch == self.epoch
        self.ended.append((request.producer_epoch, request.committed))
        if self.protocol == SECOND:
            self.epoch += 1
            return EndTxnResponse(0, 0, 50, self.epoch)
        return EndTxnResponse(0, 0)


@asynccontextmanager
async def initialised(office: Office, **settings: Any) -> AsyncIterator[Producer]:
    async with started(office, **settings) as producer:
        await producer.init_transactions()
        yield producer


@asynccontextmanager
async def started(office: Office, **settings: Any) -> AsyncIterator[Producer]:
    features = {"transaction.version": office.protocol}
    async with ScriptedBroker(office.answers(), office.versions, features) as broker:
        office.broker = office.log.broker = broker
        host, port = broker.address
        parts = [MetadataResponsePartition(0, number, 1) for number in range(2)]
        broker.answers[MetadataRequest] = lambda _: MetadataResponse(
            brokers=[MetadataResponseBroker(1, host, port)],
            controller_id=1,
            topics=[MetadataResponseTopic(0, "t", TOPIC_ID, partitions=parts)],
        )
        quick: dict[str, Any] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "linger_ms": 0}
        async with Producer(
            bootstrap_servers=f"{host}:{port}", transactional_id="mine", **{**quick, **settings}
        ) as producer:
            yield producer


async def test_the_first_protocol_adds_every_partition_before_it_writes() -> None:
    office = Office(FIRST)
    async with initialised(office) as producer:
        for _ in range(2):
            async with producer.transaction():
                producer.send("t", b"a", partition=0)
                producer.send("t", b"b", partition=1)
    once = ["AddPartitionsToTxn", "Produce", "EndTxn"]
    assert office.kinds() == ["InitProducerId", *once, *once]
    assert office.ended == [(0, True), (0, True)]
    assert [header.base_sequence for header in office.log.headers[0]] == [0, 1]
    assert all(header.attributes & TRANSACTIONAL for header in office.log.headers[0])
    assert {request.transactional_id for request in office.log.requests} == {"mine"}


async def test_the_second_protocol_only_writes_and_every_transaction_has_its_epoch() -> None:
    office = Office(SECOND)
    async with initialised(office) as producer:
        for _ in range(3):
            async with producer.transaction():
                producer.send("t", b"a", partition=0)
    assert office.kinds() == ["InitProducerId", *["Produce", "EndTxn"] * 3]
    assert office.ended == [(0, True), (1, True), (2, True)]
    numbers = [(header.producer_epoch, header.base_sequence) for header in office.log.headers[0]]
    assert numbers == [(0, 0), (1, 0), (2, 0)]


@pytest.mark.parametrize("protocol", [FIRST, SECOND])
async def test_an_empty_transaction_asks_nobody(protocol: int) -> None:
    office = Office(protocol)
    async with initialised(office) as producer:
        async with producer.transaction():
            pass
        await producer.begin_transaction()
        await producer.abort_transaction()
    assert office.kinds() == ["InitProducerId"]


@pytest.mark.parametrize("protocol", [FIRST, SECOND])
async def test_what_may_be_tried_again_is(protocol: int) -> None:
    busy = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS]
    office = Office(
        protocol,
        [ErrorCode.NOT_LEADER_OR_FOLLOWER, Fault.LOST_AFTER],
        find=[ErrorCode.COORDINATOR_NOT_AVAILABLE],
        initialise=busy,
        add=busy,
        offsets=busy,
        commit_offsets=busy[:2],
        end=busy,
    )
    async with initialised(office) as producer:
        async with producer.transaction():
            producer.send("t", b"a", partition=0)
            await producer.send_offsets({TopicPartition("source", 0): 5}, "readers")
        async with producer.transaction():
            producer.send("t", b"b", partition=0)
    assert office.log.logs[0] == [b"a", b"b"]
    assert [committed for _, committed in office.ended] == [True, True]


@pytest.mark.parametrize("protocol", [FIRST, SECOND])
async def test_a_block_that_raises_aborts_and_what_was_not_sent_fails(protocol: int) -> None:
    office = Office(protocol)
    async with initialised(office, linger_ms=10_000, delivery_timeout_ms=60_000) as producer:
        await producer.begin_transaction()
        await producer.put("t", b"known")
        await producer.commit_transaction()
        await producer.begin_transaction()
        delivery = producer.send("t", b"never")
        await producer.abort_transaction()
        with pytest.raises(TransactionAborted):
            await delivery
        with pytest.raises(ZeroDivisionError):
            await divide(producer)
    assert [committed for _, committed in office.ended] == [True], "nobody knew of the others"
    assert b"never" not in office.log.logs[0] + office.log.logs[1]


async def divide(producer: Producer) -> None:
    async with producer.transaction():
        producer.send("t", b"%d" % (1 // 0))


@pytest.mark.parametrize("protocol", [FIRST, SECOND])
async def test_a_refused_record_fails_the_transaction_and_the_next_one_has_another_epoch(protocol: int) -> None:
    office = Office(protocol, [ErrorCode.INVALID_RECORD])
    async with initialised(office) as producer:
        await producer.begin_transaction()
        delivery = producer.send("t", b"bad", partition=0)
        with pytest.raises(BrokerError, match="INVALID_RECORD"):
            await delivery
        with pytest.raises(TransactionFailed, match="INVALID_RECORD"):
            producer.send("t", b"more")
        with pytest.raises(TransactionFailed):
            await producer.commit_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            producer.send("t", b"good", partition=0)
    assert office.log.logs[0] == [b"good"]
    assert office.ended == [(0, False), (1, True)]


@pytest.mark.parametrize("protocol", [FIRST, SECOND])
async def test_many_batches_behind_a_refused_one_all_end_and_the_abort_goes_through(protocol: int) -> None:
    office = Office(protocol, [None, ErrorCode.INVALID_RECORD])
    async with initialised(office, batch_size=1) as producer:
        await producer.begin_transaction()
        deliveries = [producer.send("t", b"%d" % number, partition=0) for number in range(20)]
        with pytest.raises(TransactionFailed):
            await producer.commit_transaction()
        await producer.abort_transaction()
        assert all(delivery.done() for delivery in deliveries)
        async with producer.transaction():
            producer.send("t", b"good", partition=0)
    assert office.log.logs[0][-1] == b"good"
    assert [committed for _, committed in office.ended] == [False, True]


async def test_transactions_of_a_two_phase_commit_are_asked_for_where_brokers_offer_them() -> None:
    office = Office(SECOND)
    async with initialised(office, transaction_two_phase_commit_enable=True) as producer:
        async with producer.transaction():
            producer.send("t", b"a", partition=0)
        assert office.broker is not None
        (asked,) = office.broker.received(InitProducerIdRequest)
    assert (asked.enable2_pc, asked.keep_prepared_txn) == (True, False)
    office = Office(SECOND)
    office.versions = {key: request_class(key).VERSIONS for key, *_ in APIS} | {InitProducerIdRequest.KEY: (0, 5)}
    async with started(office, transaction_two_phase_commit_enable=True) as producer:
        with pytest.raises(UnsupportedRequest, match="offers no two-phase commit"):
            await producer.init_transactions()


@pytest.mark.parametrize("protocol", [FIRST, SECOND])
async def test_a_producer_whose_id_was_forgotten_goes_on_after_the_abort(protocol: int) -> None:
    """As after transactional.id.expiration.ms without a transaction."""
    forgotten = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    office = (
        Office(FIRST, add=[forgotten], end=[forgotten])
        if protocol == FIRST
        else Office(SECOND, [forgotten], end=[forgotten])
    )
    async with initialised(office) as producer:
        with pytest.raises(TransactionFailed, match="INVALID_PRODUCER_ID_MAPPING"):
            async with producer.transaction():
                producer.send("t", b"late", partition=0)
        async with producer.transaction():
            producer.send("t", b"good", partition=0)
        assert office.broker is not None
        again = [each for each in office.broker.requests if isinstance(each, InitProducerIdRequest)][-1]
    assert (again.producer_id, again.producer_epoch) == (50, 0)  # whoever has the id by now is not fenced by this one
    assert office.log.logs[0] == [b"good"]
    assert office.ended == [(1, True)]


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
async def test_a_fenced_producer_says_so_from_then_on(code: ErrorCode) -> None:
    office = Office(SECOND, end=[code])
    async with initialised(office) as producer:
        await producer.begin_transaction()
        producer.send("t", b"a")
        with pytest.raises(ProducerFenced):
            await producer.commit_transaction()
        for call in (producer.begin_transaction, producer.abort_transaction):
            with pytest.raises(ProducerFenced):
                await call()
        with pytest.raises(ProducerFenced):
            producer.send("t", b"b")


async def test_a_consumer_that_left_its_group_fails_the_transaction() -> None:
    office = Office(SECOND, commit_offsets=[ErrorCode.ILLEGAL_GENERATION])
    async with initialised(office) as producer:
        await producer.begin_transaction()
        with pytest.raises(TransactionFailed) as caught:
            await producer.send_offsets({TopicPartition("source", 0): 5}, "readers")
        assert isinstance(caught.value.cause, CommitFailed)
        await producer.abort_transaction()
        async with producer.transaction():
            producer.send("t", b"good")
    assert [committed for _, committed in office.ended] == [False, True]


async def test_a_commit_that_ran_out_of_time_can_be_called_again_but_not_turned_into_an_abort(
    loop_time: LoopTime,
) -> None:
    office = Office(SECOND, end=[ErrorCode.CONCURRENT_TRANSACTIONS] * 1000)

    def busy(request: EndTxnRequest) -> Root:
        loop_time.forward(20)
        return office._end(request)

    async with initialised(office) as producer:
        await producer.begin_transaction()
        producer.send("t", b"a")
        assert office.broker is not None
        office.broker.answers[EndTxnRequest] = busy
        with pytest.raises(DeadlineExceeded):
            await producer.commit_transaction(50.0)
        with pytest.raises(Misuse, match="may be committed"):
            await producer.abort_transaction()
        office._codes.clear()
        await producer.commit_transaction()
    assert [committed for _, committed in office.ended] == [True]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, BrokerError),
        (ErrorCode.INVALID_TRANSACTION_TIMEOUT, BrokerError),
        (ErrorCode.PRODUCER_FENCED, ProducerFenced),
    ],
)
async def test_initialising_that_is_refused_tells_why(code: ErrorCode, kind: type[ClientError]) -> None:
    async with started(Office(SECOND, initialise=[code])) as producer:
        with pytest.raises(kind, match=code.name):
            await producer.init_transactions()


async def test_calls_at_the_wrong_moment_are_refused() -> None:
    async with started(Office(SECOND)) as producer:
        with pytest.raises(Misuse, match="init_transactions"):
            await producer.begin_transaction()
        with pytest.raises(Misuse, match="init_transactions"):
            producer.send("t", b"a")
        await producer.init_transactions()
        with pytest.raises(Misuse, match="begin one"):
            producer.send("t", b"a")
        with pytest.raises(Misuse, match="begin one"):
            await producer.commit_transaction()
        await producer.begin_transaction()
        with pytest.raises(Misuse, match="in a transaction"):
            await producer.begin_transaction()


async def test_an_invalid_state_at_the_coordinator_ends_the_producer() -> None:
    office = Office(SECOND, end=[ErrorCode.INVALID_TXN_STATE])
    async with initialised(office) as producer:
        with pytest.raises(ProducerFailed, match="INVALID_TXN_STATE"):
            await send_one(producer)
        with pytest.raises(ProducerFailed):
            await producer.begin_transaction()


async def send_one(producer: Producer) -> None:
    async with producer.transaction():
        producer.send("t", b"a")
