"""The options of the sink, understood.

Owns: their names and defaults, and what the columns of written rows must be. Never knows: clusters.
Invariants: as those of the source; whatever is wrong with options or columns is said on the driver.
"""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.settings import PRODUCER
from ottla.spark.errors import BadOption
from ottla.spark.formats.options import SINK_FORM_NAMES, Form, parse_form
from ottla.spark.options import check_settings, sort_options

NAMES = (
    "topic",
    "delivery",
    "sinkId",
    "decisionTopic",
    "checkpointLocation",
    "includeHeaders",
    "queryName",
    *SINK_FORM_NAMES,
)
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
_BATCH_BYTES = str(256 * 1024)
_TRANSACTION_MS = str(10 * 60 * 1000)
"""Unless the user says otherwise: between a batch's first row and its end all its tasks must run."""
DECISION_TOPIC = "ottla.spark.decisions"

_KINDS = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int", "integer"),
    "headers": ("array<struct<key:string,value:binary>>",),
}


class SinkOptions(NamedTuple):
    """Everything a write needs to know."""

    settings: Mapping[str, str]
    topic: str
    """Empty: the rows say."""
    exactly_once: bool
    sink_id: str
    """What a restarted query calls itself: the same."""
    decision_topic: str
    columns: tuple[str, ...]
    """Those of the rows that matter, by the names of the record's."""
    form: Form | None = None
    """How the value is made of typed columns; None when it is a column."""
    typed: tuple[str, ...] = ()
    """The columns that the value is made of."""

    def name_of(self, column: str) -> str:
        """What the rows call a column of the record."""
        return column if self.form is None else self.form.record_prefix + column


def parse_sink(options: Mapping[str, str], columns: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """What the user asked for; `columns` are the rows' with their types as Spark writes them."""
    given, settings = sort_options(options, NAMES, PRODUCER)
    for name in ("transactional.id", "enable.idempotence"):
        if name in settings:
            raise BadOption(f"{name} is the sink's own affair; say delivery={EXACTLY_ONCE} or {AT_LEAST_ONCE}")
    if settings.get("acks") == "0":
        raise BadOption("acks cannot be 0: a batch ends when its rows are known to be written")
    settings.setdefault("batch.size", _BATCH_BYTES)
    settings.setdefault("transaction.timeout.ms", _TRANSACTION_MS)
    check_settings(PRODUCER, settings)
    delivery = given.get("delivery", EXACTLY_ONCE if streaming else AT_LEAST_ONCE)
    if delivery not in (EXACTLY_ONCE, AT_LEAST_ONCE):
        raise BadOption(f"delivery cannot be {delivery!r}: allowed is {EXACTLY_ONCE} or {AT_LEAST_ONCE}")
    if delivery == EXACTLY_ONCE and not streaming:
        raise BadOption(f"delivery={EXACTLY_ONCE} is for streams: a batch that is run again writes again")
    topic = given.get("topic", "")
    form = parse_form(given)
    used, typed = _check_columns(columns, topic, form)
    place = given.get("sinkId") or given.get("checkpointLocation", "")
    if delivery == EXACTLY_ONCE and not place:
        raise BadOption(
            f"{EXACTLY_ONCE} needs the option checkpointLocation, or sinkId, by which a restart finds itself"
        )
    identity = hashlib.sha256(f"{place.rstrip('/')}\n{topic}".encode()).hexdigest()[:24]
    return SinkOptions(
        settings=settings,
        topic=topic,
        exactly_once=delivery == EXACTLY_ONCE,
        sink_id=identity,
        decision_topic=given.get("decisionTopic", DECISION_TOPIC),
        columns=used,
        form=form,
        typed=typed,
    )


def _check_columns(
    columns: Mapping[str, str], topic: str, form: Form | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The record's columns among those of the rows, and what a typed value is made of."""
    prefix = "" if form is None else form.record_prefix
    of_record = {name: prefix + name for name in _KINDS if form is None or name != "value"}
    if form is None and "value" not in columns:
        raise BadOption(
            "the rows have no column value: say what to make of them with format=json, or select what is written, "
            "for example to_json(struct(*)) AS value"
        )
    if not topic and of_record["topic"] not in columns:
        raise BadOption(
            f"nothing says where rows go: set the option topic, or give the rows a column {of_record['topic']}"
        )
    used = tuple(name for name, column in of_record.items() if column in columns and not (name == "topic" and topic))
    for name in used:
        kind = columns[of_record[name]]
        if kind not in _KINDS[name]:
            raise BadOption(f"column {of_record[name]} is {kind}: allowed is {' or '.join(_KINDS[name])}")
    if form is None:
        return used, ()
    typed = tuple(name for name in columns if name not in of_record.values())
    if not typed:
        raise BadOption(f"the rows have no column to make {form.name} of besides those of the record")
    return used, typed
