"""Transactions as confluent-kafka (librdkafka), aiokafka and Kafka's own Java tools use them.

It proves that what a transaction writes is seen whole or not at all, that offsets travel with it, that a second
instance fences the first, and that a transaction outlives a crash of the broker until it is ended or times out.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import struct
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import aiokafka
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kit.brokers.brokers import Broker
from kit.brokers.processes import OttlaProcess, until
from kit.brokers.topics import create_topic
from kit.others.java import run
from kit.wire.batches import Rec, batch
from kit.wire.raw import RawConnection

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python uses what the standard library deprecates
    import kafka
    from kafka.structs import OffsetAndMetadata

# The clients' own habits are not on trial here.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

SECONDS = 60.0
LONG_MS = 900_000
"""For transactions that stay open while several JVMs start."""
PREPARE_COMMIT = 2
StartBroker = Callable[[Mapping[str, str]], AbstractContextManager[Broker]]


def transactional(broker: Broker, name: str, **settings: Any) -> Producer:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name, "linger.ms": 0, **named})
    producer.init_transactions(SECONDS)
    return producer


def read(broker: Broker, topic: str, isolation: str = "read_committed", partitions: int = 1) -> list[str]:
    """Everything that a reader of this isolation finds up to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found: list[str] = []
    ends: set[int | None] = set()
    until_time = time.monotonic() + SECONDS
    while len(ends) < partitions:
        assert time.monotonic() < until_time, found
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.append((message.value() or b"").decode())
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ends.add(message.partition())
    consumer.close()
    return found


def finds(broker: Broker, topic: str, expected: list[str], partitions: int = 1) -> None:
    """A commit has happened when it is decided; the partitions hear of it a moment later."""

    def seen() -> bool:
        found = read(broker, topic, partitions=partitions)
        return (found if partitions == 1 else sorted(found)) == expected

    until(seen, f"committed in {topic}: {expected}", SECONDS)


def crash(broker: Broker) -> None:
    """kill -9 and a new start."""
    if not isinstance(broker, OttlaProcess):
        pytest.skip("the Kafka of the tests begins anew with every start")
    broker.kill()
    broker.start()


def described(broker: Broker, name: str) -> Any:
    with RawConnection(broker.host, broker.port) as connection:
        answer = connection.ask("describe_transactions", 0, transactional_ids=[name])
        return answer["transaction_states"][0]


def test_what_a_transaction_wrote_is_seen_when_it_is_committed(broker: Broker) -> None:
    create_topic(broker, "committed", 2)
    producer = transactional(broker, "commits")
    producer.begin_transaction()
    for number in range(10):
        producer.produce("committed", str(number), partition=number % 2)
    producer.flush(SECONDS)
    assert read(broker, "committed", partitions=2) == []
    assert sorted(read(broker, "committed", "read_uncommitted", partitions=2)) == [str(number) for number in range(10)]
    producer.commit_transaction(SECONDS)
    finds(broker, "committed", [str(number) for number in range(10)], partitions=2)


def test_what_an_aborted_transaction_wrote_is_never_seen(broker: Broker) -> None:
    create_topic(broker, "mixed")
    producer = transactional(broker, "aborts")
    for number in range(6):
        producer.begin_transaction()
        producer.produce("mixed", str(number))
        producer.flush(SECONDS)
        if number % 2:
            producer.abort_transaction(SECONDS)
        else:
            producer.commit_transaction(SECONDS)
    finds(broker, "mixed", ["0", "2", "4"])
    assert read(broker, "mixed", "read_uncommitted") == [str(number) for number in range(6)]


def test_a_waiting_reader_sees_a_commit_at_once(broker: Broker) -> None:
    create_topic(broker, "awaited")
    producer = transactional(broker, "awaited")
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "waiting",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 250_000,  # longer than anybody waits here
            "socket.timeout.ms": 300_000,
            "fetch.min.bytes": 1,
        }
    )
    consumer.assign([TopicPartition("awaited", 0, 0)])
    producer.begin_transaction()
    producer.produce("awaited", "now")
    producer.flush(SECONDS)
    assert consumer.poll(1.0) is None
    producer.commit_transaction(SECONDS)
    message = consumer.poll(SECONDS)
    assert message is not None
    assert message.value() == b"now"
    consumer.close()


def test_a_second_instance_fences_the_first(broker: Broker) -> None:
    create_topic(broker, "fenced")
    first = transactional(broker, "twice")
    first.begin_transaction()
    first.produce("fenced", "of the first")
    first.flush(SECONDS)
    second = transactional(broker, "twice")
    first.produce("fenced", "too late")
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(SECONDS)
    assert refused.value.args[0].fatal()
    second.begin_transaction()
    second.produce("fenced", "of the second")
    second.commit_transaction(SECONDS)
    finds(broker, "fenced", ["of the second"])


