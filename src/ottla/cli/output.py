"""Tables and JSON on standard output.

Owns: one table, two faces: ruled on a terminal, plainly aligned where a program reads. Never knows: what is in it.
Invariant: a reader that went away (`| head`) ends the command with exit code 0 and without a word.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import typer

_GAP = "  "
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


class Column(NamedTuple):
    """A heading and whether the values are numbers."""

    heading: str
    number: bool = False


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
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RuledTable
    from rich.text import Text

    ruled = RuledTable(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in table.columns:
        ruled.add_column(column.heading, justify="right" if column.number else "left")
    for row in table.rows:
        ruled.add_row(*(Text(cell) for cell in row))
    Console().print(ruled)


def show_json(content: Any) -> None:
    """Print a JSON document."""
    import json

    say(json.dumps(content, ensure_ascii=False, indent=2) + "\n")


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
