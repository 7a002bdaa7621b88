"""Descriptors are bounded: by what is in use, not by what exists, and running out of them is survived."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from cluster.bystander import Bystander, create_topic
from cluster.kernel import descriptors
from support.debian import program
from support.processes import OttlaProcess, until
from support.raw import RawConnection

LIMIT = 200
IDLE_PARTITIONS = 2000


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
            # The kernel completes those that the broker cannot accept: they wait in the listener's backlog.
            for _ in range(LIMIT):
                crowd.enter_context(RawConnection(broker.host, broker.port))
            until(lambda: descriptors(broker.pid) >= LIMIT, "the broker runs out of descriptors")
            bystander.go_on(20)
        with RawConnection(broker.host, broker.port) as connection:
            assert connection.ask("api_versions", 0)["error_code"] == "none"
    assert "takes no connections for a moment" in broker.log
    assert "Traceback" not in broker.log
