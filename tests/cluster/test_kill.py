"""A broker that is killed while it is written to loses nothing it acknowledged, and its files stay whole."""

from __future__ import annotations

import random
from pathlib import Path

from cluster.bystander import create_topic, fetch_all
from cluster.writer import Writer, check_records
from kit.brokers.processes import OttlaProcess
from kit.others import java
from kit.wire.raw import RawConnection

KILLS = 20
PARTITIONS = 3
SEGMENT_BYTES = 1 << 20  # small, so that kills also meet rolls; Kafka allows no less
COMPLAINTS = ("isvalid: false", "invalid bytes at the end")


def test_twenty_kills_under_load_lose_and_repeat_no_acknowledged_record(tmp_path: Path) -> None:
    chance = random.Random(20)
    broker = OttlaProcess(tmp_path / "data").start()
    try:
        with RawConnection(broker.host, broker.port) as connection:
            create_topic(connection, "numbers", PARTITIONS, {"segment.bytes": str(SEGMENT_BYTES)})
        with Writer(broker.bootstrap, "numbers", PARTITIONS) as writer:
            for _ in range(KILLS):
                writer.wait_for(writer.count + chance.randrange(1000, 8000))
                broker.kill()
                broker.start()
            writer.wait_for(writer.count + 1000)
        with RawConnection(broker.host, broker.port) as connection:
            for partition in range(PARTITIONS):
                records = fetch_all(connection, "numbers", partition)
                check_records(records, writer.acknowledged[partition], partition)
        broker.stop()
    finally:
        broker.kill()
    assert_whole(tmp_path / "data", "numbers")


def assert_whole(directory: Path, topic: str) -> None:
    """Kafka's own dump tool reads every file of the topic and finds no fault."""
    kinds = (".log", ".index", ".timeindex", ".snapshot")
    files = sorted(path for path in directory.glob(f"{topic}-*/*") if path.suffix in kinds)
    assert sum(path.suffix == ".log" for path in files) > PARTITIONS, "the load rolled segments"
    printed = java.run("DumpLogSegments", "--deep-iteration", "--files", ",".join(map(str, files)))
    found = [line for line in printed.lines if any(words in line for words in COMPLAINTS)]
    assert not found, f"{len(found)} complaints of the dump tool, first: {found[:3]}"
    assert printed.output.count("isvalid: true") > KILLS
    # Mismatched indexes, gaps between offsets and timestamps out of order are complained about on standard error. The
    # first record of a file that does not begin at offset 0 always counts as a gap after -1: that one is no complaint.
    gap = "Non-consecutive offsets in"
    serious = [line for line in printed.errors.splitlines() if gap not in line and " -1 is followed by" not in line]
    assert not serious, f"{len(serious)} complaints of the dump tool, first: {serious[:5]}"
