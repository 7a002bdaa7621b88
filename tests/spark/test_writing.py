"""Rows to topics without Spark: at least once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import pyarrow as pa
import pytest

from kit.brokers.brokers import Broker
from kit.brokers.topics import values_of
from ottla.client.errors import BrokerError
from ottla.spark import writing
from ottla.spark.sink import BatchWriter
from ottla.spark.sink_options import parse_sink


def write(broker: Broker, topic: str, *values: str) -> None:
    given = {"bootstrap.servers": f"{broker.host}:{broker.port}", "topic": topic}
    writer = BatchWriter(parse_sink(given, {"value": "string"}, streaming=False))
    assert writer.write(iter([pa.record_batch({"value": list(values)})])).rows == len(values)


def test_a_topic_that_is_missing_is_made_by_a_broker_that_may(broker: Broker, topic: str) -> None:
    write(broker, topic, "a", "b")
    assert values_of(broker, topic) == [b"a", b"b"]


@pytest.mark.parametrize("seconds", [0.0, 0.5], ids=["before it was asked for again", "after some tries"])
def test_a_topic_that_nobody_makes_is_said_to_be_missing(
    start_broker: Callable[[Mapping[str, str]], AbstractContextManager[Broker]],
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
) -> None:
    monkeypatch.setattr(writing, "_CREATION_SECONDS", seconds)
    missing = pytest.raises(BrokerError, match=r"'nowhere'.*UNKNOWN_TOPIC_OR_PARTITION")
    with start_broker({"auto.create.topics.enable": "false"}) as strict, missing:
        write(strict, "nowhere", "a")
