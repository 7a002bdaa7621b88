"""A data directory that is not there at the start takes its partitions offline; nothing else happens to them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kit.brokers.processes import OttlaProcess

SECONDS = 120.0


def write(node: OttlaProcess, partition: int, **patience: int) -> KafkaError | None:
    """What became of one record."""
    outcome: list[KafkaError | None] = []

    def told(error: KafkaError | None, message: Message) -> None:
        outcome.append(error)

    settings = {name.replace("_", "."): value for name, value in patience.items()}
    producer = Producer({"bootstrap.servers": node.bootstrap, **settings})
    producer.produce("both", b"value", partition=partition, on_delivery=told)
    producer.flush(SECONDS)
    return outcome[0]


def sizes(*directories: Path) -> dict[str, int]:
    return {
        f"{directory.name}/{log.parent.name}": log.stat().st_size
        for directory in directories
        for log in directory.glob("both-*/*.log")
    }


@pytest.fixture
def two(tmp_path: Path) -> Callable[[], OttlaProcess]:
    first, second = tmp_path / "first", tmp_path / "second"
    return lambda: OttlaProcess(tmp_path / "first", {"log.dirs": f"{first},{second}"})


def test_partitions_of_a_missing_directory_are_offline_and_come_back_with_it(
    tmp_path: Path, two: Callable[[], OttlaProcess]
) -> None:
    first, second, aside = tmp_path / "first", tmp_path / "second", tmp_path / "aside"
    with two() as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.create_topics([NewTopic("both", 2, 1)])["both"].result(SECONDS)
        assert write(node, 0) is None
        assert write(node, 1) is None
    before = sizes(first, second)
    assert len(before) == 2
    lost = next(int(log.name.removeprefix("both-")) for log in second.glob("both-*"))

    second.rename(aside)
    second.write_text("not a directory")
    with two() as node:
        assert write(node, 1 - lost) is None
        error = write(node, lost, message_timeout_ms=3000, retries=0)
        assert error is not None
        assert error.code() in (KafkaError.KAFKA_STORAGE_ERROR, KafkaError._MSG_TIMED_OUT)
    assert not (first / f"both-{lost}").exists(), "no empty log in the place of the one that is offline"

    second.unlink()
    aside.rename(second)
    with two() as node:
        assert write(node, lost) is None
    assert sizes(second)[f"second/both-{lost}"] > before[f"second/both-{lost}"]
