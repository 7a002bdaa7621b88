"""ottla's format and Spark's own Kafka connector in the same Spark, on the same ottla broker.

Owns: the topic that is read, the run of Spark, and the table with its targets. Never knows: how Spark does the work
(`bench/spark_work.py`). Numbers are medians over the rounds of one Spark; the two formats work in turn.
"""

import json
import subprocess
import sys
from random import Random
from statistics import median
from typing import NamedTuple

from bench.brokers import BROKERS, Broker
from bench.wire import Connection

import ottla

RECORDS = 3_000_000
PARTITIONS = 4
SIZES = {"mixed": (100, 1024), "small": (100, 100), "large": (1024, 1024)}
"""The topics that are read, and the sizes of their values; the first is that of the other measurements too."""
_ROWS_AT_ONCE = 10_000
Medians = dict[str, float]


class Ratio(NamedTuple):
    """One line: a rate of ottla's, and how many times the connector's it must be."""

    label: str
    own: str
    other: str
    least: float


RATIOS = (
    Ratio("batch read to one row, values of 100 B to 1 KiB, rows/s", "read_mixed_ottla", "read_mixed_kafka", 3.0),
    Ratio("… values of 100 B", "read_small_ottla", "read_small_kafka", 3.0),
    Ratio("… values of 1 KiB", "read_large_ottla", "read_large_kafka", 3.0),
    Ratio("… 100 B to 1 KiB, offsets and times only (ottla by schema())", "read_times_ottla", "read_times_kafka", 3.0),
    Ratio("batch write, rows/s", "write_ottla", "write_kafka", 1.0),
    Ratio("stream write at least once, rows/s", "stream_at-least-once", "stream_kafka", 1.0),
    Ratio("stream write exactly once, rows/s", "stream_exactly-once", "stream_kafka", 0.7),
)
MOST_ABOVE_MS = 100.0
EXTRA = {
    "nowhere": "micro-batch of ten records, topic to nowhere, ms",
    "topic": "micro-batch of ten records, topic to topic (exactly once), ms",
}
MOST_GROWTH = 1.2
"""What a Python worker holds must not depend on how much it reads."""


def measure(rounds: int) -> Medians:
    """Medians by key."""
    ours = next(kind for kind in BROKERS if kind.name == "ottla")
    broker = ours("spark")
    broker.format()
    broker.start()
    try:
        for topic, (smallest, largest) in SIZES.items():
            fill(broker, topic, smallest, largest)
        arguments = [broker.address, ",".join(SIZES), str(RECORDS), str(rounds)]
        done = subprocess.run(
            [sys.executable, "-m", "bench.spark_work", *arguments], check=True, stdout=subprocess.PIPE, text=True
        )
    finally:
        broker.stop()
        broker.remove()
    found: dict[str, list[float]] = json.loads(done.stdout)
    return {key: median(values) for key, values in found.items()}


def fill(broker: Broker, topic: str, smallest: int, largest: int) -> None:
    """A topic that is read: values of every size between the two, that no codec could make smaller."""
    import pyarrow as pa

    random = Random(7)
    noise = random.randbytes(1 << 20)
    starts = [random.randrange(len(noise) - largest) for _ in range(_ROWS_AT_ONCE)]
    values = pa.array([noise[start : start + random.randint(smallest, largest)] for start in starts], pa.binary())
    with Connection(broker.port) as connection:
        connection.create_topics([topic], PARTITIONS)
    with ottla.blocking.Producer(bootstrap_servers=broker.address, linger_ms=5) as producer:
        for first in range(0, RECORDS, _ROWS_AT_ONCE):
            keys = pa.array([b"%d" % number for number in range(first, first + _ROWS_AT_ONCE)], pa.binary())
            producer.send_arrow(topic, pa.table({"key": keys, "value": values}))
        producer.flush()


def table(found: Medians) -> str:
    lines = [
        f"{RECORDS:,} records in {PARTITIONS} partitions are read; a third as many, of 100 B to 1 KiB, are written, "
        "with keys and values made by Spark. A stream's rate is that of one micro-batch.",
        "",
        "| work | Spark's connector | ottla | | target | |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in RATIOS:
        own, other = found[row.own], found[row.other]
        ratio = own / other
        cells = [row.label, f"{other:,.0f}", f"{own:,.0f}", f"{ratio:.2f} ×", f"≥ {row.least:g} ×"]
        lines.append(_line([*cells, ratio >= row.least]))
    for place, label in EXTRA.items():
        own, other = found[f"batch_to_{place}_ottla"], found[f"batch_to_{place}_kafka"]
        cells = [label, f"{other:.0f}", f"{own:.0f}", f"{own - other:+.0f} ms", f"≤ +{MOST_ABOVE_MS:g} ms"]
        lines.append(_line([*cells, own - other <= MOST_ABOVE_MS]))
    part, whole = found["worker_megabytes_tenth"], found["worker_megabytes"]
    label = "peak of a Python worker: a tenth of the topic, all of it, MB"
    cells = [label, f"{part:.0f}", f"{whole:.0f}", f"{whole / part:.2f} ×", f"≤ {MOST_GROWTH:g} ×"]
    lines.append(_line([*cells, whole / part <= MOST_GROWTH]))
    return "\n".join(lines)


def _line(cells: list[str | bool]) -> str:
    *texts, reached = cells
    return f"| {' | '.join(map(str, texts))} | {'reached' if reached else '**missed**'} |"
