"""Pipelines for people at a terminal: tables, live bars, logs.

Owns: how documents of the registry are shown, and what their age means. Never knows: Spark, who writes them.
Invariants: a pipeline that says it runs is believed only while it is heard of; following shows bars on a terminal and
plain lines elsewhere.
"""

import socket
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ottla.cli.output import Column, Table, say, show, show_json_line, size_text
from ottla.runtime.world import RealClock
from ottla.spark.pipelines.places import PipelineDirectory, is_running
from ottla.spark.pipelines.progress import line_of
from ottla.spark.pipelines.registry import ALIVE, Board, Document

if TYPE_CHECKING:
    from rich.console import RenderableType

GONE, SILENT = "gone", "silent"
_SILENT_MS = 60_000
"""Twelve heartbeats: a pipeline that is not heard of for so long does not run, or cannot reach the cluster."""
_BAR = 24
_GOOD = frozenset({"running", "starting", "finished", "stopped"})


def now_ms() -> int:
    return RealClock().now_ms()


def condition(found: Document, now: int) -> str:
    """The state as it is believed."""
    state: str = found["state"]
    if state not in ALIVE:
        return state
    if found["host"] == socket.gethostname() and not is_running(found["pid"]):
        return GONE
    return SILENT if now - found["time"] > _SILENT_MS else state


def with_condition(found: Document, now: int) -> Document:
    return {**found, "state": condition(found, now)}


def list_table(found: Iterable[Document], now: int) -> Table:
    """One row a pipeline."""
    columns = [
        Column("PIPELINE"),
        Column("STATE", good=_GOOD),
        Column("SINCE"),
        Column("HOST"),
        Column("PROCESS", True),
        Column("QUERIES"),
        Column("PROBLEM"),
    ]
    rows = [
        [
            each["name"],
            each["state"],
            f"{age_text(now - (each['started'] if each['state'] in ALIVE else each['time']))} ago",
            each["host"],
            str(each["pid"]),
            ", ".join(each["queries"]),
            each["problem"] or "",
        ]
        for each in found
    ]
    return Table(columns, rows)


def _chosen(board: Board, name: str | None) -> list[Document]:
    """The pipeline that was asked for, or all that run."""
    now = now_ms()
    found = [with_condition(each, now) for each in board.pipelines().values()]
    if name is not None:
        return [each for each in found if each["name"] == name]
    return [each for each in found if each["state"] in (*ALIVE, SILENT)]


def status_json(board: Board, name: str | None) -> list[Document]:
    return [{**each, "queries": list(board.queries(each["name"]).values())} for each in _chosen(board, name)]


def status_table(board: Board, name: str | None) -> Table:
    """One row a query."""
    columns = [
        Column("PIPELINE"),
        Column("STATE", good=_GOOD),
        Column("QUERY"),
        Column("BATCH", True),
        Column("IN/S", True),
        Column("OUT/S", True),
        Column("BEHIND", True),
        Column("SECONDS", True),
        Column("WATERMARK"),
        Column("STATE ROWS", True),
        Column("STATE SIZE", True),
        Column("BATCH TIME", True),
    ]
    rows = []
    for each in _chosen(board, name):
        queries = board.queries(each["name"])
        for query in each["queries"]:
            told = queries.get(query)
            figures = [""] * 9 if told is None else _figures(told)
            rows.append([each["name"], each["state"], query, *figures])
    return Table(columns, rows)


def _figures(told: Document) -> list[str]:
    return [
        str(told["batch"]),
        f"{told['input_rows_per_second']:,.0f}",
        _or_dash(told["output_rows_per_second"], "{:,.0f}"),
        f"{told['lag_records']:,}",
        _or_dash(told["lag_seconds"], "{:.1f}"),
        told["watermark"] or "-",
        _or_dash(told["state_rows"], "{:,}"),
        "-" if told["state_bytes"] is None else size_text(told["state_bytes"]),
        f"{told['durations_ms'].get('triggerExecution', 0)} ms",
    ]


def _or_dash(value: Any, form: str) -> str:
    return "-" if value is None else form.format(value)


def show_status(board: Board, name: str | None) -> None:
    table = status_table(board, name)
    if not table.rows:
        say("no pipeline runs on this cluster\n")
        return
    show(table)
    for each in _chosen(board, name):
        if each["problem"]:
            say(f"{each['name']}: {each['problem']}\n")
        for query, told in board.queries(each["name"]).items():
            if name is not None:
                say(f"{query}: {durations_text(told)}\n")


