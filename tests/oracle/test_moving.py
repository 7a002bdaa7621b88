"""The program of docs/how-to/move-from-kafka.md copies a topic from a real Kafka, and goes on where it stopped."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ottla.testing
from kit.brokers.processes import until
from kit.others.kafka import RealKafka
from ottla import blocking

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "move-from-kafka.md"
TOPIC = "to-be-moved"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (text,) = re.findall(r'```python title="copy_topic.py"\n(.*?)```', PAGE.read_text(encoding="utf-8"), re.DOTALL)
    place = tmp_path / "copy_topic.py"
    place.write_text(text, encoding="utf-8")
    return place


def copied(program: Path, old: str, new: str) -> str:
    done = subprocess.run(
        [sys.executable, program, TOPIC, old, new, "--until-end"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def contents(bootstrap: str) -> list[tuple[object, ...]]:
    """Everything that a reader of committed records sees, partition by partition."""
    found = []
    with blocking.Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        places = [ottla.TopicPartition(TOPIC, part.number) for part in consumer.partitions_for(TOPIC)]
        ends = consumer.end_offsets(places)
        consumer.assign(places)
        while any(consumer.position(place) < ends[place] for place in places):
            found += consumer.poll(1.0)
    found.sort(key=lambda record: (record.partition, record.offset))
    return [(each.partition, each.key, each.value, each.timestamp, tuple(each.headers)) for each in found]


def seen(bootstrap: str, count: int) -> list[tuple[object, ...]]:
    """A commit is answered before its markers are in every partition: what must be there may come a little later."""

    def look() -> list[tuple[object, ...]]:
        found = contents(bootstrap)
        return found if len(found) >= count else []

    return until(look, f"{count} committed records at {bootstrap}")


@pytest.mark.timeout(900)
def test_a_topic_moves_from_kafka_as_it_is_and_only_once(program: Path, real_kafka: RealKafka) -> None:
    with blocking.Admin(bootstrap_servers=real_kafka.bootstrap) as admin:
        # the records are from 2023: Kafka's retention must not come between
        admin.create_topics([ottla.admin.NewTopic(TOPIC, 3, 1, {"retention.ms": "-1"})])
    with (
        ottla.testing.broker() as target,
        blocking.Producer(bootstrap_servers=real_kafka.bootstrap, transactional_id="mover") as producer,
    ):
        producer.init_transactions()

        def send(first: int, last: int) -> None:
            for number in range(first, last):
                key = f"k{number % 7}".encode()
                producer.send(
                    TOPIC, str(number).encode(), key=key, timestamp=1_700_000_000_000 + number, headers={"n": b"1"}
                )

        with producer.transaction():
            send(0, 200)
        seen(real_kafka.bootstrap, 200)
        producer.begin_transaction()
        send(1000, 1010)
        producer.abort_transaction()
        assert copied(program, real_kafka.bootstrap, target.bootstrap) == f"200 records of {TOPIC} copied"
        with producer.transaction():
            send(200, 300)
        original = seen(real_kafka.bootstrap, 300)
        assert copied(program, real_kafka.bootstrap, target.bootstrap) == f"100 records of {TOPIC} copied"
        assert copied(program, real_kafka.bootstrap, target.bootstrap) == f"0 records of {TOPIC} copied"
        assert len(original) == 300
        assert seen(target.bootstrap, 300) == original
