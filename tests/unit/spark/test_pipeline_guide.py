"""The pipelines in the guide are pipelines."""

from __future__ import annotations

import re
from pathlib import Path

from ottla.spark.pipelines.definition import Definition
from ottla.spark.pipelines.files import Program, load_pipeline
from ottla.spark.pipelines.graph import advice, draw, graph_of

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "pipelines.md"


def block(kind: str) -> str:
    found = re.search(rf"^```{kind}[^\n]*\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    assert found
    return found[1]


def test_the_first_pipeline_has_the_plan_that_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "visits.yaml"
    file.write_text(block("yaml"))
    definition = load_pipeline(str(file), {})
    assert isinstance(definition, Definition)
    assert advice(definition) == []
    assert f"$ ottla pipeline plan visits.yaml\n{draw(graph_of(definition))}" in GUIDE.read_text(encoding="utf-8")


def test_the_pipeline_in_python_is_one(tmp_path: Path) -> None:
    file = tmp_path / "guide_enriched.py"
    file.write_text(block("python"))
    program = load_pipeline(str(file), {"DEAD": "dead"})
    assert isinstance(program, Program)
    assert (program.frame.name, program.frame.dead_letters) == ("enriched", "dead")
