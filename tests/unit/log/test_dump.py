"""Proves that a dump shows what is in each kind of log file, verifies it, and says what is wrong and where."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ottla.cli.log import app
from ottla.log.dump import Row, UnreadableFile, dump, readable
from ottla.log.epochs import EpochHistory
from ottla.log.index import AbortedTransaction
from ottla.log.producers import ProducerState
from ottla.log.segment import Segment
from ottla.log.settings import LogSettings
from ottla.log.snapshots import encode_snapshot
from ottla.records.builder import build_batch
from ottla.records.header import read_header
from ottla.records.record import Record
from ottla.runtime.disk import RealDisk

NAME = "00000000000000000100"


def write_segment(directory: Path, batches: int = 5) -> Path:
    """A sealed segment with base offset 100: batches of two records, an index entry for almost each of them."""
    segment = Segment.create(RealDisk(), str(directory), 100, LogSettings(index_interval_bytes=1))
    for number in range(batches):
        offset = 100 + 2 * number
        data = build_batch(
            [
                Record(offset, 1000 + offset, b"k%d" % number, b"value", (("trace", b"\x00\xff"),)),
                Record(offset + 1, 1000 + offset, None, None),
            ],
            base_offset=offset,
            compression=number % 5,
            producer_id=7,
            producer_epoch=0,
            base_sequence=2 * number,
        )
        position = segment.write(data, len(data))
        header = read_header(data)
        segment.note(position, len(data), header.last_offset, header.max_timestamp)
    segment.transaction_index.append(AbortedTransaction(7, 100, 103, 104))
    segment.seal()
    segment.close()
    return directory / f"{NAME}.log"


def rows(path: Path, *, records: bool = False) -> list[Row]:
    return list(dump(RealDisk(), str(path), records=records))


def test_a_log_is_shown_batch_by_batch_and_found_whole(tmp_path: Path) -> None:
    *batches, verdict = rows(write_segment(tmp_path))
    assert [batch.fields["base_offset"] for batch in batches] == [100, 102, 104, 106, 108]
    assert [batch.fields["compression"] for batch in batches] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert batches[1].fields["last_sequence"] == 3
    assert all(batch.problem is None for batch in batches)
    assert verdict.fields == {"file": str(tmp_path / f"{NAME}.log"), "batches": 5, "problems": 0}


def test_records_are_shown_when_asked_for(tmp_path: Path) -> None:
    found = [row.fields for row in rows(write_segment(tmp_path, batches=1), records=True) if row.kind == "record"]
    assert found == [
        {"offset": 100, "timestamp": 1100, "key": "k0", "value": "value", "headers": {"trace": "0x00ff"}},
        {"offset": 101, "timestamp": 1100, "key": None, "value": None},
    ]


def test_a_flipped_bit_is_found_by_the_checksum(tmp_path: Path) -> None:
    path = write_segment(tmp_path)
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    path.write_bytes(content)
    found = rows(path, records=True)
    assert found[0].problem == "the checksum does not match"
    assert [row.kind for row in found[:2]] == ["batch", "batch"], "records of a damaged batch are not shown"
    assert found[-1].fields["problems"] == 1


def test_a_torn_tail_and_garbage_are_problems_not_exceptions(tmp_path: Path) -> None:
    path = write_segment(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    *_, problem, verdict = rows(path)
    assert problem.problem is not None
    assert "no whole batch" in problem.problem
    assert (verdict.fields["batches"], verdict.fields["problems"]) == (4, 1)
    path.write_bytes(whole + bytes(100))
    *_, problem, verdict = rows(path)
    assert problem.problem is not None
    assert problem.problem.startswith("the file cannot be read further")
    assert verdict.fields["batches"] == 5


def test_a_batch_that_goes_back_in_offsets_is_a_problem(tmp_path: Path) -> None:
    path = write_segment(tmp_path, batches=1)
    path.write_bytes(path.read_bytes() * 2)
    assert [row.problem for row in rows(path)][:2] == [None, "offset 102 or a later one was expected"]


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_index_entries_are_held_against_the_log(tmp_path: Path, suffix: str) -> None:
    write_segment(tmp_path)
    path = tmp_path / f"{NAME}.{suffix}"
    *entries, verdict = rows(path)
    assert len(entries) == 4
    assert all(entry.problem is None for entry in entries)
    content = bytearray(path.read_bytes())
    content[7] ^= 1  # the position's last byte, or the timestamp's
    path.write_bytes(content)
    assert rows(path)[0].problem is not None
    (tmp_path / f"{NAME}.log").unlink()
    note, *_, verdict = rows(path)
    assert note.kind == "note"
    assert verdict.fields["problems"] == 0


def test_an_index_with_a_torn_entry_is_told(tmp_path: Path) -> None:
    write_segment(tmp_path)
    path = tmp_path / f"{NAME}.index"
    path.write_bytes(path.read_bytes() + b"\0\0\0")
    assert rows(path)[-2].problem == "the file cannot be read further: the last entry is cut off (at byte 32)"


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_space_that_kafka_preallocates_in_an_index_is_no_problem(tmp_path: Path, suffix: str) -> None:
    write_segment(tmp_path)
    path = tmp_path / f"{NAME}.{suffix}"
    path.write_bytes(path.read_bytes() + bytes(240))
    *_, note, verdict = rows(path)
    assert note.kind == "note"
    assert (verdict.fields["entries"], verdict.fields["problems"]) == (4, 0)


def test_aborted_transactions_producers_and_epochs_are_shown(tmp_path: Path) -> None:
    write_segment(tmp_path)
    assert rows(tmp_path / f"{NAME}.txnindex")[0] == Row(
        "transaction", {"producer_id": 7, "first_offset": 100, "last_offset": 103, "last_stable_offset": 104}
    )
    state = ProducerState(7, 3)
    state.batches.append((0, 4, 10, 14, 99))
    snapshot = tmp_path / f"{NAME}.snapshot"
    snapshot.write_bytes(encode_snapshot([state]))
    producer = rows(snapshot)[0].fields
    assert (producer["producer_id"], producer["producer_epoch"], producer["last_sequence"]) == (7, 3, 4)
    history = EpochHistory()
    history.assign(2, 50)
    (tmp_path / "leader-epoch-checkpoint").write_text(history.text())
    assert rows(tmp_path / "leader-epoch-checkpoint")[0] == Row("epoch", {"leader_epoch": 2, "start_offset": 50})


def test_damaged_side_files_are_problems(tmp_path: Path) -> None:
    snapshot = tmp_path / f"{NAME}.snapshot"
    snapshot.write_bytes(b"\0\1garbage")
    assert rows(snapshot)[0].problem is not None
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"\xff\xff")
    assert rows(tmp_path / "leader-epoch-checkpoint")[0].problem is not None


def test_a_file_that_is_no_log_file_or_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    for name in ("notes.txt", "missing.log"):
        with pytest.raises(UnreadableFile, match=name):
            rows(tmp_path / name)


def test_bytes_that_are_no_text_are_shown_in_hexadecimal() -> None:
    assert [readable(value) for value in (b"plain", "größe".encode(), b"a\nb", b"\xff", None)] == [
        "plain",
        "größe",
        "0x610a62",
        "0xff",
        None,
    ]


def test_the_command_prints_text_or_json_and_fails_on_problems(tmp_path: Path) -> None:
    path = write_segment(tmp_path)
    result = CliRunner().invoke(app, ["dump", str(path), "--records"])
    assert result.exit_code == 0
    assert "  record  offset=100  timestamp=1100  key=k0  value=value  headers={trace: 0x00ff}" in result.stdout
    assert result.stdout.endswith(f"{path}: 5 batches, 10 records; all of it verified\n")
    result = CliRunner().invoke(app, ["dump", str(path), "--json"])
    assert [json.loads(line)["kind"] for line in result.stdout.splitlines()] == ["batch"] * 5 + ["verdict"]
    path.write_bytes(path.read_bytes()[:-1])
    assert CliRunner().invoke(app, ["dump", str(path)]).exit_code == 1
    assert CliRunner().invoke(app, ["dump", str(tmp_path / "missing.log")]).exit_code == 1
