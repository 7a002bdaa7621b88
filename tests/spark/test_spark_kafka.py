"""Spark's own `kafka` format on ottla: batch, stream, and the real-time trigger, which Python sources do not have."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.brokers.brokers import Broker
from kit.brokers.processes import until
from kit.brokers.topics import create_topic, fill, records_of, values_of
from kit.wire.batches import Rec
from spark.spark_jars import add_connector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # PySpark leaves sockets to the collector
    pytest.mark.timeout(900),  # a session and several queries, on whatever machine
]

ARRIVAL_SECONDS = 240


@pytest.fixture
def kafka_spark(spark: SparkSession) -> SparkSession:
    add_connector(spark)
    return spark


def servers(broker: Broker) -> dict[str, str]:
    return {"kafka.bootstrap.servers": f"{broker.host}:{broker.port}"}


def stream(spark: SparkSession, broker: Broker, topic: str, form: str = "kafka") -> DataFrame:
    options = {**servers(broker), "subscribe": topic, "startingOffsets": "earliest"}
    return spark.readStream.format(form).options(**options).load()


def test_sparks_connector_writes_and_reads_batches(kafka_spark: SparkSession, broker: Broker) -> None:
    create_topic(broker, "connector-batch", 2)
    rows = kafka_spark.sql(
        "SELECT cast(id AS string) AS key, concat('v', id) AS value, cast(id % 2 AS int) AS partition,"
        " array(named_struct('key', 'h', 'value', cast('x' AS binary))) AS headers FROM range(1000)"
    )
    rows.write.format("kafka").options(**servers(broker), topic="connector-batch").save()
    even = records_of(broker, "connector-batch", 0)
    assert sorted(record.value or b"" for record in even) == sorted(b"v%d" % each for each in range(0, 1000, 2))
    assert even[0].headers == (("h", b"x"),)

    options = {**servers(broker), "subscribe": "connector-batch", "includeHeaders": "true", "minPartitions": "5"}
    read = kafka_spark.read.format("kafka").options(**options).load()
    found = read.selectExpr("int(cast(key AS string)) AS key", "string(value) AS value", "headers[0].key AS header")
    assert sorted(map(tuple, found.collect())) == [(each, f"v{each}", "h") for each in range(1000)]


def test_sparks_connector_streams_and_goes_on_where_it_ended_and_so_does_ottlas_source_from_its_checkpoint(
    kafka_spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    create_topic(broker, "connector-from", 2)
    create_topic(broker, "connector-to", 1)

    def run(form: str = "kafka") -> None:
        rows = stream(kafka_spark, broker, "connector-from", form).select("key", "value")
        writer = rows.writeStream.format("kafka")
        options = {**servers(broker), "topic": "connector-to", "checkpointLocation": str(tmp_path / "checkpoint")}
        query = writer.options(**options).trigger(availableNow=True).start()
        assert query.awaitTermination(ARRIVAL_SECONDS)
        assert query.exception() is None

    fill(broker, "connector-from", [Rec(b"a%d" % each) for each in range(50)], 0)
    run()
    fill(broker, "connector-from", [Rec(b"b%d" % each) for each in range(30)], 1)
    run()
    fill(broker, "connector-from", [Rec(b"c%d" % each) for each in range(10)], 0)
    run("ottla")
    fill(broker, "connector-from", [Rec(b"d%d" % each) for each in range(10)], 1)
    run("ottla")
    counts = {"a": 50, "b": 30, "c": 10, "d": 10}
    written = [f"{letter}{each}".encode() for letter, count in counts.items() for each in range(count)]
    assert sorted(value or b"" for value in values_of(broker, "connector-to")) == sorted(written)


def arrived(broker: Broker, query: Any, count: int) -> bool:
    assert query.isActive, query.exception()
    return len(values_of(broker, "connector-at-once")) == count


def test_sparks_connector_passes_records_on_in_real_time(
    kafka_spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    create_topic(broker, "connector-real-time", 2)
    create_topic(broker, "connector-at-once", 1)
    writer = stream(kafka_spark, broker, "connector-real-time").select("key", "value").writeStream.format("kafka")
    options = {**servers(broker), "topic": "connector-at-once", "checkpointLocation": str(tmp_path / "checkpoint")}
    unbatched: Any = writer.outputMode("update").options(**options)  # PySpark's types do not know the trigger
    query = unbatched.trigger(realTime="10 minutes").start()
    try:
        for turn in range(3):
            fill(broker, "connector-real-time", [Rec(b"%d" % turn)], turn % 2)
            until(partial(arrived, broker, query, turn + 1), f"record {turn}", ARRIVAL_SECONDS)
        assert query.lastProgress is None, "the batch has not ended: the records did not wait for it"
    finally:
        query.stop()
    assert values_of(broker, "connector-at-once") == [b"0", b"1", b"2"]
