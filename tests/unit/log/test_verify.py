"""Proves that a whole data directory is found whole, and that damage is found with its file and position."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ottla.base.vocabulary import TopicPartition
from ottla.cli.failures import Failure
from ottla.cli.log import app
from ottla.log.checkpoints import Checkpoint
from ottla.log.data_directory import CLEAN_STOP_FILE, DataDirectory, in_use
from ottla.log.epochs import EpochHistory
from ottla.log.files import World
from ottla.log.producers import ProducerState
from ottla.log.properties import DirectoryProperties, write_directory_properties, write_topic_id
from ottla.log.segment import Segment
from ottla.log.settings import LogSettings
from ottla.log.snapshots import encode_snapshot
from ottla.log.verify import MOST_IN_A_FILE, Finding, Report, total_bytes, verify
from ottla.records.builder import build_batch
from ottla.records.header import checksum, read_header
from ottla.records.record import Record
from ottla.runtime.disk import RealDisk
from ottla.runtime.world import RealClock, RealRandom

DISK = RealDisk()
WORLD = World(DISK, RealClock(), RealRandom())
NAME = TopicPartition("t", 0)
FIRST, SECOND = "00000000000000000000", "00000000000000000010"
BATCHES = 5


def write_segment(directory: Path, base: int, *, epoch: int = 0) -> None:
    """Batches of two records, an index entry for almost each."""
    segment = Segment.create(DISK, str(directory), base, LogSettings(index_interval_bytes=1))
    for number in range(BATCHES):
        offset = base + 2 * number
        records = [Record(offset + step, 1000 + offset, b"k", b"value") for step in (0, 1)]
        data = build_batch(records, base_offset=offset, leader_epoch=epoch, compression=number % 2)
        position = segment.write(data, len(data))
        header = read_header(data)
        segment.note(position, len(data), header.last_offset, header.max_timestamp)
    segment.seal()
    segment.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a node that stopped cleanly: one log of two segments, ten records each."""
    directory = tmp_path / "data"
    log = directory / "t-0"
    log.mkdir(parents=True)
    write_directory_properties(DISK, str(directory), DirectoryProperties("cluster", 1, bytes(range(16))))
    write_topic_id(DISK, str(log), bytes(range(16)))
    write_segment(log, 0)
    write_segment(log, 10, epoch=1)
    (log / f"{SECOND}.snapshot").write_bytes(encode_snapshot([ProducerState(7, 0)]))
    history = EpochHistory()
    history.assign(0, 0)
    history.assign(1, 10)
    (log / "leader-epoch-checkpoint").write_text(history.text())
    for kind in (Checkpoint.RECOVERY_POINT, Checkpoint.HIGH_WATERMARK):
        DataDirectory(str(directory), WORLD).write_offsets(kind, {NAME: 20})
    (directory / CLEAN_STOP_FILE).write_bytes(b'{"version":0,"brokerEpoch":1}')
    return directory


def found(directory: Path, *, deep: bool = False) -> Report:
    return verify(DISK, str(directory), deep=deep)


def only(report: Report) -> Finding:
    (finding,) = report.findings
    return finding


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ 0x40]))


def batch_positions(path: Path) -> list[int]:
    data, positions, position = path.read_bytes(), [], 0
    while position < len(data):
        positions.append(position)
        position += read_header(data[position:]).size
    return positions


def test_a_whole_directory_is_found_whole(data: Path) -> None:
    advanced: list[int] = []
    report = verify(DISK, str(data), advance=advanced.append)
    assert report.findings == []
    assert (report.logs, report.segments, report.batches, report.records) == (1, 2, 2 * BATCHES, 0)
    assert sum(advanced) == report.bytes == total_bytes(DISK, str(data))
    assert found(data, deep=True).records == 20
    assert found(data / "t-0").segments == 2


