"""The README's tour, the tutorial and the how-to guides are run as they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages import REPOSITORY, blocks, normal, run_page, same, steps

PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "docs" / "tutorial.md",
    *sorted((REPOSITORY / "docs/how-to").glob("*.md")),
]
RUN = [page for page in PAGES if any(block.kind in ("console", "python") and not block.title for block in blocks(page))]


@pytest.mark.timeout(900)  # many programs one after the other, on whatever machine
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    assert run_page(page, tmp_path / "session") > 0


def test_the_pages_that_teach_are_among_those_that_are_run() -> None:
    assert {"README", "tutorial", "test-your-app", "three-nodes", "never-lose-a-message"} <= {page.stem for page in RUN}


def test_a_console_block_is_commands_and_their_output() -> None:
    assert steps("$ one \\\n  more\nout\n\n$ two\n") == [("one \\\n  more", "out"), ("two", "")]


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("ready on localhost:9092 (node 1, cluster DECdREENTiuIoptZUZgZAg, 0.07 s)", None),
        ("a 1\n…\nb 2", "a 7\nx\ny\nb 9"),
        ("NAME  COUNT\na         1", "NAME       COUNT\na        12,345"),
        ("LAG  MEMBER\n  0  -", "LAG  MEMBER\n  -  -\n"),
        ("1.4 KiB/s", "923 B/s"),
    ],
)
def test_outputs_are_the_same_whatever_their_numbers(shown: str, printed: str | None) -> None:
    assert same(shown, shown if printed is None else printed)


def test_other_words_are_another_output() -> None:
    assert not same("created topic 'orders'", "topic 'orders' exists")
    assert not same("one line", "one line\nand another")
    assert normal("cluster W3MQ9weO3lW1c-dTEPoMeg") == ["cluster ID"]
