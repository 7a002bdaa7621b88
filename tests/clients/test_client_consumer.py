"""ottla's consumer reading from a real broker (ottla, or a real Kafka) without a group.

It proves what positions, pauses, resets, isolation and columns are worth when logs and topics change under a reader.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime

import confluent_kafka
import pytest

import ottla
from kit.brokers.brokers import Broker
from kit.brokers.processes import until as until_so
from kit.brokers.topics import create_topic, fill, records_of
from kit.wire.batches import Rec
from kit.wire.raw import RawConnection
from ottla import TopicPartition
from ottla.client.consumer import Consumer, OffsetAndTimestamp

SECONDS = 60.0
StartBroker = Callable[[Mapping[str, str]], AbstractContextManager[Broker]]
NOW = int(time.time() * 1000) - 3_600_000


def numbered(first: int, last: int) -> list[Rec]:
    return [Rec(b"%d" % number, timestamp=NOW + 1000 * number) for number in range(first, last)]


def consumer_of(
    broker: Broker, *topics: str, reset: str = "earliest", settings: Mapping[str, object] | None = None
) -> Consumer:
    basic = {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": reset, "fetch.max.wait.ms": 100}
    return ottla.Consumer(*topics, {**basic, **(settings or {})})


async def values(consumer: Consumer, count: int) -> list[bytes]:
    """The values of the next records, which must come."""
    found: list[bytes] = []
    async with asyncio.timeout(SECONDS):
        while len(found) < count:
            found += [record.value for record in await consumer.poll(1.0, count - len(found))]
    return found


async def until(condition: Callable[[], object], consumer: Consumer) -> None:
    """Poll, without expecting records, until something is so."""
    async with asyncio.timeout(SECONDS):
        while not condition():
            assert await consumer.poll(0.05) == []


async def test_records_come_with_everything_that_was_written(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    headers = (("h", b"1"), ("h", None))
    fill(broker, topic, [Rec(b"v", b"k", NOW, headers), Rec(None, None, NOW)], compression="zstd")
    async with consumer_of(broker, topic) as consumer:
        first, second = (await consumer.poll(SECONDS), await consumer.poll(0))[0]
    assert first == (topic, 0, 0, NOW, 0, b"k", b"v", headers, 0)
    assert (second.offset, second.key, second.value, second.headers) == (1, None, None, ())


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_iteration_gives_each_record_of_all_partitions_once(broker: Broker, topic: str, compression: str) -> None:
    create_topic(broker, topic, partitions=3)
    for partition in range(3):
        fill(broker, topic, numbered(0, 40), partition, compression)
    seen: list[tuple[int, int]] = []
    async with consumer_of(broker, topic) as consumer:
        async with asyncio.timeout(SECONDS):
            async for record in consumer:
                seen.append((record.partition, record.offset))
                if len(seen) == 120:
                    break
        assert {await consumer.position(place) for place in consumer.assignment()} == {40}
        assert {consumer.lag(place) for place in consumer.assignment()} == {0}
    for partition in range(3):
        assert [offset for number, offset in seen if number == partition] == list(range(40))


async def test_an_iteration_that_was_left_goes_on_where_it_was(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, numbered(0, 10))
    async with consumer_of(broker, topic) as consumer:
        async for record in consumer:
            if record.offset == 3:
                break
        assert await consumer.position(TopicPartition(topic, 0)) == 4
        assert await values(consumer, 2) == [b"4", b"5"]
        async for record in consumer:
            assert record.value == b"6"
            break
        columns = await consumer.poll_arrow(SECONDS)
    assert columns.column("offset").to_pylist() == [7, 8, 9]


async def test_a_seek_is_obeyed_at_once_and_throws_away_what_was_fetched(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, numbered(0, 100))
    place = TopicPartition(topic, 0)
    async with consumer_of(broker) as consumer:
        consumer.assign([place])
        assert await values(consumer, 5) == [b"0", b"1", b"2", b"3", b"4"]
        consumer.seek(place, 70)
        assert await values(consumer, 2) == [b"70", b"71"]
        consumer.seek_to_beginning(place)
        assert await values(consumer, 1) == [b"0"]
        consumer.seek_to_time(NOW + 41_500)
        assert await values(consumer, 1) == [b"42"]
        consumer.seek_to_time(datetime.fromtimestamp((NOW + 50_000) / 1000, UTC), place)
        assert await values(consumer, 1) == [b"50"]
        consumer.seek_to_time(NOW + 10**7)
        assert await consumer.position(place) == 100
        consumer.seek_to_end()
        assert await consumer.position(place) == 100
        fill(broker, topic, numbered(100, 101))
        assert await values(consumer, 1) == [b"100"]


async def test_offsets_are_told_by_time_and_at_both_ends(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, partitions=2)
    fill(broker, topic, numbered(0, 5))
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    async with consumer_of(broker) as consumer:
        assert await consumer.beginning_offsets([zero, one]) == {zero: 0, one: 0}
        assert await consumer.end_offsets([zero, one]) == {zero: 5, one: 0}
        found = await consumer.offsets_for_times({zero: NOW + 1500, one: NOW})
        assert found == {zero: OffsetAndTimestamp(2, NOW + 2000, 0), one: None}
        assert [row.number for row in await consumer.partitions_for(topic)] == [0, 1]


async def test_a_paused_partition_keeps_what_was_fetched(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, partitions=2)
    for partition in range(2):
        fill(broker, topic, numbered(0, 5), partition)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    # An empty answer to a fetch that waited would count as bytes too.
    async with consumer_of(broker, topic, settings={"fetch.max.wait.ms": 300_000}) as consumer:
        await consumer.poll(SECONDS, 1)
        consumer.pause(zero, one)
        assert await consumer.poll(0.3) == []
        assert consumer.paused() == {zero, one}
        consumer.resume(one)
        assert {record.partition for record in await consumer.poll(SECONDS)} == {1}
        fetched = consumer.metrics()["bytes-received-total"]
        consumer.resume(zero)
        assert {record.partition for record in await consumer.poll(SECONDS)} == {0}
        assert consumer.metrics()["bytes-received-total"] == fetched


@pytest.mark.parametrize(("reset", "expected"), [("earliest", b"0"), ("latest", b"5"), ("by_duration:PT2H30M", b"3")])
async def test_without_a_position_it_starts_where_it_is_told(
    broker: Broker, topic: str, reset: str, expected: bytes
) -> None:
    create_topic(broker, topic)
    now, hour = int(time.time() * 1000), 3_600_000
    fill(broker, topic, [Rec(b"%d" % each, timestamp=now - (5 - each) * hour) for each in range(5)])
    place = TopicPartition(topic, 0)
    async with consumer_of(broker, topic, reset=reset) as consumer:
        if reset == "latest":
            await until(consumer.assignment, consumer)
            await consumer.position(place)
            fill(broker, topic, numbered(5, 6))
        assert await values(consumer, 1) == [expected]


async def test_without_a_reset_the_program_decides(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, numbered(0, 3))
    place = TopicPartition(topic, 0)
    async with consumer_of(broker, reset="none") as consumer:
        consumer.assign([place])
        with pytest.raises(ottla.errors.NoOffset, match=topic):
            await consumer.poll(SECONDS)
        consumer.seek(place, 50)
        with pytest.raises(ottla.errors.OffsetOutOfRange, match="50"):
            await consumer.poll(SECONDS)
        consumer.seek(place, 2)
        assert await values(consumer, 1) == [b"2"]


async def test_a_position_that_the_log_has_lost_is_reset(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, numbered(0, 10))
    place = TopicPartition(topic, 0)
    async with consumer_of(broker) as consumer:
        consumer.assign([place])
        with RawConnection(broker.host, broker.port) as connection:
            rows = [{"partition_index": 0, "offset": 6}]
            connection.ask("delete_records", 2, topics=[{"name": topic, "partitions": rows}], timeout=10_000)
        consumer.seek(place, 2)
        assert await values(consumer, 1) == [b"6"]


def write_transactions(broker: Broker, topic: str) -> None:
    """Committed 0 and 1, aborted 10 and 11, committed 2; markers lie between them."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(SECONDS)
    for numbers, end in (
        ((0, 1), producer.commit_transaction),
        ((10, 11), producer.abort_transaction),
        ((2,), producer.commit_transaction),
    ):
        producer.begin_transaction()
        for number in numbers:
            producer.produce(topic, b"%d" % number, partition=0)
        producer.flush()
        end(SECONDS)