def durations_text(told: Document) -> str:
    """Where the time of the last batch went, the longest first."""
    parts = {name: spent for name, spent in told["durations_ms"].items() if name != "triggerExecution" and spent}
    longest = sorted(parts.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {spent} ms" for name, spent in longest) or "no batch yet"


# --- live -------------------------------------------------------------------------------------------------------------


def follow(board: Board, name: str | None, as_json: bool) -> None:
    """Show it until Ctrl-C, or until the pipeline that was asked for has ended."""
    if as_json or not sys.stdout.isatty():
        for told in _batches(board, name):
            if as_json:
                show_json_line(told)
            else:
                say(f"{told['pipeline']}/{line_of(told)}\n")
        return
    from rich.live import Live

    peaks: dict[str, float] = {}
    with Live(_panel(board, name, peaks), auto_refresh=False, screen=False) as live:
        while not _has_ended(board, name):
            board.refresh(0.5)
            live.update(_panel(board, name, peaks), refresh=True)


def _batches(board: Board, name: str | None) -> Iterator[Document]:
    seen: dict[str, Any] = {}
    while True:
        for each in _chosen(board, name):
            for query, told in board.queries(each["name"]).items():
                mark = (told["batch"], told["batch_time"])
                if seen.get(f"{each['name']}/{query}") != mark:
                    seen[f"{each['name']}/{query}"] = mark
                    yield told
        if _has_ended(board, name):
            return
        board.refresh(0.5)


def _has_ended(board: Board, name: str | None) -> bool:
    return name is not None and all(each["state"] not in (*ALIVE, SILENT) for each in _chosen(board, name))


def _panel(board: Board, name: str | None, peaks: dict[str, float]) -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for each in _chosen(board, name):
        colour = "green" if each["state"] in _GOOD else "bold red"
        head = Text.assemble((each["name"], "bold"), " ", (each["state"], colour), f"  {each['host']}:{each['pid']}")
        parts.append(head)
        for query, told in board.queries(each["name"]).items():
            parts += query_lines(f"{each['name']}/{query}", query, told, peaks)
    return Group(*parts) if parts else Text("no pipeline runs on this cluster")


def query_lines(key: str, query: str, told: Document, peaks: dict[str, float]) -> "list[RenderableType]":
    """A query with a bar for each of its figures; a full bar is the most that was seen."""
    from rich.text import Text

    bars = [
        ("in", told["input_rows_per_second"], f"{told['input_rows_per_second']:,.0f} rows/s", "green"),
        ("out", told["output_rows_per_second"], _or_dash(told["output_rows_per_second"], "{:,.0f} rows/s"), "blue"),
        ("behind", told["lag_records"], _behind_text(told), "yellow"),
        ("state", told["state_bytes"], _state_text(told), "magenta"),
        ("batch", told["durations_ms"].get("triggerExecution"), _batch_text(told), "cyan"),
    ]
    lines: list[RenderableType] = [Text(f"  {query}  watermark {told['watermark'] or '-'}", "bold")]
    for label, value, words, colour in bars:
        amount = float(value or 0)
        peak = peaks[f"{key}/{label}"] = max(peaks.get(f"{key}/{label}", 0.0), amount)
        lines.append(Text.assemble(f"    {label:<7}", (bar_text(amount, peak), colour), f" {words}"))
    return lines


def bar_text(amount: float, peak: float) -> str:
    """A bar of so much of the most."""
    filled = round(_BAR * amount / peak) if peak else 0
    return "━" * filled + "─" * (_BAR - filled)


def _behind_text(told: Document) -> str:
    return f"{told['lag_records']:,} records, {_or_dash(told['lag_seconds'], '{:.1f} s')}"


def _state_text(told: Document) -> str:
    return "-" if told["state_bytes"] is None else f"{told['state_rows']:,} rows, {size_text(told['state_bytes'])}"


def _batch_text(told: Document) -> str:
    return f"{told['batch']}: {told['durations_ms'].get('triggerExecution', 0)} ms ({durations_text(told)})"


# --- waiting and logs -------------------------------------------------------------------------------------------------


def wait_for_end(board: Board, name: str, started: int, seconds: float) -> str | None:
    """The state a pipeline ended with; None when it has not in time."""
    clock = RealClock()
    deadline = clock.monotonic() + seconds
    while clock.monotonic() < deadline:
        found = board.pipelines()[name]
        if found["started"] != started or condition(found, now_ms()) not in (*ALIVE, SILENT):
            return condition(found, now_ms())
        board.refresh(0.3)
    return None


def tail(place: PipelineDirectory, lines: int, go_on: bool) -> Iterator[str]:
    """The last lines of a log, and what comes after them while the pipeline runs; as they come, so in pieces."""
    pause = threading.Event()
    with place.log.open(encoding="utf-8", errors="replace") as log:
        content = log.readlines()
        yield from content[-lines:] if lines else content
        while go_on:
            runs = place.process() is not None
            more = log.read()
            if more:
                yield more
            elif not runs:
                return
            else:
                pause.wait(0.2)


def whole_lines(pieces: Iterable[str]) -> Iterator[str]:
    """The lines of a text that comes in pieces, without their line feeds; the last needs none."""
    rest = ""
    for piece in pieces:
        *lines, rest = (rest + piece).split("\n")
        yield from lines
    if rest:
        yield rest


def age_text(milliseconds: int) -> str:
    """A time span for people."""
    seconds = max(0, milliseconds) // 1000
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
