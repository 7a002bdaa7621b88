"""Positions, order, resets and patience of the consumer, against a broker that answers as it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.assigned import Consumer, ConsumerSettings, OutOfRange, Start
from ottla.client.cluster import Cluster, ClusterSettings
from ottla.client.errors import BrokerError, ProtocolViolation
from ottla.client.offsets import EARLIEST, LATEST
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from support.scripted_broker import ScriptedBroker

TOPIC_ID = bytes(range(16))
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class Log:
    """The partitions of the topic as a broker serves them: batches of up to three records."""

    def __init__(self, counts: dict[int, int], start: int = 0) -> None:
        self.start = start
        self.ends = counts
        self.errors: dict[int, list[ErrorCode]] = {}
        self.damage: Callable[[bytearray], None] = lambda data: None

    def fetch(self, request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        assert topic.topic_id == TOPIC_ID
        parts = [self._part(part.partition, part.fetch_offset) for part in topic.partitions]
        return FetchResponse(responses=[FetchableTopicResponse("t", TOPIC_ID, parts)])

    def _part(self, number: int, offset: int) -> PartitionData:
        if self.errors.get(number):
            return PartitionData(number, self.errors[number].pop(0))
        end = self.ends[number]
        if not self.start <= offset <= end:
            return PartitionData(number, ErrorCode.OFFSET_OUT_OF_RANGE)
        records = [Record(at, at, None, b"%d:%d" % (number, at)) for at in range(offset, min(end, offset + 3))]
        data = build_batch(records, base_offset=offset) if records else bytearray()
        self.damage(data)
        return PartitionData(number, 0, end, end, self.start, records=data)

    def offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        (topic,) = request.topics
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    "t",
                    [
                        ListOffsetsPartitionResponse(
                            part.partition_index, 0, -1, self._find(part.partition_index, part.timestamp)
                        )
                        for part in topic.partitions
                    ],
                )
            ]
        )

    def _find(self, number: int, moment: int) -> int:
        if moment == EARLIEST:
            return self.start
        if moment == LATEST:
            return self.ends[number]
        return moment if moment < self.ends[number] else -1


@asynccontextmanager
async def running(log: Log, settings: ConsumerSettings | None = None) -> AsyncIterator[tuple[ScriptedBroker, Consumer]]:
    async with ScriptedBroker({FetchRequest: log.fetch, ListOffsetsRequest: log.offsets}) as broker:
        host, port = broker.address
        metadata = MetadataResponse(
            brokers=[MetadataResponseBroker(1, host, port)],
            topics=[
                MetadataResponseTopic(
                    0, "t", TOPIC_ID, partitions=[MetadataResponsePartition(0, number, 1) for number in log.ends]
                )
            ],
        )
        broker.answers[MetadataRequest] = lambda _: metadata
        async with (
            Cluster([broker.address], ClusterSettings(request_seconds=1.0)) as cluster,
            Consumer(cluster, settings or ConsumerSettings(wait_seconds=0.01)) as consumer,
        ):
            yield broker, consumer


async def read(consumer: Consumer, count: int) -> dict[TopicPartition, list[int]]:
    found: dict[TopicPartition, list[int]] = {place: [] for place in consumer.positions}
    while sum(map(len, found.values())) < count:
        for partition, records, _ in await consumer.poll(10.0):
            found[partition] += [record.offset for record in records]
    return found


async def test_every_record_comes_once_and_in_order_from_each_partition() -> None:
    async with running(Log({0: 10, 1: 7})) as (_, consumer):
        await consumer.assign({ZERO: Start(), ONE: Start(offset=2)})
        assert await read(consumer, 15) == {ZERO: list(range(10)), ONE: list(range(2, 7))}
        assert consumer.positions == await consumer.end_offsets() == {ZERO: 10, ONE: 7}
        assert await consumer.poll(0.05) == []


async def test_a_moment_after_the_last_record_means_what_comes_next() -> None:
    log = Log({0: 5})
    async with running(log) as (_, consumer):
        await consumer.assign({ZERO: Start(moment=99)})
        assert consumer.positions == {ZERO: 5}
        log.ends[0] = 6
        assert await read(consumer, 1) == {ZERO: [5]}


async def test_the_next_fetch_is_on_its_way_when_records_are_handed_over() -> None:
    async with running(Log({0: 9})) as (broker, consumer):
        await consumer.assign({ZERO: Start()})
        await consumer.poll(10.0)
        await broker.got(FetchRequest, 2)


async def test_an_offset_outside_the_log_is_refused_when_assigned() -> None:
    async with running(Log({0: 5}, start=2)) as (_, consumer):
        for offset in (1, 6):
            with pytest.raises(BrokerError, match="begins at 2 and ends at 5"):
                await consumer.assign({ZERO: Start(offset=offset)})
        await consumer.assign({ZERO: Start(offset=5)})


@pytest.mark.parametrize(("policy", "first"), [(OutOfRange.EARLIEST, 4), (OutOfRange.LATEST, 8)])
async def test_a_position_that_retention_took_away_is_reset_as_wished(policy: OutOfRange, first: int) -> None:
    log = Log({0: 8})
    settings = ConsumerSettings(wait_seconds=0.01, out_of_range=policy)
    async with running(log, settings) as (_, consumer):
        await consumer.assign({ZERO: Start(offset=0)})
        log.start = 4
        while consumer.positions[ZERO] == 0:
            assert await consumer.poll(0.0) == []
        assert consumer.positions[ZERO] == first
        log.ends[0] = 9
        assert await read(consumer, 9 - first) == {ZERO: list(range(first, 9))}


async def test_a_leader_that_moves_is_looked_up_again_and_nothing_is_lost() -> None:
    log = Log({0: 6})
    log.errors[0] = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH]
    async with running(log) as (broker, consumer):
        await consumer.assign({ZERO: Start()})
        assert await read(consumer, 6) == {ZERO: list(range(6))}
        assert len(broker.received(MetadataRequest)) == 3


async def test_a_partition_that_stays_unreadable_fails_after_the_patience_ran_out() -> None:
    log = Log({0: 6})
    log.errors[0] = [ErrorCode.UNKNOWN_TOPIC_ID] * 1000
    async with running(log, ConsumerSettings(wait_seconds=0.01, patience_seconds=0.15)) as (_, consumer):
        await consumer.assign({ZERO: Start()})
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_ID"):
            await consumer.poll(10.0)


async def test_records_that_came_with_a_failure_are_handed_over_before_it() -> None:
    log = Log({0: 3, 1: 3})
    log.errors[1] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    async with running(log) as (_, consumer):
        await consumer.assign({ZERO: Start(), ONE: Start()})
        (polled,) = await consumer.poll(10.0)
        assert (polled.partition, len(polled.records), polled.end_offset) == (ZERO, 3, 3)
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
            await consumer.poll(10.0)


async def test_a_damaged_batch_is_reported_with_its_partition() -> None:
    log = Log({0: 3})
    log.damage = lambda data: data.__setitem__(-1, data[-1] ^ 1)
    async with running(log) as (_, consumer):
        await consumer.assign({ZERO: Start()})
        with pytest.raises(ProtocolViolation, match=r"t-0.*checksum"):
            await consumer.poll(10.0)


async def test_a_lost_connection_costs_no_record() -> None:
    async with running(Log({0: 9})) as (broker, consumer):
        await consumer.assign({ZERO: Start()})
        first = [record.offset for row in await consumer.poll(10.0) for record in row.records]
        broker.hang_up()
        assert first + (await read(consumer, 6))[ZERO] == list(range(9))
        assert broker.connections == 2
