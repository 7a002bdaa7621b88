"""Tables and JSON on standard output, progress on standard error.

Owns: one table, two faces: ruled and coloured on a terminal, plainly aligned where a program reads (NO_COLOR takes the
colours away). Never knows: what is in it. Invariants: a reader that went away (`| head`) ends the command with exit
code 0 and without a word; progress is shown to people alone and never mixes with what is printed.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from rich.table import Table as RuledTable

_GAP = "  "
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


class Column(NamedTuple):
    """A heading and whether the values are numbers; of a column that says how things are, the words for all is well."""

    heading: str
    number: bool = False
    good: frozenset[str] = frozenset()


class Table(NamedTuple):
    """Rows of text under columns."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]


def plain(table: Table) -> str:
    """The table as aligned text, one line a row, headings first."""
    lines = [[column.heading for column in table.columns], *table.rows]
    widths = [max(len(line[position]) for line in lines) for position in range(len(table.columns))]
    return "".join(
        _GAP.join(
            cell.rjust(width) if column.number else cell.ljust(width)
            for cell, width, column in zip(line, widths, table.columns, strict=True)
        ).rstrip()
        + "\n"
        for line in lines
    )


def show(table: Table) -> None:
    """Print the table for whoever reads standard output."""
    if not sys.stdout.isatty():
        say(plain(table))
        return
    from rich.console import Console

    Console().print(ruled(table))


def ruled(table: Table) -> "RuledTable":
    """The table as rich draws it on a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RuledTable
    from rich.text import Text

    drawn = RuledTable(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in table.columns:
        drawn.add_column(column.heading, justify="right" if column.number else "left")
    for row in table.rows:
        drawn.add_row(*(Text(cell, style(column, cell)) for column, cell in zip(table.columns, row, strict=True)))
    return drawn


def takes_colours() -> bool:
    """Whether somebody at a terminal wants them."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def style(column: Column, cell: str) -> str:
    """The colour of a cell: only a column that says how things are has any."""
    if not column.good or not cell:
        return ""
    return "green" if cell in column.good else "bold red"


Advance = Callable[[int], None]
Reach = Callable[[int, int | None], None]
"""Told how much is done, and of how much as far as that is known."""


@contextmanager
def progress(what: str, total: int | None, unit: str = "") -> Iterator[Advance]:
    """A bar on standard error while long work is done, for people at a terminal; call what it gives with each step.

    Without `total` it shows how much, not how much of it; bytes are told by the unit "B".
    """
    done = 0
    with growing_progress(what, total, unit) as reach:

        def advance(step: int) -> None:
            nonlocal done
            done += step
            reach(done, total)

        yield advance


@contextmanager
def growing_progress(what: str, total: int | None = None, unit: str = "") -> Iterator[Reach]:
    """The same for work of which more becomes known while it is done."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    amount = DownloadColumn(binary_units=True) if unit == "B" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TextColumn(unit if unit != "B" else ""))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def show_json(content: Any) -> None:
    """Print a JSON document, in colours for people."""
    import json

    text = json.dumps(content, ensure_ascii=False, indent=2)
    if not sys.stdout.isatty():
        say(text + "\n")
        return
    from rich.console import Console

    Console().print_json(text)


def show_json_line(content: Any) -> None:
    """Print one JSON document as a line, where more of them follow."""
    import json

    say(json.dumps(content, ensure_ascii=False) + "\n")


def say(text: str) -> None:
    """Print text that brings its own line feeds."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise nobody_reads() from None


def nobody_reads() -> typer.Exit:
    """How to end; what is still buffered goes nowhere instead of complaining at the end of the program."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
    return typer.Exit(0)


def size_text(size: int) -> str:
    """Bytes for people: 1536 is '1.5 KiB'."""
    amount = float(size)
    for unit in _UNITS[:-1]:
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} {_UNITS[-1]}"
