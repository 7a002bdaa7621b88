"""What a pipeline is: its sources, tables, steps and sinks, understood from a document or from keywords.

Owns: the keys, what goes with what, and the sentences about what is wrong. Never knows: Spark, files, clusters.
Invariants: nothing unknown is passed over, it is told with the word that was probably meant; every problem of a
document is told, not only the first; names are SQL names, each used once.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.client.settings.nearest import nearest

FORMATS = ("json", "avro", "protobuf", "csv")
MODES = ("append", "update", "complete")
RAW = "raw"
DELIVERIES = ("exactly-once", "at-least-once")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SINK_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
"""Sinks give the directories of their checkpoints their names."""

_SPAN = r"\d+\s*(?:microsecond|millisecond|second|minute|hour|day|week)s?"
_INTERVAL = re.compile(rf"(?:interval\s+)?{_SPAN}(?:\s+{_SPAN})*", re.I)

_KEYS = ("name", "bootstrap", "client", "spark", "trigger", "sources", "tables", "steps", "sinks", "dead_letters")
_SOURCE_KEYS = ("topic", "topics", "pattern", "format", "schema", "select", "watermark", "starting", "options")
_TABLE_KEYS = ("topic", "format", "schema", "select", "options")
_WATERMARK_KEYS = ("column", "delay", "until")
_STEP_KEYS = ("sql", "from", "python", "deduplicate")
_SINK_KEYS = (
    "from",
    "topic",
    "key",
    "format",
    "schema",
    "delivery",
    "parquet",
    "partition_by",
    "screen",
    "mode",
    "trigger",
    "options",
)
_SINK_KINDS = ("topic", "parquet", "screen")
_ONLY_FOR = {"key": "topic", "format": "topic", "schema": "topic", "delivery": "topic", "partition_by": "parquet"}


class BadPipeline(ValueError):
    """What is wrong with a pipeline, one sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


class Watermark(NamedTuple):
    """How late a source's records may be."""

    column: str
    delay: str
    until: str
    """SQL: the moment until which a record is of use to the pipeline; the column itself unless said."""


class Source(NamedTuple):
    """A stream of records, or (`table`) the last record of each key."""

    name: str
    topics: str
    """What is read, for people."""
    format: str
    """Empty: keys and values as bytes."""
    select: tuple[str, ...]
    watermark: Watermark | None
    options: Mapping[str, str]
    """Of the data source."""
    table: bool

    def option(self, name: str, default: str = "") -> str:
        """An option of the data source, whose names are written in any case."""
        return next((value for key, value in self.options.items() if key.lower() == name.lower()), default)


class Step(NamedTuple):
    """Rows made of other rows. One of the three says how."""

    name: str
    sql: str
    python: str
    """MODULE:FUNCTION, called with the frames of `inputs`."""
    deduplicate: tuple[str, ...]
    inputs: tuple[str, ...]
    """Named in the document; those of SQL are in its text."""


class Sink(NamedTuple):
    """Where rows go."""

    name: str
    kind: str
    """topic, parquet or screen."""
    place: str
    input: str
    key: str
    format: str
    partition_by: tuple[str, ...]
    mode: str
    trigger: str
    options: Mapping[str, str]


class Frame(NamedTuple):
    """What holds a pipeline together."""

    name: str
    client: Mapping[str, str]
    """Settings of the client, with the brokers."""
    spark: Mapping[str, str]
    trigger: str
    dead_letters: str
    """A topic; empty when undecodable records end the pipeline and late ones are dropped."""


class Definition(NamedTuple):
    """A pipeline without Python."""

    frame: Frame
    sources: tuple[Source, ...]
    steps: tuple[Step, ...]
    sinks: tuple[Sink, ...]


class _MappingReader:
    """One mapping of a document: each key asked for is looked at once, whatever is wrong is noted."""

    def __init__(self, where: str, given: Any, keys: Sequence[str], problems: list[str]) -> None:
        self._where = where
        self._problems = problems
        self._given: dict[str, Any] = {}
        if not isinstance(given, Mapping):
            self.problem(f"is {_kind(given)}: a mapping with {', '.join(keys[:4])}… belongs there")
            return
        self._given = {str(key): value for key, value in given.items()}
        for key in self._given:
            if key not in keys:
                close = nearest(key, keys)
                self.problem(f"has no key {key!r}" + (f"; did you mean {close}?" if close else f" ({', '.join(keys)})"))

    def __contains__(self, key: str) -> bool:
        return self._given.get(key) is not None

    def problem(self, what: str) -> None:
        self._problems.append(f"{self._where} {what}")

    def text(self, key: str, default: str = "", *, choices: Sequence[str] = ()) -> str:
        value = self._given.get(key)
        if value is None:
            return default
        if not isinstance(value, (str, int, float, bool)):
            self.problem(f"{key} is {_kind(value)}: a text belongs there")
            return default
        text = ("true" if value else "false") if isinstance(value, bool) else str(value).strip()
        if choices and text not in choices:
            close = nearest(text, choices)
            meant = f"; did you mean {close}?" if close else ""
            self.problem(f"{key} cannot be {text!r}: allowed is {', '.join(choices)}{meant}")
            return default
        return text

    def interval(self, key: str) -> str:
        """A time span as Spark takes it."""
        text = self.text(key)
        if text and not _INTERVAL.fullmatch(text):
            self.problem(f"{key} cannot be {text!r}: allowed is a time span such as 5 seconds")
        return text

    def texts(self, key: str) -> tuple[str, ...]:
        """One text, or a list of them."""
        value = self._given.get(key)
        if value is None:
            return ()
        items = value if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(item, str) and item.strip() for item in items) or not items:
            self.problem(f"{key} is {_kind(value)}: a text or a list of texts belongs there")
            return ()
        return tuple(item.strip() for item in items)

    def pairs(self, key: str) -> dict[str, str]:
        value = self._given.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(
            isinstance(item, (str, int, float, bool)) for item in value.values()
        ):
            self.problem(f"{key} is {_kind(value)}: a mapping of names to texts belongs there")
            return {}
        return {str(name): str(item).lower() if isinstance(item, bool) else str(item) for name, item in value.items()}

    def mapping(self, key: str) -> Mapping[str, Any]:
        value = self._given.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.problem(f"{key} is {_kind(value)}: a mapping of names belongs there")
            return {}
        return {str(name): item for name, item in value.items()}


