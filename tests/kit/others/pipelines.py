"""Pipelines in tests: what they read is sent, what they wrote is read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kit.brokers.processes import until
from ottla import blocking
from ottla.admin import LATEST, NewTopic
from ottla.base.vocabulary import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.records.record import ConsumedRecord
    from ottla.spark.pipelines.running import Run


class Sent(NamedTuple):
    """A record to send."""

    topic: str
    key: bytes
    value: bytes
    timestamp: int


class Shared:
    """The tests' session, which no command ends."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def stop(self) -> None:
        """Others use it too."""


def make_topics(bootstrap: str, names: Iterable[str]) -> None:
    """Topics with two partitions, whose records stay although their timestamps are those of long ago."""
    with blocking.Admin(bootstrap_servers=bootstrap) as admin:
        created = admin.create_topics([NewTopic(name, 2, 1, {"retention.ms": "-1"}) for name in names])
    assert not any(each.error for each in created.values())


def send(bootstrap: str, records: Iterable[Sent]) -> None:
    with blocking.Producer(bootstrap_servers=bootstrap) as producer:
        for record in records:
            producer.put(record.topic, record.value, record.key, timestamp=record.timestamp)


def committed(bootstrap: str, topic: str) -> list[ConsumedRecord]:
    """What readers of committed records see of a topic, up to its end.

    That of everything, not of what is committed by now: a transaction's end is answered before its markers are there.
    """
    settings = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}
    with blocking.Consumer(settings) as consumer, blocking.Admin(bootstrap_servers=bootstrap) as admin:
        partitions = [TopicPartition(topic, each.number) for each in consumer.partitions_for(topic)]
        ends = {place: found.offset for place, found in admin.offsets(dict.fromkeys(partitions, LATEST)).items()}
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        found: list[ConsumedRecord] = []

        def is_read() -> bool:
            found.extend(consumer.poll(0.2, 10_000))
            return all(consumer.position(each) >= ends[each] for each in partitions)

        until(is_read, f"{topic} read to its end", 120)
        return found


def values(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """The JSON of a topic's committed records."""
    return [json.loads(record.value or b"null") for record in committed(bootstrap, topic)]


def headers_of(record: ConsumedRecord) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in record.headers}


def run_of(spark: SparkSession, file: Path, bootstrap: str, checkpoint: Path, *, once: bool, **variables: str) -> Run:
    """A file's pipeline, ready to run."""
    from ottla.spark.pipelines.building import build
    from ottla.spark.pipelines.files import load_pipeline
    from ottla.spark.pipelines.running import Order, Run

    described = load_pipeline(str(file), variables)
    frame = described.frame._replace(client={"bootstrap.servers": bootstrap})
    pipeline = build(spark, described._replace(frame=frame))
    assert pipeline.check() == []
    return Run(pipeline, Order(str(file), str(checkpoint), once, ""), lambda line: None)


def run_once(spark: SparkSession, file: Path, bootstrap: str, checkpoint: Path, **variables: str) -> str:
    """Run a file's pipeline over what is there."""
    return run_of(spark, file, bootstrap, checkpoint, once=True, **variables).run()
