"""Whatever list of whatever request is long, other requests get their turn while it is worked through.

Every list of every API that a broker or a controller serves is made long in turn, and what serves it counts how many
elements it looks at between two turns of the event loop: an API that comes in later is looked at too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib import import_module
from typing import Any, SupportsIndex, overload

import pytest

from ottla import testing
from ottla.broker.apis import SERVED
from ottla.broker.handlers.consumer_group_heartbeat import MOST_OWNED
from ottla.controller import server
from ottla.net import dispatch
from ottla.net.dispatch import Context, Handler
from ottla.testing.life import Life
from ottla.wire.apis import FETCH, PRODUCE, Api
from ottla.wire.schema import Field, Message

MANY = 6000
AT_A_TIME = 2100
"""Elements that may be looked at in one turn, some microsecond each; what costs more is done with far fewer."""
LONGER = {
    ("consumer_group_heartbeat", "topic_partitions"): MOST_OWNED + 1,
    ("consumer_group_heartbeat", "topic_partitions.partitions"): MOST_OWNED + 1,
}
"""Lists that are one thing up to such a length, and cheap to look through."""
BY_HAND = (PRODUCE, FETCH)
"""Which broker/long_fetches.py and wire/produce.py cut, with tests of their own."""
SECONDS = 60.0
TOPIC = "orders"
SAID = {
    "group_id": "g",
    "transactional_id": "t",
    "v3_and_below_transactional_id": "t",
    "protocol_type": "consumer",
    "validate_only": True,
    "resource_type": 2,
    "num_partitions": 1,
    "replication_factor": -1,
    "rebalance_timeout_ms": 60_000,
    "session_timeout_ms": 60_000,
    "member_id": "m",
}

Path = tuple[str, ...]


class Watch:
    """Counts what is looked at in a turn of the loop."""

    def __init__(self) -> None:
        self._now = 0
        self.most = 0

    def look(self, count: int) -> None:
        self._now += count
        self.most = max(self.most, self._now)

    async def turns(self) -> None:
        while True:
            self._now = 0
            await asyncio.sleep(0)


class Watched(list[Any]):
    """A list that tells of every look at an element."""

    watch: Watch

    def __iter__(self) -> Iterator[Any]:
        for element in super().__iter__():
            self.watch.look(1)
            yield element

    @overload
    def __getitem__(self, place: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...
    def __getitem__(self, place: SupportsIndex | slice) -> Any:
        found = super().__getitem__(place)
        self.watch.look(len(found) if isinstance(place, slice) else 1)
        return found


def lists_of(kind: type[Message], version: int) -> Iterator[Path]:
    """Every list of a message, each as the fields that lead to it."""
    for field in kind.FIELDS:
        if field.first <= version <= field.last:
            if field.array:
                yield (field.name,)
            if not isinstance(field.kind, str):
                yield from ((field.name, *path) for path in lists_of(field.kind, version))


def value(field: Field, number: int) -> Any:
    if field.name in SAID:
        return SAID[field.name]
    if field.kind == "string":
        return TOPIC if number == 0 else f"{field.name}-{number}"
    if field.kind == "uuid":
        return number.to_bytes(16, "big")
    if field.kind in ("int8", "int16", "uint16"):
        return number % 100
    return {"bytes": b"", "bool": False, "float64": 0.0}.get(str(field.kind), number)


def message(kind: type[Message], version: int, path: Path, many: int, watch: Watch, number: int = 0) -> Message:
    """With `many` elements in the list at the end of the path, and one in those on the way."""
    made = kind()
    for field in kind.FIELDS:
        inner = path[1:] if path and path[0] == field.name else None
        if not field.first <= version <= field.last or (field.tag >= 0 and inner is None):
            continue
        if field.array:
            count = 0 if inner is None else 1 if inner else many
            elements = Watched(
                value(field, each)
                if isinstance(field.kind, str)
                else message(field.kind, version, inner or (), many, watch, each)
                for each in range(count)
            )
            elements.watch = watch
            setattr(made, field.name, elements)
        elif isinstance(field.kind, str):
            setattr(made, field.name, value(field, number))
        elif inner is not None:
            setattr(made, field.name, message(field.kind, version, inner, many, watch))
    return made


def cases(served: dict[int, Api]) -> list[Any]:
    return [
        pytest.param(api, version, path, id=f"{api.name} v{version} {'.'.join(path)}")
        for key, api in served.items()
        if key not in BY_HAND
        for version in sorted({api.first, api.last})
        for path in lists_of(api.request_class(), version)
    ]


@pytest.fixture(scope="module")
def broker() -> Iterator[testing.Broker]:
    with testing.broker({"auto.create.topics.enable": "false"}) as running:
        yield running


@pytest.fixture
def life(broker: testing.Broker) -> Life:
    found = broker._running(1)
    if TOPIC not in found.broker.image.topics:  # a request before may have deleted it
        broker.create_topic(TOPIC, partitions=3)
    return found


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps end with the first look at the clock, however fast the machine is."""
    monkeypatch.setattr(dispatch, "_STEP_SECONDS", 0.0)


def most_in_a_turn(life: Life, handle: Handler, host: Any, case: tuple[Api, int, Path]) -> int:
    api, version, path = case
    watch = Watch()
    many = LONGER.get((api.module, ".".join(path)), MANY)
    request = message(api.request_class(), version, path, many, watch)

    async def asked() -> None:
        beside = asyncio.create_task(watch.turns())
        try:
            answer = handle(host, request, Context(version, None, life.assembly.addresses.brokers[0].name, "127.0.0.1"))
            if asyncio.iscoroutine(answer):
                await asyncio.wait_for(answer, SECONDS)
        finally:
            beside.cancel()

    life.do(asked()).result(2 * SECONDS)
    return watch.most


@pytest.mark.parametrize(("api", "version", "path"), cases(SERVED))
def test_no_list_that_a_client_sends_is_looked_through_in_one_turn(
    life: Life, api: Api, version: int, path: Path
) -> None:
    handle = import_module(f"ottla.broker.handlers.{api.module}").handle
    assert most_in_a_turn(life, handle, life.broker, (api, version, path)) <= AT_A_TIME


@pytest.mark.parametrize(("api", "version", "path"), cases(dict(server.SERVED)))
def test_no_list_that_a_controller_gets_is_looked_through_in_one_turn(
    life: Life, api: Api, version: int, path: Path
) -> None:
    assert most_in_a_turn(life, server.handler_of(api), life.assembly.server, (api, version, path)) <= AT_A_TIME
