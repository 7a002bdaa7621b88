"""Every link of the documentation leads somewhere, and every `ottla` command it shows exists with its options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.pages import REPOSITORY, blocks
from ottla.base.settings.file import check_static, parse_properties
from ottla.cli.main import COMMANDS, load

PAGES = sorted(
    [
        *(REPOSITORY / "docs").rglob("*.md"),
        *(
            REPOSITORY / name
            for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "bench/README.md")
        ),
    ]
)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site's generator make it."""
    words = re.sub(r"[^\w\s-]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower())
    return re.sub(r"\s+", "-", words.strip())


def anchors(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return {slug(heading) for heading in HEADING.findall(text)}


def broken_links(page: Path) -> Iterator[str]:
    for target in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        if not place.exists():
            yield f"{target}: no such file"
        elif anchor and (place.suffix != ".md" or anchor not in anchors(place)):
            yield f"{target}: no such heading"
        elif page.is_relative_to(REPOSITORY / "docs") and not place.is_relative_to(REPOSITORY / "docs"):
            yield f"{target}: not on the site"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


def shown_commands() -> Iterator[tuple[str, str]]:
    """Every `ottla …` command in a block of a page; words in capitals or brackets stand for something else."""
    for page in PAGES:
        for block in blocks(page):
            if block.kind not in ("", "sh", "console"):
                continue
            for line in re.sub(r"\\\n\s*", " ", block.text).splitlines():
                for found in re.finditer(r"(?:^|[$|(] ?|exec kafka )(ottla [a-z][^|>]*)", line):
                    yield page.name, found[1].partition("  ")[0].partition(" #")[0].strip(" )&")


@pytest.mark.parametrize(("page", "command"), sorted(set(shown_commands())))
def test_a_command_that_is_shown_exists_with_its_options(page: str, command: str) -> None:
    try:
        words = shlex.split(command)[1:]
    except ValueError:
        words = command.split()[1:]  # cut off in a sentence
    if words[0][0].isdigit():
        return  # what a node says of itself
    assert words[0] in COMMANDS, f"{page}: {command}"
    found: Any = load(words.pop(0))
    if hasattr(found, "commands"):
        verb = words.pop(0) if words else ""
        if verb in ("", "…"):
            return
        assert verb in found.commands, f"{page}: {command}"
        found = found.commands[verb]
    known = {"--help", "-h", *(name for each in found.params for name in (*each.opts, *each.secondary_opts))}
    given = {word.partition("=")[0].strip("[]…") for word in words if re.match(r"\[?--?[a-zA-Z]", word)}
    assert given <= known, f"{page}: {command}"


@pytest.mark.parametrize(
    ("page", "text"),
    [(page.name, block.text) for page in PAGES for block in blocks(page) if block.kind == "properties"],
)
def test_settings_that_are_shown_are_settings(page: str, text: str) -> None:
    check_static(parse_properties(text))