def test_offsets_are_committed_with_the_transaction(broker: Broker) -> None:
    create_topic(broker, "source")
    create_topic(broker, "copies")
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(10):
        plain.produce("source", str(number))
    plain.flush(SECONDS)
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "copier", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "isolation.level": "read_committed"})
    consumer.subscribe(["source"])
    producer = transactional(broker, "copier")
    copied = 0
    while copied < 10:
        message = consumer.poll(SECONDS)
        assert message is not None
        assert message.error() is None, message.error()
        producer.begin_transaction()
        producer.produce("copies", message.value())
        copied += 1
        offsets = [TopicPartition("source", 0, copied)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), SECONDS)
        producer.commit_transaction(SECONDS)
    committed = consumer.committed([TopicPartition("source", 0)], SECONDS)
    assert committed[0].offset == 10
    consumer.close()
    finds(broker, "copies", [str(number) for number in range(10)])


def test_offsets_of_an_open_transaction_are_unstable_and_those_of_an_aborted_one_forgotten(broker: Broker) -> None:
    create_topic(broker, "unstable")
    producer = transactional(broker, "unstable")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "undecided"})
    producer.begin_transaction()
    offsets = [TopicPartition("unstable", 0, 7)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), SECONDS)
    asked = [{"group_id": "undecided", "topics": [{"name": "unstable", "partition_indexes": [0]}]}]

    def fetched(stable: bool) -> Any:
        with RawConnection(broker.host, broker.port) as connection:
            answer = connection.ask("offset_fetch", 8, groups=asked, require_stable=stable)
        return answer["groups"][0]["topics"][0]["partitions"][0]

    assert fetched(stable=True)["error_code"] == "unstable_offset_commit"
    assert fetched(stable=False)["committed_offset"] == -1
    producer.abort_transaction(SECONDS)
    until(lambda: fetched(stable=True)["error_code"] == "none", "the offset is stable")
    assert fetched(stable=True)["committed_offset"] == -1
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    wanted = [ConsumerGroupTopicPartitions("undecided", [TopicPartition("unstable", 0)])]
    result = admin.list_consumer_group_offsets(wanted, require_stable=True)["undecided"].result(SECONDS)
    assert result.topic_partitions[0].offset == -1001
    consumer.close()


async def test_aiokafka_commits_and_aborts(broker: Broker) -> None:
    create_topic(broker, "aio")
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="aio")
    await producer.start()
    try:
        async with producer.transaction():
            await producer.send_and_wait("aio", b"kept")
        with contextlib.suppress(RuntimeError):
            async with producer.transaction():
                await producer.send_and_wait("aio", b"dropped")
                raise RuntimeError("changed my mind")
        async with producer.transaction():
            await producer.send_and_wait("aio", b"kept too")
            await producer.send_offsets_to_transaction({aiokafka.TopicPartition("aio", 0): 2}, "aio-group")
    finally:
        await producer.stop()
    finds(broker, "aio", ["kept", "kept too"])
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="aio-group")
    await consumer.start()
    try:
        committed = None
        async with asyncio.timeout(SECONDS):
            while committed is None:  # the group, too, hears of the commit a moment later
                committed = await consumer.committed(aiokafka.TopicPartition("aio", 0))
        assert committed == 2
    finally:
        await consumer.stop()


def test_a_transaction_that_nobody_ends_is_aborted_by_its_time_out(start_broker: StartBroker) -> None:
    quick = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with start_broker(quick) as broker:
        create_topic(broker, "left")
        producer = transactional(broker, "left", transaction_timeout_ms=1_000)
        producer.begin_transaction()
        producer.produce("left", "nobody ends this")
        producer.flush(SECONDS)
        until(lambda: described(broker, "left")["transaction_state"] == "CompleteAbort", "it is aborted")
        assert read(broker, "left") == []
        with pytest.raises(KafkaException):
            producer.commit_transaction(SECONDS)


