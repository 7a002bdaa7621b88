"""Kafka's own tools for transactions: listing, describing, finding those that hang, aborting them; its copy loop.

A JVM takes a second to start, so each test is a walk through several calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from confluent_kafka import Producer

from kit.brokers.brokers import Broker
from kit.brokers.hanging import hang
from kit.brokers.processes import until
from kit.brokers.topics import create_topic, fill, values_of
from kit.others import java
from kit.wire.batches import Rec
from kit.wire.raw import RawConnection

SECONDS = 60.0
LONG_MS = 900_000
"""The transaction stays open while several JVMs start."""
StartBroker = Callable[[Mapping[str, str]], AbstractContextManager[Broker]]


def transactions(broker: Broker, *arguments: str) -> java.Printed:
    return java.run("TransactionsCommand", "--bootstrap-server", broker.bootstrap, *arguments)


def rows_of(printed: java.Printed) -> list[dict[str, str]]:
    """The printed table by the names of its columns."""
    heads, *lines = (line.split("\t") for line in printed.lines if line.strip())
    return [{head.strip(): cell.strip() for head, cell in zip(heads, line, strict=False)} for line in lines]


def last_stable_offset(broker: Broker, topic: str) -> int:
    with RawConnection(broker.host, broker.port) as connection:
        asked = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        answer = connection.ask("list_offsets", 7, replica_id=-1, isolation_level=1, topics=asked)
        return int(answer["topics"][0]["partitions"][0]["offset"])


def begun(broker: Broker, name: str, topic: str) -> Producer:
    """A producer with a message in an open transaction."""
    lasting = {"transactional.id": name, "transaction.timeout.ms": LONG_MS, "linger.ms": 0}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **lasting})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"one", partition=0)
    assert producer.flush(SECONDS) == 0
    return producer


def test_transactions_are_listed_and_described(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    producer = begun(broker, topic, topic)
    (listed,) = (row for row in rows_of(transactions(broker, "list")) if row["TransactionalId"] == topic)
    assert (listed["Coordinator"], listed["TransactionState"]) == ("1", "Ongoing")
    (described,) = rows_of(transactions(broker, "describe", "--transactional-id", topic))
    assert described["ProducerId"] == listed["ProducerId"]
    assert described["TransactionState"] == "Ongoing"
    assert described["TransactionTimeoutMs"] == str(LONG_MS)
    assert described["TopicPartitions"] == f"{topic}-0"
    (found,) = rows_of(transactions(broker, "describe-producers", "--topic", topic, "--partition", "0"))
    assert found["ProducerId"] == listed["ProducerId"]
    assert (found["ProducerEpoch"], found["LatestCoordinatorEpoch"]) == (described["ProducerEpoch"], "-1")
    assert found["LastSequence"] == "0"
    assert found["CurrentTransactionStartOffset"] == "0"
    assert rows_of(transactions(broker, "find-hanging", "--broker-id", "1")) == []
    producer.commit_transaction(SECONDS)

    def ended() -> bool:
        (row,) = rows_of(transactions(broker, "list", "--transactional-id-pattern", f"{topic}.*"))
        return row["TransactionState"] == "CompleteCommit"

    until(ended, "the transaction is complete", SECONDS)


def test_an_open_transaction_is_ended_by_force(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    producer = begun(broker, topic, topic)
    assert last_stable_offset(broker, topic) == 0
    transactions(broker, "forceTerminateTransaction", "--transactionalId", topic)
    until(lambda: last_stable_offset(broker, topic) == 2, "the end of the transaction", SECONDS)
    del producer


def test_a_hanging_transaction_is_found_and_aborted(start_broker: StartBroker, topic: str) -> None:
    with start_broker({"transaction.partition.verification.enable": "false"}) as broker:
        create_topic(broker, topic)
        producer = begun(broker, "healthy", topic)
        producer.commit_transaction(SECONDS)
        until(lambda: last_stable_offset(broker, topic) == 2, "the marker", SECONDS)
        identifier = hang(broker, topic)
        assert last_stable_offset(broker, topic) == 2
        (found,) = rows_of(transactions(broker, "find-hanging", "--broker-id", "1"))
        assert (found["Topic"], found["Partition"], found["StartOffset"]) == (topic, "0", "2")
        assert (found["ProducerId"], found["ProducerEpoch"]) == (str(identifier), "0")
        transactions(broker, "abort", "--topic", topic, "--partition", "0", "--start-offset", "2")
        until(lambda: last_stable_offset(broker, topic) == 4, "the end of the transaction", SECONDS)
        assert rows_of(transactions(broker, "find-hanging", "--broker-id", "1")) == []


def test_javas_copy_loop_copies_every_message_once(broker: Broker, topic: str) -> None:
    source, target = f"{topic}-source", f"{topic}-target"
    create_topic(broker, source)
    create_topic(broker, target)
    fill(broker, source, [Rec(b"%d" % number) for number in range(500)])
    printed = java.run(
        "TransactionalMessageCopier", "--broker-list", broker.bootstrap, "--input-topic", source, "--input-partition",
        "0", "--output-topic", target, "--max-messages", "500", "--consumer-group", topic, "--transaction-size", "40",
        "--transactional-id", topic, "--enable-random-aborts", "--group-mode", "--use-group-metadata",
    )  # fmt: skip
    last = [json.loads(line) for line in printed.lines if line.startswith("{")][-1]
    assert last["remaining"] == 0, last
    read = java.run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", broker.bootstrap, "--topic", target,
        "--from-beginning", "--max-messages", "500", "--isolation-level", "read_committed",
    )  # fmt: skip
    assert [int(line) for line in read.lines] == list(range(500))
    assert len(values_of(broker, target)) >= 500
