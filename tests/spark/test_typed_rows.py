"""Typed columns in a real Spark session: batch and stream, read and written, and values that cannot be read."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.brokers.brokers import Broker
from kit.brokers.topics import create_topic, fill
from kit.others.pipelines import committed
from kit.wire.batches import Rec
from ottla.spark.pipelines.workers import patiently

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # PySpark leaves sockets to the collector
    pytest.mark.timeout(900),  # a session and many queries, on whatever machine
]

SCHEMA = "id INT, name STRING, at TIMESTAMP, tags ARRAY<STRING>"
GOOD = {"id": 1, "name": "Ada", "at": "2026-03-01T10:00:00.5Z", "tags": ["a", "b"], "unknown": {"x": 1}}


def options(broker: Broker, topic: str, **given: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": f"{broker.host}:{broker.port}", "subscribe": topic, "format": "json", **given}


def typed(spark: SparkSession, broker: Broker, topic: str, **given: str) -> DataFrame:
    return spark.read.format("ottla").options(**options(broker, topic, **given)).load()


def orders(broker: Broker, topic: str) -> None:
    """A good value, a tombstone and one that is no JSON."""
    create_topic(broker, topic, 1)
    fill(broker, topic, [Rec(json.dumps(GOOD).encode(), b"k0"), Rec(None, b"k1"), Rec(b"{no json", b"k2")])


def test_json_gives_typed_columns_beside_those_of_the_record(spark: SparkSession, broker: Broker, topic: str) -> None:
    orders(broker, topic)
    frame = typed(spark, broker, topic, schema=SCHEMA, mode="PERMISSIVE")
    assert frame.columns == [
        "key", "topic", "partition", "offset", "timestamp", "timestampType", "id", "name", "at", "tags",
        "_corrupt_record",
    ]  # fmt: skip
    good, tombstone, corrupt = frame.orderBy("offset").collect()
    assert (good.id, good.name, good.tags, good.at.isoformat()) == (1, "Ada", ["a", "b"], "2026-03-01T10:00:00.500000")
    assert (tombstone.key, tombstone.id, tombstone["_corrupt_record"]) == (b"k1", None, None)
    assert (corrupt.key, corrupt.id, corrupt["_corrupt_record"]) == (b"k2", None, b"{no json")


def test_a_value_that_cannot_be_read_ends_the_query_unless_told_otherwise(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    orders(broker, topic)
    with pytest.raises(Exception, match=rf"the record at offset 2 of {topic}-0 is no json of the schema"):
        typed(spark, broker, topic, schema=SCHEMA).collect()
    dropped = typed(spark, broker, topic, schema=SCHEMA, mode="DROPMALFORMED")
    assert sorted(row.offset for row in dropped.collect()) == [0, 1]


def test_a_readers_own_schema_chooses_the_columns(spark: SparkSession, broker: Broker, topic: str) -> None:
    orders(broker, topic)
    chosen = spark.read.format("ottla").options(**options(broker, topic, mode="DROPMALFORMED"))
    rows = chosen.schema("offset BIGINT, name STRING").load().where("offset = 0").collect()
    assert [tuple(row) for row in rows] == [(0, "Ada")]


def test_a_stream_has_the_same_columns_and_keeps_what_cannot_be_read(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    orders(broker, topic)
    given = options(broker, topic, schema=SCHEMA, mode="PERMISSIVE", startingOffsets="earliest")
    stream = spark.readStream.format("ottla").options(**given).load().select("offset", "name", "_corrupt_record")
    places = count()

    def run() -> str:
        """The table's name, with the query at its end."""
        name = f"typed_{next(places)}"
        query = stream.writeStream.format("memory").queryName(name).trigger(availableNow=True)
        assert query.option("checkpointLocation", str(tmp_path / name)).start().awaitTermination(300)
        return name

    rows = [tuple(row) for row in spark.table(patiently(run)).orderBy("offset").collect()]
    assert rows == [(0, "Ada", None), (1, None, None), (2, None, b"{no json")]


