"""The glossary names what is there: its files exist, and the names of the code are defined in them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from docs.pages import REPOSITORY

PACKAGE = REPOSITORY / "src" / "ottla"
GLOSSARY = (REPOSITORY / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in GLOSSARY.splitlines()
    if line.startswith("| ") and not line.startswith(("| ottla |", "| --- |"))
]
CODE = re.compile(r"`([^`]+)`")


def defined(path: Path) -> set[str]:
    """What a module defines at its top, and the module itself."""
    names = {path.stem}
    for each in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(each, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            names.add(each.name)
    return names


def test_every_row_has_all_its_columns() -> None:
    assert ROWS
    assert [row for row in ROWS if len(row) != 4 or not all(row)] == []


def test_no_word_stands_twice() -> None:
    words = [word for row in ROWS for word in row[0].split(", ")]
    assert sorted({word for word in words if words.count(word) > 1}) == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_files_of_a_row_define_its_names(row: list[str]) -> None:
    places = [PACKAGE / name for name in CODE.findall(row[3])]
    assert places
    assert [str(place) for place in places if not place.exists()] == []
    files = [place for place in places if place.suffix == ".py"]
    names = {name for file in files for name in defined(file)}
    assert set(CODE.findall(row[0])) - names == set()
