"""How the demo is told: lines for the story, live figures below them.

Owns: three faces of the same story: on a terminal, lines that scroll by above a table that keeps changing; elsewhere
plain lines, and the figures now and then as one of them; for programs a JSON object a line. Never knows: what the demo
does.
"""

import contextlib
import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

_PLAIN_WIDTH = 112


class _Console(Console):
    """A reader who has gone (`| head`) has seen enough: the demo ends well, and cleans up."""

    def on_broken_pipe(self) -> None:
        with contextlib.suppress(SystemExit):
            super().on_broken_pipe()
        raise SystemExit(0)


class Screen:
    """Where everything the demo says goes."""

    def __init__(self, *, lively: bool) -> None:
        self._lively = lively
        # Long lines are the terminal's to break: a path or a command that is copied must stay in one piece.
        self._console = _Console(highlight=False, soft_wrap=True, width=None if lively else _PLAIN_WIDTH)
        self._live: Live | None = None
        self._act = 0

    def __enter__(self) -> Self:
        if self._lively:
            self._live = Live(console=self._console, refresh_per_second=8, transient=True)
            self._live.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.hide_figures()

    def act(self, title: str) -> None:
        self._act += 1
        self._print("")
        self._print(f"[bold cyan]{self._act}. {title}[/]")

    def say(self, text: str) -> None:
        """One line of the story."""
        self._print(f"   {escape(text)}")

    def command(self, text: str) -> None:
        """What a person would type for it."""
        self._print(f"   [bold]$ {escape(text)}[/]")

    def quote(self, text: str) -> None:
        """What somebody else wrote."""
        self._print(f"     [dim]{escape(text)}[/]")

    def good(self, text: str) -> None:
        self._print(f"   [green]✓[/] {escape(text)}")

    def bad(self, text: str) -> None:
        self._print(f"   [red]✗ {escape(text)}[/]")

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Columns of text; those whose values are all numbers stand to the right."""
        widths = [max(len(cell) for cell in column) for column in zip(headings, *rows, strict=True)]
        numbers = [all(_is_number(cell) for cell in column) for column in zip(*rows, strict=True)] or [False] * len(
            widths
        )
        for place, line in enumerate([headings, *rows]):
            cells = (
                cell.rjust(width) if number else cell.ljust(width)
                for cell, width, number in zip(line, widths, numbers, strict=True)
            )
            text = "  ".join(cells).rstrip()
            self._print(f"     [dim]{text}[/]" if place == 0 else f"     {text}", markup=place == 0)

    def figures(self, figures: Mapping[str, str]) -> None:
        """The state of things now: redrawn in place on a terminal, else one line."""
        if not self._lively:
            self._print("     [dim]" + " · ".join(f"{name} {value}" for name, value in figures.items()) + "[/]")
        elif self._live is not None:
            grid = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
            for name in figures:
                grid.add_column(name)
            grid.add_row(*figures.values())
            self._live.update(grid)

    def hide_figures(self) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)
            self._live = None

    def _print(self, text: str, *, markup: bool = True) -> None:
        self._console.print(text, markup=markup)


class JsonScreen(Screen):
    """The story for programs: what is said, and what kind of thing it is."""

    def __init__(self) -> None:
        super().__init__(lively=False)

    def act(self, title: str) -> None:
        self._act += 1
        self._tell("act", text=title)

    def say(self, text: str) -> None:
        self._tell("told", text=text)

    def command(self, text: str) -> None:
        self._tell("command", text=text)

    def quote(self, text: str) -> None:
        self._tell("quoted", text=text)

    def good(self, text: str) -> None:
        self._tell("success", text=text)

    def bad(self, text: str) -> None:
        self._tell("failure", text=text)

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        names = [heading.lower().replace(" ", "_") for heading in headings]
        self._tell("table", rows=[dict(zip(names, row, strict=True)) for row in rows])

    def figures(self, figures: Mapping[str, str]) -> None:
        self._tell("figures", figures=dict(figures))

    def _tell(self, event: str, **content: object) -> None:
        self._console.out(json.dumps({"event": event, "act": self._act, **content}, ensure_ascii=False))


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").isdigit()