def test_a_flipped_bit_is_found_at_its_batch(data: Path) -> None:
    path = data / "t-0" / f"{FIRST}.log"
    third = batch_positions(path)[2]
    flip(path, third + 70)
    finding = only(found(data))
    assert (finding.file, finding.position, finding.repaired) == (str(path), third, False)
    assert "checksum" in finding.problem


def test_a_length_that_cannot_be_ends_the_reading_of_a_file(data: Path) -> None:
    path = data / "t-0" / f"{FIRST}.log"
    third = batch_positions(path)[2]
    with path.open("r+b") as file:
        file.seek(third + 8)
        file.write(b"\x00\x00\x00\x01")
    problems = {finding.position: finding.problem for finding in found(data).damage if finding.file == str(path)}
    assert "cannot be read" in problems[third]


def test_a_torn_end_is_damage_after_a_clean_stop_and_a_leftover_after_a_crash(data: Path) -> None:
    path = data / "t-0" / f"{SECOND}.log"
    last = batch_positions(path)[-1]
    os.truncate(path, path.stat().st_size - 5)
    torn = [finding for finding in found(data).damage if finding.file == str(path)]
    assert (torn[0].position, "no whole batch" in torn[0].problem) == (last, True)
    (data / CLEAN_STOP_FILE).unlink()
    DataDirectory(str(data), WORLD).write_offsets(Checkpoint.RECOVERY_POINT, {NAME: 10})
    report = found(data)
    assert report.damage == []
    assert str(path) in {finding.file for finding in report.leftovers}


def test_flushed_records_that_are_missing_are_damage_however_the_node_stopped(data: Path) -> None:
    (data / CLEAN_STOP_FILE).unlink()
    path = data / "t-0" / f"{SECOND}.log"
    os.truncate(path, batch_positions(path)[-1])
    (finding,) = found(data).damage
    assert finding.file == str(data / Checkpoint.RECOVERY_POINT.value)
    assert "t-0" in finding.problem
    assert "20" in finding.problem


def test_an_index_entry_that_points_elsewhere_is_found_at_its_place(data: Path) -> None:
    path = data / "t-0" / f"{FIRST}.index"
    flip(path, 8 + 7)
    finding = only(found(data))
    assert (finding.file, finding.position) == (str(path), 8)


def test_a_time_index_is_compared_with_the_batches(data: Path) -> None:
    path = data / "t-0" / f"{FIRST}.timeindex"
    flip(path, 12 + 7)
    assert {finding.position for finding in found(data).findings if finding.file == str(path)} >= {12}


def test_segments_must_not_overlap(data: Path) -> None:
    log = data / "t-0"
    for suffix in (".log", ".index", ".timeindex"):
        (log / f"{SECOND}{suffix}").rename(log / f"00000000000000000008{suffix}")
    assert any("next begins with 8" in finding.problem for finding in found(data).damage)


def test_leader_epochs_must_not_fall(data: Path) -> None:
    log = data / "t-0"
    for suffix in (".log", ".index", ".timeindex"):
        (log / f"{SECOND}{suffix}").unlink()
    write_segment(log, 10, epoch=1)
    write_segment(log, 20, epoch=0)
    assert any("leader epoch 0 after one of 1" in finding.problem for finding in found(data).damage)


