"""Answers made comparable: what each broker makes up for itself is replaced by a name, unordered lists are sorted."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Any

import cramjam

from kit.wire.batches import read_batches
from oracle.sides import Side

Normal = Callable[[Side, Any], Any]


def _number_of_bytes(side: Side, value: int) -> str | int:
    return "<bytes of the disk>" if value > 0 else value


# By field name, wherever it appears.
_BY_FIELD: dict[str, Normal] = {
    "throttle_time": lambda side, value: 0,
    "host": lambda side, value: "<host>",
    "port": lambda side, value: "<port>" if value == side.broker.port else value,
    "cluster_id": lambda side, value: "<cluster>" if isinstance(value, str) and len(value) == 22 else value,
    "session_id": lambda side, value: "<session>" if value > 0 else value,
    "producer_id": lambda side, value: side.producer_id_name(value),
    "log_append_time": lambda side, value: side.moment(value),
    "log_append_time_ms": lambda side, value: side.moment(value),
    "transaction_start_time": lambda side, value: side.moment(value),
    "timestamp": lambda side, value: side.moment(value),
    "last_timestamp": lambda side, value: side.moment(value),
    "documentation": lambda side, value: "<some text>" if value else value,
    "log_dir": lambda side, value: "<directory>",
    "total_bytes": _number_of_bytes,
    "usable_bytes": _number_of_bytes,
    "finalized_features_epoch": lambda side, value: "<epoch>" if value >= 0 else value,
}
_SORTED_BY = ("name", "topic", "topic_name", "resource_name", "partition_index", "index", "partition", "api_key",
              "node_id", "broker_id", "log_dir", "config_name", "group_id", "member_id", "transactional_id", "topic_id",
              "producer_id")  # fmt: skip
_TIMES = re.compile(r"\b1\d{12}\b")  # times in a sentence
_FOR_EVER_AGO = re.compile(r"-92233702\d{11}\b")  # now less the longest time there is
_UUID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")  # the made-up part of a member's id
_ORDER_MATTERS = {"records", "replica_nodes", "isr_nodes", "synonyms", "replicas"}


def normal(side: Side, value: Any, field: str = "") -> Any:
    """An answer, or a part of one, without what must differ."""
    if field in _BY_FIELD and not isinstance(value, dict | list):
        return _BY_FIELD[field](side, value)
    if field == "records" and (value is None or isinstance(value, bytes)):
        return None if value is None else _records(side, value)
    if isinstance(value, uuid.UUID):
        return side.topic_id_name(value)
    if isinstance(value, dict):
        return {key: normal(side, item, key) for key, item in value.items()}
    if isinstance(value, list):
        rows = [normal(side, item, field) for item in value]
        return rows if field in _ORDER_MATTERS else sorted(rows, key=_sort_key)
    if isinstance(value, str):
        return _text(side, value)
    return value


def _text(side: Side, value: str) -> str:
    for directory in side.broker.directories:
        value = value.replace(str(directory), "<directory>")
    value = _UUID.sub("<uuid>", side.member_text(value))
    value = _FOR_EVER_AGO.sub("<for ever ago>", value)
    value = _TIMES.sub(lambda found: str(side.moment(int(found[0]), 7_200_000)), value)
    # Not a part of a longer number: "2000000" is no port, though a broker may listen at 20000.
    return re.sub(rf"(?<!\d){side.broker.port}(?!\d)", "<port>", value)


def _sort_key(row: Any) -> str:
    if not isinstance(row, dict):
        return f"{row:>20}" if isinstance(row, int) else str(row)
    return " ".join(
        f"{row[key]:>6}" if isinstance(row[key], int) else str(row[key]) for key in _SORTED_BY if key in row
    )


def _records(side: Side, data: bytes) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    try:
        batches = read_batches(data)
    except (AssertionError, IndexError, cramjam.DecompressionError) as error:
        return [{"unreadable": str(error)}]
    if not any(batch.attributes & 7 for batch in batches):  # a cut batch at the end shows in the size alone
        rows.append({"bytes": len(data)})
    for batch in batches:
        fields = batch._asdict()
        fields["producer_id"] = side.producer_id_name(batch.producer_id)
        fields["max_timestamp"] = side.moment(batch.max_timestamp)
        fields["base_timestamp"] = side.moment(batch.base_timestamp)
        fields["records"] = [{**row._asdict(), "timestamp": side.moment(row.timestamp)} for row in batch.records]
        rows.append(fields)
    return rows
