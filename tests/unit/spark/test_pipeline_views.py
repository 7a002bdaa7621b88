"""Pipelines as a terminal shows them."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.output import plain
from ottla.cli.pipeline_views import GONE, SILENT, bar_text, condition, durations_text, list_table, query_lines
from ottla.spark.pipelines.places import PipelineDirectory
from ottla.spark.pipelines.progress import document


def registered(**changes: Any) -> dict[str, Any]:
    return {
        "name": "orders",
        "state": "running",
        "problem": None,
        "time": 100_000,
        "started": 40_000,
        "host": "elsewhere",
        "pid": 7,
        "queries": ["out"],
    } | changes


def test_a_pipeline_is_believed_to_run_only_while_it_is_heard_of() -> None:
    assert condition(registered(), 100_500) == "running"
    assert condition(registered(), 200_000) == SILENT
    assert condition(registered(state="stopped"), 200_000) == "stopped"
    here = registered(host=socket.gethostname(), pid=os.getpid())
    assert condition(here, 100_500) == "running"
    assert condition(here | {"pid": 2**22 + 1}, 100_500) == GONE


def test_the_list_says_since_when_and_why_not() -> None:
    failed = registered(name="clicks", state="failed", problem="query out: no")
    assert plain(list_table([registered(), failed], 160_000)).splitlines() == [
        "PIPELINE  STATE    SINCE   HOST       PROCESS  QUERIES  PROBLEM",
        "orders    running  2m ago  elsewhere        7  out",
        "clicks    failed   1m ago  elsewhere        7  out      query out: no",
    ]


@pytest.mark.parametrize(("amount", "peak", "filled"), [(0, 0, 0), (0, 5, 0), (5, 5, 24), (1, 2, 12)])
def test_a_full_bar_is_the_most_that_was_seen(amount: float, peak: float, filled: int) -> None:
    assert bar_text(amount, peak) == "━" * filled + "─" * (24 - filled)


def test_a_query_has_a_bar_for_each_of_its_figures() -> None:
    progress = {
        "batchId": 3,
        "numInputRows": 10,
        "durationMs": {"triggerExecution": 500, "addBatch": 300, "getBatch": 0},
    }
    told = document("orders", "out", progress, 1.5, 0)
    peaks: dict[str, float] = {}
    lines = [str(line) for line in query_lines("orders/out", "out", told, peaks)]
    assert [line.split()[0] for line in lines] == ["out", "in", "out", "behind", "state", "batch"]
    assert lines[1].endswith("20 rows/s")
    assert lines[-1].endswith("3: 500 ms (addBatch 300 ms)")
    assert durations_text(told) == "addBatch 300 ms"
    assert peaks["orders/out/in"] == 20.0


def test_a_place_knows_a_process_only_as_long_as_it_is_that_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    place = PipelineDirectory("orders")
    assert place.process() is None
    place.claim(os.getpid(), "running")
    found = place.process()
    assert found is not None
    assert (found["pid"], found["state"]) == (os.getpid(), "running")
    place.claim(2**22 + 1, "running")
    assert place.process() is None
    place.release()
    assert place.process() is None
    assert place.log.parent == tmp_path / "ottla" / "pipelines" / "orders"
