"""Clients that mean harm: one attack a test, and an innocent client beside it that must not notice.

What the innocent one sees is counted, not timed: while the attack is under way it gets its answers, every one of them,
and the attack is answered, refused or ended. How long it waits for them is measured by `bench/hostile.py`.
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest

from cluster.bystander import Bystander, create_topic, end_offset, fetch_all, produce, try_produce
from cluster.failing_disk import FailingDisk
from cluster.kernel import resident_megabytes, sockets
from kit.brokers.processes import OttlaProcess, until
from kit.wire.batches import Rec, batch
from kit.wire.messages import decode, encode
from kit.wire.raw import ConnectionClosed, RawConnection

T = TypeVar("T")
LARGEST = 2**31 - 1
MEGABYTE = 1 << 20
TOPIC = "attacked"
IDLE_SECONDS = 2
MOST_GROWTH = 400.0  # megabytes that an attack by elements may take while it lasts
CROWD = 40


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaProcess]:
    settings = {"fetch.max.bytes": str(MEGABYTE), "auto.create.topics.enable": "false"}
    with OttlaProcess(tmp_path_factory.mktemp("hostile") / "data", settings) as running:
        with RawConnection(running.host, running.port) as connection:
            create_topic(connection, TOPIC, 2)
        yield running
        assert "Traceback" not in running.log, running.log[-3000:]


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[OttlaProcess]:
    """A broker that closes idle connections soon."""
    settings = {"connections.max.idle.ms": str(IDLE_SECONDS * 1000)}
    with OttlaProcess(tmp_path / "data", settings) as running:
        with RawConnection(running.host, running.port) as connection:
            create_topic(connection, TOPIC)
        yield running


@pytest.fixture
def innocent(broker: OttlaProcess, request: pytest.FixtureRequest) -> Iterator[Bystander]:
    with Bystander(broker.host, broker.port, f"innocent-{abs(hash(request.node.name))}") as bystander:
        yield bystander


def beside(innocent: Bystander, rounds: int, attack: Callable[[], T]) -> T:
    """What the attack comes to, and the innocent one had at least so many rounds while it lasted."""
    before = innocent.rounds
    outcome = attack()
    had = innocent.rounds - before
    assert had >= rounds, f"the innocent client had {had} rounds during the attack"
    innocent.go_on(5)
    return outcome


def connect(broker: OttlaProcess) -> RawConnection:
    return RawConnection(broker.host, broker.port, "hostile")


def poll(topic: str = TOPIC, partitions: int = 1) -> bytes:
    """A fetch that would wait for weeks for more than there will ever be."""
    rows = [{"partition": at, "fetch_offset": 0, "partition_max_bytes": LARGEST} for at in range(partitions)]
    fields = {
        "max_wait": LARGEST,
        "min_bytes": LARGEST,
        "max_bytes": LARGEST,
        "topics": [{"topic": topic, "partitions": rows}],
    }
    request = encode("fetch", 11, fields, 1)
    return struct.pack(">i", len(request)) + request


def closed(connection: RawConnection) -> bool:
    """Wait until the broker has closed it, whatever it sends before."""
    try:
        while connection.socket.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


def filled(broker: OttlaProcess, topic: str, megabytes: int) -> None:
    with connect(broker) as connection:
        create_topic(connection, topic)
        for _ in range(megabytes):
            produce(connection, topic, b"x" * (MEGABYTE - 1000))


# --- waiting for ever


def test_long_polls_of_clients_that_left_are_forgotten(broker: OttlaProcess) -> None:
    before = sockets(broker.pid)
    with Bystander(broker.host, broker.port, "left") as innocent:
        for _ in range(CROWD):
            with connect(broker) as connection:
                connection.socket.sendall(poll("left") * 128)
        until(lambda: sockets(broker.pid) <= before + 1, "those who left are noticed")
        innocent.go_on(50)


def test_long_polls_by_the_hundred_on_open_connections_do_not_weigh_on_writers(broker: OttlaProcess) -> None:
    with ExitStack() as crowd, Bystander(broker.host, broker.port, "watched") as innocent:
        for _ in range(CROWD):
            crowd.enter_context(connect(broker)).socket.sendall(poll("watched") * 1000)
        innocent.go_on(50)


def test_a_long_poll_of_very_many_partitions_is_forgotten_with_its_client(broker: OttlaProcess) -> None:
    before = sockets(broker.pid)
    with Bystander(broker.host, broker.port, "beside-wide") as innocent:
        with connect(broker) as connection:
            create_topic(connection, "wide", 600)
            until(lambda: try_produce(connection, "wide", b"last", 599)[0] == "none", "all its logs are made")
        for _ in range(5):
            with connect(broker) as connection:
                connection.socket.sendall(poll("wide", 600) * 3)
                innocent.go_on(2)
        until(lambda: sockets(broker.pid) <= before + 1, "those who left are noticed")


def test_a_client_that_only_waits_is_closed_like_any_idle_one(impatient: OttlaProcess) -> None:
    with (
        Bystander(impatient.host, impatient.port) as innocent,
        connect(impatient) as waiting,
        connect(impatient) as many,
    ):
        waiting.socket.sendall(poll())
        many.socket.sendall(poll() * 1000)
        assert closed(waiting)
        assert closed(many)
        innocent.go_on(5)


def test_a_reader_that_takes_its_answer_slowly_gets_all_of_it(impatient: OttlaProcess) -> None:
    filled(impatient, "large", 24)
    with Bystander(impatient.host, impatient.port) as innocent, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
        slow.settimeout(60)
        slow.connect((impatient.host, impatient.port))
        rows = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": LARGEST}]
        fields = {"min_bytes": 1, "max_bytes": LARGEST, "topics": [{"topic": "large", "partitions": rows}]}
        request = encode("fetch", 11, fields, 1)
        slow.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", slow.recv(4, socket.MSG_WAITALL))
        assert size > 20 * MEGABYTE
        taken = 0
        until_at = time.monotonic() + 3 * IDLE_SECONDS
        while taken < size:
            if time.monotonic() < until_at:
                innocent.go_on(1)
            data = slow.recv(64 * 1024)
            assert data, f"closed after {taken} of {size} bytes"
            taken += len(data)
        assert time.monotonic() > until_at, "it took longer than idle connections live"


# --- asking for much


def test_a_fetch_of_all_there_is_gets_what_the_broker_gives_at_a_time_and_at_once(
    broker: OttlaProcess, innocent: Bystander
) -> None:
    filled(broker, "much", 8)
    rows = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": LARGEST}]
    topics = [{"topic": "much", "partitions": rows}]
    with connect(broker) as connection:
        fields = {"max_wait": LARGEST, "min_bytes": LARGEST, "max_bytes": LARGEST, "topics": topics}
        answer = connection.ask("fetch", 11, **fields)
    assert 0 < len(answer["responses"][0]["partitions"][0]["records"]) <= MEGABYTE
    innocent.go_on(20)


def test_more_elements_than_an_array_may_have_are_refused(broker: OttlaProcess, innocent: Bystander) -> None:
    names = 1_000_001
    head = struct.pack(">hhih", 3, 4, 1, -1)
    with connect(broker) as connection:
        connection.send_frame(head + struct.pack(">i", names) + b"\0\0" * names + b"\1")
        assert closed(connection)
    innocent.go_on(20)


def test_more_tagged_fields_than_a_header_may_have_are_refused(broker: OttlaProcess, innocent: Bystander) -> None:
    head = struct.pack(">hhih", 18, 3, 1, -1) + b"\x91\x4e" + b"\x64\x00" * 10_001
    with connect(broker) as connection:
        connection.send_frame(head + b"\2x\2y\0")
        assert closed(connection)
    innocent.go_on(20)


def test_very_many_partitions_in_one_request_are_answered_between_other_requests(
    broker: OttlaProcess, innocent: Bystander
) -> None:
    count = 200_000
    body = struct.pack(">iih", -1, 1, len(TOPIC)) + TOPIC.encode() + struct.pack(">i", count)
    body += b"".join(struct.pack(">iq", at, -1) for at in range(count))
    request = struct.pack(">hhih", 2, 1, 1, -1) + body
    before = resident_megabytes(broker.pid)

    def attack() -> bytes:
        with connect(broker) as connection:
            connection.send_frame(request)
            return connection.receive_frame()

    answer = beside(innocent, 20, attack)
    assert len(answer) > count * 4
    assert resident_megabytes(broker.pid) - before < MOST_GROWTH


def test_very_long_requests_of_many_clients_at_once_take_the_memory_of_one(
    broker: OttlaProcess, innocent: Bystander
) -> None:
    groups = 60_000
    body = b"".join(struct.pack(">h", 6) + b"%06d" % at for at in range(groups))
    request = struct.pack(">hhih", 15, 0, 1, -1) + struct.pack(">i", groups) + body  # DescribeGroups
    before = resident_megabytes(broker.pid)
    with ExitStack() as crowd:
        clients = [crowd.enter_context(connect(broker)) for _ in range(8)]

        def attack() -> None:
            for client in clients:
                client.send_frame(request)
            clients[0].receive_frame()

        beside(innocent, 20, attack)
        assert resident_megabytes(broker.pid) - before < 2 * MOST_GROWTH


def test_a_partition_named_thousands_of_times_is_written_once(broker: OttlaProcess, innocent: Bystander) -> None:
    rows = [{"index": 0, "records": batch([Rec(b"%d" % at)])} for at in range(3000)]
    with connect(broker) as connection:
        create_topic(connection, "again")
        fields = {"acks": 1, "timeout": 5000, "topic_data": [{"name": "again", "partition_data": rows}]}
        answer = connection.ask("produce", 9, **fields)
        (found,) = answer["responses"][0]["partition_responses"]
        assert found["error_code"] == "none"
        assert [record.value for record in fetch_all(connection, "again")] == [b"2999"]
    innocent.go_on(20)


def test_a_produce_to_thousands_of_partitions_is_carried_out_between_other_requests(
    broker: OttlaProcess, innocent: Bystander
) -> None:
    with connect(broker) as connection:
        create_topic(connection, "thousands", 1500)
        until(lambda: try_produce(connection, "thousands", b"last", 1499)[0] == "none", "all its logs are made")
        rows = [{"index": at, "records": batch([Rec(b"%d" % at)])} for at in range(4000)]
        fields = {"acks": 1, "timeout": 5000, "topic_data": [{"name": "thousands", "partition_data": rows}]}
        connection.send("produce", 9, fields)
        answer = beside(innocent, 1, connection.receive)
        found = [row for topic in answer["responses"] for row in topic["partition_responses"]]
        assert [row["index"] for row in found] == list(range(4000))
        assert {row["error_code"] for row in found[:1500]} == {"none"}
        assert {row["error_code"] for row in found[1500:]} == {"unknown_topic_or_partition"}
        assert [record.value for record in fetch_all(connection, "thousands", 700)] == [b"700"]


@pytest.mark.parametrize("partitions", [20_000, 1], ids=["of very many partitions", "of one partition"])
@pytest.mark.parametrize("session_epoch", [0, -1], ids=["with a session", "without a session"])
def test_a_fetch_that_names_twenty_thousand_partitions_is_answered_between_other_requests(
    broker: OttlaProcess, innocent: Bystander, partitions: int, session_epoch: int
) -> None:
    rows = [
        {"partition": at % partitions, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1}
        for at in range(20_000)
    ]
    fields = {"min_bytes": 1, "max_bytes": 1000, "session_epoch": session_epoch}
    request = encode("fetch", 11, {**fields, "topics": [{"topic": TOPIC, "partitions": rows}]}, 1)

    def attack() -> bytes:
        with connect(broker) as connection:
            connection.send_frame(request)
            return connection.receive_frame()

    answer = beside(innocent, 1, attack)
    _, found = decode("fetch", 11, answer)
    told = [row["partition_index"] for topic in found["responses"] for row in topic["partitions"]]
    assert told == list(range(partitions))
    assert (found["session_id"] != 0) == (session_epoch == 0)


def test_a_produce_of_more_partitions_than_any_producer_fills_is_refused(
    broker: OttlaProcess, innocent: Bystander
) -> None:
    rows = struct.pack(">ii", 0, -1) * 1_000_000
    head = struct.pack(">hhih", 0, 8, 1, -1) + b"\xff\xff\0\1" + struct.pack(">iih", 1000, 1, 1) + b"t"
    with connect(broker) as connection:
        connection.send_frame(head + struct.pack(">i", 1_000_000) + rows)
        assert closed(connection)
    innocent.go_on(20)


# --- bad bytes


def test_a_batch_that_cannot_be_read_is_an_error_of_its_own_partition(
    broker: OttlaProcess, innocent: Bystander
) -> None:
    now = time.time_ns() // 1_000_000
    record = Rec(b"value", timestamp=now)
    with connect(broker) as connection:
        create_topic(connection, "poisoned", 2)
        for index, records in enumerate((batch([record], payload=b"\xff" * 40), batch([record]))):
            rows = [{"index": index, "records": records}]
            fields = {"acks": 1, "timeout": 5000, "topic_data": [{"name": "poisoned", "partition_data": rows}]}
            answer = connection.ask("produce", 9, **fields)
            assert answer["responses"][0]["partition_responses"][0]["error_code"] == "none"
        for timestamp in (now - 1000, -3):
            rows = [{"partition_index": at, "current_leader_epoch": -1, "timestamp": timestamp} for at in (0, 1)]
            topics = [{"name": "poisoned", "partitions": rows}]
            answer = connection.ask("list_offsets", 7, replica_id=-1, isolation_level=0, topics=topics)
            errors = [row["error_code"] for row in answer["topics"][0]["partitions"]]
            assert errors == ["corrupt_message", "none"], timestamp
    innocent.go_on(20)


def test_halves_of_frames_give_way_to_whole_ones(tmp_path: Path) -> None:
    limit = 4 * MEGABYTE
    settings = {"socket.request.max.bytes": str(2 * MEGABYTE), "queued.max.request.bytes": str(limit)}
    with OttlaProcess(tmp_path / "data", settings) as broker, ExitStack() as crowd:
        filled(broker, TOPIC, 1)
        with Bystander(broker.host, broker.port) as innocent:
            halves = [crowd.enter_context(connect(broker)) for _ in range(8)]
            for half in halves:
                half.socket.sendall(struct.pack(">i", 2 * MEGABYTE) + b"\0" * MEGABYTE)
                innocent.go_on(2)
            assert closed(halves[0]), "the oldest makes room"
            with connect(broker) as connection:
                produce(connection, TOPIC, b"x" * (MEGABYTE - 1000))
                assert end_offset(connection, TOPIC) == 2


def test_records_on_pages_that_cannot_be_read_end_the_reader_and_the_directory_and_nothing_else(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    disk = FailingDisk(bad, tmp_path)
    settings = {"log.dirs": f"{good},{bad}", "metadata.log.dir": str(good)}
    with OttlaProcess(good, settings, environment=disk.environment) as broker:
        with connect(broker) as connection:
            create_topic(connection, "many", 6)
            ours, theirs = (next(at for at in range(6) if (place / f"many-{at}").is_dir()) for place in (good, bad))
            for partition in (ours, theirs):
                for _ in range(2):
                    produce(connection, "many", b"x" * 500_000, partition)
        disk.fail_reads(errno.EIO)
        with connect(broker) as connection:
            rows = [{"partition": theirs, "fetch_offset": 0, "partition_max_bytes": LARGEST}]
            topics = [{"topic": "many", "partitions": rows}]
            with pytest.raises(ConnectionClosed):
                connection.ask("fetch", 11, max_wait=100, min_bytes=1, max_bytes=LARGEST, topics=topics)
        until(lambda: "offline" in broker.log, "the directory goes offline")
        with connect(broker) as connection:
            assert len(fetch_all(connection, "many", ours)) == 2
