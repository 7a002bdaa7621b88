"""A small shop's events: customers, orders, payments and clicks, as they would arrive.

Owns: what happens in the shop, drawn from a seed, and the order in which the world hears of it. Never knows: clocks,
brokers, how fast the events are sent. Invariants: the same arguments give the same events for ever; every customer was
announced before anything else is told of them; an order has at most one payment; told twice, it is the same bytes.

What makes it lifelike, and hard: events come a little out of order, for each has its own way here; a phone without a
network tells its clicks half an hour later; some payments are late, some never come, some come twice; customers move
and rise, so that the last record of a key is the one that counts; and, where asked for, some records cannot be decoded.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from heapq import heappop, heappush
from random import Random
from typing import Any, NamedTuple

CUSTOMERS = "customers"
ORDERS = "orders"
PAYMENTS = "payments"
CLICKS = "clicks"

TOPICS: dict[str, dict[str, str]] = {
    CUSTOMERS: {"cleanup.policy": "compact"},
    ORDERS: {},
    PAYMENTS: {},
    CLICKS: {},
}
"""The shop's topics and the settings they need."""

_SECOND = 1000
_MINUTE = 60 * _SECOND

_FIRST_NAMES = (
    "Ada",
    "Bela",
    "Cora",
    "Dora",
    "Emil",
    "Finn",
    "Gita",
    "Hana",
    "Ivo",
    "Jana",
    "Karl",
    "Lena",
    "Max",
    "Nora",
)
_LAST_NAMES = (
    "Adler",
    "Beck",
    "Cerny",
    "Dvorak",
    "Engel",
    "Fiala",
    "Gross",
    "Horak",
    "Jansky",
    "Klein",
    "Lang",
    "Novak",
)
_CITIES = ("Prague", "Brno", "Vienna", "Berlin", "Munich", "Zurich", "Budapest", "Krakow")
_TIERS = ("bronze", "silver", "gold")
_ITEMS = {"coffee": 349, "tea": 279, "cake": 520, "bread": 410, "honey": 899, "jam": 465, "cheese": 1249, "wine": 1890}
_METHODS = ("card", "card", "card", "transfer", "wallet")
_PAGES = ("/", "/search", "/basket", "/help", *(f"/item/{name}" for name in _ITEMS))


class Event(NamedTuple):
    """A record to send. `timestamp` says when it happened, in ms; its place in the stream, when it arrived."""

    topic: str
    key: bytes
    value: bytes
    timestamp: int


def shop(
    seed: int,
    start_ms: int,
    *,
    customers: int = 300,
    visits_per_minute: float = 30.0,
    undecodable: float = 0.0,
) -> Iterator[Event]:
    """The shop's events in the order of their arrival, without end.

    Times of events begin at `start_ms` and go on by the shop's own clock. Of the orders, payments and clicks the share
    `undecodable` is cut off in the middle.
    """
    story = _Story(Random(seed), undecodable)
    story.open(start_ms, customers)
    next_visit = start_ms
    while True:
        yield from story.arrived_by(next_visit)
        story.visit(next_visit)
        next_visit += round(story.random.expovariate(visits_per_minute) * _MINUTE)


class _Story:
    """What has happened and is still on its way here."""

    def __init__(self, random: Random, undecodable: float) -> None:
        self.random = random
        self._undecodable = undecodable
        self._under_way: list[tuple[int, int, Event]] = []
        self._customers: list[dict[str, Any]] = []
        self._count = 0
        self._orders = 0

    def arrived_by(self, now: int) -> Iterator[Event]:
        while self._under_way and self._under_way[0][0] <= now:
            yield heappop(self._under_way)[2]

    # --- what happens -------------------------------------------------------------------------------------------------

    def open(self, start: int, customers: int) -> None:
        """The customers the shop opens with; the table of them is there before anything else."""
        for number in range(1, customers + 1):
            first, last = self.random.choice(_FIRST_NAMES), self.random.choice(_LAST_NAMES)
            customer = {"customer": f"c{number:04d}", "name": f"{first} {last}", "city": self.random.choice(_CITIES)}
            self._customers.append(customer | {"tier": _TIERS[0]})
            self._tell_customer(self._customers[-1], start)

    def visit(self, now: int) -> None:
        """Somebody looks around for a while; one visit in three ends with an order."""
        random = self.random
        customer = random.choice(self._customers)
        offline = random.random() < 0.02  # a phone in a tunnel: everything of this visit is told much later
        moment = now
        for _ in range(random.randint(1, 8)):
            click = {"user": customer["customer"], "page": random.choice(_PAGES), "time": _text(moment)}
            self._send(CLICKS, customer["customer"], click, moment, _much_later(random) if offline else _soon(random))
            moment += random.randint(1 * _SECOND, 45 * _SECOND)
        if random.random() < 0.35:
            self._order(customer, moment)
        if random.random() < 0.03:
            customer["city"] = random.choice(_CITIES)
            self._tell_customer(customer, moment)

    def _order(self, customer: dict[str, Any], moment: int) -> None:
        random = self.random
        self._orders += 1
        number = f"o{self._orders:06d}"
        item, quantity = random.choice(list(_ITEMS)), random.randint(1, 4)
        cents = _ITEMS[item] * quantity
        order = {"order": number, "customer": customer["customer"], "item": item, "quantity": quantity}
        self._send(ORDERS, number, order | {"cents": cents, "time": _text(moment)}, moment, _soon(random))
        self._payment(number, cents, moment)
        if customer["tier"] != _TIERS[-1] and random.random() < 0.05:
            customer["tier"] = _TIERS[_TIERS.index(customer["tier"]) + 1]
            self._tell_customer(customer, moment)

    def _payment(self, order: str, cents: int, ordered: int) -> None:
        """Most pay within minutes; some long after, some never, and of some payments the shop hears twice."""
        random = self.random
        fate = random.random()
        if fate < 0.05:
            return
        moment = ordered + random.randint(5 * _SECOND, 4 * _MINUTE)
        if fate < 0.10:
            moment = ordered + random.randint(20 * _MINUTE, 40 * _MINUTE)
        payment = {"payment": f"p{order[1:]}", "order": order, "cents": cents, "method": random.choice(_METHODS)}
        value = payment | {"time": _text(moment)}
        # Now and then it happened in time, but the bank tells us late.
        self._send(PAYMENTS, order, value, moment, _much_later(random) if fate > 0.98 else _soon(random))
        if 0.10 <= fate < 0.14:
            self._send(PAYMENTS, order, value, moment, _soon(random) + random.randint(_SECOND, 30 * _SECOND))

    # --- how the world hears of it ------------------------------------------------------------------------------------

    def _tell_customer(self, customer: dict[str, Any], moment: int) -> None:
        """The table of customers keeps its order: it comes from one place, and the last word of it counts."""
        self._put(
            Event(CUSTOMERS, customer["customer"].encode(), _json(customer | {"time": _text(moment)}), moment), moment
        )

    def _send(self, topic: str, key: str, value: dict[str, Any], moment: int, delay: int) -> None:
        encoded = _json(value)
        if self._undecodable and self.random.random() < self._undecodable:
            encoded = encoded[: len(encoded) // 2]
        self._put(Event(topic, key.encode(), encoded, moment), moment + delay)

    def _put(self, event: Event, arrival: int) -> None:
        self._count += 1
        heappush(self._under_way, (arrival, self._count, event))


def _soon(random: Random) -> int:
    """Most within a second, hardly any after ten."""
    return round(random.expovariate(1.0) * _SECOND)


def _much_later(random: Random) -> int:
    return random.randint(15 * _MINUTE, 30 * _MINUTE)


def _text(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
