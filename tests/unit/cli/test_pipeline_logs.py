"""The log of a pipeline, for people and for programs."""

import json
from pathlib import Path

import pytest

from kit.brokers.command_line import Ottla
from ottla.cli.pipeline_views import whole_lines


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        (["a\n", "b\n"], ["a", "b"]),
        (["a", "b\nc", "\n", "d"], ["ab", "c", "d"]),
        (["a\n\nb\n"], ["a", "", "b"]),
        ([], []),
    ],
)
def test_lines_are_whole_however_they_come(pieces: list[str], lines: list[str]) -> None:
    assert list(whole_lines(pieces)) == lines


def test_the_log_of_a_pipeline_is_lines_or_objects(tmp_path: Path) -> None:
    log = tmp_path / "ottla" / "pipelines" / "orders" / "log"
    log.parent.mkdir(parents=True)
    log.write_text("one\ntwo\nthree")
    ottla = Ottla(None, {"XDG_STATE_HOME": str(tmp_path)})
    assert ottla("pipeline", "logs", "orders", "--lines", "2") == b"two\nthree"
    told = [json.loads(line) for line in ottla.lines("pipeline", "logs", "orders", "--json", "--follow")]
    assert told == [{"pipeline": "orders", "line": line} for line in ("one", "two", "three")]
