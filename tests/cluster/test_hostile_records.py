"""Batches that are small on the wire and large inside: they hold nobody up and are refused, or stored."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.bystander import Bystander, create_topic, fetch_all
from kit.brokers.processes import OttlaProcess
from kit.wire.batches import Rec, batch
from kit.wire.raw import RawConnection

MEGABYTE = 1 << 20
COMPACTED = {"cleanup.policy": "compact"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OttlaProcess]:
    with OttlaProcess(tmp_path / "data") as running:
        yield running


def large(kind: str, size: int, **fields: Any) -> bytes:
    record = Rec(bytes(size), b"k", time.time_ns() // 1_000_000)
    return batch([record], compression=kind, **fields)


def produced(connection: RawConnection, topic: str, *records: bytes) -> list[dict[str, Any]]:
    rows = [{"index": index, "records": each} for index, each in enumerate(records)]
    answer = connection.ask("produce", 9, acks=-1, timeout=5000, topic_data=[{"name": topic, "partition_data": rows}])
    found: list[dict[str, Any]] = answer["responses"][0]["partition_responses"]
    return found


@pytest.mark.parametrize("kind", ["gzip", "lz4", "zstd"])
def test_a_bomb_is_refused_while_others_go_on(broker: OttlaProcess, kind: str) -> None:
    bomb = large(kind, 48 * MEGABYTE)
    with RawConnection(broker.host, broker.port) as connection:
        create_topic(connection, "compacted", partitions=8, settings=COMPACTED)
        with Bystander(broker.host, broker.port) as bystander:
            found = produced(connection, "compacted", *[bomb] * 8)
            assert {each["error_code"] for each in found} == {"message_too_large"}
            assert "when they are decompressed" in found[0]["error_message"]
            bystander.go_on(20)


def test_what_is_large_and_right_is_stored_in_the_order_it_was_sent(broker: OttlaProcess) -> None:
    with RawConnection(broker.host, broker.port) as connection:
        create_topic(connection, "compacted", settings=COMPACTED)
        begun = connection.ask("init_producer_id", 2, transactional_id=None, transaction_timeout=1000)
        writer = {"producer_id": begun["producer_id"], "producer_epoch": begun["producer_epoch"]}
        small = [Rec(b"small", b"s", time.time_ns() // 1_000_000)]
        records = [
            large("zstd", 8 * MEGABYTE, base_sequence=0, **writer),
            batch(small, base_sequence=1, **writer),
            large("gzip", 4 * MEGABYTE, base_sequence=2, **writer),
        ]
        for each in records:
            rows = [{"index": 0, "records": each}]
            topics = [{"name": "compacted", "partition_data": rows}]
            connection.send("produce", 9, {"acks": -1, "timeout": 5000, "topic_data": topics})
        answers = [connection.receive()["responses"][0]["partition_responses"][0] for _ in records]
        assert [(each["error_code"], each["base_offset"]) for each in answers] == [
            ("none", 0),
            ("none", 1),
            ("none", 2),
        ]
        sizes = [len(record.value or b"") for record in fetch_all(connection, "compacted")]
        assert sizes == [8 * MEGABYTE, 5, 4 * MEGABYTE]


def test_what_can_be_judged_at_once_beside_it_gets_its_own_answer(broker: OttlaProcess) -> None:
    without_key = batch([Rec(b"v", None, time.time_ns() // 1_000_000)])
    with_key = batch([Rec(b"v", b"k", time.time_ns() // 1_000_000)])
    with RawConnection(broker.host, broker.port) as connection:
        create_topic(connection, "compacted", partitions=4, settings=COMPACTED)
        records = [large("zstd", 48 * MEGABYTE), with_key, large("lz4", MEGABYTE), without_key]
        found = produced(connection, "compacted", *records)
        assert [each["error_code"] for each in found] == ["message_too_large", "none", "none", "invalid_record"]
        assert [each["base_offset"] for each in found] == [-1, 0, 0, -1]
        assert [len(fetch_all(connection, "compacted", index)) for index in range(4)] == [0, 1, 1, 0]


@pytest.mark.parametrize("asked", [-3, 1])
def test_a_bomb_that_is_looked_into_for_its_times_holds_nobody_up(broker: OttlaProcess, asked: int) -> None:
    with RawConnection(broker.host, broker.port) as connection:
        create_topic(connection, "plain")
        [stored] = produced(connection, "plain", large("zstd", 40 * MEGABYTE))
        assert stored["error_code"] == "none"
        with Bystander(broker.host, broker.port) as bystander:
            rows = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": asked}]
            topics = [{"name": "plain", "partitions": rows}]
            for _ in range(4):
                connection.send("list_offsets", 7, {"replica_id": -1, "isolation_level": 0, "topics": topics})
            bystander.go_on(20)
            for _ in range(4):
                [found] = connection.receive()["topics"][0]["partitions"]
                assert (found["error_code"], found["offset"]) == ("none", 0)
