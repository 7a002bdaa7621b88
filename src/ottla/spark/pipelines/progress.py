"""What a running query tells about itself: Spark's progress in the words of `ottla.pipelines.progress`.

Owns: the document's form, and how far a query is behind in records. Never knows: Spark's objects, topics.
Invariants: what Spark does not tell is null and never 0.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.spark.positions import plain

_EPOCH = "1970-01-01T00:00:00.000Z"


class Behind(NamedTuple):
    """A partition that has more than the query has taken."""

    partition: TopicPartition
    position: int
    records: int


def behind(progress: Mapping[str, Any]) -> list[Behind]:
    """Where records wait, by the last batch's own knowledge of the ends."""
    found = []
    for source in progress.get("sources", ()):
        ends = dict(_offsets(source.get("endOffset")))
        for partition, latest in _offsets(source.get("latestOffset")):
            position = ends.get(partition, 0)
            if latest > position:
                found.append(Behind(partition, position, latest - position))
    return found


def _offsets(form: Any) -> Iterator[tuple[TopicPartition, int]]:
    if isinstance(form, Mapping):
        for topic, partitions in plain(form).items():
            if isinstance(partitions, Mapping):
                for number, offset in partitions.items():
                    yield TopicPartition(topic, int(number)), int(offset)


def undecodable(progress: Mapping[str, Any]) -> int:
    """How many records of the batch could not be decoded."""
    metrics = progress.get("observedMetrics") or {}
    return sum(int(values.get("undecodable", 0)) for values in metrics.values())


def dropped(progress: Mapping[str, Any]) -> int:
    """Rows that the batch's stateful operators found too late; a window's are counted once they are combined."""
    return sum(int(each.get("numRowsDroppedByWatermark", 0)) for each in progress.get("stateOperators") or ())


def document(
    pipeline: str, query: str, progress: Mapping[str, Any], lag_seconds: float | None, now_ms: int
) -> dict[str, Any]:
    """The record for a query's batch."""
    states = progress.get("stateOperators") or ()
    durations = {name: int(value) for name, value in (progress.get("durationMs") or {}).items()}
    seconds = durations.get("triggerExecution", 0) / 1000
    written = (progress.get("sink") or {}).get("numOutputRows", -1)
    written = None if written is None or int(written) < 0 else int(written)
    watermark = (progress.get("eventTime") or {}).get("watermark")
    waiting = behind(progress)
    return {
        "pipeline": pipeline,
        "query": query,
        "state": "running",
        "time": now_ms,
        "batch": int(progress.get("batchId", -1)),
        "batch_time": progress.get("timestamp"),
        "input_rows": int(progress.get("numInputRows") or 0),
        "output_rows": written,
        "input_rows_per_second": _rate(int(progress.get("numInputRows") or 0), seconds),
        "output_rows_per_second": None if written is None else _rate(written, seconds),
        "lag_records": sum(each.records for each in waiting),
        "lag_seconds": lag_seconds,
        "watermark": None if watermark in (None, _EPOCH) else watermark,
        "state_rows": sum(int(each.get("numRowsTotal", 0)) for each in states) if states else None,
        "state_bytes": sum(int(each.get("memoryUsedBytes", 0)) for each in states) if states else None,
        "rows_too_late": dropped(progress),
        "undecodable": undecodable(progress),
        "durations_ms": durations,
        "sources": [
            {name: _told(each.get(f"{name}Offset")) for name in ("start", "end", "latest")}
            for each in progress.get("sources", ())
        ],
    }


def _told(form: Any) -> Any:
    """Offsets, without what only the query's checkpoint needs."""
    return plain(form) if isinstance(form, Mapping) else form


def _rate(rows: int, seconds: float) -> float:
    return round(rows / seconds, 1) if seconds else 0.0


def line_of(told: Mapping[str, Any]) -> str:
    """A batch in a line."""
    parts = [f"{told['query']}: batch {told['batch']}", f"{told['input_rows']} rows in"]
    if told["output_rows"] is not None:
        parts.append(f"{told['output_rows']} out")
    if told["watermark"]:
        parts.append(f"watermark {told['watermark']}")
    parts.append(f"{told['lag_records']} behind")
    if told["rows_too_late"] or told["undecodable"]:
        parts.append(f"{told['rows_too_late']} too late, {told['undecodable']} undecodable")
    return ", ".join(parts)