def test_records_that_cannot_be_decoded_are_found_by_a_deep_look_alone(data: Path) -> None:
    path = data / "t-0" / f"{SECOND}.log"
    content = bytearray(build_batch([Record(10, 1000, b"k", b"value")], base_offset=10, leader_epoch=1))
    content[61] = 2  # the length of the record: one byte
    content[17:21] = checksum(content, 0, len(content)).to_bytes(4, "big")
    path.write_bytes(content)
    for suffix in (".index", ".timeindex"):
        (data / "t-0" / f"{SECOND}{suffix}").unlink()
    for kind in (Checkpoint.RECOVERY_POINT, Checkpoint.HIGH_WATERMARK):
        DataDirectory(str(data), WORLD).write_offsets(kind, {NAME: 11})
    assert found(data).findings == []
    finding = only(found(data, deep=True))
    assert (finding.file, finding.position) == (str(path), 0)
    assert "cannot be read" in finding.problem


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("meta.properties", b"version=9\n", "version 9"),
        ("recovery-point-offset-checkpoint", b"0\n2\nt 0 20\n", "promises 2"),
        (f"t-0/{SECOND}.snapshot", b"\x00\x01broken", "not a snapshot"),
        ("t-0/leader-epoch-checkpoint", b"0\nmany\n", "leader epochs"),
        ("t-0/partition.metadata", b"version: 7\nnothing", "which topic"),
    ],
)
def test_files_beside_the_batches_are_read_too(data: Path, name: str, content: bytes, problem: str) -> None:
    (data / name).write_bytes(content)
    (finding,) = found(data).damage
    assert finding.file == str(data / name)
    assert problem in finding.problem


def test_files_in_transit_and_indexes_without_log_are_leftovers(data: Path) -> None:
    (data / "t-0" / f"{FIRST}.log.deleted").write_bytes(b"")
    (data / "t-0" / "00000000000000000099.index").write_bytes(b"")
    report = found(data)
    assert report.damage == []
    assert len(report.leftovers) == 2


def test_a_metadata_log_brings_its_snapshots_and_election(data: Path) -> None:
    log = data / "__cluster_metadata-0"
    log.mkdir()
    write_segment(log, 0)
    (log / "quorum-state").write_text("{}")
    whole = build_batch([Record(1, 0, b"\x00\x00\x00\x04", b"")], base_offset=1, control=True)
    snapshot = log / "00000000000000000010-0000000001.checkpoint"
    snapshot.write_bytes(bytes(build_batch([Record(0, 0, None, b"fact")], base_offset=0)) + bytes(whole))
    assert found(data).findings == []
    snapshot.write_bytes(bytes(build_batch([Record(0, 0, None, b"fact")], base_offset=0)))
    (log / "quorum-state").write_text("{")
    assert {os.path.basename(finding.file) for finding in found(data).damage} == {snapshot.name, "quorum-state"}


def test_a_file_full_of_faults_is_told_with_the_first_of_them(data: Path) -> None:
    log = data / "t-0"
    for number in range(3):
        write_segment(log, 20 + 10 * number, epoch=1)
    path = log / f"{FIRST}.log"
    path.write_bytes(path.read_bytes() * 10)
    many = [finding for finding in found(data).findings if finding.file == str(path)]
    assert len(many) == MOST_IN_A_FILE
    assert many[-1].problem.endswith("more that is not listed")


def test_the_command_gives_a_verdict_and_the_exit_code_of_it(data: Path) -> None:
    whole = CliRunner().invoke(app, ["verify", str(data), "--deep"])
    assert whole.exit_code == 0
    assert "1 log, 2 segments, 10 batches, 20 records" in whole.stdout
    assert "all of it is whole" in whole.stdout
    path = data / "t-0" / f"{FIRST}.log"
    flip(path, 70)
    damaged = CliRunner().invoke(app, ["verify", str(data)])
    assert damaged.exit_code == 1
    assert "1 problem: it is damaged" in damaged.stdout
    assert str(path) in damaged.stdout
    (document,) = json.loads(CliRunner().invoke(app, ["verify", str(data), "--json"]).stdout)
    assert document["whole"] is False
    assert document["damage"][0]["position"] == 0


def test_what_is_no_data_directory_or_belongs_to_a_running_node_is_refused(data: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        assert isinstance(CliRunner().invoke(app, ["verify", str(path)]).exception, Failure)
    owner = DataDirectory(str(data), WORLD)
    owner.claim()
    try:
        assert in_use(DISK, str(data))
        refused = CliRunner().invoke(app, ["verify", str(data / "t-0")])
        assert "in use" in str(refused.exception)
    finally:
        owner.release()
    assert not in_use(DISK, str(data))
