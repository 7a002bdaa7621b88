"""A Spark cluster of its own, a master and two workers as processes on this machine, runs what runs locally."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import ottla
from kit.brokers.brokers import Broker
from kit.brokers.processes import until
from kit.brokers.topics import create_topic
from kit.others.committed import committed_values
from kit.others.spark_programs import Plan, Program, Query, Standalone, driver
from ottla.demo import shop

PIPELINE = Path(shop.__file__).parent / "pipelines" / "customers.py"
VISIBLE_SECONDS = 60.0


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("standalone") / "spark") as running:
        yield running


@pytest.mark.timeout(600)
def test_a_worked_pipeline_runs_unchanged_on_two_workers(
    standalone: Standalone, broker: Broker, tmp_path: Path
) -> None:
    names = {"CUSTOMERS": "standalone-customers", "ORDERS": "standalone-orders", "ENRICHED": "standalone-enriched"}
    for name, partitions in zip(names.values(), (1, 4, 2), strict=True):
        create_topic(broker, name, partitions)
    expected = send_shop(broker, names)

    program = str(Path(sys.executable).with_name("ottla"))
    chosen = [part for name, topic in names.items() for part in ("--set", f"{name}={topic}")]
    where = ["--master", standalone.url, "--checkpoint", str(tmp_path / "checkpoint"), "--bootstrap", broker.bootstrap]
    command = [program, "pipeline", "run", str(PIPELINE), "--once", *where, *chosen]
    with Program(command, tmp_path / "pipeline.log", {"XDG_STATE_HOME": str(tmp_path / "state")}) as run:
        run.finish()

    until(
        lambda: len(committed_values(broker.bootstrap, names["ENRICHED"])) >= len(expected), "orders", VISIBLE_SECONDS
    )
    found = [json.loads(value) for value in committed_values(broker.bootstrap, names["ENRICHED"])]
    assert sorted((row["order"], row["customer"], row["name"], row["city"], row["tier"]) for row in found) == expected
    for number in standalone.workers:
        assert list(standalone.work(number).glob("app-*")), f"worker {number} has run executors"


def values_once_there(broker: Broker, topic: str, count: int) -> list[str]:
    """An end is answered before its markers are in every log: what must be there may come a little later."""

    def look() -> list[str]:
        values = committed_values(broker.bootstrap, topic)
        return values if len(values) >= count else []

    return until(look, f"{count} values in {topic}", VISIBLE_SECONDS)


def send_shop(broker: Broker, names: dict[str, str]) -> list[tuple[str, ...]]:
    """The shop's first events; each order with what its customer is in the end, as plain Python finds it."""
    topics = {shop.CUSTOMERS: names["CUSTOMERS"], shop.ORDERS: names["ORDERS"]}
    customers: dict[str, dict[str, Any]] = {}
    orders: list[dict[str, Any]] = []
    with ottla.blocking.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for event in islice(shop.shop(7, 1_700_000_000_000, customers=40), 3000):
            if event.topic in topics:
                producer.send(topics[event.topic], event.value, key=event.key)
                row = json.loads(event.value)
                if event.topic == shop.CUSTOMERS:
                    customers[row["customer"]] = row
                else:
                    orders.append(row)
        producer.flush()
    assert len(orders) > 50
    known = [(each["order"], customers[each["customer"]]) for each in orders]
    return sorted((order, of["customer"], of["name"], of["city"], of["tier"]) for order, of in known)


@pytest.mark.timeout(600)
def test_each_result_is_there_once_when_an_executor_is_killed(
    standalone: Standalone, broker: Broker, tmp_path: Path
) -> None:
    for topic in ("executor-source", "executor-target"):
        create_topic(broker, topic, 2)
    with ottla.blocking.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(60):
            producer.send("executor-source", str(number).encode(), partition=number % 2)
        producer.flush()
    query = Query(
        "query", broker.bootstrap, "executor-source", "executor-target", str(tmp_path / "checkpoint"), "exactly-once",
        20, {1: "executor"},
    )  # fmt: skip
    with driver(Plan(tmp_path, [query], standalone.url), tmp_path / "plan.json") as run:
        stands = tmp_path / "query.1.executor"
        run.reach(stands)
        standalone.workers[standalone.worker_of(int(stands.read_text()))].kill()
        run.finish()
    results = sorted(f"result {number}" for number in range(60))
    assert values_once_there(broker, "executor-target", len(results)) == results
