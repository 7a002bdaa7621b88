"""Python clients against the same ottla broker: ottla's own, aiokafka, kafka-python, confluent-kafka.

Owns: which work is done in which order, and the table with its targets. Never knows: how a client does it. Every start
of the broker runs every work by every client, the clients in turn, each piece in a process of its own; numbers are
medians over the starts.
"""

import json
import subprocess
import sys
from statistics import median
from typing import NamedTuple

from bench import load
from bench.brokers import BROKERS, Broker
from bench.wire import Connection

import ottla

PARTITIONS = 6
FILLED = 4_000_000
Medians = dict[str, dict[str, float]]
Runs = dict[str, dict[str, list[dict[str, float]]]]

WORK: dict[str, dict[str, int]] = {
    "produce": {"ottla": 500_000, "confluent-kafka": 500_000, "aiokafka": 200_000, "kafka-python": 100_000},
    "produce_arrow": {"ottla": 4_000_000},
    "consume": {"ottla": 2_000_000, "confluent-kafka": FILLED, "aiokafka": 1_000_000, "kafka-python": 300_000},
    "consume_arrow": {"ottla": FILLED},
    "round_trip": {"ottla": 3000, "aiokafka": 3000},
}
"""Records for each client: enough for about a second."""


class Target(NamedTuple):
    """One line of the table: ottla's number against another's."""

    label: str
    work: str
    against: str
    other_work: str
    ratio: float
    key: str = "per_second"
    at_least: bool = True


TARGETS = (
    Target("produce by send, one by one", "produce", "aiokafka", "produce", 2.0),
    Target("produce by send, one by one", "produce", "kafka-python", "produce", 5.0),
    Target("produce by send_arrow", "produce_arrow", "confluent-kafka", "produce", 1.5),
    Target("consume record by record", "consume", "aiokafka", "consume", 1.0),
    Target("consume record by record", "consume", "kafka-python", "consume", 4.0),
    Target("consume by poll_arrow", "consume_arrow", "the fastest", "consume", 4.0),
    Target("round trip of one message, p50", "round_trip", "aiokafka", "round_trip", 1.0, "p50", False),
)
ENOUGH_ROWS = 3_000_000
"""`send_arrow` has reached its target with so many rows a second, whatever others do."""


def measure(starts: int) -> dict[str, Medians]:
    """Medians by work, client and key."""
    found: dict[str, dict[str, list[dict[str, float]]]] = {
        work: {name: [] for name in row} for work, row in WORK.items()
    }
    ours = next(kind for kind in BROKERS if kind.name == "ottla")
    for number in range(starts):
        broker = ours("clients")
        broker.format()
        broker.start()
        try:
            _round(broker, number, found)
        finally:
            broker.stop()
            broker.remove()
    return {work: {name: _medians(runs) for name, runs in row.items()} for work, row in found.items()}


def _round(broker: Broker, number: int, found: Runs) -> None:
    with Connection(broker.port) as connection:
        connection.create_topics(["filled"], PARTITIONS)
    load.run(broker, "produce", "filled", FILLED, 100, "linger.ms=5")
    for work, row in WORK.items():
        names = list(row)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            topic = "filled"
            if not work.startswith("consume"):
                topic = f"{work}-{name}"
                with Connection(broker.port) as connection:
                    connection.create_topics([topic], 1 if work == "round_trip" else PARTITIONS)
            numbers = _run(broker, name, work, topic, row[name])
            if work.startswith("produce"):
                _check_written(broker, topic, row[name])
            print(f"clients: {work} by {name}: {numbers}", file=sys.stderr)
            found[work][name].append(numbers)


def _run(broker: Broker, client: str, work: str, topic: str, count: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.client_work", client, work, broker.address, topic, str(count)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    numbers: dict[str, float] = json.loads(done.stdout)
    return numbers


def _check_written(broker: Broker, topic: str, count: int) -> None:
    """A rate of records that did not arrive would be no rate; one more was sent to warm up."""
    places = [ottla.TopicPartition(topic, number) for number in range(PARTITIONS)]
    with ottla.blocking.Admin(bootstrap_servers=broker.address) as admin:
        written = sum(found.offset for found in admin.offsets(dict.fromkeys(places, ottla.admin.LATEST)).values())
    assert written == count + 1, f"{written} records in {topic!r}, {count + 1} were sent"


def _medians(runs: list[dict[str, float]]) -> dict[str, float]:
    return {key: median(run[key] for run in runs) for key in runs[0]}


def table(results: dict[str, Medians]) -> str:
    """The comparison against the targets, and every number behind it."""
    lines = [
        "| work, 100 B values | ottla | other | | ottla ÷ other | target | |",
        "| --- | ---: | --- | ---: | ---: | ---: | --- |",
    ]
    for target in TARGETS:
        own = results[target.work]["ottla"][target.key]
        others = {name: row[target.key] for name, row in results[target.other_work].items() if name != "ottla"}
        name = max(others, key=lambda each: others[each]) if target.against == "the fastest" else target.against
        ratio = own / others[name]
        enough = target.work == "produce_arrow" and own >= ENOUGH_ROWS
        reached = enough or (ratio >= target.ratio if target.at_least else ratio <= target.ratio)
        sign = "≥" if target.at_least else "≤"
        unit = "µs" if target.key == "p50" else "/s"
        lines.append(
            f"| {target.label} | {own:,.0f} {unit} | {name} | {others[name]:,.0f} {unit} | {ratio:.2f} | "
            f"{sign} {target.ratio:g} | {'reached' if reached else '**missed**'} |"
        )
    lines += ["", "| work | client | a second | peak memory, MB |", "| --- | --- | ---: | ---: |"]
    for work, row in results.items():
        for name, numbers in row.items():
            pace = f"{numbers['per_second']:,.0f}" if "per_second" in numbers else f"p99 {numbers['p99']:,.0f} µs"
            lines.append(f"| {work} | {name} | {pace} | {numbers['peak_megabytes']:,.0f} |")
    return "\n".join(lines)
