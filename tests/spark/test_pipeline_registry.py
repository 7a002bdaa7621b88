"""What pipelines tell the cluster and hear from it, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import ottla.testing
from kit.brokers.processes import until
from kit.others.pipelines import Sent, make_topics, send
from ottla import blocking
from ottla.base.vocabulary import TopicPartition
from ottla.runtime.world import RealClock
from ottla.spark.pipelines.lag import Ages
from ottla.spark.pipelines.progress import Behind
from ottla.spark.pipelines.registry import (
    NOTES,
    PIPELINES,
    PROGRESS,
    Board,
    Publisher,
    create_topics,
    missing_topics,
    read_notes,
)


@pytest.fixture
def client() -> Iterator[dict[str, str]]:
    with ottla.testing.broker() as broker:
        yield {"bootstrap.servers": broker.bootstrap}


def test_who_only_looks_makes_no_topics(client: dict[str, str]) -> None:
    with Board(client) as board:
        assert board.pipelines() == {}
        assert not board.refresh(0)
    assert missing_topics(client, [PIPELINES, PROGRESS], 15.0) == [PIPELINES, PROGRESS]


def test_the_last_document_of_a_key_counts_and_null_takes_it_away(client: dict[str, str]) -> None:
    create_topics(client, ["results"])
    create_topics(client, ["results"])
    with Publisher(client) as publisher:
        for state in ("starting", "running"):
            publisher.put(PIPELINES, "orders", {"state": state})
        publisher.put(PIPELINES, "orders/request", {"request": "stop"})
        publisher.put(PIPELINES, "clicks", {"state": "running"})
        publisher.put(PIPELINES, "clicks", None)
        publisher.put(PROGRESS, "orders/out", {"batch": 1})
        publisher.put(PROGRESS, "orders-two/out", {"batch": 2})
        publisher.flush()
        with Board(client) as board:
            assert board.pipelines() == {"orders": {"state": "running"}}
            assert board.queries("orders") == {"out": {"batch": 1}}
            assert board.request("orders") == {"request": "stop"}
            publisher.put(PIPELINES, "orders/request", None)
            publisher.flush()
            until(lambda: board.refresh(0.1) and board.request("orders") is None, "the request taken back")
    assert missing_topics(client, ["results"], 15.0) == []


def test_a_note_counts_when_its_transaction_was_committed(client: dict[str, str]) -> None:
    create_topics(client)
    with blocking.Producer({**client, "transactional.id": "letters"}) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.put(NOTES, json.dumps({"batch": 3}).encode(), b"orders/out")
        producer.begin_transaction()
        producer.put(NOTES, json.dumps({"batch": 4}).encode(), b"orders/out")
        producer.abort_transaction()
    assert read_notes(client) == {"orders/out": {"batch": 3}}


def test_lag_in_seconds_is_the_age_of_the_first_record_that_waits(client: dict[str, str]) -> None:
    servers = client["bootstrap.servers"]
    make_topics(servers, ["waiting"])
    now = RealClock().now_ms()
    send(servers, [Sent("waiting", b"k", b"%d" % each, now - (90 - each * 30) * 1000) for each in range(3)])
    ages = Ages(client)
    with blocking.Consumer(client) as consumer:
        ends = consumer.end_offsets([TopicPartition("waiting", number) for number in range(2)])
    place = next(each for each, end in ends.items() if end == 3)
    assert ages.oldest_seconds([]) == 0.0
    age = until(lambda: ages.oldest_seconds([Behind(place, 1, 2)]), "an age")  # none where the topic was slow to answer
    assert age is not None
    assert age >= 60
    ages.close()
