"""kcat (librdkafka, C) as people use it on the command line."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from kit.brokers.brokers import Broker
from kit.brokers.topics import create_topic, fill, records_of
from kit.others.debian import program, run
from kit.wire.batches import Rec

AN_HOUR_AGO = int(time.time() * 1000) - 3_600_000
TIMES = [AN_HOUR_AGO + 1000 * number for number in range(5)]


def kcat(broker: Broker, *arguments: str, stdin: str = "") -> str:
    return run([program("kcat"), "-b", broker.bootstrap, *arguments], stdin=stdin).decode()


def consume(broker: Broker, topic: str, *arguments: str) -> list[dict[str, Any]]:
    """Every record from a position to the end, as kcat shows it."""
    printed = kcat(broker, "-C", "-t", topic, "-e", "-q", "-J", *arguments)
    return [json.loads(line) for line in printed.splitlines()]


def test_it_lists_brokers_and_topics(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, 3)
    listing = json.loads(kcat(broker, "-L", "-t", topic, "-J"))
    assert [(row["id"], row["name"].split(":")[1]) for row in listing["brokers"]] == [(1, str(broker.port))]
    (described,) = listing["topics"]
    assert described["topic"] == topic
    assert [(row["partition"], row["leader"]) for row in described["partitions"]] == [(0, 1), (1, 1), (2, 1)]


def test_it_reads_what_it_wrote(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    kcat(broker, "-P", "-t", topic, "-K", ":", "-H", "from=kcat", "-H", "empty", stdin="k1:one\nk2:two\n")
    rows = consume(broker, topic, "-o", "beginning")
    assert [(row["offset"], row["key"], row["payload"]) for row in rows] == [(0, "k1", "one"), (1, "k2", "two")]
    assert rows[0]["headers"] == ["from", "kcat", "empty", None]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_it_reads_what_it_compressed(broker: Broker, topic: str, codec: str) -> None:
    create_topic(broker, topic)
    lines = [f"line {number} " + "x" * 100 for number in range(50)]
    kcat(broker, "-P", "-t", topic, "-z", codec, stdin="\n".join(lines) + "\n")
    assert [row["payload"] for row in consume(broker, topic, "-o", "beginning")] == lines


def test_it_writes_tombstones(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, configs={"cleanup.policy": "compact"})
    kcat(broker, "-P", "-t", topic, "-K", ":", "-Z", stdin="gone:\n")
    assert [(record.key, record.value) for record in records_of(broker, topic)] == [(b"gone", None)]
    (row,) = consume(broker, topic, "-o", "beginning")
    assert row["payload"] is None


def test_it_reads_from_any_position(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"%d" % number, timestamp=TIMES[number]) for number in range(5)])
    assert [row["payload"] for row in consume(broker, topic, "-p", "0", "-o", "3")] == ["3", "4"]
    assert [row["payload"] for row in consume(broker, topic, "-p", "0", "-o", "-1")] == ["4"]
    assert [row["payload"] for row in consume(broker, topic, "-o", "s@" + str(TIMES[2]))] == ["2", "3", "4"]
    assert consume(broker, topic, "-o", "end") == []


def test_it_asks_for_offsets_by_time(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"%d" % number, timestamp=TIMES[number]) for number in range(5)])
    for timestamp, offset in ((TIMES[0], 0), (TIMES[2] - 1, 2), (TIMES[4], 4), (-1, 5), (-2, 0)):
        assert kcat(broker, "-Q", "-t", f"{topic}:0:{timestamp}").strip().endswith(f"offset {offset}")


def test_it_shares_a_topic_within_a_group(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, 2)
    for partition in range(2):
        fill(broker, topic, [Rec(b"%d" % partition)], partition)
    printed = kcat(
        broker, "-G", f"group-{topic}", "-X", "auto.offset.reset=earliest", "-c", "2", "-q", "-f", "%s\n", topic
    )
    assert sorted(printed.split()) == ["0", "1"]
