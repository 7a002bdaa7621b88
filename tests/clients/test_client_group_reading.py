"""Consumers that share a topic while members come and go: what is read and committed, record by record."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

import ottla
from kit.brokers.brokers import Broker, broker_under_test
from kit.brokers.topics import create_topic
from kit.others.group_program import SECONDS, eventually
from ottla.client.groups.vocabulary import OffsetAndMetadata

PARTITIONS = 8
RECORDS = 6_000
EVERY: list[dict[str, Any]] = [
    *({"partition_assignment_strategy": name} for name in ("range", "sticky", "cooperative-sticky")),
    {"group_protocol": "consumer"},
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One that wants frequent reports."""
    settings = {
        "group.min.session.timeout.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "200",
    }
    with broker_under_test(tmp_path_factory.mktemp("reading") / "data", settings) as running:
        yield running


class Reader:
    """A consumer in a task of its own; leaves when told to."""

    def __init__(self, broker: Broker, topic: str, read: list[int], settings: dict[str, Any]) -> None:
        quick = {} if "group_protocol" in settings else {"heartbeat_interval_ms": 100, "session_timeout_ms": 45_000}
        self._settings = {"bootstrap_servers": broker.bootstrap, "auto_offset_reset": "earliest", **quick, **settings}
        self._topic = topic
        self._read = read
        self._leave = False
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with ottla.Consumer(self._topic, group_id=self._topic, max_poll_records=20, **self._settings) as consumer:
            while not self._leave:
                for record in await consumer.poll(0.05):
                    assert record.value is not None
                    self._read.append(int(record.value))
                await asyncio.sleep(0.002)

    async def leave(self) -> None:
        self._leave = True
        await self.task


@pytest.mark.parametrize("settings", EVERY, ids=lambda one: one.get("partition_assignment_strategy", "consumer"))
async def test_members_that_come_and_leave_read_every_record_once(
    broker: Broker, topic: str, settings: dict[str, Any]
) -> None:
    create_topic(broker, topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(SECONDS) == 0
    chance = random.Random(4)
    read: list[int] = []
    readers = [Reader(broker, topic, read, settings)]
    while len(set(read)) < RECORDS * 2 // 3:
        aim = min(len(read) + 300, RECORDS * 2 // 3)
        await eventually(lambda aim=aim: len(read) >= aim, f"{aim} records", SECONDS)  # type: ignore[misc]
        if len(readers) < 2 or (len(readers) < 5 and chance.random() < 0.6):
            readers.append(Reader(broker, topic, read, settings))
        else:
            await readers.pop(chance.randrange(len(readers))).leave()
    await eventually(lambda: len(set(read)) == RECORDS, "all records", SECONDS)
    for reader in readers:
        await reader.leave()
    assert sorted(read) == list(range(RECORDS))


@pytest.mark.parametrize("settings", [EVERY[0], EVERY[3]], ids=["classic", "consumer"])
async def test_a_poll_that_waits_long_for_records_keeps_its_partitions_and_commits(
    broker: Broker, topic: str, settings: dict[str, Any]
) -> None:
    create_topic(broker, topic, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, "1")
    assert producer.flush(SECONDS) == 0
    lost: list[object] = []

    class Listener:
        def on_partitions_assigned(self, partitions: object) -> None: ...

        def on_partitions_revoked(self, partitions: object) -> None: ...

        def on_partitions_lost(self, partitions: object) -> None:
            lost.append(partitions)

    chosen = dict(settings)
    if "group_protocol" not in chosen:
        chosen |= {"heartbeat_interval_ms": 100, "session_timeout_ms": 45_000}
    async with ottla.Consumer(
        bootstrap_servers=broker.bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        max_poll_interval_ms=3_000,
        auto_commit_interval_ms=200,
        **chosen,
    ) as consumer:
        consumer.subscribe([topic], Listener())
        assert [record.value for record in await consumer.poll(SECONDS)] == [b"1"]
        assert await consumer.poll(4.5) == []
        held = consumer.assignment()
        assert len(held) == 1

        async def committed() -> OffsetAndMetadata:
            (place,) = held
            async with ottla.Consumer(bootstrap_servers=broker.bootstrap, group_id=topic) as other:
                while (found := (await other.committed(held)).get(place)) is None:
                    pass
            return found

        asking = asyncio.create_task(committed())
        while not asking.done():  # a program that did not poll meanwhile would be given up
            assert await consumer.poll(1) == []
        assert await asking == OffsetAndMetadata(1, "", 0)
        assert not lost
