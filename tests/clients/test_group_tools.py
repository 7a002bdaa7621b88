"""Kafka's own tool for consumer groups: listing, describing, resetting offsets in all its ways, deleting.

A JVM takes a second to start, so each test is a walk through several calls.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from kit.brokers.brokers import Broker
from kit.brokers.processes import until
from kit.brokers.topics import create_topic, fill
from kit.others import java
from kit.wire.batches import Rec

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SECONDS = 60.0
HOUR = 3_600_000
NOW = int(time.time() * 1000)
StartBroker = Callable[[Mapping[str, str]], AbstractContextManager[Broker]]


def groups(broker: Broker, *arguments: str) -> java.Printed:
    return java.run(TOOL, "--bootstrap-server", broker.bootstrap, *arguments)


def refused(broker: Broker, *arguments: str) -> str:
    """What the tool says when it is not allowed to: some refusals leave its exit code alone."""
    printed = java.attempt(TOOL, "--bootstrap-server", broker.bootstrap, *arguments)
    return printed.output + printed.errors


def rows_of(printed: java.Printed) -> list[dict[str, str]]:
    """The printed table by the names of its columns."""
    lines = [line.split() for line in printed.lines if line.strip()]
    at = next(number for number, line in enumerate(lines) if "GROUP" in line)
    return [dict(zip(lines[at], line, strict=False)) for line in lines[at + 1 :] if len(line) > 1]


def offsets_of(printed: java.Printed, column: str = "NEW-OFFSET") -> list[int | None]:
    rows = sorted(rows_of(printed), key=lambda row: int(row["PARTITION"]))
    return [None if row[column] == "-" else int(row[column]) for row in rows]


def committed(broker: Broker, group: str) -> list[int | None]:
    return offsets_of(groups(broker, "--describe", "--group", group), "CURRENT-OFFSET")


def commit(broker: Broker, group: str, topic: str, *offsets: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    rows = [TopicPartition(topic, number, offset) for number, offset in enumerate(offsets)]
    consumer.commit(offsets=rows, asynchronous=False)
    consumer.close()


@contextmanager
def reading(broker: Broker, group: str, topic: str, **settings: str) -> Iterator[Consumer]:
    """A member that has its partitions."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "enable.auto.commit": False, "client.id": "reader",
         "auto.offset.reset": "earliest", **named}
    )  # fmt: skip
    consumer.subscribe([topic])
    try:
        until(lambda: (consumer.poll(0.1), consumer.assignment())[1], "an assignment", SECONDS)
        yield consumer
    finally:
        consumer.close()


@pytest.fixture
def filled(broker: Broker, topic: str) -> str:
    """Two partitions of ten records, an hour between each and the next; the last is two hours old."""
    create_topic(broker, topic, 2)
    rows = [Rec(b"%d" % at, timestamp=NOW - (11 - at) * HOUR) for at in range(10)]
    for partition in range(2):
        fill(broker, topic, rows, partition)
    return topic


def test_groups_are_listed_and_described(broker: Broker, filled: str) -> None:
    topic = filled
    commit(broker, f"idle-{topic}", topic, 3, 4)
    with reading(broker, topic, topic, group_instance_id="first") as member:
        member.commit(offsets=[TopicPartition(topic, 0, 4), TopicPartition(topic, 1, 10)], asynchronous=False)
        assert {topic, f"idle-{topic}"} <= set(groups(broker, "--list").lines)
        states = {row["GROUP"]: row["STATE"] for row in rows_of(groups(broker, "--list", "--state"))}
        assert (states[topic], states[f"idle-{topic}"]) == ("Stable", "Empty")
        stable = groups(broker, "--list", "--state", "stable").output
        assert f"idle-{topic}" not in stable
        types = {row["GROUP"]: row["TYPE"] for row in rows_of(groups(broker, "--list", "--type"))}
        assert types[topic] == "Classic"

        described = rows_of(groups(broker, "--describe", "--group", topic, "--offsets", "--verbose"))
        found = {row["PARTITION"]: (row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) for row in described}
        assert found == {"0": ("4", "10", "6"), "1": ("10", "10", "0")}
        assert all(row["CLIENT-ID"] == "reader" and row["HOST"] == "/127.0.0.1" for row in described)
        (row,) = rows_of(groups(broker, "--describe", "--group", topic, "--members", "--verbose"))
        assert row["GROUP-INSTANCE-ID"] == "first"
        assert row["CONSUMER-ID"].startswith("first-")
        assert row["#PARTITIONS"] == "2"
        assert f"{topic}:0,1" in " ".join(row.values())
        (state,) = groups(broker, "--describe", "--group", topic, "--state").lines[-1:]
        assert re.search(rf"{topic}\s+\S+:{broker.port}\s+\(1\)\s+range\s+Stable\s+1", state), state


