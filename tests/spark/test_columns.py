"""A reader's schema() chooses columns of the record: Spark tells no Python source which ones a query needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from kit.brokers.brokers import Broker
from kit.brokers.topics import create_topic, fill
from kit.wire.batches import Rec
from ottla.base.vocabulary import TopicPartition
from ottla.spark.columns import Gathering, record_columns
from ottla.spark.errors import BadOption
from ottla.spark.source import OttlaDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHOSEN = "offset BIGINT, topic STRING, timestampType INT, key BINARY"


@pytest.fixture
def given(broker: Broker, topic: str) -> dict[str, str]:
    create_topic(broker, topic, 2)
    fill(broker, topic, [Rec(b"a", b"1", headers=(("h", b"x"),)), Rec(b"b", None)], 0)
    fill(broker, topic, [Rec(b"c", b"1"), Rec(None, b"2")], 1)
    servers = {"kafka.bootstrap.servers": f"{broker.host}:{broker.port}", "subscribe": topic}
    return servers | {"startingOffsets": "earliest"}


def test_a_batch_and_a_stream_have_the_columns_chosen_in_their_order(
    spark: SparkSession, given: dict[str, str], tmp_path: Path
) -> None:
    names = ["offset", "topic", "timestampType", "key"]
    everything = spark.read.format("ottla").options(**given).load().select(*names).collect()
    assert len(everything) == 4
    rows = spark.read.format("ottla").schema(CHOSEN).options(**given).load()
    assert rows.columns == names
    assert sorted(rows.collect(), key=str) == sorted(everything, key=str)
    stream = spark.readStream.format("ottla").schema(CHOSEN).options(**given).load()
    query = (
        stream.writeStream.format("memory")
        .queryName("chosen")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert sorted(spark.table("chosen").collect(), key=str) == sorted(everything, key=str)


def test_a_table_needs_no_values_in_its_rows(spark: SparkSession, given: dict[str, str]) -> None:
    del given["startingOffsets"]
    rows = spark.read.format("ottla").schema("partition INT, key BINARY").options(**given, **{"as": "table"}).load()
    assert sorted((row.partition, bytes(row.key)) for row in rows.collect()) == [(0, b"1"), (1, b"1")]


def test_headers_are_there_when_they_are_named(spark: SparkSession, given: dict[str, str]) -> None:
    headers = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    rows = spark.read.format("ottla").schema(headers).options(**given).load().collect()
    assert [(row.headers[0].key, bytes(row.headers[0].value)) for row in rows if row.headers] == [("h", b"x")]
    assert len(rows) == 4


def test_what_is_not_chosen_is_not_copied() -> None:
    place = TopicPartition("t", 0)
    assert "value" not in Gathering(place, ["topic"]).reader.schema.names
    assert "value" in Gathering(place, record_columns(False)).reader.schema.names


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (StructType().add("name", StringType()), "a record has no column name: its columns are key, value, topic"),
        (StructType().add("offset", IntegerType()), "column offset is int: allowed is bigint"),
        (StructType().add("offset", LongType()).add("value", StringType()), "column value is string: allowed is"),
        (StructType().add("Key", BinaryType()), "a record has no column Key"),
    ],
)
@pytest.mark.parametrize("reader", ["reader", "streamReader"])
def test_columns_that_a_record_does_not_have_are_refused(schema: StructType, said: str, reader: str) -> None:
    source = OttlaDataSource({"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"})
    with pytest.raises(BadOption, match=said):
        getattr(source, reader)(schema)
