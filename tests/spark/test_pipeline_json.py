"""`ottla pipeline … --json`: what programs are told of a pipeline, from its check to its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.brokers.brokers import Broker
from kit.others.pipelines import Sent, Shared, make_topics, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # PySpark leaves sockets to the collector
    pytest.mark.timeout(900),
]

Told = Callable[..., list[Any]]

FILE = """
name: told
sources:
  lines: {topic: "${TOPIC}", select: [value]}
sinks:
  out: {from: lines, parquet: "${FILES}"}
"""


@pytest.fixture
def told(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Told:
    """Runs a command in this process: the JSON documents that it printed."""
    import typer

    import ottla.spark
    from ottla.cli import pipeline, pipeline_run
    from ottla.cli.failures import Failure

    monkeypatch.setattr(ottla.spark, "start_session", lambda *_: Shared(spark))
    monkeypatch.setattr(pipeline_run._Signals, "install", lambda _: None)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(*arguments: str, fails: bool = False) -> list[Any]:
        given = [*arguments, "--json", "--bootstrap", f"{broker.host}:{broker.port}"]
        failed = False
        try:
            typer.main.get_command(pipeline.app)(given, standalone_mode=False)
        except Failure:
            failed = True
        assert failed == fails
        return documents(capsys.readouterr().out)

    return run


def documents(text: str) -> list[Any]:
    """One or several, a line each or indented."""
    found = []
    position = 0
    while position < len(text):
        content, position = json.JSONDecoder().raw_decode(text, position)
        found.append(content)
        position += len(text[position:]) - len(text[position:].lstrip())
    return found


def test_a_pipeline_is_told_to_programs_from_its_check_to_its_end(
    tmp_path: Path, broker: Broker, told: Told, topic: str
) -> None:
    servers = f"{broker.host}:{broker.port}"
    file = tmp_path / "told.yaml"
    file.write_text(FILE)
    values = ("--set", f"TOPIC={topic}", "--set", f"FILES={tmp_path / 'files'}")
    (checked,) = told("check", str(file), *values, fails=True)
    assert checked["problems"] == [f"topic {topic!r} does not exist; 'ottla topic create {topic}' makes it"]
    make_topics(servers, [topic])
    (checked,) = told("check", str(file), *values)
    assert checked == {"file": str(file), "problems": [], "sources": ["lines"], "sinks": ["out"], "notes": []}
    send(servers, [Sent(topic, b"k", b"v%d" % each, 1) for each in range(3)])
    running, *batches, ended = told("run", str(file), "--once", *values)
    assert (running["event"], running["pipeline"], running["queries"]) == ("running", "told", ["out"])
    assert {batch["event"] for batch in batches} == {"batch"}
    assert sum(batch["input_rows"] for batch in batches) == 3
    assert ended == {"event": "ended", "pipeline": "told", "state": "finished"}
    last = told("status", "told", "--follow")[-1]
    assert (last["query"], last["state"]) == ("out", "finished")
    assert told("stop", "told") == [{"pipeline": "told", "state": "finished"}]


def test_mistakes_in_a_file_are_listed_for_programs_too(tmp_path: Path, told: Told) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("sources: {a: {topic: t}}\nsinks: {out: {from: b, topic: t, mod: append}}\n")
    (checked,) = told("check", str(file), fails=True)
    assert checked["problems"] == [
        "sink out has no key 'mod'; did you mean mode?",
        "sink out is made from b, which is no source, table or step",
    ]
