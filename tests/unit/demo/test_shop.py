"""The shop's events: repeatable, whole where they must be whole, and hard where real ones are."""

import json
from collections import Counter
from datetime import datetime
from itertools import islice, pairwise
from typing import Any

import pytest

from ottla.demo.shop import CLICKS, CUSTOMERS, ORDERS, PAYMENTS, TOPICS, Event, shop

START = 1_794_000_000_000


def some(count: int = 20_000, seed: int = 7, undecodable: float = 0.0) -> list[Event]:
    return list(islice(shop(seed, START, undecodable=undecodable), count))


def values(events: list[Event], topic: str) -> list[dict[str, Any]]:
    return [json.loads(event.value) for event in events if event.topic == topic]


def test_a_seed_gives_the_same_events_for_ever_and_another_one_others() -> None:
    assert some(2000) == some(2000)
    assert some(2000) != some(2000, seed=8)


def test_every_topic_of_the_shop_gets_events_and_no_other() -> None:
    assert {event.topic for event in some()} == set(TOPICS)


def test_events_happen_before_they_arrive_and_a_little_out_of_order() -> None:
    clicks = [event.timestamp for event in some() if event.topic == CLICKS]
    steps_back = sum(later < earlier for earlier, later in pairwise(clicks))
    assert len(clicks) // 20 < steps_back < len(clicks) // 2


def test_a_few_events_are_very_late() -> None:
    newest = 0
    late = 0
    events = [event for event in some() if event.topic in (CLICKS, PAYMENTS)]
    for event in events:
        late += event.timestamp < newest - 10 * 60_000
        newest = max(newest, event.timestamp)
    assert 0 < late < len(events) // 20


@pytest.mark.parametrize("topic", list(TOPICS))
def test_the_time_in_the_value_is_the_time_of_the_record(topic: str) -> None:
    for event in some(3000):
        if event.topic == topic:
            assert datetime.fromisoformat(json.loads(event.value)["time"]).timestamp() * 1000 == pytest.approx(
                event.timestamp, abs=0.5
            )


def test_customers_are_known_before_they_do_anything() -> None:
    known: set[str] = set()
    for event in some():
        value = json.loads(event.value)
        if event.topic == CUSTOMERS:
            known.add(value["customer"])
        elif event.topic in (ORDERS, CLICKS):
            assert value.get("customer", value.get("user")) in known


def test_some_customers_change_so_that_the_last_record_of_a_key_counts() -> None:
    told = Counter(value["customer"] for value in values(some(), CUSTOMERS))
    assert max(told.values()) > 1


def test_some_payments_are_missing_some_late_and_some_come_twice() -> None:
    events = some(60_000)
    orders = {value["order"]: value for value in values(events, ORDERS)}
    payments = values(events, PAYMENTS)
    count = Counter(value["order"] for value in payments)
    assert set(count.values()) == {1, 2}
    settled = list(orders)[: len(orders) // 2]  # the others may still be paid
    assert 0.02 < sum(order not in count for order in settled) / len(settled) < 0.08
    assert all(value["cents"] == orders[value["order"]]["cents"] for value in payments if value["order"] in orders)
    twice = [order for order, times in count.items() if times == 2]
    for order in twice[:20]:
        assert len({event.value for event in events if event.topic == PAYMENTS and event.key == order.encode()}) == 1


def test_undecodable_records_come_only_where_they_are_asked_for() -> None:
    def broken(events: list[Event]) -> int:
        count = 0
        for event in events:
            try:
                json.loads(event.value)
            except ValueError:
                assert event.topic != CUSTOMERS
                count += 1
        return count

    assert broken(some()) == 0
    assert 20 < broken(some(undecodable=0.01)) < 500
