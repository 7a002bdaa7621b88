"""What reaches the broker: order, repetition, sequence numbers, bounds; against a broker that answers as it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import repeat
from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.client.cluster import Cluster, ClusterSettings
from ottla.client.errors import BadRecord, BrokerError, DeadlineExceeded, ProducerFailed
from ottla.client.producer.simple import Producer, ProducerSettings
from ottla.records.batch import read_records
from ottla.records.header import BatchHeader, read_header
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.schema import Root
from support.scripted_broker import SILENCE, ScriptedBroker

TOPIC_ID = bytes(range(16))
OK = ErrorCode.NONE


class ProduceScript:
    """Answers Produce with the codes of a list, one a batch, and keeps the batches that it took."""

    def __init__(self, codes: Iterator[ErrorCode]) -> None:
        self.taken: list[tuple[int, BatchHeader, list[bytes | None]]] = []
        self.seen: list[bytes] = []
        self._codes = codes

    def answer(self, request: Root) -> ProduceResponse | None:
        assert isinstance(request, ProduceRequest)
        topics = []
        for topic in request.topic_data:
            parts = []
            for part in topic.partition_data:
                data = bytes(part.records or b"")
                self.seen.append(data)
                header = read_header(data)
                code = next(self._codes)
                if code == OK:
                    values = [record.value for record in read_records(data, header)]
                    self.taken.append((part.index, header, values))
                offset = sum(taken[1].records_count for taken in self.taken if taken[0] == part.index)
                parts.append(PartitionProduceResponse(part.index, code, offset - header.records_count))
            topics.append(TopicProduceResponse(topic.name, topic.topic_id, parts))
        return ProduceResponse(topics) if request.acks else SILENCE

    def values(self) -> list[bytes | None]:
        return [value for _, _, values in self.taken for value in values]


@asynccontextmanager
async def running(
    codes: Iterator[ErrorCode] | None = None, partitions: int = 1, settings: ProducerSettings | None = None
) -> AsyncIterator[tuple[ScriptedBroker, ProduceScript, Producer]]:
    script = ProduceScript(codes or repeat(OK))
    async with ScriptedBroker({ProduceRequest: script.answer}) as broker:
        host, port = broker.address
        parts = [MetadataResponsePartition(0, number, 1) for number in range(partitions)]
        metadata = MetadataResponse(
            brokers=[MetadataResponseBroker(1, host, port)],
            controller_id=1,
            topics=[MetadataResponseTopic(0, "t", TOPIC_ID, partitions=parts)],
        )
        broker.answers[MetadataRequest] = lambda _: metadata
        broker.answers[InitProducerIdRequest] = lambda _: InitProducerIdResponse(producer_id=77, producer_epoch=3)
        async with Cluster([broker.address], ClusterSettings(request_seconds=1.0)) as cluster:
            producer = Producer(cluster, settings or ProducerSettings(linger_seconds=0.0))
            try:
                yield broker, script, producer
            finally:
                await producer.close()


async def test_records_arrive_in_order_and_say_where() -> None:
    async with running() as (_, script, producer):
        deliveries = [await producer.send("t", b"%d" % number) for number in range(1000)]
        await producer.flush()
        assert script.values() == [b"%d" % number for number in range(1000)]
        assert [(await delivery.placed()).offset for delivery in deliveries] == list(range(1000))
        assert producer.totals.records == 1000


async def test_a_key_goes_to_the_partition_of_its_hash_and_a_chosen_partition_wins() -> None:
    async with running(partitions=4) as (_, _, producer):
        keyed = await producer.send("t", b"v", b"21")
        chosen = await producer.send("t", b"v", b"21", partition=2)
        await producer.flush()
        assert (await keyed.placed()).partition.partition == (-973932308 & 0x7FFFFFFF) % 4
        assert (await chosen.placed()).partition.partition == 2
        with pytest.raises(BrokerError, match="has 4 partitions"):
            await producer.send("t", b"v", partition=4)


async def test_a_refused_batch_is_sent_again_with_the_same_bytes_before_later_ones() -> None:
    codes = iter([ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, *repeat(OK, 50)])
    settings = ProducerSettings(idempotent=True, linger_seconds=0.0, batch_bytes=64)
    async with running(codes, settings=settings) as (_, script, producer):
        for number in range(20):
            await producer.send("t", b"%d" % number)
        await producer.flush()
        assert script.seen[0] == script.seen[1] == script.seen[2]
        assert script.values() == [b"%d" % number for number in range(20)]
        assert producer.failure is None


async def test_sequence_numbers_run_on_without_gap_also_over_a_rejected_batch() -> None:
    codes = iter([OK, ErrorCode.INVALID_RECORD, *repeat(OK, 50)])
    settings = ProducerSettings(idempotent=True, linger_seconds=0.0, batch_bytes=64)
    async with running(codes, settings=settings) as (_, script, producer):
        for number in range(12):
            await producer.send("t", b"%d" % number)
        await producer.flush()
        expected = 0
        for _, header, values in script.taken:
            assert (header.producer_id, header.producer_epoch) == (77, 3)
            assert header.base_sequence == expected
            expected += len(values)
        assert producer.totals.failed == len(range(12)) - expected
        assert isinstance(producer.failure, BrokerError)


async def test_a_batch_the_broker_finds_too_large_is_cut_until_it_fits() -> None:
    codes = iter([ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE, *repeat(OK, 50)])
    settings = ProducerSettings(idempotent=True, linger_seconds=1.0)
    async with running(codes, settings=settings) as (_, script, producer):
        deliveries = [await producer.send("t", b"%d" % number) for number in range(8)]
        await producer.flush()
        assert script.values() == [b"%d" % number for number in range(8)]
        assert [len(values) for _, _, values in script.taken] == [2, 2, 4]
        assert [header.base_sequence for _, header, _ in script.taken] == [0, 2, 4]
        assert [(await delivery.placed()).offset for delivery in deliveries] == list(range(8))


async def test_one_record_that_is_too_large_fails_alone() -> None:
    codes = iter([ErrorCode.MESSAGE_TOO_LARGE, *repeat(OK, 50)])
    async with running(codes) as (_, _, producer):
        large = await producer.send("t", b"x" * 100_000)
        await producer.flush()
        with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
            await large.placed()
        await (await producer.send("t", b"small")).placed()


async def test_losing_the_sequence_stops_an_idempotent_producer_for_good() -> None:
    codes = iter([ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, *repeat(OK, 50)])
    settings = ProducerSettings(idempotent=True, linger_seconds=0.0)
    async with running(codes, settings=settings) as (_, _, producer):
        delivery = await producer.send("t", b"v")
        with pytest.raises(ProducerFailed):
            await delivery.placed()
        with pytest.raises(ProducerFailed):
            await producer.send("t", b"v")


async def test_acks_zero_waits_for_nobody() -> None:
    settings = ProducerSettings(acks=0, linger_seconds=0.0)
    async with running(settings=settings) as (broker, _, producer):
        assert (await (await producer.send("t", b"v")).placed()).offset == -1
        await broker.got(ProduceRequest)


async def test_send_waits_for_room_and_gives_up_after_its_time() -> None:
    settings = ProducerSettings(linger_seconds=0.0, batch_bytes=1000, buffer_bytes=3000, block_seconds=0.1)
    async with running(settings=settings) as (broker, script, producer):
        broker.answers[ProduceRequest] = lambda _: SILENCE
        for _ in range(3):
            await producer.send("t", b"x" * 900)
        with pytest.raises(DeadlineExceeded, match="buffer is full"):
            await producer.send("t", b"x" * 900)
        with pytest.raises(BrokerError, match="larger than the producer's buffer"):
            await producer.send("t", b"x" * 4000)
        assert len(broker.received(ProduceRequest)) == 1
        assert script.taken == []


async def test_what_never_arrives_fails_after_the_delivery_time() -> None:
    settings = ProducerSettings(linger_seconds=0.0, delivery_seconds=0.2)
    async with running(repeat(ErrorCode.NOT_LEADER_OR_FOLLOWER), settings=settings) as (_, _, producer):
        delivery = await producer.send("t", b"v")
        with pytest.raises(DeadlineExceeded, match="took no records"):
            await delivery.placed()
        assert producer.totals.failed == 1


async def test_a_broken_connection_is_made_again_and_the_batch_sent_again() -> None:
    async with running(settings=ProducerSettings(idempotent=True, linger_seconds=0.0)) as (broker, script, producer):
        take = broker.answers[ProduceRequest]

        def fail_once(request: Any) -> None:
            broker.answers[ProduceRequest] = take
            broker.hang_up()

        broker.answers[ProduceRequest] = fail_once
        await (await producer.send("t", b"v")).placed()
        assert script.values() == [b"v"]


async def test_a_record_that_cannot_be_written_fails_and_later_ones_go_on() -> None:
    async with running() as (_, script, producer):
        bad = await producer.send("t", b"v", timestamp=2**70)
        with pytest.raises(BadRecord, match="t-0 cannot be written"):
            await bad.placed()
        await (await producer.send("t", b"good")).placed()
        assert script.values() == [b"good"]


async def test_closing_fails_what_has_not_arrived() -> None:
    async with running(settings=ProducerSettings(linger_seconds=60.0)) as (_, script, producer):
        delivery = await producer.send("t", b"v")
        await producer.close()
        with pytest.raises(DeadlineExceeded, match="closed"):
            await delivery.placed()
        assert script.seen == []
