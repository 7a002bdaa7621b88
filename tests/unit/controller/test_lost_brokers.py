"""A broker counts as gone when its machine says so, and nothing says otherwise."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from kit.disks.compacting import ManualClock
from kit.machines.clusters import applied, cluster
from ottla.controller.lost_brokers import FIRST_DOUBT_SECONDS, LOOKS_AT_ONCE, LostBrokers
from ottla.metadata.image import ClusterImage
from ottla.net.connection import Connection
from ottla.wire.links import LinkDown
from ottla.wire.stored.metadata import FenceBrokerRecord, UnfenceBrokerRecord

OUTSIDE, BETWEEN = ("outside", 1), ("between", 2)


class Chief:
    """A controller that does as it is told, at once."""

    node_id = 100
    active = True

    def __init__(self, brokers: int) -> None:
        self.image: ClusterImage = cluster(brokers)
        self.lost: list[tuple[int, str]] = []

    def broker_lost(self, broker_id: int, why: str) -> None:
        self.lost.append((broker_id, why))
        epoch = self.image.brokers[broker_id].epoch
        self.image = applied([FenceBrokerRecord(id=broker_id, epoch=epoch)], self.image)

    def let_in(self, broker_id: int) -> None:
        self.image = applied([UnfenceBrokerRecord(id=broker_id, epoch=broker_id)], self.image)


class Network:
    """Addresses that refuse, are silent or answer; what is asked waits for `answer` where the test says so."""

    def __init__(self) -> None:
        self.refuses: set[tuple[str, int]] = {BETWEEN}
        self.silent: set[tuple[str, int]] = set()
        self.asked: list[tuple[str, int]] = []
        self.most = self._now = 0
        self.go = asyncio.Event()
        self.go.set()

    def link(self, host: str, port: int) -> "Network._Link":
        return self._Link(self, (host, port))

    class _Link:
        def __init__(self, network: "Network", address: tuple[str, int]) -> None:
            self._network, self._address = network, address

        async def ask(self, request: object, answer: type[Any], seconds: float, *, highest: int = 0) -> Any:
            network = self._network
            network.asked.append(self._address)
            network._now += 1
            network.most = max(network.most, network._now)
            await network.go.wait()
            network._now -= 1
            if self._address in network.refuses:
                raise LinkDown("connection refused", refused=True)
            if self._address in network.silent:
                raise LinkDown("no answer")
            return answer()

        def close(self) -> None:
            """Nothing is open."""


class Watch:
    """One watch, and what it rests on."""

    def __init__(self, brokers: int = 1, listener: str | None = "BETWEEN") -> None:
        self.chief = Chief(brokers)
        listeners = {"OUTSIDE": OUTSIDE, "BETWEEN": BETWEEN}
        known = self.chief.image.brokers
        self.chief.image = self.chief.image._replace(
            brokers={each: broker._replace(listeners=listeners) for each, broker in known.items()}
        )
        self.network = Network()
        self.clock = ManualClock(0)
        self.lost = LostBrokers(self.chief, cast(Any, self.network), self.clock, listener)

    def pass_time(self, seconds: float) -> None:
        self.clock.now += int(seconds * 1000)

    @staticmethod
    def connection() -> Connection:
        return cast(Connection, object())

    def connected(self, broker_id: int = 1) -> Connection:
        connection = self.connection()
        self.lost.came_by(connection, broker_id)
        return connection

    async def close(self, *connections: Connection) -> list[int]:
        """Who is given up when these connections end."""
        before = len(self.chief.lost)
        for connection in connections:
            self.lost.closed(connection)
        return await self.settled(before)

    async def settled(self, before: int = 0) -> list[int]:
        await asyncio.gather(*self.lost._looks.values())
        await asyncio.sleep(0)  # the end of each is noted
        return [broker_id for broker_id, _ in self.chief.lost[before:]]


@pytest.fixture
async def watch() -> AsyncIterator[Watch]:
    made = Watch()
    yield made
    made.lost.stop()


async def test_a_broker_whose_connection_ends_and_whose_port_is_refused_is_gone(watch: Watch) -> None:
    assert await watch.close(watch.connected()) == [1]
    assert watch.network.asked == [BETWEEN]


async def test_connections_that_end_with_this_node_say_nothing_of_brokers(watch: Watch) -> None:
    connection = watch.connected()
    watch.lost.stop()
    assert await watch.close(connection) == []
    assert watch.network.asked == []


async def test_the_listener_between_brokers_decides_whatever_others_say(watch: Watch) -> None:
    watch.network.refuses = {OUTSIDE}

    assert await watch.close(watch.connected()) == []


async def test_where_that_listener_is_not_known_all_have_to_refuse() -> None:
    watch = Watch(listener=None)
    watch.network.refuses = {OUTSIDE}
    assert await watch.close(watch.connected()) == []

    watch.network.refuses = {OUTSIDE, BETWEEN}
    assert await watch.close(watch.connected()) == [1]


async def test_silence_is_no_refusal(watch: Watch) -> None:
    watch.network.refuses, watch.network.silent = set(), {BETWEEN}

    assert await watch.close(watch.connected()) == []


async def test_the_end_of_a_strangers_connection_is_no_reason_to_look(watch: Watch) -> None:
    assert await watch.close(*(watch.connection() for _ in range(100))) == []
    assert watch.network.asked == []


async def test_a_broker_with_another_connection_is_not_looked_at(watch: Watch) -> None:
    first, second = watch.connected(), watch.connected()

    assert await watch.close(first) == []
    assert watch.network.asked == []
    assert await watch.close(second) == [1]


async def test_only_the_broker_whose_connection_ended_is_looked_at() -> None:
    watch = Watch(5)

    assert await watch.close(watch.connected(3)) == [3]
    assert watch.network.asked == [BETWEEN]


async def test_a_heartbeat_during_the_look_outweighs_the_refusal(watch: Watch) -> None:
    watch.network.go.clear()
    watch.lost.closed(watch.connected())
    await asyncio.sleep(0)
    watch.lost.heartbeat(1, 1)
    watch.network.go.set()

    assert await watch.settled() == []


async def test_a_connection_during_the_look_outweighs_the_refusal(watch: Watch) -> None:
    watch.network.go.clear()
    watch.lost.closed(watch.connected())
    await asyncio.sleep(0)
    watch.connected()
    watch.network.go.set()

    assert await watch.settled() == []


async def test_a_heartbeat_of_an_older_registration_says_nothing(watch: Watch) -> None:
    watch.network.go.clear()
    watch.lost.closed(watch.connected())
    await asyncio.sleep(0)
    watch.lost.heartbeat(1, 0)
    watch.network.go.set()

    assert await watch.settled() == [1]


async def test_refusals_of_a_broker_that_lives_are_worth_nothing_for_a_time_that_doubles(watch: Watch) -> None:
    for seconds in (FIRST_DOUBT_SECONDS, 2 * FIRST_DOUBT_SECONDS, 4 * FIRST_DOUBT_SECONDS):
        assert await watch.close(watch.connected()) == [1]
        watch.lost.heartbeat(1, 1)
        watch.chief.let_in(1)
        watch.pass_time(seconds - 1)
        assert await watch.close(watch.connected()) == []
        watch.pass_time(2)


async def test_another_registration_begins_without_doubt(watch: Watch) -> None:
    await watch.close(watch.connected())
    watch.lost.heartbeat(1, 1)
    broker = watch.chief.image.brokers[1]
    watch.chief.image = watch.chief.image._replace(brokers={1: broker._replace(epoch=7, fenced=False)})
    watch.pass_time(1)

    assert await watch.close(watch.connected()) == [1]


async def test_a_new_controller_looks_at_all_that_it_has_no_connection_of_a_few_at_a_time() -> None:
    watch = Watch(LOOKS_AT_ONCE + 20)
    watch.connected(2)
    watch.network.go.clear()
    watch.lost.look_at_all()
    for _ in range(10):
        await asyncio.sleep(0)
    assert watch.network.most == LOOKS_AT_ONCE
    watch.network.go.set()

    assert sorted(await watch.settled()) == [1, *range(3, LOOKS_AT_ONCE + 21)]


async def test_whoever_does_not_decide_does_not_look(watch: Watch) -> None:
    watch.chief.active = False
    connection = watch.connected()

    assert await watch.close(connection) == []
    assert watch.network.asked == []


async def test_a_process_that_is_just_ending_is_looked_at_until_its_port_is_closed(watch: Watch) -> None:
    """The system closes its connections one after the other, and may come to the port last."""
    watch.network.refuses, watch.network.silent = set(), {BETWEEN}
    watch.lost.closed(watch.connected())
    await asyncio.sleep(0)
    assert watch.network.asked == [BETWEEN]
    watch.network.refuses = {BETWEEN}

    assert await watch.settled() == [1]
