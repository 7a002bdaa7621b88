"""Every decision is in the index, with its date and status, and is cited by the code that follows from it."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from docs.pages import REPOSITORY

DESIGN = REPOSITORY / "docs" / "design"
PAGES = {page.name[:4]: page for page in DESIGN.glob("*.md") if page.name != "index.md"}
INDEX = (DESIGN / "index.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| \[(\d{4})\]\((\S+)\) \| (.+) \| (\S+) \| (.+) \|$", re.MULTILINE)
STATUS = re.compile(r"accepted|withdrawn|superseded by (\d{4})")
CITATION = re.compile(r"\bdesign/(\d{4})\b")
SOURCES = [path for path in (REPOSITORY / "src").rglob("*") if path.suffix in (".py", ".pyx", ".pxi")]


def cited(paths: list[Path]) -> dict[str, list[str]]:
    """Which files cite a page."""
    found: dict[str, list[str]] = {}
    for path in paths:
        for number in CITATION.findall(path.read_text(encoding="utf-8")):
            found.setdefault(number, []).append(str(path.relative_to(REPOSITORY)))
    return found


def test_the_index_has_every_page_under_its_title() -> None:
    listed = [(number, name, title) for number, name, title, _, _ in ROW.findall(INDEX)]
    assert listed == [
        (number, page.name, page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# "))
        for number, page in sorted(PAGES.items())
    ]


def test_every_page_has_a_date_and_a_status() -> None:
    for number, _, _, day, status in ROW.findall(INDEX):
        assert date(2026, 11, 1) <= date.fromisoformat(day), number
        found = STATUS.fullmatch(status)
        assert found is not None, f"{number}: {status}"
        assert found[1] is None or found[1] in PAGES, f"{number}: {status}"


def test_a_number_that_is_missing_has_a_word() -> None:
    missing = {f"{number:04}" for number in range(1, int(max(PAGES)) + 1)} - set(PAGES)
    told = re.sub(r"^\|.*$", "", INDEX, flags=re.MULTILINE)
    assert {number for number in missing if number not in told} == set()


def test_what_is_decided_is_cited_by_code_that_follows_from_it() -> None:
    accepted = {number for number, _, _, _, status in ROW.findall(INDEX) if status == "accepted"}
    assert accepted - set(cited(SOURCES)) == set(), "cite the page in a comment where the code follows from it"


def test_a_page_that_is_cited_exists_and_still_counts() -> None:
    everything = [
        *SOURCES,
        *(path for room in ("tests", "scripts", "bench") for path in (REPOSITORY / room).rglob("*.py")),
    ]
    counts = {number for number, _, _, _, status in ROW.findall(INDEX) if status == "accepted"}
    assert {number: files for number, files in cited(everything).items() if number not in counts} == {}