def test_a_transaction_can_be_ended_after_a_crash_of_the_broker(start_broker: StartBroker) -> None:
    quick = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with start_broker(quick) as broker:
        create_topic(broker, "survivors")
        ends = transactional(broker, "ends")
        forgets = transactional(broker, "forgets", transaction_timeout_ms=2_000)
        for name, producer in (("ends", ends), ("forgets", forgets)):
            producer.begin_transaction()
            producer.produce("survivors", name)
            producer.flush(SECONDS)
        crash(broker)
        until(lambda: described(broker, "ends")["transaction_state"] == "Ongoing", "transactions are loaded")
        ends.commit_transaction(SECONDS)
        until(lambda: described(broker, "forgets")["transaction_state"] == "CompleteAbort", "it is aborted")
        finds(broker, "survivors", ["ends"])
        ends.begin_transaction()
        ends.produce("survivors", "and goes on")
        ends.commit_transaction(SECONDS)
        finds(broker, "survivors", ["ends", "and goes on"])


def test_kafka_s_transactions_tool_lists_describes_and_aborts(broker: Broker) -> None:
    create_topic(broker, "inspected", 2)
    producer = transactional(broker, "inspected-id", transaction_timeout_ms=LONG_MS)
    producer.begin_transaction()
    producer.produce("inspected", "open", partition=1)
    producer.flush(SECONDS)
    tool = ("TransactionsCommand", "--bootstrap-server", broker.bootstrap)
    listed = run(*tool, "list").output
    assert re.search(r"inspected-id\s+\d+\s+\d+\s+Ongoing", listed), listed
    assert "inspected-id" not in run(*tool, "list", "--duration-filter", "10000000").output
    assert "inspected-id" in run(*tool, "list", "--transactional-id-pattern", "inspected-.*").output
    assert "inspected-id" not in run(*tool, "list", "--transactional-id-pattern", "inspected").output
    seen = run(*tool, "describe", "--transactional-id", "inspected-id").output
    assert re.search(r"inspected-id\s+\d+\s+0\s+Ongoing\s+900000\s+\S+\s+\d+\s+inspected-1", seen), seen
    writers = run(*tool, "describe-producers", "--topic", "inspected", "--partition", "1").output
    assert re.search(r"^\d+\s+0\s+", writers, re.MULTILINE), writers
    # Not of this test but of operators: a transaction that its coordinator would never end.
    run(*tool, "abort", "--topic", "inspected", "--partition", "1", "--start-offset", "0")
    assert read(broker, "inspected", partitions=2) == []


def test_a_write_that_no_coordinator_knows_of_is_refused_and_nothing_hangs(broker: Broker) -> None:
    create_topic(broker, "hanging")
    with RawConnection(broker.host, broker.port) as connection:
        taken = connection.ask("init_producer_id", 4, transactional_id=None, transaction_timeout=1)
        data = batch(
            [Rec(timestamp=1)], producer_id=taken["producer_id"], producer_epoch=0, base_sequence=0, flags=0x10
        )
        rows = [{"index": 0, "records": data}]
        answer = connection.ask(
            "produce", 9, transactional_id="nobody", acks=-1, timeout=10_000,
            topic_data=[{"name": "hanging", "partition_data": rows}],
        )  # fmt: skip
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == "invalid_producer_id_mapping"
    tool = ("TransactionsCommand", "--bootstrap-server", broker.bootstrap)
    found = run(*tool, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "1")
    assert "hanging" not in found.output


def test_kafka_s_own_producer_commits_transaction_after_transaction(broker: Broker) -> None:
    create_topic(broker, "measured", 3)
    printed = run(
        "ProducerPerformance",
        "--topic", "measured", "--num-records", "20000", "--record-size", "100", "--throughput", "-1",
        "--transactional-id", "perf", "--transaction-duration-ms", "50",
        "--producer-props", f"bootstrap.servers={broker.bootstrap}",
    )  # fmt: skip
    assert "20000 records sent" in printed.output
    until(lambda: described(broker, "perf")["transaction_state"] == "CompleteCommit", "the last one is complete")
    assert described(broker, "perf")["producer_epoch"] > 1, "the newer protocol was spoken"
    assert len(read(broker, "measured", partitions=3)) == 20_000


def test_where_every_message_is_flushed_transactions_wait_for_the_disk(start_broker: StartBroker) -> None:
    with start_broker({"log.flush.interval.messages": "1"}) as broker:
        create_topic(broker, "flushed", 2)
        producer = transactional(broker, "flushes")
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "flushed-group"})
        for number in range(5):
            producer.begin_transaction()
            producer.produce("flushed", str(number), partition=number % 2)
            offsets = [TopicPartition("flushed", 0, number + 1)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), SECONDS)
            if number == 3:
                producer.abort_transaction(SECONDS)
            else:
                producer.commit_transaction(SECONDS)
        consumer.close()
        run(
            "ProducerPerformance",
            "--topic", "flushed", "--num-records", "100", "--record-size", "1", "--throughput", "-1",
            "--transactional-id", "newer", "--transaction-duration-ms", "1",
            "--producer-props", f"bootstrap.servers={broker.bootstrap}",
        )  # fmt: skip
        crash(broker)
        until(lambda: described(broker, "newer")["transaction_state"] == "CompleteCommit", "transactions are loaded")
        until(lambda: described(broker, "flushes")["transaction_state"] == "CompleteCommit", "the others, too")
        found = read(broker, "flushed", partitions=2)
        assert len(found) == 104
        assert {"0", "1", "2", "4"} <= set(found)
        assert "3" not in found


