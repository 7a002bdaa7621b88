"""The options of the sink, understood.

Owns: their names and defaults, what the columns of written rows must be, and by which name a query finds itself after a
restart. Never knows: clusters. Invariants: as those of the source; whatever is wrong with options or columns is said on
the driver; one checkpoint has one name, however it is spelled.
"""

import hashlib
import os.path
import re
from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.settings import PRODUCER
from ottla.spark.errors import BadOption
from ottla.spark.formats.options import SINK_FORM_NAMES, Form, parse_form
from ottla.spark.options import check_settings, sort_options, truth

NAMES = (
    "topic",
    "delivery",
    "sinkId",
    "decisionTopic",
    "checkpointLocation",
    "compareRows",
    "includeHeaders",
    "queryName",
    *SINK_FORM_NAMES,
)
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
_BATCH_BYTES = str(256 * 1024)
_TRANSACTION_MS = str(10 * 60 * 1000)
"""Unless the user says otherwise: between a batch's first row and its end all its tasks must run."""
DECISION_TOPIC = "ottla.spark.decisions"
_ONE_STORE = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}
"""Schemes that lead to the same files as another."""

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
    place: str = ""
    """What `sink_id` was made of, beside the topic: the checkpoint, or what the user called the sink."""
    named: bool = False
    """The user chose that name, and so answers for its being the right one."""
    checkpoint: str = ""
    """The checkpoint as a path, if it lies in a file system of this machine."""
    compare_rows: bool = True
    """Whether a batch that runs again must bring the rows that were written."""

    def name_of(self, column: str) -> str:
        """What the rows call a column of the record."""
        return column if self.form is None else self.form.record_prefix + column


def parse_sink(options: Mapping[str, str], columns: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """What the user asked for; `columns` are the rows' with their types as Spark writes them."""
    given, settings = sort_options(options, NAMES, PRODUCER)
    for name in ("transactional.id", "enable.idempotence", "transaction.two.phase.commit.enable"):
        if name in settings:
            raise BadOption(f"{name} is the sink's own affair; say delivery={EXACTLY_ONCE} or {AT_LEAST_ONCE}")
    settings.setdefault("batch.size", _BATCH_BYTES)
    settings.setdefault("transaction.timeout.ms", _TRANSACTION_MS)
    check_settings(PRODUCER, settings)
    delivery = given.get("delivery", EXACTLY_ONCE if streaming else AT_LEAST_ONCE)
    if delivery not in (EXACTLY_ONCE, AT_LEAST_ONCE):
        raise BadOption(f"delivery cannot be {delivery!r}: allowed is {EXACTLY_ONCE} or {AT_LEAST_ONCE}")
    if delivery == EXACTLY_ONCE and not streaming:
        raise BadOption(f"delivery={EXACTLY_ONCE} is for streams: a batch that is run again writes again")
    _check_acks(settings, delivery)
    topic = given.get("topic", "")
    form = parse_form(given)
    used, typed = _check_columns(columns, topic, form)
    checkpoint = qualified(given.get("checkpointLocation", ""))
    place = given.get("sinkId", "").rstrip("/") or checkpoint
    if delivery == EXACTLY_ONCE and not place:
        raise BadOption(
            f"{EXACTLY_ONCE} needs the option checkpointLocation, or sinkId, by which a restart finds itself"
        )
    identity = hashlib.sha256(f"{place}\n{topic}".encode()).hexdigest()[:24]
    return SinkOptions(
        settings=settings,
        topic=topic,
        exactly_once=delivery == EXACTLY_ONCE,
        sink_id=identity,
        decision_topic=given.get("decisionTopic", DECISION_TOPIC),
        columns=used,
        form=form,
        typed=typed,
        place=place,
        named=bool(given.get("sinkId")),
        checkpoint=checkpoint if checkpoint.startswith("/") else "",
        compare_rows=truth(given, "compareRows", True),
    )


def qualified(location: str) -> str:
    """A place in the one spelling that Hadoop would make of it; of this machine's files only the path.

    A path without scheme may lie elsewhere on a cluster whose file system is another: the name is the same each time.
    """
    if not location:
        return ""
    scheme, authority, path = _parts(location)
    if scheme in ("", "file"):
        return os.path.abspath(path).replace("//", "/")
    path = os.path.normpath("/" + path).replace("//", "/")
    return f"{_ONE_STORE.get(scheme, scheme)}://{authority}{path}".rstrip("/")


def _parts(location: str) -> tuple[str, str, str]:
    matched = re.fullmatch(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(.*)", location, re.DOTALL)
    assert matched is not None, "every text has this form"
    scheme, authority, path = matched.groups(default="")
    return scheme.lower(), authority.lower(), path


def _check_acks(settings: Mapping[str, str], delivery: str) -> None:
    acks = settings.get("acks", "all")
    if acks == "0":
        raise BadOption("acks cannot be 0: a batch ends when its rows are known to be written")
    if delivery == EXACTLY_ONCE and acks not in ("all", "-1"):
        raise BadOption(f"acks cannot be {acks} with delivery={EXACTLY_ONCE}: a leader that dies takes rows with it")


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
