"""Proves that checkpoint files are Kafka's text, replaced atomically, and refused whole when they are damaged."""

from pathlib import Path

import pytest

from ottla.base.vocabulary import TopicPartition
from ottla.log.checkpoints import BadCheckpoint, Checkpoint, parse_offsets, read_checkpoint
from ottla.log.data_directory import DataDirectory
from ottla.log.files import World
from ottla.runtime.disk import RealDisk
from ottla.runtime.world import RealClock, RealRandom

OFFSETS = {TopicPartition("orders", 0): 17, TopicPartition("a-b.c_d", 12): 0}


def directory(path: Path) -> DataDirectory:
    return DataDirectory(str(path), World(RealDisk(), RealClock(), RealRandom()))


def test_a_checkpoint_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    directory(tmp_path).write_offsets(Checkpoint.RECOVERY_POINT, OFFSETS)
    assert read_checkpoint(RealDisk(), str(tmp_path), Checkpoint.RECOVERY_POINT) == OFFSETS
    assert (tmp_path / "recovery-point-offset-checkpoint").read_bytes() == b"0\n2\norders 0 17\na-b.c_d 12 0\n"


def test_writing_leaves_no_temporary_file_and_overwrites_a_torn_one(tmp_path: Path) -> None:
    (tmp_path / "log-start-offset-checkpoint.tmp").write_bytes(b"0\n9\nhalf of an earlier, longer attempt")
    directory(tmp_path).write_offsets(Checkpoint.START_OFFSET, {TopicPartition("t", 1): 5})
    assert [file.name for file in tmp_path.iterdir()] == ["log-start-offset-checkpoint"]
    assert read_checkpoint(RealDisk(), str(tmp_path), Checkpoint.START_OFFSET) == {TopicPartition("t", 1): 5}


def test_a_missing_file_and_an_empty_one_hold_no_offsets(tmp_path: Path) -> None:
    assert read_checkpoint(RealDisk(), str(tmp_path), Checkpoint.HIGH_WATERMARK) == {}
    (tmp_path / "replication-offset-checkpoint").touch()
    assert read_checkpoint(RealDisk(), str(tmp_path), Checkpoint.HIGH_WATERMARK) == {}
    assert parse_offsets(b"0\n0\n", "x") == {}


@pytest.mark.parametrize(
    "content",
    [
        b"1\n0\n",
        b"0\n2\nt 0 1\n",
        b"0\n1\nt 0\n",
        b"0\n1\nt zero 1\n",
        b"0\n1\nt 0 1\nt 1 1\n",
        b"0\nmany\nt 0 1\n",
        b"\xff\xfe\x00",
    ],
)
def test_damaged_content_is_refused_with_the_path_in_the_message(content: bytes) -> None:
    with pytest.raises(BadCheckpoint, match="data/recovery-point-offset-checkpoint"):
        parse_offsets(content, "data/recovery-point-offset-checkpoint")
