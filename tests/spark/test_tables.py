"""Topics as tables: the last record of each key."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan
from pyspark.sql.types import BinaryType, LongType, StructType

from kit.brokers.brokers import Broker
from kit.brokers.processes import OttlaProcess
from kit.brokers.topics import create_topic, fill
from kit.wire.batches import Rec
from ottla.base.vocabulary import TopicPartition
from ottla.spark import tables
from ottla.spark.batch_reader import BatchReader, FilteringReader, RangePartition
from ottla.spark.errors import BadOption
from ottla.spark.formats.rows import shape_of
from ottla.spark.options import parse_source
from ottla.spark.pipelines.workers import patiently

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def options(broker: Broker, topic: str, **given: str) -> dict[str, str]:
    return {"bootstrap.servers": f"{broker.host}:{broker.port}", "subscribe": topic, "as": "table", **given}


def rows(reader: BatchReader) -> list[dict[str, object]]:
    found = []
    for part in reader.partitions():
        assert isinstance(part, RangePartition)
        for batch in reader.read(part):
            found += batch.to_pylist()
    return found


def changes(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, 2)
    fill(broker, topic, [Rec(b"1", b"a"), Rec(b"2", b"b"), Rec(b"3", b"a"), Rec(b"no key")], 0)
    fill(broker, topic, [Rec(None, b"b"), Rec(b"4", b"c"), Rec(None, b"nothing")], 0)
    fill(broker, topic, [Rec(b"5", b"d"), Rec(b"6", b"d")], 1)


def test_the_last_value_of_each_key_is_its_row_and_tombstones_are_none(broker: Broker, topic: str) -> None:
    changes(broker, topic)
    found = rows(BatchReader(parse_source(options(broker, topic), streaming=False)))
    assert [(row["key"], row["value"], row["partition"], row["offset"]) for row in found] == [
        (b"a", b"3", 0, 2),
        (b"c", b"4", 0, 5),
        (b"d", b"6", 1, 1),
    ]


def test_a_table_may_end_earlier_and_have_typed_columns(broker: Broker, topic: str) -> None:
    changes(broker, topic)
    ends = f'{{"{topic}": {{"0": 2, "1": -1}}}}'
    parsed = parse_source(options(broker, topic, endingOffsets=ends, format="csv"), streaming=False)
    assert parsed.form is not None
    schema = StructType().add("key", BinaryType()).add("n", LongType())
    found = rows(BatchReader(parsed, shape_of(parsed.form, schema, False)))
    assert found == [{"key": b"a", "n": 1}, {"key": b"b", "n": 2}, {"key": b"d", "n": 6}]


def test_filters_on_offsets_are_left_to_spark_since_they_would_change_what_is_last(broker: Broker, topic: str) -> None:
    changes(broker, topic)
    reader = FilteringReader(parse_source(options(broker, topic), streaming=False))
    by_offset = GreaterThan(("offset",), 3)
    assert list(reader.pushFilters([EqualTo(("partition",), 0), by_offset])) == [by_offset]
    assert [row["offset"] for row in rows(reader)] == [2, 5]


def test_a_table_of_a_data_directory(broker: Broker, topic: str) -> None:
    changes(broker, topic)
    if not isinstance(broker, OttlaProcess):
        pytest.skip("this broker keeps its directory to itself")
    parsed = parse_source({"path": str(broker.data), "subscribe": topic, "as": "table"}, streaming=False)
    assert [row["value"] for row in rows(BatchReader(parsed))] == [b"3", b"4", b"6"]


def test_a_table_equals_a_dictionary_that_was_told_every_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_MERGED_AT", 50)
    random = Random(7)
    told: dict[bytes, tuple[int, bytes | None]] = {}
    batches = []
    offset = 0
    for _ in range(40):
        keys, values, offsets = [], [], []
        for _ in range(random.randint(1, 60)):
            key = b"%d" % random.randint(0, 400)
            value = None if random.random() < 0.2 else b"%d" % offset
            offset += random.randint(1, 3)  # gaps, as compaction leaves them
            told[key] = offset, value
            keys.append(key)
            values.append(value)
            offsets.append(offset)
        columns = {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}
        batches.append(pa.RecordBatch.from_pydict(columns | {"offset": pa.array(offsets, pa.int64())}))
    rows_of = tables.read_table(lambda _: iter(batches), TopicPartition("t", 0), ["key", "value", "offset"])
    found = [row for batch in rows_of for row in batch.to_pylist()]
    assert {row["key"]: (row["offset"], row["value"]) for row in found} == {
        key: entry for key, entry in told.items() if entry[1] is not None
    }
    assert len(found) == len({row["key"] for row in found})


@pytest.mark.parametrize(
    ("given", "streaming", "said"),
    [
        ({}, True, "as=table is for spark.read: a stream sees every change"),
        ({"startingOffsets": "earliest"}, False, "startingOffsets does not go with as=table"),
        ({"minPartitions": "4"}, False, "minPartitions does not go with as=table"),
        ({"as": "map"}, False, "as cannot be 'map': allowed is records or table"),
    ],
)
def test_what_a_table_cannot_be_is_one_sentence(given: dict[str, str], streaming: bool, said: str) -> None:
    with pytest.raises(BadOption, match=said):
        parse_source({"bootstrap.servers": "x:1", "subscribe": "a", "as": "table", **given}, streaming=streaming)


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")  # PySpark leaves sockets to the collector
def test_a_stream_joined_to_a_table_sees_it_as_it_is_at_each_batch(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    create_topic(broker, topic, 1)
    create_topic(broker, f"{topic}-names", 1)
    given = options(broker, f"{topic}-names", format="json", schema="name STRING")
    names = spark.read.format("ottla").options(**given).load().select("key", "name")
    orders = spark.readStream.format("ottla").options(
        subscribe=topic, startingOffsets="earliest", **{"bootstrap.servers": given["bootstrap.servers"]}
    )
    joined = orders.load().select("key", "offset").join(names, "key").select("offset", "name")
    places = count()

    def begin() -> StreamingQuery:
        """The query, with its source at work."""
        name = f"joined_{next(places)}"
        writer = joined.writeStream.format("memory").queryName(name)
        started = writer.option("checkpointLocation", str(tmp_path / name)).start()
        started.processAllAvailable()
        return started

    query = patiently(begin)
    try:
        for name in (b"Ada", b"Grace"):
            fill(broker, f"{topic}-names", [Rec(b'{"name": "%s"}' % name, b"k")])
            fill(broker, topic, [Rec(b"order", b"k")])
            query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(tuple(row) for row in spark.table(query.name).collect()) == [(0, "Ada"), (1, "Grace")]
