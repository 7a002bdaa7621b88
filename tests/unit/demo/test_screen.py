"""What the demo says is readable where no terminal is."""

from __future__ import annotations

import json

import pytest

from ottla.demo.screen import JsonScreen, Screen


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


def test_a_story_for_programs_is_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with JsonScreen() as screen:
        screen.act("The first")
        screen.say("a line with [brackets] and :key:")
        screen.command("ottla topic list")
        screen.quote("node 1: it happens")
        screen.good("well")
        screen.bad("not " * 60)
        screen.table(["NAME", "PAID BY"], [["a", "card"], ["b", "nobody yet"]])
        screen.figures({"events": "12", "lag": "0"})
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert told == [
        {"event": "act", "act": 1, "text": "The first"},
        {"event": "told", "act": 1, "text": "a line with [brackets] and :key:"},
        {"event": "command", "act": 1, "text": "ottla topic list"},
        {"event": "quoted", "act": 1, "text": "node 1: it happens"},
        {"event": "success", "act": 1, "text": "well"},
        {"event": "failure", "act": 1, "text": "not " * 60},
        {
            "event": "table",
            "act": 1,
            "rows": [{"name": "a", "paid_by": "card"}, {"name": "b", "paid_by": "nobody yet"}],
        },
        {"event": "figures", "act": 1, "figures": {"events": "12", "lag": "0"}},
    ]
