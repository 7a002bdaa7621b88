"""Partitions on disk: whole batches, committed ones where that is asked for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ottla.base.vocabulary import TopicPartition
from ottla.records.builder import build_batch
from ottla.records.control import EndTransaction, build_control
from ottla.records.header import CorruptBatch
from ottla.records.record import Record
from ottla.spark import segments
from ottla.spark.columns import Gathering, record_columns
from ottla.spark.errors import BadOption
from ottla.spark.options import SourceOptions, parse_source
from ottla.spark.plan import Range

PARTITION = TopicPartition("t", 0)


def batch(first: int, count: int, producer: int = -1, compression: int = 0, timestamp: int = 1000) -> bytes:
    records = [Record(first + each, timestamp, b"k", b"v%d" % (first + each)) for each in range(count)]
    number = 0 if producer >= 0 else -1
    return bytes(
        build_batch(
            records,
            base_offset=first,
            compression=compression,
            producer_id=producer,
            producer_epoch=number,
            base_sequence=number,
            transactional=producer >= 0,
        )
    )


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    content = EndTransaction(commit, 0)
    return bytes(
        build_control(content, offset=offset, timestamp=0, leader_epoch=0, producer_id=producer, producer_epoch=0)
    )


def store(root: Path, *files: tuple[int, bytes], name: str = "t-0") -> None:
    directory = root / name
    directory.mkdir()
    for base, data in files:
        (directory / f"{base:020d}.log").write_bytes(data)


def options(root: Path, **given: str) -> SourceOptions:
    return parse_source({"path": str(root), **given}, streaming=False)


def read(chosen: SourceOptions) -> list[int]:
    starts, ends = segments.extents(chosen)
    wanted = Range(PARTITION, starts[PARTITION], ends[PARTITION])
    return offsets(chosen, wanted)


def offsets(chosen: SourceOptions, wanted: Range) -> list[int]:
    parts = segments.read_segments(chosen, wanted, Gathering(PARTITION, record_columns(False)))
    return [each for part in parts for each in part.column("offset").to_pylist()]


def test_segments_are_read_one_after_another(tmp_path: Path) -> None:
    store(tmp_path, (5, batch(5, 3) + batch(8, 2, compression=4)), (10, batch(10, 4)))
    assert read(options(tmp_path)) == list(range(5, 14))


def test_a_range_may_begin_and_end_inside_batches(tmp_path: Path) -> None:
    store(tmp_path, (0, batch(0, 10)), (10, batch(10, 10)))
    chosen = options(tmp_path)
    assert offsets(chosen, Range(PARTITION, 7, 13)) == list(range(7, 13))


def test_a_batch_that_is_cut_off_and_space_set_aside_are_left_out(tmp_path: Path) -> None:
    store(tmp_path, (0, batch(0, 3) + batch(3, 3)[:-4]), name="t-0")
    store(tmp_path, (0, batch(0, 3) + bytes(5000)), name="u-0")
    assert read(options(tmp_path, subscribe="t")) == [0, 1, 2]
    assert segments.extents(options(tmp_path, subscribe="u"))[1] == {TopicPartition("u", 0): 3}


def test_damage_is_not_passed_over(tmp_path: Path) -> None:
    damaged = bytearray(batch(0, 3))
    damaged[-1] ^= 1
    store(tmp_path, (0, bytes(damaged)))
    with pytest.raises(CorruptBatch):
        read(options(tmp_path))


def test_only_committed_records_are_read_where_that_is_asked_for(tmp_path: Path) -> None:
    store(
        tmp_path,
        (0, batch(0, 2, producer=1) + batch(2, 2, producer=2) + marker(4, 1, commit=False)),
        (5, batch(5, 2, producer=1) + marker(7, 1, commit=True) + batch(8, 1)),
        (9, marker(9, 2, commit=True) + batch(10, 3, producer=3) + batch(13, 1)),
    )
    assert read(options(tmp_path, **{"isolation.level": "read_committed"})) == [2, 3, 5, 6, 8]
    assert read(options(tmp_path)) == [0, 1, 2, 3, 5, 6, 8, 10, 11, 12, 13]


def test_internal_topics_and_directories_put_aside_are_not_read_unasked(tmp_path: Path) -> None:
    store(tmp_path, (0, batch(0, 1)), name="t-0")
    store(tmp_path, (0, batch(0, 1)), name="__consumer_offsets-3")
    store(tmp_path, (0, batch(0, 1)), name=f"t-1.{'a' * 32}-delete")
    assert list(segments.find_partitions(str(tmp_path), options(tmp_path).topics)) == [PARTITION]


def test_a_time_finds_the_first_batch_that_reaches_it(tmp_path: Path) -> None:
    store(tmp_path, (0, batch(0, 2, timestamp=10) + batch(2, 2, timestamp=20)), (4, batch(4, 2, timestamp=30)))
    chosen = options(tmp_path)
    assert segments.first_at(chosen, {PARTITION: 15}) == {PARTITION: 2}
    assert segments.first_at(chosen, {PARTITION: 30}) == {PARTITION: 4}
    assert segments.first_at(chosen, {PARTITION: 31}) == {}


def test_a_path_without_partitions_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="neither a directory nor an archive"):
        segments.extents(options(tmp_path / "missing"))
    with pytest.raises(BadOption, match="holds no partition"):
        segments.extents(options(tmp_path))


@pytest.mark.parametrize("kind", ["tar", "gztar", "xztar", "zip"])
@pytest.mark.parametrize("root", [".", "broker/data"])
def test_an_archive_of_a_data_directory_is_read_as_the_directory(tmp_path: Path, kind: str, root: str) -> None:
    data = tmp_path / "all" / root
    data.mkdir(parents=True)
    store(data, (5, batch(5, 3) + batch(8, 2, compression=4)), (10, batch(10, 4)))
    store(data, (0, batch(0, 1)), name="other-0")
    (data / "meta.properties").write_text("version=1")
    archive = shutil.make_archive(str(tmp_path / "backup"), kind, tmp_path / "all")
    assert read(options(Path(archive), subscribe="t")) == list(range(5, 14))
    assert segments.extents(options(Path(archive)))[1] == {PARTITION: 14, TopicPartition("other", 0): 1}


def test_a_file_that_is_no_archive_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not segments")
    with pytest.raises(BadOption, match="it is no tar or zip of a data directory"):
        segments.extents(options(tmp_path / "notes.txt"))
