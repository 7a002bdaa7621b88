"""The format in a real Spark session: few and small, since a session takes seconds to start."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.brokers.brokers import Broker
from kit.brokers.topics import create_topic, fill, records_of
from kit.others.pipelines import committed
from kit.wire.batches import Rec
from ottla.spark.pipelines.workers import patiently

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # PySpark leaves sockets to the collector
    pytest.mark.timeout(900),  # a session and many queries, on whatever machine
]


def reading(spark: SparkSession, broker: Broker, topic: str, **options: str) -> DataFrame:
    servers = f"{broker.host}:{broker.port}"
    return spark.read.format("ottla").options(subscribe=topic, **{"kafka.bootstrap.servers": servers}, **options).load()


def test_a_batch_read_has_the_columns_of_sparks_kafka_source(spark: SparkSession, broker: Broker) -> None:
    create_topic(broker, "spark-columns", 2, {"retention.ms": "-1"})  # the record is from 2023
    fill(broker, "spark-columns", [Rec(b"v0", b"k0", 1_700_000_000_123, (("h", b"1"), ("n", None))), Rec(None)], 1)
    rows = reading(spark, broker, "spark-columns", includeHeaders="true").orderBy("offset").collect()
    first, second = rows
    assert (bytes(first.key), bytes(first.value), first.topic) == (b"k0", b"v0", "spark-columns")
    assert (first.partition, first.offset, first.timestampType) == (1, 0, 0)
    assert int(first.timestamp.timestamp() * 1000) == 1_700_000_000_123
    assert [(header.key, header.value) for header in first.headers] == [("h", b"1"), ("n", None)]
    assert (second.key, second.value, second.headers) == (None, None, None)


def test_filters_on_partition_and_offset_read_less_where_spark_pushes_them(spark: SparkSession, broker: Broker) -> None:
    create_topic(broker, "spark-filters", 3)
    for number in range(3):
        fill(broker, "spark-filters", [Rec(b"%d" % each) for each in range(50)], number)
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "true")
    try:
        narrowed = reading(spark, broker, "spark-filters").where("partition = 1 AND offset >= 40")
        assert narrowed.count() == 10
        assert narrowed.rdd.getNumPartitions() == 1
    finally:
        spark.conf.unset(setting)
    bounds = {"startingOffsets": '{"spark-filters": {"0": 10, "1": -2, "2": 49}}'}
    assert reading(spark, broker, "spark-filters", **bounds).count() == 40 + 50 + 1


def test_a_topic_that_was_filtered_once_is_still_there_as_a_whole(spark: SparkSession, broker: Broker) -> None:
    """Spark 4.3 keeps pushed filters for every later query of a DataFrame, so sessions push none by themselves."""
    create_topic(broker, "spark-whole", 2)
    for number in range(2):
        fill(broker, "spark-whole", [Rec(b"%d" % each) for each in range(50)], number)
    topic = reading(spark, broker, "spark-whole")
    assert topic.where("partition = 1 AND offset >= 40").count() == 10
    assert topic.count() == 100


def test_what_is_wrong_is_one_sentence_on_the_driver(spark: SparkSession, broker: Broker) -> None:
    with pytest.raises(Exception, match="did you mean includeHeaders"):
        reading(spark, broker, "spark-wrong", includeHeader="true").count()
    with pytest.raises(Exception, match=r"spark-missing.*UNKNOWN_TOPIC_OR_PARTITION"):
        reading(spark, broker, "spark-missing").count()


def test_rows_written_in_a_batch_are_records(spark: SparkSession, broker: Broker) -> None:
    create_topic(broker, "spark-written", 2)
    rows = spark.sql(
        "SELECT cast(id AS string) AS key, concat('v', id) AS value, 'spark-written' AS topic, cast(id % 2 AS int) AS"
        " partition, array(named_struct('key', 'h', 'value', cast('x' AS binary))) AS headers FROM range(20)"
    )
    servers = f"{broker.host}:{broker.port}"
    rows.write.format("ottla").mode("append").option("kafka.bootstrap.servers", servers).save()
    odd = records_of(broker, "spark-written", 1)
    assert sorted(record.value or b"" for record in odd) == sorted(b"v%d" % each for each in range(1, 20, 2))
    assert odd[0].headers == (("h", b"x"),)


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_stream_from_topic_to_topic_goes_on_where_it_ended(
    spark: SparkSession, broker: Broker, tmp_path: Path, delivery: str
) -> None:
    source, target = f"spark-from-{delivery}", f"spark-to-{delivery}"
    create_topic(broker, source, 2)
    create_topic(broker, target, 2)
    servers = {"kafka.bootstrap.servers": f"{broker.host}:{broker.port}"}

    def run_once() -> None:
        stream = spark.readStream.format("ottla").options(
            **servers, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="30", **{"group.id": source}
        )
        copied = stream.load().selectExpr("key", "upper(cast(value AS string)) AS value")
        query = copied.writeStream.format("ottla").options(**servers, topic=target, delivery=delivery)
        started = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert started.awaitTermination(300)

    fill(broker, source, [Rec(b"a%d" % each) for each in range(40)], 0)
    patiently(run_once)
    fill(broker, source, [Rec(b"b%d" % each) for each in range(10)], 1)
    patiently(run_once)
    expected = sorted([f"A{each}" for each in range(40)] + [f"B{each}" for each in range(10)])
    assert len(committed(broker.bootstrap, target)) == len(expected)
    found = reading(spark, broker, target, **{"isolation.level": "read_committed"})
    assert sorted(bytes(row.value).decode() for row in found.select("value").collect()) == expected
    later = reading(spark, broker, source, startingOffsets=f"group:{source}")
    assert later.count() <= 10  # the group knows of every batch but perhaps the last


def test_a_data_directory_is_read_without_its_broker(spark: SparkSession, broker: Broker) -> None:
    create_topic(broker, "spark-files", 1)
    fill(broker, "spark-files", [Rec(b"%d" % each) for each in range(30)], 0, "lz4")
    directory = getattr(broker, "data", None)
    if directory is None:
        pytest.skip("this broker keeps its directory to itself")
    frame = spark.read.format("ottla").option("subscribe", "spark-files").load(str(directory))
    assert frame.where("offset >= 25").count() == 5


def test_the_format_is_found_without_being_registered(spark: SparkSession, broker: Broker, topic: str) -> None:
    create_topic(broker, topic, 1)
    fill(broker, topic, [Rec(b"%d" % each) for each in range(3)])
    assert reading(spark.newSession(), broker, topic).count() == 3
