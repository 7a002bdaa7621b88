"""Fetching and locating, against brokers that answer as told: elections, sessions, replicas, damage, memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from kit.wire.scripted_broker import SILENCE, ScriptedBroker, request_class
from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.address import Address
from ottla.client.consumer import ConsumedRecord, Consumer, OffsetAndMetadata
from ottla.client.errors import BrokerError, CorruptRecords, LogTruncated, Misuse, NoOffset, OffsetOutOfRange
from ottla.client.offsets import EARLIEST
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.wire.messages import APIS
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
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

SECONDS = 60.0
TOPIC_ID = bytes(range(16))
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
ROUND = 3
"""Records in one answer."""


class Stage:
    """Two brokers, 1 and 2, one topic of two partitions, and what the brokers say about it."""

    def __init__(self, versions: dict[int, tuple[int, int]] | None = None) -> None:
        self.brokers = {node: ScriptedBroker(versions=versions) for node in (1, 2)}
        self.leaders = {0: 1, 1: 1}
        self.epoch = 0
        self.end = 10
        self.epoch_end = 10
        """What the leader answers about the end of an older epoch."""
        self.session = 0
        self.topic_id = TOPIC_ID
        self.errors: dict[int, list[ErrorCode]] = {0: [], 1: []}
        self.preferred: dict[int, int] = {}
        self.addresses: dict[int, Address] = {}
        self.batch: Callable[[int], bytearray | bytes] = self.records
        for node, broker in self.brokers.items():
            broker.answers = {
                MetadataRequest: self.metadata,
                FetchRequest: partial(self.fetch, node),
                ListOffsetsRequest: self.offsets,
                OffsetForLeaderEpochRequest: self.epochs,
            }

    def records(self, offset: int) -> bytearray:
        rows = [Record(at, at, None, b"%d" % at) for at in range(offset, min(self.end, offset + ROUND))]
        return build_batch(rows, base_offset=offset, leader_epoch=self.epoch) if rows else bytearray()

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        rows = [
            MetadataResponsePartition(0, number, leader, self.epoch, [1, 2], [1, 2])
            for number, leader in self.leaders.items()
        ]
        nodes = [MetadataResponseBroker(node, *self.addresses[node]) for node in self.brokers]
        return MetadataResponse(brokers=nodes, topics=[MetadataResponseTopic(0, "t", self.topic_id, partitions=rows)])

    def fetch(self, node: int, request: FetchRequest) -> FetchResponse:
        if request.session_epoch > 0 and self.session == 0:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        topics = [
            FetchableTopicResponse(
                "t", topic.topic_id, [self.part(node, row.partition, row.fetch_offset) for row in topic.partitions]
            )
            for topic in request.topics
        ]
        return FetchResponse(session_id=self.session, responses=topics)

    def part(self, node: int, number: int, offset: int) -> PartitionData:
        if self.errors[number]:
            return PartitionData(number, self.errors[number].pop(0))
        preferred = self.preferred.get(number, -1)
        if node == self.leaders[number] and preferred >= 0:
            return PartitionData(number, 0, self.end, self.end, 0, preferred_read_replica=preferred, records=b"")
        if node not in (self.leaders[number], preferred):
            return PartitionData(number, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if offset > self.end:
            return PartitionData(number, ErrorCode.OFFSET_OUT_OF_RANGE)
        return PartitionData(number, 0, self.end, self.end, 0, records=self.batch(offset))

    def offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        rows = [
            ListOffsetsPartitionResponse(row.partition_index, 0, -1, 0 if row.timestamp == EARLIEST else self.end)
            for topic in request.topics
            for row in topic.partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", rows)])

    def epochs(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        rows = [
            EpochEndOffset(0, row.partition, row.leader_epoch, self.epoch_end)
            for topic in request.topics
            for row in topic.partitions
        ]
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult("t", rows)])

    def elect(self, node: int) -> None:
        """Another leader for both partitions, in a new epoch."""
        self.leaders = {0: node, 1: node}
        self.epoch += 1

    @asynccontextmanager
    async def consumer(self, *partitions: TopicPartition, **settings: object) -> AsyncIterator[Consumer]:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        async with self.brokers[1] as one, self.brokers[2] as two:
            self.addresses = {1: one.address, 2: two.address}
            basic = {
                "bootstrap.servers": f"{one.address.host}:{one.address.port}",
                "auto.offset.reset": "earliest",
                "fetch.max.wait.ms": 20,
                "retry.backoff.ms": 10,
            }
            async with Consumer({**basic, **named}) as consumer:
                consumer.assign(partitions or [ZERO])
                yield consumer


async def read(consumer: Consumer, count: int) -> list[ConsumedRecord]:
    found: list[ConsumedRecord] = []
    async with asyncio.timeout(SECONDS):
        while len(found) < count:
            found += await consumer.poll(1.0)
    return found


async def offsets(consumer: Consumer, count: int) -> list[int]:
    return [record.offset for record in await read(consumer, count)]


async def eventually(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to that")


# --- elections --------------------------------------------------------------------------------------------------------


async def test_reading_goes_on_at_a_new_leader_without_gap_or_repetition() -> None:
    stage = Stage()
    async with stage.consumer(ZERO, ONE) as consumer:
        first = await read(consumer, 4)
        stage.elect(2)
        stage.end = 20
        stage.epoch_end = 20
        rest = await read(consumer, 40 - len(first))
    for number in (0, 1):
        assert [r.offset for r in first + rest if r.partition == number] == list(range(20))
    assert rest[-1].leader_epoch == 1


async def test_a_broker_that_hangs_up_is_asked_again() -> None:
    stage = Stage()
    async with stage.consumer() as consumer:
        assert (await offsets(consumer, 10))[-1] == 9
        stage.brokers[1].hang_up()
        stage.end = 12
        assert await offsets(consumer, 2) == [10, 11]


async def test_a_cluster_that_is_not_there_yet_is_waited_for() -> None:
    stage = Stage()
    async with stage.consumer() as consumer:
        answer, stage.brokers[1].answers[MetadataRequest] = stage.brokers[1].answers[MetadataRequest], lambda _: SILENCE
        consumer.assign([])
        consumer.subscribe("t")
        await stage.brokers[1].got(MetadataRequest)
        stage.brokers[1].answers[MetadataRequest] = answer
        stage.brokers[1].hang_up()
        assert len(await read(consumer, 20)) == 20


async def test_a_seek_holds_whatever_is_being_looked_up_at_that_moment() -> None:
    stage = Stage()
    async with stage.consumer(retry_backoff_ms=0) as consumer:
        await read(consumer, 1)
        for turns in range(200):
            consumer.assign([])
            consumer.assign([ZERO])
            for _ in range(turns):
                await asyncio.sleep(0)
            consumer.seek(ZERO, 7)
            assert (await offsets(consumer, 1))[0] == 7, f"after {turns} turns of the loop"


async def test_records_that_an_election_took_away_are_told_when_nobody_may_guess() -> None:
    stage = Stage()
    async with stage.consumer(auto_offset_reset="none") as consumer:
        consumer.seek(ZERO, 0)
        await read(consumer, 10)
        stage.end = stage.epoch_end = 4
        stage.elect(2)
        with pytest.raises(LogTruncated) as raised:
            await read(consumer, 1)
        assert (raised.value.positions, raised.value.diverged) == ({ZERO: 10}, {ZERO: 4})
        consumer.seek(ZERO, 4)
        stage.end = 6
        assert await offsets(consumer, 2) == [4, 5]


async def test_otherwise_reading_goes_on_where_the_histories_part() -> None:
    stage = Stage()
    async with stage.consumer(auto_offset_reset="latest") as consumer:
        consumer.seek(ZERO, 0)
        await read(consumer, 10)
        stage.epoch_end = 4
        stage.end = 7
        stage.elect(2)
        assert [(r.offset, r.leader_epoch) for r in await read(consumer, 3)] == [(4, 1), (5, 1), (6, 1)]


async def test_what_was_fetched_but_not_handed_over_is_fetched_again_when_it_was_cut() -> None:
    stage = Stage()
    async with stage.consumer() as consumer:
        assert len(await consumer.poll(SECONDS, 1)) == 1
        await eventually(lambda: consumer.metrics()["fetch-total"] >= 5)  # everything is in the buffer
        stage.epoch_end = 3
        stage.end = 5
        stage.elect(2)
        await eventually(lambda: stage.brokers[2].received(FetchRequest))
        rest = await read(consumer, 4)
    assert [(r.offset, r.leader_epoch) for r in rest] == [(1, 1), (2, 1), (3, 1), (4, 1)]


async def test_word_of_an_older_election_is_not_believed() -> None:
    stage = Stage()
    stage.epoch = 5
    async with stage.consumer() as consumer:
        await read(consumer, 10)
        stage.epoch = 4
        stage.errors[0] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        stage.end = 12
        assert await offsets(consumer, 2) == [10, 11]
        assert not stage.brokers[1].received(OffsetForLeaderEpochRequest)


# --- sessions and replicas --------------------------------------------------------------------------------------------


async def test_only_what_changed_is_said_in_a_session() -> None:
    stage = Stage()
    stage.session = 77
    async with stage.consumer(ZERO, ONE) as consumer:
        await read(consumer, 20)
        count = len(stage.brokers[1].received(FetchRequest))
        await stage.brokers[1].got(FetchRequest, count + 2)
        quiet = stage.brokers[1].received(FetchRequest)[-1]
        assert (quiet.session_id, len(quiet.topics), len(quiet.forgotten_topics_data)) == (77, 0, 0)
        consumer.pause(ONE)
        await stage.brokers[1].got(FetchRequest, len(stage.brokers[1].received(FetchRequest)) + 2)
        requests = stage.brokers[1].received(FetchRequest)
        forgotten = [row for request in requests for row in request.forgotten_topics_data]
        assert [(row.topic_id, list(row.partitions)) for row in forgotten] == [(TOPIC_ID, [1])]
        assert [request.session_epoch for request in requests] == list(range(len(requests)))


async def test_a_session_that_the_broker_forgot_is_begun_anew() -> None:
    stage = Stage()
    stage.session = 77
    async with stage.consumer() as consumer:
        await read(consumer, 10)
        stage.session = 0
        stage.end = 12
        assert await offsets(consumer, 2) == [10, 11]
        assert stage.brokers[1].received(FetchRequest)[-1].session_epoch == 0


async def test_a_near_replica_is_read_when_the_leader_says_so() -> None:
    stage = Stage()
    stage.preferred = {0: 2}
    async with stage.consumer(client_rack="here") as consumer:
        assert await offsets(consumer, 10) == list(range(10))
        assert {request.rack_id for request in stage.brokers[2].received(FetchRequest)} == {"here"}
        stage.preferred = {}  # the replica no longer takes part: back to the leader
        stage.end = 12
        assert await offsets(consumer, 2) == [10, 11]


async def test_an_old_broker_without_sessions_ids_and_histories_is_read() -> None:
    versions = {key: request_class(key).VERSIONS for key, *_ in APIS}
    versions |= {FetchRequest.KEY: (4, 6), MetadataRequest.KEY: (1, 5), ListOffsetsRequest.KEY: (1, 2)}
    del versions[OffsetForLeaderEpochRequest.KEY]
    stage = Stage(versions)
    async with stage.consumer() as consumer:
        assert await offsets(consumer, 10) == list(range(10))
        consumer.seek(ZERO, OffsetAndMetadata(4, "", 0))
        assert (await offsets(consumer, 6))[0] == 4


# --- what a log may hold ----------------------------------------------------------------------------------------------


async def test_a_compacted_log_has_gaps_and_batches_without_records() -> None:
    stage = Stage()
    stage.end = 100

    def batch(offset: int) -> bytearray:
        rows = [Record(at, at, b"k", b"%d" % at) for at in (3, 17, 40) if at >= offset]
        kept = build_batch(rows, base_offset=min(offset, rows[0].offset)) if rows else bytearray()
        if offset < 90:
            empty = build_batch([Record(89, 0, None, None)], base_offset=41 if rows else offset)
            kept += empty
        return kept

    stage.batch = batch
    async with stage.consumer() as consumer:
        seen = await offsets(consumer, 4)
        assert seen == [3, 17, 40, 89]
        assert await consumer.position(ZERO) == 90


async def test_damage_is_told_with_its_place_and_can_be_passed() -> None:
    stage = Stage()

    def damaged(offset: int) -> bytearray:
        data = stage.records(offset)
        if offset == 3:
            data[-1] ^= 1
        return data

    stage.batch = damaged
    async with stage.consumer() as consumer:
        assert await offsets(consumer, 3) == [0, 1, 2]
        for _ in range(2):
            with pytest.raises(CorruptRecords, match="records at 3 of t-0"):
                await read(consumer, 1)
        consumer.seek(ZERO, 6)
        assert await offsets(consumer, 4) == [6, 7, 8, 9]


async def test_checksums_may_be_left_unchecked() -> None:
    stage = Stage()

    def wrong_checksum(offset: int) -> bytearray:
        data = stage.records(offset)
        if data:
            data[17] ^= 1
        return data

    stage.batch = wrong_checksum
    async with stage.consumer(check_crcs=False) as consumer:
        assert await offsets(consumer, 10) == list(range(10))


async def test_a_reader_without_permission_hears_it_and_goes_on_when_it_has_it() -> None:
    stage = Stage()
    stage.errors[0] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    async with stage.consumer() as consumer:
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
            await read(consumer, 1)
        assert await offsets(consumer, 10) == list(range(10))


async def test_an_advertised_address_that_nobody_answers_is_named() -> None:
    stage = Stage()
    async with stage.consumer() as consumer:
        stage.addresses[1] = Address("127.0.0.1", 1)
        await eventually(lambda: "advertises" in consumer.why_idle())
        assert await consumer.poll(0) == []
        assert "broker 1 advertises 127.0.0.1:1" in consumer.why_idle()


# --- a topic that is made again ---------------------------------------------------------------------------------------


def make_again(stage: Stage, end: int) -> None:
    stage.topic_id = bytes(range(100, 116))
    stage.end = end
    stage.epoch = 0
    stage.errors[0] = [ErrorCode.UNKNOWN_TOPIC_ID]


@pytest.mark.parametrize("end", [4, 14])
async def test_a_topic_made_again_is_read_from_its_beginning_also_when_it_has_overtaken(end: int) -> None:
    stage = Stage()
    stage.epoch = 5
    async with stage.consumer() as consumer:
        await read(consumer, 10)
        make_again(stage, end)
        assert await offsets(consumer, end) == list(range(end))


async def test_a_topic_made_again_is_told_when_nobody_may_guess_and_not_read_before_a_seek() -> None:
    stage = Stage()
    async with stage.consumer(auto_offset_reset="none") as consumer:
        consumer.seek(ZERO, 0)
        await read(consumer, 10)
        make_again(stage, 14)
        with pytest.raises(OffsetOutOfRange) as raised:
            await read(consumer, 1)
        assert raised.value.positions == {ZERO: 10}
        with pytest.raises(NoOffset):
            await read(consumer, 1)
        consumer.seek(ZERO, 12)
        assert await offsets(consumer, 2) == [12, 13]


# --- memory -----------------------------------------------------------------------------------------------------------


async def test_a_program_that_does_not_read_has_bounded_records_waiting() -> None:
    stage = Stage()
    stage.end = 1 << 40
    large = build_batch([Record(0, 0, None, b"x" * 10_000)], base_offset=0)

    def batch(offset: int) -> bytes:
        data = bytearray(large)
        data[:8] = offset.to_bytes(8, "big")
        return bytes(data)

    stage.batch = batch
    settings = {"max_partition_fetch_bytes": 20_000, "fetch_max_bytes": 200_000}
    async with stage.consumer(ZERO, ONE, **settings) as consumer:
        assert len(await consumer.poll(SECONDS, 1)) == 1
        await eventually(lambda: consumer.metrics()["buffered-bytes"] >= 40_000)
        fetches = len(stage.brokers[1].received(FetchRequest))
        await asyncio.sleep(0.2)  # ten times as long as a fetch may wait
        assert len(stage.brokers[1].received(FetchRequest)) <= fetches + 1
        assert 20_000 <= consumer.metrics()["buffered-bytes"] <= 80_000
        fetched = consumer.metrics()["bytes-received-total"]
        seen = await read(consumer, 20)
        for number in (0, 1):  # nothing is fetched twice, nothing is lost
            rows = [r.offset for r in seen if r.partition == number]
            assert rows == list(range(rows[0], rows[0] + len(rows)))
        assert consumer.metrics()["bytes-received-total"] > fetched


async def test_partitions_that_are_paused_keep_no_other_from_being_read() -> None:
    stage = Stage()
    stage.end = 10_000
    settings = {"max_partition_fetch_bytes": 2_000, "fetch_max_bytes": 2_000, "max_poll_records": 1}
    async with stage.consumer(ZERO, ONE, **settings) as consumer:
        await eventually(lambda: consumer.metrics()["buffered-bytes"] > 1_000)
        first = await read(consumer, 1)
        paused = TopicPartition("t", first[0].partition)
        consumer.pause(paused)
        found = await read(consumer, 100)
        assert {record.partition for record in found} == {1 - paused.partition}
        consumer.resume(paused)
        async with asyncio.timeout(SECONDS):
            while {record.partition for record in found} != {0, 1}:
                found += await consumer.poll(1.0)
    for number in (0, 1):  # nothing is lost, nothing comes twice
        rows = [record.offset for record in [*first, *found] if record.partition == number]
        assert rows == list(range(len(rows)))


async def test_assigned_partitions_and_subscriptions_exclude_each_other() -> None:
    stage = Stage()
    async with stage.consumer() as consumer:
        consumer.subscribe("t")
        with pytest.raises(Misuse, match="unsubscribe first"):
            consumer.assign([ZERO])
        await consumer.unsubscribe()
        consumer.assign([ONE])
        assert {record.partition for record in await read(consumer, 10)} == {1}
