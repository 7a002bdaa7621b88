"""Clients that do not read, or do not finish what they began: they hold little memory and block nobody."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.bystander import Bystander, create_topic
from cluster.kernel import resident_megabytes
from kit.brokers.processes import OttlaProcess
from kit.wire.batches import Rec, batch
from kit.wire.messages import encode
from kit.wire.raw import RawConnection

MOST_GROWTH = 48.0  # megabytes
MEGABYTE = 1 << 20


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OttlaProcess]:
    with OttlaProcess(tmp_path / "data") as running:
        yield running


def fill(broker: OttlaProcess, topic: str, megabytes: int) -> None:
    with RawConnection(broker.host, broker.port) as connection:
        create_topic(connection, topic)
        records = batch([Rec(b"x" * (MEGABYTE - 1000))])
        for _ in range(megabytes):
            rows = [{"index": 0, "records": records}]
            fields = {"acks": 1, "timeout": 5000, "topic_data": [{"name": topic, "partition_data": rows}]}
            answer = connection.ask("produce", 9, **fields)
            assert answer["responses"][0]["partition_responses"][0]["error_code"] == "none", answer


def whole_topic(topic: str) -> bytes:
    rows = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 64 * MEGABYTE}]
    fields = {"min_bytes": 1, "max_bytes": 64 * MEGABYTE, "topics": [{"topic": topic, "partitions": rows}]}
    request = encode("fetch", 11, fields, 1)
    return struct.pack(">i", len(request)) + request


def assert_bounded(broker: OttlaProcess, before: float) -> None:
    grown = resident_megabytes(broker.pid) - before
    assert grown < MOST_GROWTH, f"memory grew by {grown:.0f} MB"


def send_until_stuck(connection: RawConnection, data: bytes, most: int) -> int:
    """Send the same bytes until the peer takes no more for half a second, or `most` times; how often it went."""
    connection.socket.settimeout(0.5)
    for sent in range(most):
        try:
            connection.socket.sendall(data)
        except TimeoutError:
            return sent
    return most


def test_readers_that_ask_for_much_and_read_nothing_hold_little_memory(broker: OttlaProcess) -> None:
    fill(broker, "large", 64)
    before = resident_megabytes(broker.pid)
    with Bystander(broker.host, broker.port) as bystander:
        stalled = [RawConnection(broker.host, broker.port) for _ in range(20)]
        for connection in stalled:
            connection.socket.sendall(whole_topic("large") * 10)
        bystander.go_on(50)
        assert_bounded(broker, before)
        for connection in stalled:
            connection.close()
        bystander.go_on(50)


def test_a_client_that_only_asks_is_not_read_any_further(broker: OttlaProcess) -> None:
    before = resident_megabytes(broker.pid)
    request = encode("api_versions", 0, {}, 1)
    thousand = (struct.pack(">i", len(request)) + request) * 1000
    with Bystander(broker.host, broker.port), RawConnection(broker.host, broker.port) as connection:
        sent = send_until_stuck(connection, thousand, 3000)
        assert sent < 3000, "the broker reads for ever from a client that reads no answer"
        assert_bounded(broker, before)


def test_frames_that_were_announced_but_never_sent_hold_little_memory(broker: OttlaProcess) -> None:
    before = resident_megabytes(broker.pid)
    with Bystander(broker.host, broker.port) as bystander:
        stalled = [RawConnection(broker.host, broker.port) for _ in range(50)]
        for connection in stalled:
            connection.socket.sendall(struct.pack(">i", 90 * MEGABYTE) + b"\0" * 1000)
        bystander.go_on(50)
        assert_bounded(broker, before)
        for connection in stalled:
            connection.close()


def test_a_large_request_gives_its_memory_back(broker: OttlaProcess) -> None:
    before = resident_megabytes(broker.pid)
    with Bystander(broker.host, broker.port):
        connections = [RawConnection(broker.host, broker.port) for _ in range(8)]
        for connection in connections:
            # 20 MB that end up refused as one too large batch; the connections stay open.
            records = batch([Rec(b"x" * (20 * MEGABYTE))])
            rows = [{"index": 0, "records": records}]
            topics = [{"name": "bystander", "partition_data": rows}]
            answer = connection.ask("produce", 9, acks=1, timeout=5000, topic_data=topics)
            assert answer["responses"][0]["partition_responses"][0]["error_code"] == "message_too_large"
        assert_bounded(broker, before)
        for connection in connections:
            connection.close()


def test_slow_bytes_of_one_client_do_not_keep_another_waiting(broker: OttlaProcess) -> None:
    request = encode("api_versions", 0, {}, 1)
    data = struct.pack(">i", len(request)) + request
    with (
        RawConnection(broker.host, broker.port) as slow,
        Bystander(broker.host, broker.port) as bystander,
    ):
        for position in range(len(data)):
            slow.socket.sendall(data[position : position + 1])
            bystander.go_on(1)
        slow.receive_frame()