def test_an_idle_and_an_unknown_group_are_described(broker: Broker, filled: str) -> None:
    topic = filled
    commit(broker, topic, topic, 3, 4)
    printed = groups(broker, "--describe", "--group", topic)
    assert f"Consumer group '{topic}' has no active members." in printed.errors + printed.output
    assert offsets_of(printed, "CURRENT-OFFSET") == [3, 4]
    assert "Group nobody-has-this-group not found." in refused(broker, "--describe", "--group", "nobody-has-this-group")


def test_offsets_are_reset_to_places(broker: Broker, filled: str) -> None:
    topic = filled
    commit(broker, topic, topic, 3, 4)

    def reset(*how: str, scope: tuple[str, ...] = ("--all-topics",), act: str = "--execute") -> list[int | None]:
        return offsets_of(groups(broker, "--reset-offsets", "--group", topic, *scope, *how, act))

    assert reset("--to-earliest", act="--dry-run") == [0, 0]
    assert reset("--shift-by", "2", scope=("--topic", f"{topic}:1")) == [6]
    assert committed(broker, topic) == [3, 6]
    assert reset("--shift-by", "-100") == [0, 0]
    assert reset("--to-offset", "7") == [7, 7]
    assert reset("--to-offset", "700") == [10, 10]
    assert reset("--to-current") == [10, 10]
    assert reset("--to-earliest") == [0, 0]
    assert reset("--to-latest", scope=("--topic", f"{topic}:0,1")) == [10, 10]
    assert committed(broker, topic) == [10, 10]


def test_offsets_are_reset_to_times_and_from_files(broker: Broker, filled: str, tmp_path: Path) -> None:
    topic = filled
    commit(broker, topic, topic, 3, 4)
    scope = ("--reset-offsets", "--group", topic, "--topic", topic)
    moment = datetime.fromtimestamp((NOW - 5.5 * HOUR) / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000")
    assert offsets_of(groups(broker, *scope, "--to-datetime", moment, "--execute")) == [6, 6]
    assert offsets_of(groups(broker, *scope, "--by-duration", "PT8H30M", "--execute")) == [3, 3]
    assert offsets_of(groups(broker, *scope, "--by-duration", "PT1H", "--dry-run")) == [10, 10]

    exported = groups(broker, *scope, "--shift-by", "2", "--export", "--dry-run").output
    assert sorted(line for line in exported.splitlines() if line) == [f'"{topic}",0,5', f'"{topic}",1,5']
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,8\n{topic},1,1\n")
    assert offsets_of(groups(broker, "--reset-offsets", "--group", topic, "--from-file", str(plan), "--execute")) == [
        8,
        1,
    ]
    assert committed(broker, topic) == [8, 1]


def test_the_offsets_of_a_group_at_work_are_not_reset_and_it_is_not_deleted(broker: Broker, filled: str) -> None:
    topic = filled
    with reading(broker, topic, topic) as member:
        member.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
        said = refused(broker, "--reset-offsets", "--group", topic, "--all-topics", "--to-earliest", "--execute")
        assert "Assignments can only be reset if the group" in said
        assert "is inactive, but the current state is Stable" in said
        assert "GroupNotEmptyException: The group is not empty." in refused(broker, "--delete", "--group", topic)
        said = refused(broker, "--delete-offsets", "--group", topic, "--topic", topic)
        assert "GroupSubscribedToTopic" in said or "actively subscribed" in said


def test_offsets_and_groups_are_deleted(broker: Broker, filled: str) -> None:
    topic = filled
    for group in (topic, f"second-{topic}"):
        commit(broker, group, topic, 3, 4)
    printed = groups(broker, "--delete-offsets", "--group", topic, "--topic", f"{topic}:0")
    assert f"Request succeeded for deleting offsets from group {topic}." in printed.output
    assert committed(broker, topic)[-1] == 4
    printed = groups(broker, "--delete", "--group", topic, "--group", f"second-{topic}")
    assert "Deletion of requested consumer groups" in printed.output
    assert "was successful" in printed.output
    assert not {topic, f"second-{topic}"} & set(groups(broker, "--list").lines)
    assert "GroupIdNotFoundException" in refused(broker, "--delete", "--group", topic)
