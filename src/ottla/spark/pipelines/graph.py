"""A pipeline as a graph: what is made from what, drawn and in JSON.

Owns: finding the rows that an SQL step reads, the order of steps, the picture. Never knows: Spark.
Invariants: inputs come before what is made of them; a circle is a problem that names its steps.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.spark.pipelines.definition import BadPipeline, Definition, Sink, Source, Step

_TOKEN = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]+`|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*|[(),]", re.S
)
_ENDS_TABLES = frozenset({"where", "group", "having", "order", "limit", "union", "select", "on", "window", "except"})
_BEGINS_TABLES = frozenset({"from", "join"})


class PipelineNode(NamedTuple):
    """A source, table, step or sink."""

    kind: str
    name: str
    detail: str
    inputs: tuple[str, ...]


def tables_in(sql: str, known: Iterable[str]) -> tuple[str, ...]:
    """Which of the known rows an SQL text reads, in its order."""
    names = {name.lower(): name for name in known}
    found: dict[str, None] = {}
    expected = listing = False
    for token in _TOKEN.findall(sql):
        word = token.strip("`").lower()
        if token[:2] in ("--", "/*"):
            continue
        if word in _BEGINS_TABLES:
            expected = listing = True
        elif word in _ENDS_TABLES:
            expected = listing = False
        elif token == ",":
            expected = listing
        elif expected:
            expected = False
            if word in names:
                found[names[word]] = None
            elif token == "(":
                listing = False
    return tuple(found)


def graph_of(definition: Definition) -> list[PipelineNode]:
    """Every part of a pipeline with its inputs; BadPipeline when steps go round in a circle."""
    known = [source.name for source in definition.sources] + [step.name for step in definition.steps]
    steps = [_step_node(step, known) for step in definition.steps]
    return [
        *map(source_node, definition.sources),
        *_in_order(steps, {source.name for source in definition.sources}),
        *(sink_node(sink, (sink.input,)) for sink in definition.sinks),
        *dead_letter_node(definition.frame.dead_letters, definition.sources),
    ]


def source_node(source: Source) -> PipelineNode:
    details = [f"topic {source.topics}"]
    if source.format:
        details.append(source.format)
    if source.watermark:
        details.append(f"up to {source.watermark.delay} late by {source.watermark.column}")
    return PipelineNode("table" if source.table else "source", source.name, ", ".join(details), ())


def _step_node(step: Step, known: Sequence[str]) -> PipelineNode:
    if step.sql:
        inputs = tuple(name for name in tables_in(step.sql, known) if name != step.name)
        return PipelineNode("step", step.name, "SQL", inputs)
    detail = f"Python {step.python}" if step.python else f"without duplicates of {', '.join(step.deduplicate)}"
    return PipelineNode("step", step.name, detail, step.inputs)


def sink_node(sink: Sink, inputs: tuple[str, ...]) -> PipelineNode:
    place = "the screen" if sink.kind == "screen" else f"{sink.kind} {sink.place}"
    details = [place, *([sink.format] if sink.format else []), sink.mode]
    if sink.kind == "topic":
        details.append(sink.options.get("delivery", "exactly-once"))
    return PipelineNode("sink", sink.name, ", ".join(details), inputs)


def dead_letter_node(topic: str, sources: Iterable[Source]) -> list[PipelineNode]:
    readers = tuple(source.name for source in sources if not source.table and (source.format or source.watermark))
    return (
        [PipelineNode("sink", "dead_letters", f"topic {topic}, late and undecodable records", readers)] if topic else []
    )


def _in_order(steps: list[PipelineNode], ready: set[str]) -> list[PipelineNode]:
    """Steps after what they are made of."""
    ordered: list[PipelineNode] = []
    waiting = list(steps)
    while waiting:
        able = [step for step in waiting if all(name in ready for name in step.inputs)]
        if not able:
            raise BadPipeline([f"steps {', '.join(step.name for step in waiting)} are made of each other in a circle"])
        ordered += able
        ready |= {step.name for step in able}
        waiting = [step for step in waiting if step not in able]
    return ordered


def advice(definition: Definition) -> list[str]:
    """What is not wrong and may surprise."""
    notes = []
    for source in definition.sources if definition.frame.dead_letters else ():
        mark = source.watermark
        if mark is None or mark.until != mark.column:
            continue
        window = re.compile(rf"\bwindow\s*\(\s*(?:\w+\.)?{re.escape(mark.column)}\b|\bsession_window\s*\(", re.I)
        steps = [step.name for step in definition.steps if window.search(step.sql)]
        if steps:
            notes.append(
                f"source {source.name}: a record behind the watermark is a dead letter even while its window in "
                f"{steps[0]} is open and counts it; say with watermark.until how long it is of use, "
                f"for example window({mark.column}, '5 minutes').end"
            )
    return notes


def graph_json(name: str, nodes: Sequence[PipelineNode]) -> dict[str, Any]:
    return {
        "pipeline": name,
        "nodes": [
            {"kind": node.kind, "name": node.name, "detail": node.detail, "inputs": list(node.inputs)} for node in nodes
        ],
    }


def draw(nodes: Sequence[PipelineNode]) -> str:
    """The graph as text: from each sink back to its sources; what was drawn before is only named again."""
    by_name: Mapping[str, PipelineNode] = {node.name: node for node in nodes if node.kind != "sink"}
    drawn: set[str] = set()
    lines: list[str] = []

    def branch(name: str, before: str, last: bool) -> None:
        node = by_name.get(name)
        joint = "└─ " if last else "├─ "
        if node is None:
            lines.append(f"{before}{joint}{name}")
            return
        again = name in drawn and node.inputs
        drawn.add(name)
        lines.append(f"{before}{joint}{node.kind} {name}: {'see above' if again else node.detail}")
        if not again:
            below = before + ("   " if last else "│  ")
            for position, each in enumerate(node.inputs):
                branch(each, below, position == len(node.inputs) - 1)

    for sink in (node for node in nodes if node.kind == "sink"):
        lines.append(f"sink {sink.name}: {sink.detail}")
        for position, each in enumerate(sink.inputs):
            branch(each, "", position == len(sink.inputs) - 1)
    unused = [name for name in by_name if name not in drawn]
    if unused:
        lines.append(f"not used: {', '.join(unused)}")
    return "\n".join(lines) + "\n"
