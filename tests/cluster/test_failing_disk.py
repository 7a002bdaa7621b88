"""Full and broken disks: the producer gets a storage error, readers go on, and writing resumes when it can."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from cluster.bystander import create_topic, fetch_all, produce, try_produce
from cluster.failing_disk import FailingDisk
from kit.brokers.processes import OttlaProcess, until
from kit.wire.raw import RawConnection


def test_a_full_disk_refuses_writes_with_a_storage_error_serves_reads_and_takes_writes_again_when_there_is_room(
    tmp_path: Path,
) -> None:
    disk = FailingDisk(tmp_path / "data", tmp_path)
    values = [b"before %d" % number for number in range(50)]
    with (
        OttlaProcess(tmp_path / "data", environment=disk.environment) as broker,
        RawConnection(broker.host, broker.port) as connection,
    ):
        create_topic(connection, "kept")
        for value in values:
            produce(connection, "kept", value)

        disk.fail(errno.ENOSPC)
        for number in range(5):
            error, _, message = try_produce(connection, "kept", b"lost %d" % number)
            assert error == "kafka_storage_error", error
            assert message, "the answer says what is wrong"
        assert [record.value for record in fetch_all(connection, "kept")] == values

        disk.heal()
        until(lambda: try_produce(connection, "kept", b"after 0")[0] == "none", "writes resume")
        produce(connection, "kept", b"after 1")
        assert [record.value for record in fetch_all(connection, "kept")] == [*values, b"after 0", b"after 1"]
    with OttlaProcess(tmp_path / "data") as broker, RawConnection(broker.host, broker.port) as connection:
        assert [record.value for record in fetch_all(connection, "kept")] == [*values, b"after 0", b"after 1"]
    assert "Traceback" not in broker.log


def test_a_topic_made_on_a_full_disk_can_be_written_to_when_there_is_room(tmp_path: Path) -> None:
    disk = FailingDisk(tmp_path / "data", tmp_path)
    settings = {"metadata.log.dir": str(tmp_path / "metadata")}
    with (
        OttlaProcess(tmp_path / "data", settings, environment=disk.environment) as broker,
        RawConnection(broker.host, broker.port) as connection,
    ):
        disk.fail(errno.ENOSPC)
        create_topic(connection, "late")
        assert try_produce(connection, "late", b"lost")[0] == "kafka_storage_error"
        disk.heal()
        until(lambda: try_produce(connection, "late", b"kept")[0] == "none", "the topic can be written to")
        assert [record.value for record in fetch_all(connection, "late")] == [b"kept"]


def test_a_node_that_finds_no_room_to_start_says_what_to_do_and_starts_when_there_is_some(tmp_path: Path) -> None:
    disk = FailingDisk(tmp_path / "full", tmp_path)
    settings = {"metadata.log.dir": str(tmp_path / "full")}
    broker = OttlaProcess(tmp_path / "data", settings, environment=disk.environment).start()
    broker.kill()
    disk.fail(errno.ENOSPC)
    with pytest.raises(AssertionError, match=r"No space left on device; free some space on the volume of \S*/full"):
        broker.start()
    assert "Traceback" not in broker.log
    disk.heal()
    with broker:
        assert str(broker.port) in broker.announcement


def test_a_failing_directory_goes_offline_and_the_other_one_serves(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    disk = FailingDisk(bad, tmp_path)
    settings = {"log.dirs": f"{good},{bad}"}
    with (
        OttlaProcess(good, settings, environment=disk.environment) as broker,
        RawConnection(broker.host, broker.port) as connection,
    ):
        create_topic(connection, "spread", 6)
        for partition in range(6):
            produce(connection, "spread", b"before", partition)
        here, there = partitions_in(good, "spread"), partitions_in(bad, "spread")
        assert here, "partitions are spread over the directories"
        assert there, "partitions are spread over the directories"

        disk.fail(errno.EIO)
        for number, partition in enumerate(there):
            error = try_produce(connection, "spread", b"lost", partition)[0]
            # The controller may have heard of it before the others are asked.
            assert error in {"kafka_storage_error", "not_leader_or_follower" if number else ""}, error
        for partition in here:
            produce(connection, "spread", b"after", partition)
            assert [record.value for record in fetch_all(connection, "spread", partition)] == [b"before", b"after"]

        disk.heal()  # an offline directory stays offline until a restart, as Kafka's does
        for partition in there:
            error = try_produce(connection, "spread", b"lost", partition)[0]
            assert error in {"kafka_storage_error", "not_leader_or_follower"}, error
        create_topic(connection, "new", 3)
        assert partitions_in(good, "new") == {0, 1, 2}, "new partitions avoid the offline directory"
        described = connection.ask("describe_log_dirs", 4, topics=None)
        states = {each["log_dir"]: each["error_code"] for each in described["results"]}
        assert states[str(good)] == "none"
        assert states.get(str(bad), "kafka_storage_error") == "kafka_storage_error"
    with OttlaProcess(good, settings) as broker, RawConnection(broker.host, broker.port) as connection:
        for partition in there:
            assert [record.value for record in fetch_all(connection, "spread", partition)] == [b"before"]
    assert "Traceback" not in broker.log


def partitions_in(directory: Path, topic: str) -> set[int]:
    return {int(path.name.rsplit("-", 1)[1]) for path in directory.glob(f"{topic}-*")}
