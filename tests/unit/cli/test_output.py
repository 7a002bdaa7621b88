"""Tables line up, sizes read well, and only a terminal gets colours and bars."""

import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from unittest import mock

import pytest

from ottla.cli.output import Column, Table, growing_progress, plain, progress, show, show_json, size_text, takes_colours

STATES = Table([Column("TOPIC"), Column("STATE", good=frozenset({"ok"}))], [["a", "ok"], ["b", "1 without leader"]])


class Terminal(io.StringIO):
    """A standard output at which somebody sits."""

    def isatty(self) -> bool:
        return True


@contextmanager
def terminal() -> Iterator[Terminal]:
    """Somebody at a terminal who takes colours."""
    seen = Terminal()
    unwanted = ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    environment = {name: value for name, value in os.environ.items() if name not in unwanted}
    environment |= {"TERM": "xterm-256color", "COLUMNS": "80"}
    with mock.patch.dict(os.environ, environment, clear=True), redirect_stdout(seen), redirect_stderr(seen):
        yield seen


def test_a_terminal_gets_a_ruled_table_with_trouble_in_red() -> None:
    with terminal() as seen:
        show(STATES)
    assert "\x1b[32mok" in seen.getvalue()
    assert "\x1b[1;31m1 without leader" in seen.getvalue()
    assert "─" in seen.getvalue()


def test_colours_go_when_they_are_not_wanted() -> None:
    with terminal() as seen, mock.patch.dict(os.environ, {"NO_COLOR": "1"}):
        show(STATES)
    assert "1 without leader" in seen.getvalue()
    assert "\x1b[32m" not in seen.getvalue()
    assert "31m" not in seen.getvalue()


def test_json_is_coloured_for_people_and_plain_for_programs() -> None:
    with terminal() as seen:
        show_json({"a": 1})
    assert "\x1b[" in seen.getvalue()
    with redirect_stdout(io.StringIO()) as pipe:
        show_json({"a": 1})
    assert json.loads(pipe.getvalue()) == {"a": 1}


@pytest.mark.parametrize(("total", "unit"), [(200, "B"), (200, "records"), (None, "B")])
def test_long_work_has_a_bar_on_a_terminal(total: int | None, unit: str) -> None:
    with terminal() as seen, progress("sending", total, unit) as advance:
        advance(200)
    assert "sending" in seen.getvalue()
    assert "200" in seen.getvalue()


def test_a_bar_grows_with_what_becomes_known() -> None:
    with terminal() as seen, growing_progress("reading", unit="znodes") as reach:
        reach(2, 4)
        reach(3, 10)
    assert "reading" in seen.getvalue()
    assert "3/10" in seen.getvalue()
    assert "znodes" in seen.getvalue()


def test_only_a_terminal_takes_colours_and_only_if_they_are_wanted() -> None:
    with terminal():
        assert takes_colours()
        with mock.patch.dict(os.environ, {"NO_COLOR": "1"}):
            assert not takes_colours()
    with redirect_stdout(io.StringIO()):
        assert not takes_colours()


def test_programs_see_no_bar() -> None:
    with redirect_stderr(io.StringIO()) as pipe, progress("sending", 10) as advance:
        advance(10)
    assert pipe.getvalue() == ""


def test_text_is_aligned_left_and_numbers_right_without_trailing_blanks() -> None:
    table = Table([Column("NAME"), Column("SIZE", True), Column("STATE")], [["a", "12", "ok"], ["longer", "3", ""]])
    assert plain(table) == "NAME    SIZE  STATE\na         12  ok\nlonger     3\n"


def test_a_table_without_rows_is_its_headings() -> None:
    assert plain(Table([Column("NAME"), Column("N", True)], [])) == "NAME  N\n"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (1 << 60, "1024.0 PiB")],
)
def test_sizes_are_given_in_the_unit_that_reads_best(size: int, text: str) -> None:
    assert size_text(size) == text