ROWS = (
    "SELECT * FROM VALUES (1L, 'a,b', timestamp'2026-03-01 10:00:00.5', 1.25BD), (2L, NULL, NULL, 0.10BD) "
    "AS rows(id, name, at, price)"
)
AVRO = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 2}},
    ],
}


@pytest.mark.parametrize("form", ["json", "csv", "avro"])
def test_typed_rows_are_written_and_read_again(spark: SparkSession, broker: Broker, topic: str, form: str) -> None:
    create_topic(broker, topic, 1)
    given = {"format": form} | ({"schema": json.dumps(AVRO)} if form == "avro" else {})
    servers = {"kafka.bootstrap.servers": f"{broker.host}:{broker.port}"}
    rows = spark.sql(ROWS)
    keyed = rows.selectExpr("cast(id AS string) AS key", "*").coalesce(1)
    keyed.write.format("ottla").mode("append").options(**servers, topic=topic, **given).save()
    if form != "avro":
        given["schema"] = "id BIGINT, name STRING, at TIMESTAMP, price DECIMAL(3, 2)"
    read = spark.read.format("ottla").options(**servers, subscribe=topic, **given).load().orderBy("id")
    assert [bytes(row.key) for row in read.collect()] == [b"1", b"2"]
    assert read.select("id", "name", "at", "price").collect() == rows.orderBy("id").collect()


def test_a_typed_stream_is_written_exactly_once_and_read_again(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    orders(broker, topic)
    create_topic(broker, f"{topic}-out", 1)
    given = options(broker, topic, schema=SCHEMA, mode="DROPMALFORMED", startingOffsets="earliest")
    stream = spark.readStream.format("ottla").options(**given).load()
    written = stream.selectExpr("key", "upper(name) AS name", "at").writeStream.format("ottla")
    sink = {"topic": f"{topic}-out", "format": "json", "checkpointLocation": str(tmp_path)}
    servers = {"kafka.bootstrap.servers": given["kafka.bootstrap.servers"]}
    written = written.options(**servers, **sink).trigger(availableNow=True)
    assert patiently(lambda: written.start().awaitTermination(300))
    assert len(committed(broker.bootstrap, f"{topic}-out")) == 2
    read = typed(
        spark, broker, f"{topic}-out", schema="name STRING, at TIMESTAMP", **{"isolation.level": "read_committed"}
    )
    found = {(bytes(row.key), row.name, row.at and row.at.isoformat()) for row in read.collect()}
    assert found == {(b"k0", "ADA", "2026-03-01T10:00:00.500000"), (b"k1", None, None)}


def test_columns_of_every_type_go_out_and_come_back(spark: SparkSession, broker: Broker, topic: str) -> None:
    """Spark checks the types of what it is given to the letter."""
    create_topic(broker, topic, 1)
    frame = spark.sql(
        "SELECT 1Y AS tiny, 2S AS small, 3 AS whole, 1.5F AS single, 12345678901234567890BD AS large, true AS truth,"
        " date'2026-03-01' AS day, timestamp_ntz'2026-03-01 10:00:00' AS local, X'00FF' AS raw,"
        " named_struct('a b', 1L, 'list', array(named_struct('day', date'2020-01-01'))) AS inner,"
        " map('k', array(1L, NULL)) AS lists"
    )
    servers = {"kafka.bootstrap.servers": f"{broker.host}:{broker.port}"}
    frame.write.format("ottla").mode("append").options(**servers, topic=topic, format="json").save()
    given = {"format": "json", "schema": frame.schema.json()}
    read = spark.read.format("ottla").options(**servers, subscribe=topic, **given).load().select(frame.columns)
    assert [tuple(row) for row in read.collect()] == [tuple(row) for row in frame.collect()]
    assert [field.dataType for field in read.schema.fields][:9] == [field.dataType for field in frame.schema.fields][:9]
