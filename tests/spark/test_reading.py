"""Reading without Spark: what tasks and drivers do, against a broker and on disk."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from kit.brokers.brokers import Broker
from kit.brokers.processes import until
from kit.brokers.topics import create_topic, delete_before, fill, grow
from kit.wire.batches import Rec
from kit.wire.scripted_broker import ScriptedBroker
from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.spark.batch_reader import BatchReader, RangePartition
from ottla.spark.columns import Gathering, record_columns
from ottla.spark.errors import BadOption, DataLoss, Unreachable
from ottla.spark.options import SourceOptions, parse_source
from ottla.spark.plan import Range
from ottla.spark.positions import plain
from ottla.spark.reading import read_range
from ottla.spark.stream_reader import StreamReader
from ottla.spark.survey import Survey
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def options(broker: Broker, topic: str, **given: str) -> SourceOptions:
    servers = {"bootstrap.servers": f"{broker.host}:{broker.port}"}
    return parse_source({"subscribe": topic, **servers, **given}, streaming=False)


def streamed(broker: Broker, topic: str, **given: str) -> SourceOptions:
    servers = {"bootstrap.servers": f"{broker.host}:{broker.port}"}
    return parse_source({"subscribe": topic, **servers, **given}, streaming=True)


def reading(chosen: SourceOptions, wanted: Range) -> Iterator[pa.RecordBatch]:
    return read_range(chosen, wanted, Gathering(wanted.partition, record_columns(False)))


def offsets_in(chosen: SourceOptions, wanted: Range) -> list[int]:
    return [offset for batch in reading(chosen, wanted) for offset in batch.column("offset").to_pylist()]


def read_all(chosen: SourceOptions) -> list[tuple[int, int]]:
    reader: BatchReader = pickle.loads(pickle.dumps(BatchReader(chosen)))
    found = []
    for part in reader.partitions():
        assert isinstance(part, RangePartition)
        for batch in reader.read(part):
            found += list(zip(batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True))
    return sorted(found)


def test_a_range_is_read_exactly_through_many_small_answers(broker: Broker) -> None:
    create_topic(broker, "range", 1)
    for _ in range(20):
        fill(broker, "range", [Rec(b"x" * 50) for _ in range(10)])
    chosen = options(broker, "range", **{"max.partition.fetch.bytes": "1500"})
    assert offsets_in(chosen, Range(TopicPartition("range", 0), 7, 193)) == list(range(7, 193))


def test_every_offset_is_read_once_however_work_is_cut(broker: Broker) -> None:
    create_topic(broker, "cut", 2)
    fill(broker, "cut", [Rec(b"x") for _ in range(70)], 0)
    fill(broker, "cut", [Rec(b"x") for _ in range(30)], 1)
    wanted = [(0, offset) for offset in range(70)] + [(1, offset) for offset in range(30)]
    assert read_all(options(broker, "cut", minPartitions="9")) == wanted
    assert read_all(options(broker, "cut", maxRecordsPerPartition="8")) == wanted


def test_times_find_the_first_record_that_late(broker: Broker) -> None:
    create_topic(broker, "times", 1, {"retention.ms": "-1"})  # the records are from 1970
    fill(broker, "times", [Rec(b"x", timestamp=1000 + each) for each in range(20)])
    given = {"startingTimestamp": "1005", "endingTimestamp": "1010"}
    assert read_all(options(broker, "times", **given)) == [(0, offset) for offset in range(5, 10)]
    with pytest.raises(BadOption, match="has no record at or after that time"):
        read_all(options(broker, "times", startingTimestamp="5000"))
    assert (
        read_all(options(broker, "times", startingTimestamp="5000", startingOffsetsByTimestampStrategy="latest")) == []
    )


def test_records_gone_by_retention_are_an_error_or_a_warning(broker: Broker) -> None:
    create_topic(broker, "gone", 1)
    fill(broker, "gone", [Rec(b"x") for _ in range(10)])
    fill(broker, "gone", [Rec(b"x") for _ in range(10)])
    delete_before(broker, "gone", 12)
    wanted = Range(TopicPartition("gone", 0), 3, 20)
    with pytest.raises(DataLoss, match="offsets 3 to 11 of gone-0 are gone"):
        offsets_in(options(broker, "gone"), wanted)
    assert offsets_in(options(broker, "gone", failOnDataLoss="false"), wanted) == list(range(12, 20))


def test_a_range_that_ends_beyond_the_log_does_not_hang(broker: Broker) -> None:
    create_topic(broker, "short", 1)
    fill(broker, "short", [Rec(b"x") for _ in range(5)])
    chosen = options(broker, "short", pollTimeoutMs="200")
    with pytest.raises(DataLoss, match="offsets 5 to 8 of short-0 cannot be read: the partition ends at 5"):
        offsets_in(chosen, Range(TopicPartition("short", 0), 0, 9))
    with pytest.raises(DataLoss, match="the log begins at 0 and ends at 5"):
        read_all(options(broker, "short", endingOffsets='{"short": {"0": 9}}'))


def test_a_stream_admits_what_its_limits_say(broker: Broker) -> None:
    create_topic(broker, "limits", 2)
    fill(broker, "limits", [Rec(b"x" * 100) for _ in range(100)], 0)
    stream = StreamReader(streamed(broker, "limits", startingOffsets="earliest"))
    start = stream.initialOffset()
    assert plain(start) == {"limits": {"0": 0, "1": 0}}
    assert plain(stream.latestOffset(start, ReadAllAvailable())) == {"limits": {"0": 100, "1": 0}}
    assert plain(stream.latestOffset(start, ReadMaxRows(7))) == {"limits": {"0": 7, "1": 0}}
    assert stream.reportLatestOffset() == {"limits": {"0": 100, "1": 0}}
    by_size = StreamReader(streamed(broker, "limits", startingOffsets="earliest", maxBytesPerTrigger="5500"))
    reached = by_size.latestOffset(start, by_size.getDefaultReadLimit())
    assert isinstance(by_size.getDefaultReadLimit(), ReadMaxBytes)
    assert 40 <= reached["limits"]["0"] <= 60


def test_a_stream_waits_for_enough_records_but_not_for_ever(broker: Broker) -> None:
    create_topic(broker, "minimum", 1)
    fill(broker, "minimum", [Rec(b"x") for _ in range(10)])
    given = {"startingOffsets": "earliest", "minOffsetsPerTrigger": "50"}
    start = {"minimum": {"0": 0}}
    patient = StreamReader(streamed(broker, "minimum", **given))
    assert isinstance(patient.getDefaultReadLimit(), ReadMinRows)
    assert patient.latestOffset(start, ReadMinRows(50)) == start
    hasty = StreamReader(streamed(broker, "minimum", maxTriggerDelay="0ms", **given))
    assert plain(hasty.latestOffset(start, ReadMinRows(50))) == {"minimum": {"0": 10}}


def test_a_partition_that_is_new_is_read_from_its_beginning(broker: Broker) -> None:
    create_topic(broker, "grown", 1)
    fill(broker, "grown", [Rec(b"x")])
    stream = StreamReader(streamed(broker, "grown"))
    start = stream.initialOffset()
    assert plain(start) == {"grown": {"0": 1}}
    grow(broker, "grown", 2)
    fill(broker, "grown", [Rec(b"y") for _ in range(3)], 1)
    end = stream.latestOffset(start, ReadAllAvailable())
    assert plain(end) == {"grown": {"0": 1, "1": 3}}
    parts = stream.partitions(start, end)
    assert [part.wanted for part in parts if isinstance(part, RangePartition)] == [
        Range(TopicPartition("grown", 1), 0, 3)
    ]


def test_available_now_ends_where_the_topic_ended_at_the_start(broker: Broker) -> None:
    create_topic(broker, "now", 1)
    fill(broker, "now", [Rec(b"x") for _ in range(4)])
    stream = StreamReader(streamed(broker, "now", startingOffsets="earliest"))
    stream.prepareForTriggerAvailableNow()
    fill(broker, "now", [Rec(b"x") for _ in range(4)])
    end = stream.latestOffset({"now": {"0": 0}}, ReadAllAvailable())
    assert plain(end) == {"now": {"0": 4}}
    assert stream.latestOffset(end, ReadAllAvailable()) == end


def test_a_group_hears_how_far_a_stream_is_and_a_read_can_begin_there(broker: Broker) -> None:
    create_topic(broker, "lag", 1)
    fill(broker, "lag", [Rec(b"x") for _ in range(9)])
    stream = StreamReader(streamed(broker, "lag", **{"group.id": "lag-group"}))
    stream.commit({"lag": {"0": 6}})
    assert read_all(options(broker, "lag", startingOffsets="group:lag-group")) == [(0, 6), (0, 7), (0, 8)]


def test_a_pattern_chooses_topics(broker: Broker) -> None:
    create_topic(broker, "pattern-a", 1)
    create_topic(broker, "pattern-b", 1)
    fill(broker, "pattern-b", [Rec(b"x")])
    servers = {"bootstrap.servers": f"{broker.host}:{broker.port}"}
    chosen = parse_source({"subscribePattern": "pattern-.*", **servers}, streaming=True)
    found = StreamReader(chosen).latestOffset({}, ReadAllAvailable())
    assert plain(found) == {"pattern-a": {"0": 0}, "pattern-b": {"0": 1}}


def test_a_cluster_that_cannot_be_reached_is_an_error_and_no_hang() -> None:
    given = {"subscribe": "x", "bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "1000"}
    with pytest.raises(Unreachable, match=r"no broker can be reached \(127\.0\.0\.1:1: "):
        read_all(parse_source(given, streaming=False))


def test_a_partition_far_larger_than_memory_allows_comes_in_small_batches(broker: Broker, topic: str) -> None:
    """Forty mebibytes that are forty kilobytes on the wire, and so arrive in one answer."""
    create_topic(broker, topic, 1)
    for _ in range(40):
        fill(broker, topic, [Rec(bytes(1024)) for _ in range(1024)], 0, "zstd")
    chosen = options(broker, topic)
    batches = list(reading(chosen, Range(TopicPartition(topic, 0), 0, 40 * 1024)))
    assert sum(batch.num_rows for batch in batches) == 40 * 1024
    assert max(batch.column("value").nbytes for batch in batches) <= 9.5 * 1024 * 1024


class Hasty(Gathering):
    """Hands over what it has at once."""

    @property
    def enough(self) -> bool:
        return self.reader.rows > 0


def test_the_time_spark_takes_for_rows_is_no_waiting_for_records(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, 1)
    fill(broker, topic, [Rec(b"x") for _ in range(5)])
    chosen = options(broker, topic, **{"pollTimeoutMs": "100", "fetch.max.wait.ms": "10"})
    partition = TopicPartition(topic, 0)
    rows = read_range(chosen, Range(partition, 0, 10), Hasty(partition, record_columns(False)))
    assert next(rows).num_rows == 5  # and the next fetch, on its way already, finds nothing
    done = time.monotonic() + 0.2
    until(lambda: time.monotonic() > done, "Spark asks for more rows")
    fill(broker, topic, [Rec(b"x") for _ in range(5)])
    assert sum(batch.num_rows for batch in rows) == 5


async def test_a_topic_that_the_cluster_cannot_tell_of_for_a_moment_is_not_gone_from_a_pattern() -> None:
    asked = 0

    def metadata(_: object) -> MetadataResponse:
        nonlocal asked
        asked += 1
        node = MetadataResponseBroker(1, *scripted.address)
        code = ErrorCode.LEADER_NOT_AVAILABLE if asked == 1 else ErrorCode.NONE
        rows = [
            MetadataResponseTopic(error_code=code, name="shop-a", partitions=[MetadataResponsePartition(leader_id=1)]),
            MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name="shop-deleted"),
            MetadataResponseTopic(error_code=ErrorCode.LEADER_NOT_AVAILABLE, name="other"),
        ]
        return MetadataResponse(brokers=[node], cluster_id="c", controller_id=1, topics=rows)

    async with ScriptedBroker({MetadataRequest: metadata}) as scripted:
        given = {"subscribePattern": "shop-.*", "bootstrap.servers": "{}:{}".format(*scripted.address)}
        survey = Survey(parse_source(given, streaming=True))
        found = await asyncio.to_thread(survey.partitions)
    assert found == [TopicPartition("shop-a", 0)]
