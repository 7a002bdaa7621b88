"""The options of the source, understood.

Owns: their names, kinds and defaults (those of Spark's Kafka source), and which go together. Never knows: Spark,
clusters. Invariants: whatever is wrong is a `BadOption` naming the option and what is allowed or was probably meant;
nothing is silently left aside; what is parsed can be pickled.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.client.errors import InvalidSetting
from ottla.client.settings import CONSUMER, ClientKind, load
from ottla.client.settings.nearest import nearest
from ottla.spark.errors import BadOption
from ottla.spark.formats.options import SOURCE_FORM_NAMES, Form, parse_form
from ottla.spark.positions import (
    BEGINNING,
    EARLIEST,
    END,
    LATEST,
    Bound,
    BoundKind,
    parse_assignment,
    parse_moment,
    parse_moments,
    parse_offsets,
)

_PREFIX = "kafka."
_TOPICS = ("subscribe", "subscribePattern", "assign")
_STARTING = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDING = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_STREAM = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger")
SOURCE_NAMES = (
    *_TOPICS,
    *_STARTING,
    "startingOffsetsByTimestampStrategy",
    *_ENDING,
    *_STREAM,
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "pollTimeoutMs",
    "path",
    "as",
    *SOURCE_FORM_NAMES,
)
_SAME = {"kafkaconsumer.polltimeoutms": "pollTimeoutMs"}
_PASSED_OVER = frozenset({"groupidprefix", "fetchoffset.numretries", "fetchoffset.retryintervalms"})
"""Options of Spark's Kafka source that say how its JVM consumers behave, of which there are none here."""
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_READ_AT_ONCE = str(4 * 1024 * 1024)
"""Of one partition, unless the user says otherwise: a task reads one only, and few large answers cost least."""


class Topics(NamedTuple):
    """What is read: one of the three."""

    names: tuple[str, ...] = ()
    pattern: str = ""
    assigned: tuple[TopicPartition, ...] = ()


class TriggerLimits(NamedTuple):
    """What one trigger takes; 0 is no limit. Seconds."""

    max_rows: int = 0
    min_rows: int = 0
    max_bytes: int = 0
    max_delay: float = 900.0


class SourceOptions(NamedTuple):
    """Everything a read needs to know."""

    settings: Mapping[str, str]
    """Of the client, by Kafka's names."""
    topics: Topics
    starting: Bound
    ending: Bound
    limits: TriggerLimits
    latest_after_end: bool
    """A starting time behind the last record means the end instead of an error."""
    min_partitions: int
    max_records: int
    fail_on_data_loss: bool
    include_headers: bool
    patience_seconds: float
    path: str
    table: bool
    """The last record of each key instead of all."""
    form: Form | None
    """What values are; None when they stay bytes."""

    @property
    def committed_only(self) -> bool:
        return self.settings.get("isolation.level") == "read_committed"

    @property
    def group(self) -> str:
        """Where consumed offsets are told; empty when nowhere."""
        return self.settings.get("group.id", "")


def source_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that are no settings of the client, under their names."""
    return sort_options(options, SOURCE_NAMES, CONSUMER, _PASSED_OVER)[0]


def parse_source(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """What the user asked for; keys come in any case."""
    given, settings = sort_options(options, SOURCE_NAMES, CONSUMER, _PASSED_OVER)
    path = given.get("path", "")
    _check_companions(given, streaming, path)
    if not path:
        settings.setdefault("max.partition.fetch.bytes", _READ_AT_ONCE)
        check_settings(CONSUMER, settings)
    strategy = given.get("startingOffsetsByTimestampStrategy", "error")
    if strategy not in ("error", "latest"):
        raise BadOption(f"startingOffsetsByTimestampStrategy cannot be {strategy!r}: allowed is error or latest")
    return SourceOptions(
        settings=settings,
        topics=_topics(given, path),
        starting=_starting(given, streaming),
        ending=_ending(given),
        limits=_limits(given),
        latest_after_end=strategy == "latest",
        min_partitions=whole(given, "minPartitions"),
        max_records=whole(given, "maxRecordsPerPartition"),
        fail_on_data_loss=truth(given, "failOnDataLoss", True),
        include_headers=truth(given, "includeHeaders", False),
        patience_seconds=(whole(given, "pollTimeoutMs") or 120_000) / 1000,
        path=path,
        table=_is_table(given, streaming),
        form=parse_form(given),
    )


def sort_options(
    options: Mapping[str, str], names: Iterable[str], kind: ClientKind, passed_over: frozenset[str] = frozenset()
) -> tuple[dict[str, str], dict[str, str]]:
    """Options under their names, and client settings under Kafka's."""
    known = {name.lower(): name for name in names}
    given: dict[str, str] = {}
    settings: dict[str, str] = {}
    for written, value in options.items():
        key = written.lower()
        bare = key.removeprefix(_PREFIX)
        if key in known or key in _SAME:
            given[known.get(key) or _SAME[key]] = value
        elif bare in kind.settings:
            settings[bare] = value
        elif key not in passed_over:
            close = nearest(bare, [*known, *kind.settings])
            hint = f"; did you mean {known.get(close, close)}?" if close else ""
            raise BadOption(f"{written} is no option of the format ottla{hint}")
    return given, settings


