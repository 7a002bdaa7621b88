"""Consume, transform, produce: killed at random points, client and broker, the copy has each input exactly once."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cluster import copying, own_copying
from cluster.copiers import Copier
from kit.brokers.brokers import Broker, broker_under_test
from kit.brokers.processes import OttlaProcess, until
from kit.brokers.topics import create_topic, fill
from kit.wire.batches import Rec

PARTITIONS = 3
RECORDS = 4_000  # in each partition
KEYS = 7
KILLS = 24
SECONDS = 120.0
# Sessions and heartbeats short enough that a killed member is soon missed.
SETTINGS = {
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "100",
}


@pytest.mark.parametrize("clients", [copying, own_copying], ids=["confluent", "ottla"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_copy_has_each_input_exactly_once_whoever_is_killed(
    tmp_path: Path, protocol: str, clients: ModuleType
) -> None:
    seed = int(os.environ.get("OTTLA_COPY_SEED", random.randrange(2**32)))
    print(f"OTTLA_COPY_SEED={seed}")
    broker = broker_under_test(tmp_path / "data", SETTINGS).start()
    try:
        for topic in ("source", "target"):
            create_topic(broker, topic, PARTITIONS)
        for partition in range(PARTITIONS):
            fill(broker, "source", [Rec(b"%d" % at, b"k%d" % (at % KEYS)) for at in range(RECORDS)], partition)
        _check(_copied_under_fire(broker, protocol, random.Random(seed), str(clients.__file__)))
    finally:
        broker.stop()


def _copied_under_fire(
    broker: Broker, protocol: str, chance: random.Random, program: str
) -> dict[int, list[tuple[bytes | None, bytes | None]]]:
    """The copy that two copiers made, while they and the broker were killed at random points."""
    copier = partial(Copier, broker.bootstrap, protocol, program=program)
    with copier("copier-1") as first, copier("copier-2") as second:
        copiers = (first, second)
        for kill in range(KILLS):
            _pass_some(copiers, chance, kill)
            # Only a process of our own is killed: a real Kafka sees the copiers fall.
            if chance.random() < 0.4 and isinstance(broker, OttlaProcess):
                broker.kill()
                broker.start()
            else:
                chance.choice(copiers).kill()
        return _read_committed(broker.bootstrap)


def _pass_some(copiers: tuple[Copier, ...], chance: random.Random, kill: int) -> None:
    """Let the copiers come a random way, then stop somewhere within a round."""
    wanted = sum(copier.copied for copier in copiers) + chance.randrange(1, 900)
    said = [error for copier in copiers for error in copier.errors]
    until(lambda: min(wanted, PARTITIONS * RECORDS * 4 // 5) <= sum(copier.copied for copier in copiers),
          f"progress before kill {kill + 1} (copiers said {said[-5:]})", SECONDS)  # fmt: skip
    threading.Event().wait(chance.uniform(0.0, 0.03))


def _read_committed(bootstrap: str) -> dict[int, list[tuple[bytes | None, bytes | None]]]:
    """Everything a reader of committed records finds, partition by partition, once it has met the end of each: the
    last inputs have then been copied, and one record too many would be seen."""
    # The offsets of a transaction may be seen before its records: each partition gets its marker when it does.
    until(lambda: _left(bootstrap) == 0, "the rest is copied", SECONDS)
    found: dict[int, list[tuple[bytes | None, bytes | None]]] = defaultdict(list)
    ended: set[int] = set()
    with _reader(bootstrap) as reader:
        reader.assign([TopicPartition("target", partition, 0) for partition in range(PARTITIONS)])

        def finished() -> bool:
            for record in reader.consume(1000, 0.1):
                error, partition = record.error(), record.partition()
                assert partition is not None
                if error is None:
                    found[partition].append((record.key(), record.value()))
                    ended.discard(partition)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(partition)
            return len(ended) == PARTITIONS and all(len(copied) >= RECORDS for copied in found.values())

        try:
            until(finished, "the end of the copy", SECONDS)
        except AssertionError:
            _check(found)
            raise
    return found


def _left(bootstrap: str) -> int:
    """How many inputs no committed offset covers."""
    with _reader(bootstrap, "copiers") as reader:
        try:
            committed = reader.committed([TopicPartition("source", number) for number in range(PARTITIONS)], 10.0)
        except KafkaException:
            return -1
        return sum(RECORDS - max(item.offset, 0) for item in committed)


@contextmanager
def _reader(bootstrap: str, group: str = "reader") -> Iterator[Consumer]:
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    try:
        yield reader
    finally:
        reader.close()


def _check(copy: dict[int, list[tuple[bytes | None, bytes | None]]]) -> None:
    for partition in range(PARTITIONS):
        wanted = [(b"k%d" % (at % KEYS), copying.transformed(b"%d" % at)) for at in range(RECORDS)]
        found = copy[partition]
        missing, times = set(wanted) - set(found), Counter(found)
        twice = [record for record, count in times.items() if count > 1]
        assert not missing, f"partition {partition}: {len(missing)} inputs lost, first {sorted(missing)[:3]}"
        assert not twice, f"partition {partition}: {len(twice)} inputs copied more than once, first {twice[:3]}"
        assert found == wanted, f"partition {partition}: out of order"