def understand(document: Any, default_name: str) -> Definition:
    """A document's pipeline; BadPipeline with everything that is wrong."""
    problems: list[str] = []
    reader = _MappingReader("the pipeline", document, _KEYS, problems)
    frame = _frame(reader, default_name)
    sources = [source_from(name, given, problems) for name, given in reader.mapping("sources").items()]
    sources += [table_from(name, given, problems) for name, given in reader.mapping("tables").items()]
    steps = [step_from(name, given, problems) for name, given in reader.mapping("steps").items()]
    sinks = [sink_from(name, given, problems) for name, given in reader.mapping("sinks").items()]
    if isinstance(document, Mapping):
        names = [source.name for source in sources] + [step.name for step in steps]
        _check_names(names, sources, steps, sinks, problems)
    if problems:
        raise BadPipeline(problems)
    return Definition(frame, tuple(sources), tuple(steps), tuple(sinks))


def frame_of(name: str, given: Mapping[str, Any]) -> Frame:
    """What a pipeline written in Python says about itself with `PIPELINE = {…}`."""
    problems: list[str] = []
    keys = ("name", "bootstrap", "client", "spark", "trigger", "dead_letters")
    frame = _frame(_MappingReader("PIPELINE", given, keys, problems), name)
    if problems:
        raise BadPipeline(problems)
    return frame


def _frame(reader: _MappingReader, default_name: str) -> Frame:
    name = reader.text("name", default_name)
    if not _PIPELINE_NAME.fullmatch(name):
        reader.problem(f"cannot be called {name!r}: letters, digits, dots, dashes and underscores")
    client = reader.pairs("client")
    if "bootstrap" in reader:
        client["bootstrap.servers"] = reader.text("bootstrap")
    return Frame(name, client, reader.pairs("spark"), reader.interval("trigger"), reader.text("dead_letters"))


def declare(make: Callable[[str, Any, list[str]], Any], name: str, given: Mapping[str, Any]) -> Any:
    """One source, table or sink declared in Python; BadPipeline when it is wrong."""
    problems: list[str] = []
    made = make(name, given, problems)
    if problems:
        raise BadPipeline(problems)
    return made


def source_from(name: str, given: Any, problems: list[str]) -> Source:
    """A stream."""
    reader = _MappingReader(f"source {name}", given, _SOURCE_KEYS, problems)
    options = {"startingOffsets": reader.text("starting", "earliest"), **reader.pairs("options")}
    chosen = [key for key in ("topic", "topics", "pattern") if key in reader]
    if len(chosen) != 1:
        reader.problem("needs one of topic, topics and pattern" + (f", not {' and '.join(chosen)}" if chosen else ""))
    topics = reader.text("pattern") if "pattern" in reader else ",".join(reader.texts(chosen[0]) if chosen else ())
    options["subscribePattern" if "pattern" in reader else "subscribe"] = topics
    return Source(
        _sql_name(reader, name),
        topics,
        _format(reader, options),
        reader.texts("select"),
        _watermark(name, reader, problems),
        options,
        table=False,
    )


def table_from(name: str, given: Any, problems: list[str]) -> Source:
    """The last record of each key of a compacted topic."""
    reader = _MappingReader(f"table {name}", given, _TABLE_KEYS, problems)
    if "topic" not in reader:
        reader.problem("needs a topic")
    topic = reader.text("topic")
    options = {"subscribe": topic, "as": "table", **reader.pairs("options")}
    chosen = _format(reader, options)
    return Source(_sql_name(reader, name), topic, chosen, reader.texts("select"), None, options, table=True)