def check_settings(kind: ClientKind, settings: Mapping[str, str]) -> None:
    """The client's own opinion of its settings, now and not in a task."""
    try:
        load(kind, settings, {})
    except InvalidSetting as problem:
        raise BadOption(str(problem)) from None


def _check_companions(given: Mapping[str, str], streaming: bool, path: str) -> None:
    chosen = [name for name in _TOPICS if name in given]
    if len(chosen) > 1 or not (chosen or path):
        found = f"not {' and '.join(chosen)}" if chosen else "none is there"
        raise BadOption(f"one of subscribe, subscribePattern and assign says what is read; {found}")
    if streaming and path:
        raise BadOption("path reads files that are there: spark.read, not spark.readStream")
    wrong = [name for name in (_ENDING if streaming else _STREAM) if name in given]
    if wrong:
        raise BadOption(f"{wrong[0]} is for {'batch' if streaming else 'stream'} reads only")


def _is_table(given: Mapping[str, str], streaming: bool) -> bool:
    kind = given.get("as", "records").strip().lower()
    if kind not in ("records", "table"):
        raise BadOption(f"as cannot be {given['as']!r}: allowed is records or table")
    if kind == "records":
        return False
    if streaming:
        raise BadOption(
            "as=table is for spark.read: a stream sees every change; "
            "one that is joined to a table of spark.read sees the table as it is at each micro-batch"
        )
    wrong = next((each for each in (*_STARTING, "minPartitions", "maxRecordsPerPartition") if each in given), None)
    if wrong:
        raise BadOption(f"{wrong} does not go with as=table: each partition is read from its beginning, by one task")
    return True


def _topics(given: Mapping[str, str], path: str) -> Topics:
    if "assign" in given:
        return Topics(assigned=parse_assignment("assign", given["assign"]))
    if "subscribePattern" in given:
        pattern = given["subscribePattern"]
        try:
            re.compile(pattern)
        except re.error as problem:
            raise BadOption(f"subscribePattern cannot be {pattern!r}: {problem}") from None
        return Topics(pattern=pattern)
    names = tuple(dict.fromkeys(name.strip() for name in given.get("subscribe", "").split(",") if name.strip()))
    if not names and not path:
        raise BadOption("subscribe names no topic: write NAME or NAME,NAME")
    return Topics(names=names)


def _starting(given: Mapping[str, str], streaming: bool) -> Bound:
    for option, parse in zip(_STARTING, (parse_moment, parse_moments, parse_offsets), strict=True):
        if option in given:
            bound = parse(option, given[option])
            ends = bound.everywhere == LATEST or LATEST in bound.by_partition.values()
            if bound.kind is BoundKind.OFFSETS and ends and not streaming:
                raise BadOption(f"{option} cannot be latest in a batch read: nothing would be read")
            return bound
    return END if streaming else BEGINNING


def _ending(given: Mapping[str, str]) -> Bound:
    for option, parse in zip(_ENDING, (parse_moment, parse_moments, parse_offsets), strict=True):
        if option in given:
            bound = parse(option, given[option])
            starts = bound.everywhere == EARLIEST or EARLIEST in bound.by_partition.values()
            if bound.kind is BoundKind.OFFSETS and starts:
                raise BadOption(f"{option} cannot be earliest: nothing would be read")
            return bound
    return END


def _limits(given: Mapping[str, str]) -> TriggerLimits:
    limits = TriggerLimits(
        whole(given, "maxOffsetsPerTrigger"),
        whole(given, "minOffsetsPerTrigger"),
        whole(given, "maxBytesPerTrigger"),
        _seconds(given, "maxTriggerDelay", 900.0),
    )
    if limits.max_rows and limits.min_rows > limits.max_rows:
        raise BadOption("minOffsetsPerTrigger is above maxOffsetsPerTrigger")
    return limits


def whole(given: Mapping[str, str], name: str) -> int:
    """A number above zero, 0 when it is not given."""
    if name not in given:
        return 0
    text = given[name].strip()
    if not (text.isascii() and text.isdigit()) or int(text) == 0:
        raise BadOption(f"{name} cannot be {given[name]!r}: allowed is a whole number above 0")
    return int(text)


def truth(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise BadOption(f"{name} cannot be {given[name]!r}: allowed is true or false")
    return text == "true"


def _seconds(given: Mapping[str, str], name: str, default: float) -> float:
    if name not in given:
        return default
    matched = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", given[name].lower())
    unit = _UNITS.get(matched[2] or "ms") if matched else None
    if matched is None or unit is None:
        raise BadOption(f"{name} cannot be {given[name]!r}: allowed is a time like 500ms, 30s or 15m")
    return int(matched[1]) * unit
