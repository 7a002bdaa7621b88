"""The worked pipelines over the shop's events: what they write equals a plain computation over the same events.

The events come in two rounds, in the order of their arrival; a round is a batch, as in test_pipeline_kinds.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ottla.demo.shop as shop
from kit.brokers.brokers import Broker
from kit.others.pipelines import Sent, committed, headers_of, make_topics, run_once, send, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # PySpark leaves sockets to the collector
    pytest.mark.timeout(900),  # a session and many queries, on whatever machine
]

PIPELINES = Path(shop.__file__).with_name("pipelines")
MINUTE = 60_000
START = 1_700_000_000_000
LATE, GAP, PAID_WITHIN = 10 * MINUTE, 5 * MINUTE, 15 * MINUTE

Row = dict[str, Any]
Rounds = list[dict[str, list[Row]]]


def moment(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.fixture(scope="module")
def events() -> list[list[shop.Event]]:
    """An hour and a half of the shop, cut after an hour."""
    end = START + 90 * MINUTE
    story = shop.shop(6, START, customers=30, visits_per_minute=8.0, undecodable=0.01)
    told = list(takewhile(lambda event: event.timestamp < end, story))
    cut = next(number for number, event in enumerate(told) if event.timestamp > START + 60 * MINUTE)
    return [told[:cut], told[cut:]]


@pytest.fixture(scope="module")
def rounds(events: list[list[shop.Event]]) -> Rounds:
    """What can be decoded of each round, by topic."""
    found: Rounds = []
    for part in events:
        found.append({topic: [] for topic in shop.TOPICS})
        for event in part:
            try:
                row = json.loads(event.value)
            except ValueError:
                continue
            found[-1][event.topic].append(row | {"at": moment(row["time"])})
    return found


@pytest.fixture(scope="module")
def run(
    spark: SparkSession, broker: Broker, events: list[list[shop.Event]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], str]:
    """Runs a worked pipeline over both rounds and says where its topics are."""

    def run_both(file: str) -> str:
        servers, prefix = f"{broker.host}:{broker.port}", f"worked-{file.partition('.')[0]}-"
        make_topics(servers, [prefix + topic for topic in shop.TOPICS])
        names = {topic.upper(): prefix + topic for topic in shop.TOPICS}
        names |= {name: prefix + name.lower() for name in ("OUTCOMES", "VISITS", "ENRICHED", "DEAD_LETTERS")}
        checkpoint = tmp_path_factory.mktemp("worked")
        for part in events:
            send(servers, (Sent(prefix + event.topic, event.key, event.value, event.timestamp) for event in part))
            assert run_once(spark, PIPELINES / file, servers, checkpoint, **names) == "finished"
        return prefix

    return run_both


def watermarks(rounds: Rounds, *topics: str) -> list[int]:
    """After each round."""
    return [
        min(max(row["at"] for each in rounds[:number] for row in each[topic]) for topic in topics) - LATE
        for number in (1, 2)
    ]


def letters(servers: str, topic: str) -> dict[str, list[bytes]]:
    """Values of dead letters, by reason."""
    found: dict[str, list[bytes]] = {"late": [], "undecodable": []}
    for record in committed(servers, topic):
        found[headers_of(record)["dead-letter.reason"]].append(record.value or b"")
    return found


def undecodable(events: list[list[shop.Event]], *topics: str) -> list[bytes]:
    return sorted(
        event.value for part in events for event in part if event.topic in topics and not event.value.endswith(b"}")
    )


def test_orders_are_joined_to_their_payments_within_a_window(
    broker: Broker, run: Callable[[str], str], rounds: Rounds, events: list[list[shop.Event]]
) -> None:
    servers, prefix = f"{broker.host}:{broker.port}", run("orders.yaml")
    early, final = watermarks(rounds, "orders", "payments")
    late = [row for topic in ("orders", "payments") for row in rounds[1][topic] if row["at"] <= early]
    orders = rounds[0]["orders"] + [row for row in rounds[1]["orders"] if row["at"] > early]
    payments = {row["payment"]: row for row in rounds[0]["payments"]}
    payments |= {row["payment"]: row for row in rounds[1]["payments"] if row["at"] > early}
    by_order = {row["order"]: row for row in payments.values()}
    expected = []
    for order in orders:
        payment = by_order.get(order["order"])
        if payment is not None and order["at"] <= payment["at"] <= order["at"] + PAID_WITHIN:
            expected.append((order["order"], order["cents"], payment["method"], payment["at"]))
        elif order["at"] + PAID_WITHIN < final:
            expected.append((order["order"], order["cents"], None, None))
    rows = values(servers, f"{prefix}outcomes")
    found = [
        (row["order"], row["cents"], row.get("method"), moment(row["paid"]) if row.get("paid") else None)
        for row in rows
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert any(row[2] is None for row in found)
    dead = letters(servers, f"{prefix}dead_letters")
    assert sorted(moment(json.loads(value)["time"]) for value in dead["late"]) == sorted(row["at"] for row in late)
    assert late, "no payment of these came too late: choose another seed"
    assert sorted(dead["undecodable"]) == undecodable(events, "orders", "payments")


def test_clicks_are_visits(
    broker: Broker, run: Callable[[str], str], rounds: Rounds, events: list[list[shop.Event]]
) -> None:
    servers, prefix = f"{broker.host}:{broker.port}", run("clicks.yaml")
    early, final = watermarks(rounds, "clicks")
    done: list[tuple[str, int, int, int, frozenset[str]]] = []
    still: list[tuple[str, int, int, int, frozenset[str]]] = []
    for number, watermark in enumerate((early, final)):
        new = [
            (row["user"], row["at"], row["at"] + GAP, 1, frozenset({row["page"]}))
            for row in rounds[number]["clicks"]
            if number == 0 or row["at"] + GAP > early
        ]
        merged: list[tuple[str, int, int, int, frozenset[str]]] = []
        for visit in sorted([*still, *new], key=lambda each: each[:3]):
            if merged and merged[-1][0] == visit[0] and visit[1] <= merged[-1][2]:
                user, began, ended, count, pages = merged.pop()
                merged.append((user, began, max(ended, visit[2]), count + visit[3], pages | visit[4]))
            else:
                merged.append(visit)
        done += [visit for visit in merged if visit[2] <= watermark]
        still = [visit for visit in merged if visit[2] > watermark]
    rows = values(servers, f"{prefix}visits")
    found = [
        (row["user"], moment(row["began"]), moment(row["ended"]), row["clicks"], frozenset(row["pages"]))
        for row in rows
    ]
    assert sorted(found, key=lambda each: each[:3]) == sorted(done, key=lambda each: each[:3])
    dead = letters(servers, f"{prefix}dead_letters")
    late = [row["at"] for row in rounds[1]["clicks"] if row["at"] + GAP <= early]
    assert sorted(moment(json.loads(value)["time"]) for value in dead["late"]) == sorted(late)
    assert late
    assert sorted(dead["undecodable"]) == undecodable(events, "clicks")


def test_orders_get_the_customer_as_the_table_has_it(
    broker: Broker, run: Callable[[str], str], rounds: Rounds, events: list[list[shop.Event]]
) -> None:
    servers, prefix = f"{broker.host}:{broker.port}", run("customers.py")
    table: dict[str, Row] = {}
    expected = []
    for each in rounds:
        table |= {row["customer"]: row for row in each["customers"]}
        for order in each["orders"]:
            customer = table[order["customer"]]
            expected.append((order["order"], order["cents"], customer["name"], customer["city"], customer["tier"]))
    rows = values(servers, f"{prefix}enriched")
    found = [(row["order"], row["cents"], row["name"], row["city"], row["tier"]) for row in rows]
    assert sorted(found) == sorted(expected)
    before = {row["customer"]: row for row in rounds[0]["customers"]}
    assert any(before[name]["city"] != row["city"] for name, row in table.items()), "nobody has moved"
