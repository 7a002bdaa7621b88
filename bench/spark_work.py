"""One Spark that reads and writes with both formats: `python -m bench.spark_work ADDRESS TOPICS RECORDS ROUNDS`.

Owns: the session, the work done in it, and its clock. Never knows: brokers, targets. Both formats do the same work on
the same topic in the same session, in turn, and the one that goes first changes with the round. A first round that is
not counted warms the virtual machine and the Python workers. Prints one JSON object: every measurement of every round.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from bench.brokers import HERE
from pyspark.sql import DataFrame, SparkSession

import ottla
import ottla.spark

CORES = 2
PARTITIONS = 4
TINY = 10
BATCHES = 30
VALUE = (
    "substring(cast(repeat('ottla and kafka ', 64) AS binary), 1, 100 + cast(pmod(hash(value), 925) AS int)) AS value"
)
"""100 B to 1 KiB, made by Spark itself from a number called `value`."""
TIMES = "offset BIGINT, timestamp TIMESTAMP"
AGGREGATE_OF_TIMES = ("count(offset) AS rows", "max(offset) AS last", "max(timestamp) AS latest")
"""A query that needs no values. Spark tells no Python source so; ottla's reader can be told by its schema."""
AGGREGATE = ("count(value) AS rows", "count(key) AS keys", "max(offset) AS last", "max(timestamp) AS latest")

Found = dict[str, list[float]]


