"""What the demo says is readable where no terminal is."""

from __future__ import annotations

import pytest

from ottla.demo.screen import Screen


def test_a_story_that_is_piped_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with Screen(lively=False) as screen:
        screen.act("The first")
        screen.say("a line with [brackets]")
        screen.command("ottla topic list")
        screen.good("well")
        screen.bad("not well")
        screen.figures({"events": "12", "lag": "0"})
    assert capsys.readouterr().out.splitlines() == [
        "",
        "1. The first",
        "   a line with [brackets]",
        "   $ ottla topic list",
        "   ✓ well",
        "   ✗ not well",
        "     events 12 · lag 0",
    ]


def test_numbers_of_a_table_stand_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    with Screen(lively=False) as screen:
        screen.table(["NAME", "COUNT"], [["a", "1,000"], ["bcdef", "2"]])
    assert capsys.readouterr().out.splitlines() == ["     NAME   COUNT", "     a      1,000", "     bcdef      2"]


def test_a_long_line_is_not_broken_where_a_program_reads(capsys: pytest.CaptureFixture[str]) -> None:
    with Screen(lively=False) as screen:
        screen.say("word " * 60)
    assert len(capsys.readouterr().out.splitlines()) == 1
