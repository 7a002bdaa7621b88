"""What reaches a broker's log: order, repetition, sequence numbers, bounds, and the end of every delivery."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kit.wire.producing import TOPIC_ID, Act, Fault, LogBroker, producing
from kit.wire.scripted_broker import ScriptedBroker
from kit.worlds.loop_time import LoopTime
from ottla.base.errors import ErrorCode
from ottla.client.errors import (
    BadRecord,
    BrokerError,
    BufferFull,
    ClientClosed,
    ClientError,
    DeadlineExceeded,
    DeliveryTimedOut,
    Misuse,
    RecordTooLarge,
    SerializationFailed,
)
from ottla.client.producer import Delivery, Placed, Producer, Record
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

NUMBERS = [b"%d" % number for number in range(1000)]


async def outcomes(deliveries: list[Delivery]) -> list[Placed | BaseException]:
    async def wait(delivery: Delivery) -> Placed:
        return await delivery

    return await asyncio.gather(*(wait(delivery) for delivery in deliveries), return_exceptions=True)


async def test_records_arrive_in_order_and_say_where() -> None:
    async with producing() as (log, producer):
        deliveries = [producer.send("t", number) for number in NUMBERS]
        assert not deliveries[0].done()
        with pytest.raises(asyncio.InvalidStateError):
            deliveries[0].result()
        placed = [await delivery for delivery in deliveries]
        assert log.logs[0] == NUMBERS
        assert [place.offset for place in placed] == list(range(1000))
        assert placed[0][:2] == ("t", 0)
        assert placed[0].timestamp > 0
        assert deliveries[7].result() == placed[7]
        assert producer.metrics()["records_acknowledged"] == 1000
        assert producer.metrics()["buffer_available_bytes"] == 32 * 1024 * 1024


async def test_a_callback_hears_the_place_or_the_error_once() -> None:
    heard: list[tuple[Placed | None, ClientError | None]] = []
    async with producing(LogBroker([None, ErrorCode.INVALID_RECORD])) as (_, producer):
        early = producer.send("t", b"1")
        early.add_callback(lambda placed, error: heard.append((placed, error)))
        await producer.flush()
        early.add_callback(lambda placed, error: heard.append((placed, error)))
        refused = producer.send("t", b"2")
        refused.add_callback(lambda placed, error: heard.append((placed, error)))
        await producer.flush()
    (first, _), (again, _), (nothing, error) = heard
    assert first == again == early.result()
    assert nothing is None
    assert isinstance(error, BrokerError)
    assert error.code is ErrorCode.INVALID_RECORD


async def test_a_key_goes_to_the_partition_of_its_hash_and_a_chosen_partition_wins() -> None:
    async with producing(partitions=4) as (_, producer):
        assert (await producer.send_and_wait("t", b"v", b"21")).partition == (-973932308 & 0x7FFFFFFF) % 4
        assert (await producer.send_and_wait("t", b"v", b"21", partition=2)).partition == 2
        with pytest.raises(BrokerError, match="has 4 partitions"):
            producer.send("t", b"v", partition=4)


async def test_records_without_key_fill_one_batch_after_the_other_over_all_partitions() -> None:
    async with producing(partitions=4, batch_size=1000, linger_ms=5) as (log, producer):
        for number in range(2000):
            await producer.put("t", b"%d" % number)
        await producer.flush()
        counts = [len(log.logs[partition]) for partition in range(4)]
        assert sum(counts) == 2000
        assert min(counts) > 100
        assert sum(len(headers) for headers in log.headers.values()) < 100


@pytest.mark.parametrize("partitioner", ["round_robin", lambda topic, key, value, count, available: int(value) % count])
async def test_another_partitioner_decides(partitioner: Any) -> None:
    async with producing(partitions=3, partitioner_class=partitioner) as (log, producer):
        for number in range(9):
            producer.send("t", b"%d" % number, b"the same key")
        await producer.flush()
        assert [log.logs[partition] for partition in range(3)] == [
            [b"%d" % (number + partition) for number in (0, 3, 6)] for partition in range(3)
        ]


async def test_a_partitioner_that_fails_fails_its_record_only() -> None:
    def choose(topic: str, key: bytes, value: bytes, count: int, available: Any) -> int:
        return {b"good": 0, b"far": 9}[value]

    async with producing(partitioner_class=choose) as (log, producer):
        await producer.send_and_wait("t", b"good")
        with pytest.raises(BadRecord, match="partitioner failed"):
            producer.send("t", b"bad")
        with pytest.raises(BrokerError, match="has 1 partitions"):
            producer.send("t", b"far")
        assert log.logs[0] == [b"good"]


FAULTS: list[Act] = [
    None,
    None,
    None,
    Fault.LOST_BEFORE,
    Fault.LOST_AFTER,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
]


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_is_lost_on_the_way_everything_arrives_once_and_in_order(seed: int) -> None:
    draw = random.Random(seed)
    acts = [draw.choice(FAULTS) for _ in range(40)]
    async with producing(LogBroker(acts), partitions=2, batch_size=130) as (log, producer):
        deliveries = [await producer.put("t", b"%d" % number, partition=number % 2) for number in range(300)]
        placed = await outcomes(deliveries)
        for partition in range(2):
            assert log.logs[partition] == [b"%d" % number for number in range(partition, 300, 2)]
        assert [place.offset for place in placed if isinstance(place, Placed)] == [n // 2 for n in range(300)]


@pytest.mark.parametrize("seed", range(12))
async def test_records_that_are_refused_fail_and_leave_no_gap_for_those_behind(seed: int) -> None:
    draw = random.Random(seed)
    acts = [draw.choice([*FAULTS, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_RECORD]) for _ in range(40)]
    async with producing(LogBroker(acts), batch_size=130) as (log, producer):
        deliveries = [await producer.put("t", b"%d" % number) for number in range(300)]
        ends = await outcomes(deliveries)
        arrived = [b"%d" % number for number, end in enumerate(ends) if isinstance(end, Placed)]
        assert log.logs[0] == arrived
        for end in ends:
            assert isinstance(end, Placed) or (isinstance(end, BrokerError) and end.code == ErrorCode.INVALID_RECORD)
        assert await producer.send_and_wait("t", b"more")


TIMED: dict[str, Any] = {
    "request_timeout_ms": 100_000,
    "delivery_timeout_ms": 250_000,
    "max_in_flight_requests_per_connection": 1,
}


async def time_out(log: LogBroker, delivery: Delivery, loop_time: LoopTime) -> None:
    """Let three requests pass unanswered: the third is out of time for the delivery."""
    assert log.broker is not None
    for number in (1, 2, 3):
        await log.broker.got(ProduceRequest, number)
        assert not delivery.done()
        loop_time.forward(101)


async def test_a_batch_nobody_answers_for_fails_in_time_and_the_next_ones_arrive(loop_time: LoopTime) -> None:
    async with producing(LogBroker([Fault.SILENT_BEFORE] * 3), **TIMED) as (log, producer):
        lost = producer.send("t", b"lost")
        await time_out(log, lost, loop_time)
        with pytest.raises(DeliveryTimedOut, match="partition t-0 acknowledged nothing"):
            await lost
        await producer.send_and_wait("t", b"next")
        assert log.logs[0] == [b"next"]
        assert producer.metrics()["records_expired"] == 1


async def test_a_batch_that_was_written_after_all_does_not_disturb_those_behind_it(loop_time: LoopTime) -> None:
    acts = [Fault.SILENT_AFTER, Fault.SILENT_BEFORE, Fault.SILENT_BEFORE]
    async with producing(LogBroker(acts), **TIMED) as (log, producer):
        unknown = producer.send("t", b"unknown")
        await time_out(log, unknown, loop_time)
        with pytest.raises(DeliveryTimedOut):
            await unknown
        placed = [await producer.send_and_wait("t", b"%d" % number) for number in range(3)]
        assert log.logs[0] == [b"unknown", b"0", b"1", b"2"]
        assert [place.offset for place in placed] == [1, 2, 3]


async def test_several_requests_are_on_their_way_at_once_but_no_more_than_allowed() -> None:
    acts = [Fault.SILENT_BEFORE] * 3
    async with producing(
        LogBroker(acts), batch_size=1, max_in_flight_requests_per_connection=3, request_timeout_ms=60_000
    ) as (log, producer):
        for number in range(10):
            producer.send("t", b"%d" % number)
        assert log.broker is not None
        await log.broker.got(ProduceRequest, 3)
        assert producer.metrics()["requests_in_flight"] == 3
        log.broker.hang_up()
        await producer.flush()
        assert log.logs[0] == NUMBERS[:10]


async def test_a_batch_the_broker_finds_too_large_is_cut_until_it_fits() -> None:
    async with producing(LogBroker(largest=200)) as (log, producer):
        deliveries = [producer.send("t", b"%04d" % number) for number in range(200)]
        placed = [await delivery for delivery in deliveries]
        assert log.logs[0] == [b"%04d" % number for number in range(200)]
        assert [place.offset for place in placed] == list(range(200))
        with pytest.raises(RecordTooLarge):
            await producer.send("t", b"x" * 300)
        assert await producer.send_and_wait("t", b"small")


@pytest.mark.parametrize("idempotent", [True, False])
async def test_after_so_many_tries_a_batch_fails_with_the_last_reason(idempotent: bool) -> None:
    acts: list[Act] = [ErrorCode.NOT_ENOUGH_REPLICAS] * 3
    async with producing(LogBroker(acts), retries=2, enable_idempotence=idempotent) as (log, producer):
        with pytest.raises(BrokerError, match="NOT_ENOUGH_REPLICAS"):
            await producer.send("t", b"1")
        assert await producer.send_and_wait("t", b"2")
        assert log.logs[0] == [b"2"]


async def test_without_acknowledgements_nothing_is_known_of_the_place() -> None:
    async with producing(acks=0) as (log, producer):
        placed = await producer.send_and_wait("t", b"1")
        assert placed.offset == -1
    assert [request.acks for request in log.requests] == [0]


def fill(producer: Producer, value: bytes) -> list[Delivery]:
    """Send until there is no room."""
    sent: list[Delivery] = []
    while True:
        try:
            sent.append(producer.send("t", value))
        except BufferFull:
            return sent


async def test_a_full_buffer_refuses_send_and_lets_put_wait(loop_time: LoopTime) -> None:
    acts = [Fault.SILENT_BEFORE] * 5
    async with producing(
        LogBroker(acts), buffer_memory=2000, batch_size=500, max_block_ms=60_000, request_timeout_ms=600_000
    ) as (log, producer):
        await producer.put("t", b"first")
        sent = fill(producer, b"x" * 100)
        assert 10 < len(sent) < 20
        refused = asyncio.ensure_future(producer.put("t", b"x" * 100))
        assert log.broker is not None
        await log.broker.got(ProduceRequest, 5)
        assert not refused.done()
        loop_time.forward(61)
        with pytest.raises(BufferFull, match="60 seconds"):
            await refused
        waiting = asyncio.ensure_future(producer.put("t", b"last"))
        await asyncio.sleep(0)
        assert not waiting.done()
        log.broker.hang_up()
        assert await (await waiting)
        await producer.flush()
        assert log.logs[0] == [b"first", *[b"x" * 100] * len(sent), b"last"]
        with pytest.raises(RecordTooLarge):
            producer.send("t", b"x" * 3000)


async def test_a_record_for_a_topic_that_never_comes_fails_with_the_brokers_reason(loop_time: LoopTime) -> None:
    def unknown(_: object) -> MetadataResponse:
        loop_time.forward(20)  # it is out of time when it is asked for the third time
        return MetadataResponse(topics=[MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t")])

    async with producing(max_block_ms=50_000) as (log, producer):
        assert log.broker is not None
        log.broker.answers[MetadataRequest] = unknown
        sent = producer.send("t", b"1")
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await sent
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await producer.put("t", b"1")
        log.broker.answers[MetadataRequest] = lambda _: MetadataResponse(
            topics=[MetadataResponseTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, "t")]
        )
        with pytest.raises(BrokerError, match="INVALID_TOPIC"):
            await producer.send("t", b"1")
        assert producer.metrics()["buffer_available_bytes"] == 32 * 1024 * 1024


async def test_nobody_at_the_address_fails_each_record_in_time(
    loop_time: LoopTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    connect = loop.create_connection

    async def refused(*arguments: Any, **options: Any) -> Any:
        try:
            return await connect(*arguments, **options)
        finally:
            loop_time.forward(4)  # the third attempt is out of time

    monkeypatch.setattr(loop, "create_connection", refused)
    async with Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=10_000) as producer:
        ends = await outcomes([producer.send("t", b"%d" % number) for number in range(50)])
        assert all(isinstance(end, ClientError) and "refused" in str(end) for end in ends)


async def test_closing_delivers_what_was_sent() -> None:
    async with producing(linger_ms=60_000, delivery_timeout_ms=100_000) as (log, producer):
        await producer.put("t", b"0")
        deliveries = [producer.send("t", b"%d" % number) for number in range(1, 100)]
        await producer.close()
        assert log.logs[0] == NUMBERS[:100]
        assert [delivery.result().offset for delivery in deliveries] == list(range(1, 100))
        with pytest.raises(ClientClosed):
            producer.send("t", b"late")
        await producer.close()


async def test_closing_gives_up_in_time_and_every_delivery_ends() -> None:
    async with producing(LogBroker([Fault.SILENT_BEFORE] * 9), request_timeout_ms=60_000) as (_, producer):
        await producer.put("t", b"0")
        delivery = producer.send("t", b"1")
        await producer.close(0.1)
        with pytest.raises(ClientClosed):
            delivery.result()


async def test_closing_fails_records_whose_topic_is_not_known_yet() -> None:
    async with producing() as (_, producer):
        delivery = producer.send("elsewhere", b"2")
        await producer.close(0.05)
        with pytest.raises(ClientClosed):
            delivery.result()


async def test_a_producer_that_was_not_started_says_so() -> None:
    producer = Producer(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(ClientClosed, match="async with"):
        producer.send("t", b"1")
    with pytest.raises(ClientClosed, match="async with"):
        await producer.put("t", b"1")
    await producer.close()


async def test_what_is_no_record_is_refused_at_once() -> None:
    async with producing() as (_, producer):
        wrong: Any = "text"
        with pytest.raises(SerializationFailed, match="bytes are needed"):
            producer.send("t", wrong)
        with pytest.raises(BadRecord, match="milliseconds"):
            producer.send("t", b"", timestamp=-5)
        with pytest.raises(BadRecord, match="header"):
            producer.send("t", b"", headers=[("name", wrong)])
        with pytest.raises(Misuse, match=r"transactional\.id"):
            await producer.begin_transaction()


async def test_serializers_turn_keys_and_values_and_nothing_stays_nothing() -> None:
    async with producing(key_serializer="int", value_serializer="json") as (log, producer):
        await producer.send_and_wait("t", {"a": [1, None]}, 7)
        await producer.send_and_wait("t", None, 7)
        assert log.logs[0] == [b'{"a":[1,null]}', None]
        with pytest.raises(SerializationFailed, match="the key of a record") as caught:
            producer.send("t", {}, "seven")
        assert caught.value.__cause__ is not None


async def test_interceptors_change_records_and_hear_of_their_ends_and_one_that_fails_is_skipped() -> None:
    heard: list[str] = []

    class Marking:
        def on_send(self, record: Record) -> Record:
            return record._replace(value=record.value + b"!")

        def on_acknowledgement(self, placed: Placed | None, error: ClientError | None) -> None:
            heard.append(f"{placed.offset if placed else error}")

        def close(self) -> None:
            heard.append("closed")

    class Failing:
        def on_send(self, record: Record) -> Record:
            raise RuntimeError("no")

        def on_acknowledgement(self, placed: Placed | None, error: ClientError | None) -> None:
            raise RuntimeError("no")

    async with producing(interceptor_classes=[Failing, Marking()]) as (log, producer):
        await producer.send_and_wait("t", b"a")
        await producer.send_and_wait("t", b"b")
        with pytest.raises(BrokerError):
            producer.send("t", b"c", partition=9)
    assert log.logs[0] == [b"a!", b"b!"]
    assert heard[:2] == ["0", "1"]
    assert "has 1 partitions" in heard[2]
    assert heard[3] == "closed"


async def test_flushing_that_takes_too_long_says_so() -> None:
    async with producing(LogBroker([Fault.SILENT_BEFORE]), request_timeout_ms=60_000) as (log, producer):
        await producer.put("t", b"1")
        with pytest.raises(DeadlineExceeded, match="no outcome yet"):
            await producer.flush(0.05)
        assert log.broker is not None
        log.broker.hang_up()
        await producer.flush()
        assert log.logs[0] == [b"1"]


async def test_a_broker_of_kafka_2_1_is_spoken_to_in_its_versions() -> None:
    old = {0: (0, 7), 3: (0, 7), 18: (0, 2), 22: (0, 1)}
    async with producing(versions=old) as (log, producer):
        for number in range(100):
            await producer.put("t", b"%d" % number)
        await producer.flush()
    assert log.logs[0] == NUMBERS[:100]
    assert log.headers[0][0].producer_id == 77


async def test_flushing_waits_for_what_was_sent_before_and_for_nothing_else() -> None:
    async with producing() as (_, producer):
        await producer.put("t", b"first")
        going = True

        async def others() -> None:
            while going:
                await producer.put("t", b"other")
                await asyncio.sleep(0)

        task = asyncio.ensure_future(others())
        mine = producer.send("t", b"mine")
        await producer.flush(5.0)
        assert mine.done()
        going = False
        await task


async def test_a_broker_that_knows_who_leads_is_believed() -> None:
    refusal = PartitionProduceResponse(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, current_leader=LeaderIdAndEpoch(1, 9))
    refused = ProduceResponse([TopicProduceResponse("t", TOPIC_ID, [refusal])])
    async with producing() as (log, producer), ScriptedBroker({ProduceRequest: lambda _: refused}) as former:
        assert log.broker is not None
        brokers = [MetadataResponseBroker(1, *log.broker.address), MetadataResponseBroker(2, *former.address)]
        old = MetadataResponseTopic(0, "t", TOPIC_ID, partitions=[MetadataResponsePartition(0, 0, 2)])
        nobody = MetadataResponseTopic(ErrorCode.LEADER_NOT_AVAILABLE, "t")
        told = iter([MetadataResponse(brokers=brokers, topics=[old])])
        former.answers[MetadataRequest] = lambda _: MetadataResponse(brokers=brokers, topics=[nobody])
        log.broker.answers[MetadataRequest] = lambda _: next(told, MetadataResponse(brokers=brokers, topics=[nobody]))
        assert (await producer.send_and_wait("t", b"1")).offset == 0
        assert len(former.received(ProduceRequest)) == 1


async def test_a_batch_that_a_forgetful_broker_may_have_written_fails_rather_than_be_written_twice() -> None:
    async with producing(LogBroker([None, Fault.LOST_AFTER]), max_in_flight_requests_per_connection=1) as (
        log,
        producer,
    ):
        await producer.send_and_wait("t", b"0")
        lost = producer.send("t", b"1")
        log.forget(lambda: len(log.logs[0]) == 2)
        with pytest.raises(BrokerError, match="OUT_OF_ORDER"):
            await lost
        assert await producer.send_and_wait("t", b"2")
        assert log.logs[0] == [b"0", b"1", b"2"]