async def test_aborted_records_and_markers_are_not_seen(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    await asyncio.to_thread(write_transactions, broker, topic)
    place = TopicPartition(topic, 0)
    async with consumer_of(broker, topic, settings={"isolation.level": "read_committed"}) as consumer:
        assert await values(consumer, 3) == [b"0", b"1", b"2"]
        await until(lambda: consumer.lag(place) == 0, consumer)
        assert await consumer.position(place) == 8
        consumer.seek_to_beginning()
        assert (await consumer.poll_arrow(SECONDS)).column("value").to_pylist() == [b"0", b"1", b"2"]
        consumer.seek(place, 4)  # into the aborted transaction
        assert await values(consumer, 1) == [b"2"]
    async with consumer_of(broker, topic) as consumer:
        assert await values(consumer, 5) == [b"0", b"1", b"10", b"11", b"2"]


async def test_an_open_transaction_holds_back_readers_of_committed_records(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    await asyncio.to_thread(producer.init_transactions, SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    await asyncio.to_thread(producer.flush)
    async with consumer_of(broker, topic, settings={"isolation.level": "read_committed"}) as consumer:
        await until(lambda: "transaction is open" in consumer.why_idle(), consumer)
        await asyncio.to_thread(producer.commit_transaction, SECONDS)
        assert await values(consumer, 1) == [b"open"]


async def test_a_compacted_topic_is_read_over_its_gaps(start_broker: StartBroker, topic: str) -> None:
    with start_broker({"log.cleaner.backoff.ms": "100", "log.cleaner.dedupe.buffer.size": "2097152"}) as broker:
        configs = {
            "cleanup.policy": "compact",
            "segment.bytes": "1048576",
            "min.cleanable.dirty.ratio": "0.01",
            "max.compaction.lag.ms": "1",
        }
        create_topic(broker, topic, configs=configs)
        for number in range(4):
            records = [Rec(b"%d" % number + bytes(4000), b"key-%d" % each) for each in range(100)]
            fill(broker, topic, [*records, Rec(b"once", b"only-%d" % number)])

        def compacted() -> bool:
            """A fetch answers from the first segment alone: that it has few records says nothing yet."""
            first = [record.value[:1] for record in records_of(broker, topic) if record.value]
            return bool(first) and b"0" not in first

        await asyncio.to_thread(until_so, compacted, "the log is compacted")
        place = TopicPartition(topic, 0)
        async with consumer_of(broker, topic) as consumer:
            found: list[ottla.ConsumedRecord] = []
            async with asyncio.timeout(SECONDS):
                while not found or await consumer.position(place) < 404:
                    found += await consumer.poll(1.0)
            offsets = [record.offset for record in found]
            assert offsets == sorted(set(offsets))
            assert {record.key for record in found} == {
                *(b"key-%d" % each for each in range(100)),
                *(b"only-%d" % each for each in range(4)),
            }
            consumer.seek_to_beginning()
            rows = 0
            async with asyncio.timeout(SECONDS):
                while await consumer.position(place) < 404:
                    rows += (await consumer.poll_arrow(1.0, max_rows=50)).num_rows
            assert 104 <= rows <= len(found) < 404  # the cleaner may have come by again


async def test_columns_have_headers_and_places(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, partitions=2)
    fill(broker, topic, [Rec(b"a", b"k", NOW, (("x", b"1"), ("y", None)))], 1, "lz4")
    async with consumer_of(broker, topic) as consumer:
        table = await consumer.poll_arrow(SECONDS)
        nothing = await consumer.poll_arrow(0.05)
    (row,) = table.to_pylist()
    assert row == {
        "key": b"k",
        "value": b"a",
        "headers": [{"key": "x", "value": b"1"}, {"key": "y", "value": None}],
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "timestamp": datetime.fromtimestamp(NOW / 1000, UTC),
        "timestamp_type": 0,
    }
    assert nothing.num_rows == 0
    assert nothing.schema == table.schema


async def test_columns_stop_at_the_rows_wanted_and_go_on_there(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, numbered(0, 10))
    async with consumer_of(broker, topic) as consumer:
        parts = [await consumer.poll_arrow(SECONDS, max_rows=4, columns=["offset"]) for _ in range(3)]
    assert [part.column("offset").to_pylist() for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


async def test_partitions_that_are_added_are_read(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    async with consumer_of(broker, topic, settings={"metadata.max.age.ms": 200}) as consumer:
        await until(lambda: len(consumer.assignment()) == 1, consumer)
        with RawConnection(broker.host, broker.port) as connection:
            wanted = {"name": topic, "count": 2, "assignments": None}
            connection.ask("create_partitions", 3, topics=[wanted], timeout=10_000, validate_only=False)
        await until(lambda: len(consumer.assignment()) == 2, consumer)
        fill(broker, topic, numbered(7, 8), partition=1)
        assert await values(consumer, 1) == [b"7"]


async def test_a_topic_that_is_made_anew_is_read_from_its_beginning(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, numbered(0, 5))
    settings = {"metadata.max.age.ms": 200, "allow.auto.create.topics": False}
    async with consumer_of(broker, topic, settings=settings) as consumer:
        assert len(await values(consumer, 5)) == 5
        with RawConnection(broker.host, broker.port) as connection:
            connection.ask("delete_topics", 5, topic_names=[topic], timeout=10_000)
        await until(lambda: consumer.why_idle() == f"there is no topic {topic!r}", consumer)
        create_topic(broker, topic)
        fill(broker, topic, numbered(0, 2))
        assert await values(consumer, 2) == [b"0", b"1"]


async def test_topics_are_found_by_pattern(broker: Broker, topic: str) -> None:
    create_topic(broker, f"{topic}-one")
    fill(broker, f"{topic}-one", numbered(1, 2))
    async with consumer_of(broker, settings={"metadata.max.age.ms": 200}) as consumer:
        consumer.subscribe(re.compile(re.escape(topic) + "-.*"))
        assert await values(consumer, 1) == [b"1"]
        create_topic(broker, f"{topic}-two")
        fill(broker, f"{topic}-two", numbered(2, 3))
        assert await values(consumer, 1) == [b"2"]


async def test_a_deserializer_that_fails_names_the_record_and_can_be_passed(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"1", b"a"), Rec(b"x", b"b"), Rec(b"3", None)])
    place = TopicPartition(topic, 0)
    async with consumer_of(broker, topic, settings={"value.deserializer": int, "key.deserializer": "str"}) as consumer:
        (record,) = await consumer.poll(SECONDS)
        assert (record.key, record.value) == ("a", 1)
        for _ in range(2):
            with pytest.raises(ottla.errors.DeserializationFailed, match=r"record 1 of .* its value: ValueError"):
                await consumer.poll(SECONDS)
        assert await consumer.position(place) == 1
        consumer.seek(place, 2)
        (record,) = await consumer.poll(SECONDS)
        assert (record.key, record.value) == (None, 3)


async def test_interceptors_see_records_first_and_one_that_fails_is_skipped(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, numbered(0, 4))

    class Odd:
        closed = False

        def on_consume(self, records: list[ottla.ConsumedRecord]) -> list[ottla.ConsumedRecord]:
            return [record for record in records if record.offset % 2]

        def close(self) -> None:
            Odd.closed = True

    class Broken:
        def on_consume(self, records: object) -> object:
            raise RuntimeError("on purpose")

    async with consumer_of(broker, topic, settings={"interceptor.classes": [Broken(), Odd]}) as consumer:
        assert await values(consumer, 2) == [b"1", b"3"]
    assert Odd.closed


async def test_a_consumer_says_why_nothing_comes(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    async with consumer_of(broker) as consumer:
        assert "no topics are subscribed" in consumer.why_idle()
        consumer.subscribe(topic)
        await until(lambda: "everything was read" in consumer.why_idle(), consumer)
        consumer.pause(*consumer.assignment())
        assert "paused" in consumer.why_idle()
    assert consumer.why_idle() == "the consumer is closed"
    async with ottla.Consumer("x", bootstrap_servers="127.0.0.1:1") as consumer:
        await until(lambda: "connection refused" in consumer.why_idle(), consumer)


async def test_calls_that_make_no_sense_are_refused_in_words(broker: Broker, topic: str) -> None:
    place = TopicPartition(topic, 0)
    async with consumer_of(broker) as consumer:
        with pytest.raises(ottla.errors.Misuse, match="is not assigned"):
            consumer.seek(place, 1)
        with pytest.raises(ottla.errors.Misuse, match="subscribe to topics or assign"):
            await consumer.poll(1.0)
        with pytest.raises(ottla.errors.Misuse, match=r"set group\.id"):
            await consumer.commit()
        consumer.assign([place])
        waiting = asyncio.create_task(consumer.poll(SECONDS))
        await asyncio.sleep(0)
        with pytest.raises(ottla.errors.ConcurrentUse):
            await consumer.poll(0)
        await consumer.close()
        with pytest.raises(ottla.errors.ClientClosed):
            await waiting
    with pytest.raises(ottla.errors.ClientClosed):
        await consumer.poll(0)


SLOW_PROGRAM = """
import asyncio, sys
import ottla

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

async def main(bootstrap, topic):
    settings = {"fetch.max.bytes": 2 << 20, "max.partition.fetch.bytes": 1 << 20, "auto.offset.reset": "earliest"}
    async with ottla.Consumer(topic, {"bootstrap.servers": bootstrap, **settings}) as consumer:
        await consumer.poll(30.0, 1)
        before, most, seen = resident(), 0, 1
        while seen < 300:
            seen += len(await consumer.poll(30.0, 1))
            await asyncio.sleep(0.002)
            most = max(most, resident())
        print(most - before)

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_slow_program_takes_no_more_memory_than_its_settings_say(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, partitions=4)
    for number in range(48):
        fill(broker, topic, [Rec(bytes(100_000))] * 9, number % 4)
    run = subprocess.run(
        [sys.executable, "-c", SLOW_PROGRAM, broker.bootstrap, topic],
        capture_output=True,
        text=True,
        timeout=SECONDS * 3,
        check=True,
    )
    assert int(run.stdout) < 8 << 20  # what waits, one answer, and one batch that is looked at; 43 MB lie in the topic
