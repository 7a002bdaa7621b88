"""What goes wrong is one sentence in the driver, in time: batch and stream, reading and writing."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from kit.brokers.brokers import Broker
from kit.brokers.topics import create_topic, delete_before, fill, make_again
from kit.wire.batches import Rec
from ottla.spark.pipelines.workers import patiently

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # PySpark leaves sockets to the collector
    pytest.mark.timeout(900),  # a session and many queries, on whatever machine
]
SECONDS = 300
UNREACHABLE = r"no broker can be reached \(127\.0\.0\.1:\d+: .*\)"
AWAY = {
    "kafka.bootstrap.servers": "{nobody}",
    "kafka.default.api.timeout.ms": "3000",
    "kafka.request.timeout.ms": "2000",
}
SCHEMA = {"format": "json", "schema": "id INT"}
CASES = [
    pytest.param({"subscribe": "{topic}-missing"}, r"-missing.*UNKNOWN_TOPIC_OR_PARTITION", id="unknown topic"),
    pytest.param({"includeHeader": "true"}, r"includeheader is no option .* did you mean includeHeaders", id="option"),
    pytest.param(AWAY, UNREACHABLE, id="unreachable broker"),
    pytest.param(SCHEMA, r"the record at offset 1 of .* is no json of the schema: Expecting", id="undecodable record"),
]


@pytest.fixture(scope="module")
def filled(broker: Broker) -> str:
    """A topic whose second value is no JSON."""
    create_topic(broker, "bad-input", 1)
    fill(broker, "bad-input", [Rec(b'{"id": 1}', b"k"), Rec(b"no json", b"k")])
    return "bad-input"


@pytest.fixture(scope="module")
def nobody() -> Iterator[str]:
    """An address at which nobody answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def options(broker: Broker, filled: str, nobody: str, given: dict[str, str]) -> dict[str, str]:
    common = {"kafka.bootstrap.servers": f"{broker.host}:{broker.port}", "subscribe": filled}
    return common | {name: value.format(topic=filled, nobody=nobody) for name, value in given.items()}


def ended(begin: Callable[[], StreamingQuery]) -> str:
    """What a query that must fail died of; one that a Python worker was late for has not begun, and begins again."""

    def run() -> bool | None:
        query = begin()
        try:
            return query.awaitTermination(SECONDS)
        finally:
            query.stop()

    with pytest.raises(StreamingQueryException) as failure:
        patiently(run)
    return str(failure.value)


@pytest.mark.parametrize(("given", "said"), CASES)
def test_a_batch_read_that_cannot_work_says_why(
    spark: SparkSession, broker: Broker, filled: str, nobody: str, given: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=said):
        spark.read.format("ottla").options(**options(broker, filled, nobody, given)).load().collect()


@pytest.mark.parametrize(("given", "said"), CASES)
def test_a_stream_that_cannot_work_says_why(
    spark: SparkSession, broker: Broker, filled: str, nobody: str, tmp_path: Path, given: dict[str, str], said: str
) -> None:
    chosen = options(broker, filled, nobody, given) | {"startingOffsets": "earliest"}

    def run() -> None:
        stream = patiently(spark.readStream.format("ottla").options(**chosen).load)
        writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
        raise RuntimeError(ended(writer.start))

    with pytest.raises(Exception, match=said):  # wrong options are said before there is a query
        run()


@pytest.mark.parametrize("streaming", [False, True])
def test_a_sink_that_cannot_be_reached_says_so(
    spark: SparkSession, nobody: str, tmp_path: Path, streaming: bool
) -> None:
    given = {"kafka.bootstrap.servers": nobody, "topic": "t", "kafka.max.block.ms": "3000", "format": "json"}
    if not streaming:
        with pytest.raises(Exception, match=UNREACHABLE):
            spark.range(3).write.format("ottla").mode("append").options(**given).save()
        return
    stream = spark.readStream.format("rate").load()
    writer = stream.writeStream.format("ottla").options(**given, checkpointLocation=str(tmp_path))
    assert re.search(UNREACHABLE, ended(writer.start))


def test_records_gone_by_retention_end_a_batch_unless_that_is_allowed(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    create_topic(broker, topic, 1)
    fill(broker, topic, [Rec(b"%d" % each) for each in range(10)])
    delete_before(broker, topic, 6)
    common: dict[str, Any] = {
        "kafka.bootstrap.servers": f"{broker.host}:{broker.port}",
        "subscribe": topic,
        "startingOffsets": f'{{"{topic}": {{"0": 2}}}}',
    }
    with pytest.raises(Exception, match=rf"offset 2 of {topic}-0: the log begins at 6 and ends at 10.*failOnDataLoss"):
        spark.read.format("ottla").options(**common).load().collect()
    assert spark.read.format("ottla").options(**common, failOnDataLoss="false").load().count() == 4


def test_records_gone_by_retention_end_a_stream_unless_that_is_allowed(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    create_topic(broker, topic, 1)
    fill(broker, topic, [Rec(b"%d" % each) for each in range(3)])
    common = {
        "kafka.bootstrap.servers": f"{broker.host}:{broker.port}",
        "subscribe": topic,
        "startingOffsets": "earliest",
    }

    def begin(**given: str) -> StreamingQuery:
        stream = spark.readStream.format("ottla").options(**common, **given).load().select("offset")
        writer = stream.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
        checkpoint = str(tmp_path / "checkpoint")
        return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()

    assert patiently(lambda: begin().awaitTermination(SECONDS))
    fill(broker, topic, [Rec(b"%d" % each) for each in range(3, 10)])
    delete_before(broker, topic, 6)
    said = ended(begin)
    assert f"offsets 3 to 5 of {topic}-0 are gone: the log begins at 6 and ends at 10" in said
    assert patiently(lambda: begin(failOnDataLoss="false").awaitTermination(SECONDS))
    rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert sorted(row.offset for row in rows) == [0, 1, 2, 6, 7, 8, 9]


def test_a_first_batch_that_failed_begins_where_it_began_and_a_topic_made_again_ends_a_query_that_runs_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    create_topic(broker, topic, 1)
    fill(broker, topic, [Rec(b"%d" % each) for each in range(10)])
    common = {
        "kafka.bootstrap.servers": f"{broker.host}:{broker.port}",
        "subscribe": topic,
        "startingOffsets": "earliest",
    }
    taken: list[int] = []

    def begin(dies: bool = False, **given: str) -> StreamingQuery:
        def take(rows: DataFrame, _: int) -> None:
            found = [row.offset for row in rows.select("offset").collect()]
            if dies:
                raise RuntimeError("the driver dies")
            taken.extend(found)

        stream = spark.readStream.format("ottla").options(**common, **given).load()
        writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.trigger(availableNow=True).start()

    assert "the driver dies" in ended(lambda: begin(dies=True))
    delete_before(broker, topic, 5)
    assert f"offsets 0 to 4 of {topic}-0 are gone: the log begins at 5 and ends at 10" in ended(begin)
    assert patiently(lambda: begin(failOnDataLoss="false").awaitTermination(SECONDS))
    assert taken == [5, 6, 7, 8, 9]
    make_again(broker, topic)
    fill(broker, topic, [Rec(b"new") for _ in range(12)])
    assert f"topic {topic} was made again, or the checkpoint is of another cluster" in ended(begin)
    assert patiently(lambda: begin(failOnDataLoss="false").awaitTermination(SECONDS))
    assert taken[5:] == list(range(12))