def test_an_end_that_was_decided_before_a_crash_is_carried_out_after_it(start_broker: StartBroker) -> None:
    with start_broker({"transaction.state.log.num.partitions": "1"}) as broker:
        create_topic(broker, "decided")
        producer = transactional(broker, "decides")
        producer.begin_transaction()
        producer.produce("decided", "kept")
        producer.flush(SECONDS)
        held = described(broker, "decides")
        # The coordinator's decision reaches the log, and nothing after it: so a crash in between leaves it.
        value = struct.pack(">hqhib", 0, held["producer_id"], held["producer_epoch"], 60_000, PREPARE_COMMIT)
        value += struct.pack(">ih7sii", 1, 7, b"decided", 1, 0)
        value += struct.pack(">qq", 1, 1)
        record = Rec(key=b"\0\0" + struct.pack(">h7s", 7, b"decides"), value=value)
        with RawConnection(broker.host, broker.port, client="__admin_client") as connection:
            rows = [{"index": 0, "records": batch([record])}]
            answer = connection.ask(
                "produce", 9, acks=-1, timeout=10_000,
                topic_data=[{"name": "__transaction_state", "partition_data": rows}],
            )  # fmt: skip
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == "none", answer
        assert read(broker, "decided") == []
        crash(broker)
        until(lambda: described(broker, "decides")["transaction_state"] == "CompleteCommit", "it is complete")
        assert read(broker, "decided") == ["kept"]
        assert described(broker, "decides")["topics"] == []


def test_kafka_s_tools_read_the_state_of_transactions(start_broker: StartBroker) -> None:
    with start_broker({"transaction.state.log.num.partitions": "1"}) as broker:
        create_topic(broker, "noted")
        producer = transactional(broker, "notes")
        producer.begin_transaction()
        producer.produce("noted", "x")
        producer.commit_transaction(SECONDS)
        until(lambda: described(broker, "notes")["transaction_state"] == "CompleteCommit", "it is complete")
        (directory,) = broker.directories
        log = directory / "__transaction_state-0" / "00000000000000000000.log"
        dumped = run("DumpLogSegments", "--transaction-log-decoder", "--files", str(log)).output
    states = re.findall(r'"transactionStatus":(\d)', dumped)
    assert states == ["0", "1", "2", "4"], dumped
    assert dumped.count('"transactionPartitions":[{"topic":"noted","partitionIds":[0]}]') == 2


def test_kafka_python_commits_and_aborts(broker: Broker) -> None:
    create_topic(broker, "pythonic")
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="pythonic")
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        producer.send("pythonic", str(number).encode()).get(SECONDS)
        if number % 2:
            producer.abort_transaction()
        else:
            position = {kafka.TopicPartition("pythonic", 0): OffsetAndMetadata(number + 1, "", -1)}
            producer.send_offsets_to_transaction(position, "pythonic-group")
            producer.commit_transaction()
    producer.close()
    assert read(broker, "pythonic") == ["0", "2"]
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "pythonic-group"})
    assert consumer.committed([TopicPartition("pythonic", 0)], SECONDS)[0].offset == 3
    consumer.close()


@pytest.mark.parametrize("version", [4, 5])
def test_somebody_else_who_knows_the_credentials_ends_a_transaction(broker: Broker, version: int) -> None:
    topic = f"entrusted-{version}"
    create_topic(broker, topic)
    producer = transactional(broker, topic, transaction_timeout_ms=LONG_MS)
    producer.begin_transaction()
    producer.produce(topic, "kept")
    producer.flush(SECONDS)
    held = described(broker, topic)

    def end() -> Any:
        with RawConnection(broker.host, broker.port) as connection:
            return connection.ask(
                "end_txn", version, transactional_id=topic, producer_id=held["producer_id"],
                producer_epoch=held["producer_epoch"], committed=True,
            )["error_code"]  # fmt: skip

    assert end() == "none"
    finds(broker, topic, ["kept"])
    # Whoever did not hear the answer asks again.
    until(lambda: end() == "none", "it is ended")
