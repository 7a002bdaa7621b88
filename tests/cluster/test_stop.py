"""A stop by signal under load is clean: exit code 0, a marker, nothing acknowledged is lost, the next start works."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from cluster.bystander import create_topic, fetch_all
from cluster.writer import Writer, check_records
from kit.brokers.processes import OttlaProcess
from kit.wire.raw import RawConnection

MARKER = ".kafka_cleanshutdown"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_under_load_stops_the_broker_cleanly_and_keeps_every_acknowledged_record(
    tmp_path: Path, number: signal.Signals
) -> None:
    broker = OttlaProcess(tmp_path / "data").start()
    try:
        with RawConnection(broker.host, broker.port) as connection:
            create_topic(connection, "numbers", 2)
        with Writer(broker.bootstrap, "numbers", 2) as writer:
            writer.wait_for(5000)
            broker.stop(number)  # asserts exit code 0
            assert (tmp_path / "data" / MARKER).exists()
            broker.start()
            assert not (tmp_path / "data" / MARKER).exists(), "the marker would hide a later crash"
            writer.wait_for(writer.count + 5000)
        with RawConnection(broker.host, broker.port) as connection:
            for partition in range(2):
                check_records(fetch_all(connection, "numbers", partition), writer.acknowledged[partition], partition)
        broker.stop(number)
    finally:
        broker.kill()
    assert "Traceback" not in broker.log


def test_a_stop_does_not_wait_for_idle_connections_or_long_polls(tmp_path: Path) -> None:
    with OttlaProcess(tmp_path / "data") as broker:
        idle = RawConnection(broker.host, broker.port)
        polling = RawConnection(broker.host, broker.port)
        create_topic(polling, "quiet")
        wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
        fields = {"max_wait": 600_000, "min_bytes": 1, "topics": [{"topic": "quiet", "partitions": [wanted]}]}
        polling.send("fetch", 11, fields)
        polling.send("api_versions", 0, {}, answered=False)
        broker.stop()  # asserts exit code 0 well before the ten minutes of the long poll
        idle.close()
        polling.close()
