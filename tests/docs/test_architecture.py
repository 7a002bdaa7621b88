"""The map of the code is true: its picture is that of the import walls, and its ways lead through functions that are
there and call each other."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from docs.pages import REPOSITORY

PAGE = REPOSITORY / "docs" / "architecture.md"
SOURCE = REPOSITORY / "src" / "ottla"
STEP = re.compile(r"^\d+\. (?P<later>\*later\* )?`(?P<file>[\w/]+\.py)` `(?P<name>[\w.]+)`(?:: .+)?$")


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script that draws them."""
    monkeypatch.syspath_prepend(str(REPOSITORY))
    return importlib.import_module("scripts.draw_rooms")


class Step(NamedTuple):
    later: bool
    file: str
    name: str


def ways() -> dict[str, list[Step]]:
    chapter = PAGE.read_text().split("## Five ways through the code")[1].split("\n## ")[0]
    found: dict[str, list[Step]] = {}
    for section in chapter.split("\n### ")[1:]:
        title, *lines = section.strip().splitlines()
        steps = [STEP.match(line) for line in lines if line]
        assert all(steps), f"{title}: a line is not a step"
        found[title] = [Step(bool(each["later"]), each["file"], each["name"]) for each in steps if each]
    return found


@cache
def tree(file: str) -> ast.Module:
    return ast.parse((SOURCE / file).read_text())


def definition(step: Step) -> ast.AST | None:
    """What a step names, or None."""
    body: list[ast.stmt] = tree(step.file).body
    found: ast.AST | None = None
    for part in step.name.split("."):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        found = next((each for each in body if isinstance(each, kinds) and each.name == part), None)
        if found is None:
            return None
        body = found.body
    return found


def names_in(file: str) -> set[str]:
    """Every name and attribute that the code of a file uses."""
    return {node.id for node in ast.walk(tree(file)) if isinstance(node, ast.Name)} | {
        node.attr for node in ast.walk(tree(file)) if isinstance(node, ast.Attribute)
    }


def test_there_are_five_ways() -> None:
    assert len(ways()) == 5
    assert all(len(steps) > 5 for steps in ways().values())


@pytest.mark.parametrize("title", ways())
def test_every_step_of_a_way_is_in_the_code(title: str) -> None:
    missing = [step for step in ways()[title] if not (SOURCE / step.file).exists() or definition(step) is None]
    assert not missing


@pytest.mark.parametrize("title", ways())
def test_every_step_is_called_by_the_one_before_unless_it_comes_later(title: str) -> None:
    apart = [
        (before, after)
        for before, after in pairwise(ways()[title])
        if not after.later and after.name.rpartition(".")[2] not in names_in(before.file)
    ]
    assert not apart


def test_the_picture_of_the_rooms_is_that_of_the_import_walls(rooms: Any, tmp_path: Path) -> None:
    rooms.draw(tmp_path / "rooms.svg")
    kept = REPOSITORY / "docs" / "pictures" / "rooms.svg"
    assert kept.read_text() == (tmp_path / "rooms.svg").read_text(), "run `python -m scripts.draw_rooms`"


def test_every_room_has_a_line_on_the_map(rooms: Any) -> None:
    table = PAGE.read_text().split("## The rooms")[1].split("\n## ")[0]
    told = set(re.findall(r"`(\w+)/?`", "\n".join(re.findall(r"^\|[^|]+\|", table, re.MULTILINE))))
    assert {room for row in rooms.layers() for room in row} <= told
