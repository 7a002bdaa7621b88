"""A driver program of its own: streams from topic to topic that stop, or kill, where a test says.

`python driver.py PLAN` runs the queries of a plan (`kit.others.spark_programs.Plan`, as JSON) until each has read what
was there when it began. The places to stop are built around the sink here, in the workers of this program; the sink
knows nothing of them. A query tells that it has come to a place by a file QUERY.BATCH.PLACE in the plan's folder.

Places, each with the batch in which it is met, once: `before-decision` (every row is written, nothing is decided),
`after-decision` (no transaction is ended), `between-ends` (one is ended): there the query stands still, until the test
kills it; `hold` stands still before the decision until the test makes the file QUERY.go; at `worker` a Python worker of
the executor kills itself when its rows are written; at `executor` a task stands still when its rows are written. The
files hold the process id of whoever came to the place.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

import ottla.spark
from ottla.spark import transactions
from ottla.spark.pipelines.workers import ATTEMPTS, is_late_worker
from ottla.spark.source import OttlaDataSource

SCRIPT = "script"
PAUSE_SECONDS = 0.02
STANDING_MS = "600000"
"""How long a batch may stand still with its transactions open, while a test kills and starts brokers."""


class Script(NamedTuple):
    """Where a query stops."""

    folder: str
    query: str
    places: Mapping[str, str]
    """By batch."""

    def place(self, batch: int) -> str:
        """Where the batch is to stop, unless it did so already."""
        place = self.places.get(str(batch), "")
        return "" if self._file(batch, place).exists() else place

    def reach(self, batch: int, place: str) -> None:
        written = self._file(batch, f"{place}.writing")
        written.write_text(str(os.getpid()))
        written.rename(self._file(batch, place))

    def stand(self, batch: int, place: str) -> None:
        """Go no further, until the test lets the query go on."""
        self.reach(batch, place)
        pause = threading.Event()
        while not Path(self.folder, f"{self.query}.go").exists():
            pause.wait(PAUSE_SECONDS)

    def _file(self, batch: int, place: str) -> Path:
        return Path(self.folder, f"{self.query}.{batch}.{place}")


class Watched(DataSourceStreamArrowWriter):
    """The sink's writer, with places to stop."""

    def __init__(self, inner: Any, script: Script) -> None:
        self._inner = inner
        self._script = script

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        message: WriterCommitMessage = self._inner.write(iterator)
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or -1)
        place = self._script.place(batch) if context.partitionId() == 0 else ""
        if place == "worker":
            self._script.reach(batch, place)
            os.kill(os.getpid(), signal.SIGKILL)
        elif place == "executor":
            self._script.stand(batch, place)
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 — Spark's name
        place = self._script.place(batchId)
        if place in ("before-decision", "hold"):
            self._script.stand(batchId, place)
        elif place in ("after-decision", "between-ends"):
            self._stop_at_end(batchId, place)
        self._inner.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._inner.abort(messages, batchId)

    def _stop_at_end(self, batch: int, place: str) -> None:
        """Let as many transactions end as the place says; the process is killed before it could miss the others."""
        real_end, script = transactions.end, self._script
        passing = iter([True] if place == "between-ends" else [])
        one_ended = asyncio.Event()
        if place == "after-decision":
            one_ended.set()

        async def end(*arguments: Any) -> Any:
            if next(passing, False):
                ending = await real_end(*arguments)
                one_ended.set()
                return ending
            await one_ended.wait()
            script.reach(batch, place)
            return await asyncio.Event().wait()

        setattr(transactions, "end", end)  # noqa: B010 — mypy knows that a module's function is not assigned to


class WatchedDataSource(OttlaDataSource):
    """The format, with a script among its options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        given = {key.lower(): value for key, value in options.items()}
        script = given.pop(SCRIPT, None)
        self.script = Script(*json.loads(script)) if script else None
        super().__init__(given)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 — Spark's name
        writer = super().streamWriter(schema, overwrite)
        return Watched(writer, self.script) if self.script else writer


def start(spark: SparkSession, folder: str, query: Mapping[str, Any]) -> StreamingQuery:
    """One query of the plan."""
    servers = {"kafka.bootstrap.servers": query["servers"]}
    stream = spark.readStream.format("ottla").options(
        **servers, subscribe=query["source"], startingOffsets="earliest", maxOffsetsPerTrigger=query["records"]
    )
    results = stream.load().selectExpr("key", "concat('result ', cast(value AS string)) AS value")
    script = json.dumps([folder, query["name"], query["places"]])
    sink = {"topic": query["target"], "delivery": query["delivery"], SCRIPT: script}
    if query["delivery"] == "exactly-once":
        sink["kafka.transaction.timeout.ms"] = STANDING_MS
    writer = results.writeStream.format("ottla").options(**servers, **sink)
    return writer.option("checkpointLocation", query["checkpoint"]).trigger(availableNow=True).start()


def start_patiently(spark: SparkSession, folder: str, wanted: Mapping[str, Any]) -> StreamingQuery:
    """One query at work: Spark gives a new Python ten seconds, and one that was late has done nothing."""
    pause = threading.Event()
    for _ in range(ATTEMPTS):
        query = start(spark, folder, wanted)
        while query.isActive and query.lastProgress is None:
            pause.wait(PAUSE_SECONDS)
        if not is_late_worker(query.exception()):
            break
    return query


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    spark = ottla.spark.start_session("driver", plan["master"], plan["settings"])
    spark.dataSource.register(WatchedDataSource)
    for query in [start_patiently(spark, plan["folder"], wanted) for wanted in plan["queries"]]:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
