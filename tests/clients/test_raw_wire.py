"""What a client library hides: long polls, pipelining, silence, topics that appear because someone asked for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from kit.brokers.brokers import Broker
from kit.brokers.processes import OttlaProcess, until
from kit.brokers.topics import create_topic, fill, records_of, values_of
from kit.wire.batches import Rec, batch, read_batches
from kit.wire.raw import ConnectionClosed, RawConnection

StartBroker = Callable[[Mapping[str, str]], AbstractContextManager[Broker]]
LONG_MS = 290_000
"""Longer than a connection of these tests waits for an answer: whoever gets one did not wait for the deadline."""


def connect(broker: Broker) -> RawConnection:
    return RawConnection(broker.host, broker.port)


def fetch(topic: str, offset: int = 0, wait: int = 0, least: int = 1) -> dict[str, Any]:
    row = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    limits = {"replica_id": -1, "max_wait": wait, "min_bytes": least, "max_bytes": 1 << 22}
    return {**limits, "topics": [{"topic": topic, "partitions": [row]}]}


def produce(topic: str, data: bytes, acks: int = -1) -> dict[str, Any]:
    rows = [{"index": 0, "records": data}]
    return {"acks": acks, "timeout": 10_000, "topic_data": [{"name": topic, "partition_data": rows}]}


def values(answer: dict[str, Any]) -> list[bytes | None]:
    (partition,) = answer["responses"][0]["partitions"]
    return [record.value for each in read_batches(partition["records"]) for record in each.records]


def metadata(broker: Broker, topic: str, version: int, create: bool) -> dict[str, Any]:
    with connect(broker) as connection:
        answer = connection.ask("metadata", version, topics=[{"name": topic}], allow_auto_topic_creation=create)
    described: dict[str, Any] = answer["topics"][0]
    return described


def test_a_waiting_fetch_is_answered_when_records_arrive(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    with connect(broker) as reader:
        reader.send("fetch", 12, fetch(topic, wait=LONG_MS))
        fill(broker, topic, [Rec(b"news")])
        assert values(reader.receive()) == [b"news"]


def test_a_waiting_fetch_is_answered_with_nothing_at_its_deadline(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    with connect(broker) as reader:
        started = time.monotonic()
        assert values(reader.ask("fetch", 12, **fetch(topic, wait=300))) == []
        assert time.monotonic() - started >= 0.29


def test_a_fetch_waits_for_as_many_bytes_as_it_wants(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    small, large = batch([Rec(b"a")]), batch([Rec(b"x" * 1000)])
    with connect(broker) as reader, connect(broker) as writer:
        reader.send("fetch", 12, fetch(topic, wait=LONG_MS, least=len(small) + len(large)))
        writer.ask("produce", 9, **produce(topic, small))
        writer.ask("produce", 9, **produce(topic, large))
        assert values(reader.receive()) == [b"a", b"x" * 1000]


def test_answers_keep_the_order_of_their_requests(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    with connect(broker) as connection:
        connection.send("fetch", 12, fetch(topic, wait=300))
        for number in range(20):
            connection.send("produce", 9, produce(topic, batch([Rec(b"%d" % number)])))
        connection.send("metadata", 12, {"topics": []})
        answers = [connection.receive() for _ in range(22)]
    offsets = [answer["responses"][0]["partition_responses"][0]["base_offset"] for answer in answers[1:21]]
    assert offsets == list(range(20))
    assert answers[21]["brokers"]


def test_writes_without_acknowledgement_are_not_answered(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    with connect(broker) as connection:
        for number in range(3):
            connection.send("produce", 9, produce(topic, batch([Rec(b"%d" % number)]), acks=0), answered=False)
        assert connection.ask("metadata", 12, topics=[])["brokers"], "the next answer belongs to the next request"
    assert values_of(broker, topic) == [b"0", b"1", b"2"]


def test_a_refused_write_without_acknowledgement_closes_the_connection(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    with connect(broker) as connection:
        connection.send("produce", 9, produce(topic, batch(crc=1), acks=0), answered=False)
        with pytest.raises(ConnectionClosed):
            connection.ask("metadata", 12, topics=[])


def test_what_a_topic_wants_compressed_is_stored_compressed(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, configs={"compression.type": "lz4"})
    rows = [Rec(b"%d" % number, headers=(("h", b"v"),)) for number in range(50)]
    fill(broker, topic, rows)
    with connect(broker) as connection:
        answer = connection.ask("fetch", 12, **fetch(topic))
    (stored,) = read_batches(answer["responses"][0]["partitions"][0]["records"])
    assert stored.attributes & 7 == 3
    assert [record.value for record in stored.records] == [row.value for row in rows]


def test_the_brokers_time_replaces_the_producers(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, configs={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000) - 1000
    fill(broker, topic, [Rec(b"a", timestamp=5), Rec(b"b", timestamp=6)], compression="gzip")
    assert all(record.timestamp >= before for record in records_of(broker, topic))


def test_topics_are_not_created_where_the_broker_forbids_it(start_broker: StartBroker) -> None:
    with start_broker({"auto.create.topics.enable": "false"}) as broker:
        for version in (1, 4, 12):
            assert metadata(broker, f"wanted{version}", version, True)["error_code"] == "unknown_topic_or_partition"
        create_topic(broker, "made")
        assert metadata(broker, "wanted12", 12, True)["error_code"] == "unknown_topic_or_partition"


def test_topics_that_appear_by_themselves_have_the_brokers_defaults(start_broker: StartBroker) -> None:
    with start_broker({"num.partitions": "4"}) as broker:
        assert metadata(broker, "unwanted", 12, False)["error_code"] == "unknown_topic_or_partition"
        metadata(broker, "wanted", 12, True)
        until(lambda: len(metadata(broker, "wanted", 12, False)["partitions"]) == 4, "four partitions")
        assert metadata(broker, "unwanted", 12, False)["error_code"] == "unknown_topic_or_partition"


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_topics_settings_and_records_survive_the_end_of_the_process(tmp_path: Path, end: str) -> None:
    broker = OttlaProcess(tmp_path / "data")
    broker.start()
    try:
        create_topic(broker, "kept", 2, {"retention.ms": "123456789"})
        fill(broker, "kept", [Rec(b"%d" % number) for number in range(5)], partition=1)
        with connect(broker) as connection:
            changed = [{"name": "log.cleaner.backoff.ms", "config_operation": 0, "value": "20000"}]
            resource = {"resource_type": 4, "resource_name": "1", "configs": changed}
            connection.ask("incremental_alter_configs", 1, resources=[resource])
            before = connection.ask("metadata", 12, topics=[{"name": "kept"}])
            trimmed = [{"name": "kept", "partitions": [{"partition_index": 1, "offset": 2}]}]
            connection.ask("delete_records", 2, topics=trimmed, timeout=10_000)
        broker.stop() if end == "stop" else broker.kill()
        broker.start()
        with connect(broker) as connection:
            after = connection.ask("metadata", 12, topics=[{"name": "kept"}])
            settings = connection.ask(
                "describe_configs", 4,
                resources=[
                    {"resource_type": 2, "resource_name": "kept", "configuration_keys": ["retention.ms"]},
                    {"resource_type": 4, "resource_name": "1", "configuration_keys": ["log.cleaner.backoff.ms"]},
                ],
            )  # fmt: skip
            row = {"partition_index": 1, "timestamp": -1}
            latest = connection.ask("list_offsets", 7, replica_id=-1, topics=[{"name": "kept", "partitions": [row]}])
        assert after["cluster_id"] == before["cluster_id"]
        assert after["topics"][0]["topic_id"] == before["topics"][0]["topic_id"]
        assert [result["configs"][0]["value"] for result in settings["results"]] == ["123456789", "20000"]
        assert latest["topics"][0]["partitions"][0]["offset"] == 5
        with connect(broker) as connection:
            row = {"partition": 1, "fetch_offset": 2, "partition_max_bytes": 1 << 20}
            answer = connection.ask(
                "fetch", 12, replica_id=-1, max_wait=0, max_bytes=1 << 20,
                topics=[{"topic": "kept", "partitions": [row]}],
            )  # fmt: skip
        assert values(answer)[-3:] == [b"2", b"3", b"4"]
    finally:
        broker.stop()
