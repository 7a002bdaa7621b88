"""What a broker does on its own, seen from outside: retention, compaction, removal of files, settings that change."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from kit.brokers.processes import OttlaProcess, until

SECONDS = 120.0
SETTINGS = {
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "100",
    "log.initial.task.delay.ms": "100",
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaProcess]:
    with OttlaProcess(tmp_path_factory.mktemp("upkeep") / "data", SETTINGS) as running:
        yield running


class Story:
    """One topic with one partition."""

    def __init__(self, node: OttlaProcess, topic: str, config: dict[str, str]) -> None:
        self.node = node
        self.topic = topic
        self.admin = AdminClient({"bootstrap.servers": node.bootstrap})
        self.admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(SECONDS)
        self.producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0})
        self.folder = node.data / f"{topic}-0"

    def send(self, *records: tuple[str, str | None], timestamp: int = 0) -> None:
        for key, value in records:
            self.producer.produce(self.topic, value, key, timestamp=timestamp or int(time.time() * 1000))
            assert self.producer.flush(SECONDS) == 0

    def bounds(self) -> tuple[int, int]:
        consumer = Consumer({"bootstrap.servers": self.node.bootstrap, "group.id": "bounds"})
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(self.topic, 0), timeout=SECONDS)
        finally:
            consumer.close()
        return low, high

    def records(self) -> list[tuple[int, str, str | None]]:
        """Everything there is now: offset, key, value."""
        consumer = Consumer(
            {"bootstrap.servers": self.node.bootstrap, "group.id": "read", "enable.partition.eof": True}
        )
        try:
            consumer.assign([TopicPartition(self.topic, 0, OFFSET_BEGINNING)])
            found: list[tuple[int, str, str | None]] = []
            while True:
                message = consumer.poll(SECONDS)
                assert message is not None, "neither a record nor the end came"
                error = message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        return found
                    continue  # a connection that ended is made anew
                key, value, offset = message.key(), message.value(), message.offset()
                assert key is not None
                assert offset is not None
                found.append((offset, str(key, "utf-8"), None if value is None else str(value, "utf-8")))
        finally:
            consumer.close()

    def alter(self, **config: str) -> None:
        resource = ConfigResource(
            ResourceType.TOPIC,
            self.topic,
            incremental_configs=[
                ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
                for name, value in config.items()
            ],
        )
        self.admin.incremental_alter_configs([resource])[resource].result(SECONDS)

    def files(self, suffix: str) -> list[str]:
        return sorted(path.name for path in self.folder.glob(f"*{suffix}"))


def test_a_compacted_topic_keeps_the_last_value_of_every_key(node: OttlaProcess) -> None:
    story = Story(
        node,
        "compacted",
        {
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "0",
        },
    )
    for turn in range(3):
        story.send(*((f"key{number}", f"value{turn}-{number}") for number in range(5)))
    story.send(("key0", None))

    last = {f"key{number}": f"value2-{number}" for number in range(1, 5)}

    def compacted() -> bool:
        # Only closed segments are compacted, and a segment is closed by the next append after its time.
        story.send(("tick", str(time.time())))
        kept = [(key, value) for _, key, value in story.records() if key != "tick"]
        assert last.items() <= dict(kept).items(), "the last value of a key stays, whatever goes"
        # Of a key that was removed nothing is left but, for a while, that it was.
        return [pair for pair in kept if pair != ("key0", None)] == list(last.items())

    until(compacted, "the topic is compacted", SECONDS)
    offsets = [offset for offset, _, _ in story.records()]
    assert offsets == sorted(offsets)


def test_records_older_than_the_retention_go(node: OttlaProcess) -> None:
    story = Story(node, "aged", {"retention.ms": "60000", "segment.ms": "3600000"})
    story.send(("old", "1"), ("old", "2"), timestamp=int((time.time() - 3600) * 1000))
    until(lambda: story.bounds() == (2, 2), "both records have gone")
    story.send(("new", "3"))
    assert story.records() == [(2, "new", "3")]


def test_a_change_of_retention_takes_effect_while_running(node: OttlaProcess) -> None:
    story = Story(node, "changed", {"retention.ms": "-1"})
    story.send(("a", "1"), timestamp=int((time.time() - 3600) * 1000))
    assert story.bounds() == (0, 1)
    story.alter(retention_ms="1000")
    until(lambda: story.bounds() == (1, 1), "the record has gone")


def test_a_topic_over_its_size_loses_its_oldest_segments(node: OttlaProcess) -> None:
    story = Story(node, "sized", {"retention.bytes": "2500000", "segment.bytes": "1048576"})
    for number in range(12):
        story.send((f"{number}", "x" * 500_000))
    kept = range(5, 9)
    # The broker looks while records come as well: what it finds too much then is not all.
    until(lambda: 12 - story.bounds()[0] in kept, "the oldest records have gone")
    assert story.bounds()[1] == 12
    until(lambda: len(story.files(".log")) <= 4, "the oldest segments have gone")
    until(lambda: not story.files(".deleted"), "the files of the oldest segments have gone")
    assert 12 - story.bounds()[0] in kept, "no more go than have to"


def test_deleted_records_stay_deleted_after_a_crash(tmp_path: Path) -> None:
    settings = {**SETTINGS, "log.flush.start.offset.checkpoint.interval.ms": "100"}
    node = OttlaProcess(tmp_path / "data", settings)
    with node:
        story = Story(node, "cut", {})
        story.send(*((f"{number}", "x") for number in range(10)))
        partition = TopicPartition("cut", 0, 7)
        story.admin.delete_records([partition])[partition].result(SECONDS)
        assert story.bounds() == (7, 10)
        checkpoint = node.data / "log-start-offset-checkpoint"
        until(lambda: checkpoint.exists() and "cut 0 7" in checkpoint.read_text(), "the start is written down")
        node.kill()
        node.start()
        assert story.bounds() == (7, 10)


def test_the_files_of_a_deleted_topic_go(node: OttlaProcess) -> None:
    story = Story(node, "deleted", {})
    story.send(("a", "1"))
    assert story.folder.is_dir()
    story.admin.delete_topics(["deleted"])["deleted"].result(SECONDS)
    until(lambda: not story.folder.exists(), "the folder is renamed")
    until(lambda: not list(node.data.glob("deleted-0*")), "the folder has gone")


def test_a_topic_can_be_made_again_under_its_name(node: OttlaProcess) -> None:
    story = Story(node, "again", {})
    story.send(("a", "1"))
    story.admin.delete_topics(["again"])["again"].result(SECONDS)
    anew = Story(node, "again", {})
    assert anew.bounds() == (0, 0)
    anew.send(("b", "2"))
    assert anew.records() == [(0, "b", "2")]


def test_every_acknowledgement_of_a_topic_with_flush_messages_1_waits_for_the_disk(node: OttlaProcess) -> None:
    story = Story(node, "flushed", {"flush.messages": "1"})
    for number in range(200):
        story.producer.produce("flushed", str(number))
    assert story.producer.flush(SECONDS) == 0
    assert story.bounds() == (0, 200)