def step_from(name: str, given: Any, problems: list[str]) -> Step:
    """Rows made of other rows; a text is SQL."""
    reader = _MappingReader(f"step {name}", {"sql": given} if isinstance(given, str) else given, _STEP_KEYS, problems)
    chosen = [key for key in ("sql", "python", "deduplicate") if key in reader]
    if len(chosen) != 1:
        reader.problem("needs one of sql, python and deduplicate" + (f", not {' and '.join(chosen)}" if chosen else ""))
    inputs, function = reader.texts("from"), reader.text("python")
    if "sql" in reader and inputs:
        reader.problem("says in its SQL what it is made from: take the key from away")
    if ("python" in reader or "deduplicate" in reader) and not inputs:
        reader.problem("needs the key from: the rows it is made from")
    if "deduplicate" in reader and len(inputs) > 1:
        reader.problem("deduplicates the rows of one source or step, not of several")
    if function and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", function):
        reader.problem(f"python cannot be {function!r}: write MODULE:FUNCTION")
    return Step(_sql_name(reader, name), reader.text("sql"), function, reader.texts("deduplicate"), inputs)


def sink_from(name: str, given: Any, problems: list[str]) -> Sink:
    """Where rows go: a topic, Parquet files or the screen."""
    reader = _MappingReader(f"sink {name}", given, _SINK_KEYS, problems)
    if not _SINK_NAME.fullmatch(name):
        reader.problem(f"cannot be called {name!r}: letters, digits, underscores, and behind the first dots and dashes")
    chosen = [key for key in _SINK_KINDS if key in reader]
    if len(chosen) != 1:
        reader.problem("needs one of topic, parquet and screen" + (f", not {' and '.join(chosen)}" if chosen else ""))
    kind = chosen[0] if chosen else "screen"
    for key, only in _ONLY_FOR.items():
        if key in reader and kind != only:
            reader.problem(f"has {key}, which is for sinks with {only}")
    if "from" not in reader:
        reader.problem("needs the key from: the source or step whose rows it writes")
    mode = reader.text("mode", "append", choices=MODES)
    if kind == "parquet" and mode != "append":
        reader.problem(f"mode cannot be {mode}: files are only ever added (append)")
    if kind == "topic" and mode == "complete":
        reader.problem("mode cannot be complete: a topic is never written anew; update writes what has changed")
    options = reader.pairs("options")
    written = reader.text("format", "json", choices=(*FORMATS, RAW)) if kind == "topic" else ""
    if "schema" in reader:
        if written in ("json", RAW):
            reader.problem(f"has a schema, which format {written} does not need")
        options["schema"] = reader.text("schema")
    if "delivery" in reader:
        options["delivery"] = reader.text("delivery", choices=DELIVERIES)
    if kind == "topic" and mode == "update" and options.setdefault("delivery", DELIVERIES[1]) == DELIVERIES[0]:
        reader.problem("cannot be exactly-once in mode update, of which Spark lets no Python sink know; take append")
    return Sink(
        name,
        kind,
        reader.text(kind),
        reader.text("from"),
        reader.text("key"),
        written,
        reader.texts("partition_by"),
        mode,
        reader.interval("trigger"),
        options,
    )


def _sql_name(reader: _MappingReader, name: str) -> str:
    if not _NAME.fullmatch(name):
        reader.problem("is no name for SQL: letters, digits and underscores")
    return name


def _format(reader: _MappingReader, options: dict[str, str]) -> str:
    chosen = reader.text("format", "", choices=FORMATS)
    if chosen:
        options["format"] = chosen
    if "schema" in reader:
        if not chosen:
            reader.problem(f"has a schema but no format ({', '.join(FORMATS)})")
        options["schema"] = reader.text("schema")
    return chosen


def _watermark(name: str, source: _MappingReader, problems: list[str]) -> Watermark | None:
    if "watermark" not in source:
        return None
    reader = _MappingReader(f"source {name}: watermark", source.mapping("watermark"), _WATERMARK_KEYS, problems)
    column, delay = reader.text("column"), reader.interval("delay")
    if not (column and delay):
        reader.problem("needs a column and a delay, for example {column: time, delay: 10 minutes}")
    return Watermark(column, delay, reader.text("until", column))


def _check_names(
    names: list[str], sources: list[Source], steps: list[Step], sinks: list[Sink], problems: list[str]
) -> None:
    problems += [f"{name} is there twice among sources, tables and steps" for name in _twice(names)]
    if not any(not source.table for source in sources):
        problems.append("the pipeline has no sources: what it reads")
    if not sinks:
        problems.append("the pipeline has no sinks: where its rows go")
    for what, used in [
        *((f"step {step.name}", name) for step in steps for name in step.inputs),
        *((f"sink {sink.name}", sink.input) for sink in sinks if sink.input),
    ]:
        if used not in names:
            close = nearest(used, names)
            meant = f"; did you mean {close}?" if close else ""
            problems.append(f"{what} is made from {used}, which is no source, table or step{meant}")


def _twice(names: list[str]) -> list[str]:
    """SQL takes large and small letters for the same."""
    folded = [name.lower() for name in names]
    return sorted({name for name in names if folded.count(name.lower()) > 1})


def _kind(value: Any) -> str:
    if value is None:
        return "empty"
    words = {dict: "a mapping", list: "a list", str: "a text", bool: "true or false", int: "a number"}
    return words.get(type(value), type(value).__name__)
