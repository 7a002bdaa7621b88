"""Descriptors are bounded: by what is in use, not by what exists; logs and clients have their shares of them, and a
broker that is short of them goes on and says so."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from cluster.bystander import Bystander, create_topic, fetch_all, produce
from cluster.kernel import descriptors
from kit.brokers.processes import OttlaProcess, until
from kit.others.debian import program
from kit.wire.raw import RawConnection

LIMIT = 200
IDLE_PARTITIONS = 2000
WRITTEN_PARTITIONS = 300


def test_idle_partitions_and_closed_connections_hold_no_descriptors(tmp_path: Path) -> None:
    with OttlaProcess(tmp_path / "data") as broker, RawConnection(broker.host, broker.port) as connection:
        before = descriptors(broker.pid)
        create_topic(connection, "idle", IDLE_PARTITIONS)
        connections = [RawConnection(broker.host, broker.port) for _ in range(200)]
        for each in connections:
            each.ask("api_versions", 0)
        assert descriptors(broker.pid) < before + 200 + 50
        for each in connections:
            each.close()
        until(lambda: descriptors(broker.pid) < before + 50, "closed connections give their descriptors back")


def test_a_broker_out_of_descriptors_serves_those_it_has_and_takes_new_connections_later(tmp_path: Path) -> None:
    prefix = [program("prlimit"), f"--nofile={LIMIT}:{LIMIT}"]
    with OttlaProcess(tmp_path / "data", prefix=prefix) as broker:
        with Bystander(broker.host, broker.port) as bystander, ExitStack() as crowd:
            # The kernel completes those that the broker does not accept: they wait in the listener's backlog.
            for _ in range(LIMIT // 2):
                crowd.enter_context(RawConnection(broker.host, broker.port))
            until(lambda: "takes no connections for a moment" in broker.log, "the broker has all it has room for")
            assert descriptors(broker.pid) < LIMIT - 48, "the logs and the node have theirs"
            bystander.go_on(20)
        with RawConnection(broker.host, broker.port) as connection:
            assert connection.ask("api_versions", 0)["error_code"] == "none"
    assert "ulimit -n" in broker.log
    assert "Traceback" not in broker.log


def test_more_partitions_than_descriptors_are_written_and_read_beside_a_crowd_of_clients(tmp_path: Path) -> None:
    prefix = [program("prlimit"), f"--nofile={LIMIT}:{LIMIT}"]
    with OttlaProcess(tmp_path / "data", prefix=prefix) as broker:
        with RawConnection(broker.host, broker.port) as connection, ExitStack() as crowd:
            create_topic(connection, "many", WRITTEN_PARTITIONS)
            for _ in range(LIMIT // 2):
                crowd.enter_context(RawConnection(broker.host, broker.port))
            until(lambda: "takes no connections for a moment" in broker.log, "the broker has all it has room for")
            for value in (b"first", b"second"):
                for partition in range(WRITTEN_PARTITIONS):
                    produce(connection, "many", value, partition)
            assert _values(connection) == [[b"first", b"second"]] * WRITTEN_PARTITIONS
            assert descriptors(broker.pid) < LIMIT
        broker.kill()
        broker.start()
        with RawConnection(broker.host, broker.port) as connection:
            assert _values(connection) == [[b"first", b"second"]] * WRITTEN_PARTITIONS
            produce(connection, "many", b"third", WRITTEN_PARTITIONS - 1)
    assert broker.log.count("more log files are in use") == 2, "each life of the broker says it once"
    assert "Too many open files" not in broker.log
    assert "Traceback" not in broker.log


def _values(connection: RawConnection) -> list[list[bytes | None]]:
    return [
        [record.value for record in fetch_all(connection, "many", partition)] for partition in range(WRITTEN_PARTITIONS)
    ]