class Work:
    """Everything that is measured, on one cluster."""

    def __init__(self, address: str, topics: list[str], records: int) -> None:
        self._servers = {"kafka.bootstrap.servers": address}
        self.topics = topics
        self._topic = topics[0]
        self._records = records
        self._written = records // 3
        self._folder = Path(tempfile.mkdtemp(prefix="ottla-bench-"))
        self._admin = ottla.blocking.Admin(bootstrap_servers=address)
        self._numbers = iter(range(1_000_000))
        self.spark = _session()

    def close(self) -> None:
        self.spark.stop()
        self._admin.close()
        shutil.rmtree(self._folder)

    # --- reading ------------------------------------------------------------------------------------------------------

    def read(self, form: str, topic: str) -> dict[str, float]:
        """A whole topic to one row; rows a second, and the peak of the Python workers where there are any."""
        seconds, peak = self._aggregate(form, topic, self._records, AGGREGATE)
        found = {f"read_{topic}_{form}": self._records / seconds}
        return found | ({"worker_megabytes": peak} if form == "ottla" else {})

    def read_times(self, form: str) -> dict[str, float]:
        """The same for a query that needs offsets and times only."""
        seconds, _ = self._aggregate(form, self._topic, self._records, AGGREGATE_OF_TIMES)
        return {f"read_times_{form}": self._records / seconds}

    def read_tenth(self) -> dict[str, float]:
        """The peak of Python workers that are new."""
        _, peak = self._aggregate("ottla", self._topic, self._records // 10, AGGREGATE)
        return {"worker_megabytes_tenth": peak}

    def _aggregate(self, form: str, topic: str, count: int, wanted: Sequence[str]) -> tuple[float, float]:
        for pid in python_workers():
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
        places = [ottla.TopicPartition(topic, number) for number in range(PARTITIONS)]
        ends = self._admin.offsets(dict.fromkeys(places, ottla.admin.LATEST))
        bounds = {str(place.partition): found.offset * count // self._records for place, found in ends.items()}
        options = {"subscribe": topic, "endingOffsets": json.dumps({topic: bounds})}
        reader = self.spark.read.format(form).options(**self._servers, **options)
        if form == "ottla" and wanted is AGGREGATE_OF_TIMES:
            reader = reader.schema(TIMES)
        rows = reader.load()
        begin = time.perf_counter()
        (row,) = rows.selectExpr(*wanted).collect()
        seconds = time.perf_counter() - begin
        assert row.rows == sum(bounds.values()), f"{row.rows} rows were read, {bounds} were asked for"
        return seconds, max(map(peak_megabytes, python_workers()), default=0.0)

    # --- writing ------------------------------------------------------------------------------------------------------

    def write(self, form: str) -> dict[str, float]:
        """A batch of rows that Spark makes; rows a second."""
        numbers = self.spark.range(0, self._written, 1, PARTITIONS).withColumnRenamed("id", "value")
        rows = numbers.selectExpr("cast(value AS string) AS key", VALUE)
        topic = self._new_topic()
        begin = time.perf_counter()
        rows.write.format(form).mode("append").options(**self._servers, topic=topic).save()
        seconds = time.perf_counter() - begin
        self._check(topic)
        return {f"write_{form}": self._written / seconds}

    def stream(self, form: str, delivery: str = "") -> dict[str, float]:
        """The same rows as one micro-batch of a stream; rows a second of the batch, from trigger to end."""
        source = self.spark.readStream.format("rate-micro-batch").options(
            rowsPerBatch=self._written, numPartitions=PARTITIONS
        )
        rows = source.load().selectExpr("cast(value AS string) AS key", VALUE)
        topic = self._new_topic()
        told = {"delivery": delivery} if delivery else {}
        (batch,) = self._batches(rows, form, topic=topic, **self._servers, **told)
        self._check(topic)
        return {f"stream_{delivery or form}": self._written / batch * 1000}

    # --- micro-batches ------------------------------------------------------------------------------------------------

    def tiny(self, form: str) -> dict[str, float]:
        """Micro-batches of a few records, to nowhere and to a topic: milliseconds of a middle one."""
        limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(TINY)}
        one = json.dumps({self._topic: [0]})
        rows = self.spark.readStream.format(form).options(**self._servers, assign=one, **limits)
        to_nowhere = self._first_batches(rows.load().select("key", "value"), "noop")
        topic = self._new_topic()
        to_topic = self._first_batches(rows.load().select("key", "value"), form, topic=topic, **self._servers)
        return {f"batch_to_nowhere_{form}": to_nowhere, f"batch_to_topic_{form}": to_topic}

    def _first_batches(self, rows: DataFrame, form: str, **options: str) -> float:
        """The median of some batches of a query that would go on; the first ones are its start."""
        writer = rows.writeStream.format(form).options(**options)
        query = writer.option("checkpointLocation", str(self._checkpoint())).start()
        try:
            while (query.lastProgress or {"batchId": 0})["batchId"] < BATCHES:
                if query.exception() is not None or not query.isActive:
                    raise AssertionError(f"the query ended: {query.exception()}")
                time.sleep(0.05)
            times = [each["durationMs"]["triggerExecution"] for each in query.recentProgress[BATCHES // 2 : BATCHES]]
        finally:
            query.stop()
        return float(median(times))

    def _batches(self, rows: DataFrame, form: str, **options: str) -> list[float]:
        """The milliseconds of every batch of a query that ends by itself."""
        writer = rows.writeStream.format(form).options(**options)
        query = writer.option("checkpointLocation", str(self._checkpoint())).trigger(availableNow=True).start()
        query.awaitTermination()
        return [each["durationMs"]["triggerExecution"] for each in query.recentProgress if each["numInputRows"]]

    # --- topics -------------------------------------------------------------------------------------------------------

    def _checkpoint(self) -> Path:
        return self._folder / f"checkpoint-{next(self._numbers)}"

    def _new_topic(self) -> str:
        name = f"written-{next(self._numbers)}"
        made = self._admin.create_topics([ottla.admin.NewTopic(name, PARTITIONS, 1)])[name]
        assert not made.error, f"topic {name!r} was not made: {made.error.name}"
        return name

    def _check(self, topic: str) -> None:
        """A rate of records that did not arrive would be no rate; the ends of transactions take offsets too."""
        places = [ottla.TopicPartition(topic, number) for number in range(PARTITIONS)]
        ends = self._admin.offsets(dict.fromkeys(places, ottla.admin.LATEST)).values()
        arrived = sum(found.offset for found in ends)
        self._admin.delete_topics([topic])
        assert arrived >= self._written, f"{arrived} records in {topic!r}, {self._written} were sent"


def _session() -> SparkSession:
    script = str(HERE.parent / "scripts" / "spark-connector")
    folder = subprocess.run([script], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    jars = ",".join(map(str, sorted(Path(folder).glob("*.jar"))))
    settings = {"spark.jars": jars, "spark.driver.memory": "2g", "spark.ui.enabled": "false"}
    return ottla.spark.start_session("bench", f"local[{CORES}]", settings)


def python_workers() -> list[int]:
    """The Python processes of this program's Spark: those that its virtual machine has started."""
    parents, candidates = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has just ended
        if b"pyspark.daemon" in command:
            candidates.append(int(folder.name))
    return [pid for pid in candidates if os.getpid() in _ancestors(pid, parents)]


def _ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while pid in parents:
        pid = parents[pid]
        yield pid


def peak_megabytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024


def steps_of(work: Work) -> list[list[Callable[[], dict[str, float]]]]:
    """What is measured in a round: in each list the formats take turns."""
    reads: list[list[Callable[[], dict[str, float]]]] = [
        [partial(work.read, form, topic) for form in ("kafka", "ottla")] for topic in work.topics
    ]
    return [
        *reads,
        [partial(work.read_times, "kafka"), partial(work.read_times, "ottla")],
        [partial(work.write, "kafka"), partial(work.write, "ottla")],
        [
            partial(work.stream, "kafka"),
            partial(work.stream, "ottla", "at-least-once"),
            partial(work.stream, "ottla", "exactly-once"),
        ],
        [partial(work.tiny, "kafka"), partial(work.tiny, "ottla")],
    ]


def main() -> None:
    address, topics, records, rounds = sys.argv[1:]
    work = Work(address, topics.split(","), int(records))
    try:
        found = defaultdict(list, {key: [value] for key, value in work.read_tenth().items()})
        for number in range(int(rounds) + 1):
            for turn in steps_of(work):
                for step in turn if number % 2 else reversed(turn):
                    outcome = step()
                    print(f"spark, round {number}: {outcome}", file=sys.stderr, flush=True)
                    for key, value in outcome.items() if number else ():
                        found[key].append(value)
    finally:
        work.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
