"""What queries tell about themselves, and what a checkpoint tells about them."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.base.vocabulary import TopicPartition
from ottla.spark.pipelines.offset_log import BatchOffsets, UnknownForm, parse_batch
from ottla.spark.pipelines.progress import Behind, behind, document, line_of
from ottla.spark.pipelines.sentences import sentence_of

PROGRESS: dict[str, Any] = {
    "batchId": 4,
    "timestamp": "2026-01-01T00:00:00.000Z",
    "numInputRows": 30,
    "durationMs": {"triggerExecution": 1500, "addBatch": 1000},
    "eventTime": {"watermark": "2026-01-01T00:00:00.000Z"},
    "stateOperators": [
        {"numRowsTotal": 5, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 2},
        {"numRowsTotal": 1, "memoryUsedBytes": 50, "numRowsDroppedByWatermark": 0},
    ],
    "sources": [
        {"endOffset": {"t": {"0": 5, "1": 7}}, "latestOffset": {"t": {"0": 9, "1": 7, "2": 3}}, "startOffset": None}
    ],
    "sink": {"numOutputRows": 3},
    "observedMetrics": {"undecodable t": {"undecodable": 1}},
}


def test_progress_is_told_in_figures_that_people_ask_for() -> None:
    told = document("p", "q", PROGRESS, 2.5, 99)
    assert told["batch"] == 4
    assert (told["input_rows_per_second"], told["output_rows_per_second"]) == (20.0, 2.0)
    assert (told["lag_records"], told["lag_seconds"]) == (7, 2.5)
    assert (told["state_rows"], told["state_bytes"]) == (6, 150)
    assert (told["rows_too_late"], told["undecodable"]) == (2, 1)
    assert told["watermark"] == "2026-01-01T00:00:00.000Z"
    said = "q: batch 4, 30 rows in, 3 out, watermark 2026-01-01T00:00:00.000Z, 7 behind, 2 too late, 1 undecodable"
    assert line_of(told) == said


def test_what_only_a_checkpoint_needs_is_not_told() -> None:
    end = {"": {"ids": {"t": "x"}, "begun": {"t": {"0": 1}}}, "t": {"0": 5}}
    progress = {**PROGRESS, "sources": [{"endOffset": end, "latestOffset": {"t": {"0": 7}}, "startOffset": None}]}
    assert behind(progress) == [Behind(TopicPartition("t", 0), 5, 2)]
    told = document("p", "q", progress, None, 0)["sources"]
    assert told == [{"start": None, "end": {"t": {"0": 5}}, "latest": {"t": {"0": 7}}}]


def test_what_spark_does_not_tell_is_null() -> None:
    bare = {"batchId": 0, "sink": {"numOutputRows": -1}, "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}}
    told = document("p", "q", bare, None, 0)
    unknown = ("output_rows", "output_rows_per_second", "lag_seconds", "watermark", "state_rows", "state_bytes")
    assert [told[name] for name in unknown] == [None] * 6


def test_a_partition_that_the_query_has_not_seen_yet_counts_whole() -> None:
    assert behind(PROGRESS) == [Behind(TopicPartition("t", 0), 5, 4), Behind(TopicPartition("t", 2), 0, 3)]


def test_a_checkpoints_batch_is_read_and_another_form_refused() -> None:
    text = 'v1\n{"batchWatermarkMs":1700,"conf":{}}\n{"t": {"0": 5}}\n-\n'
    assert parse_batch(text) == BatchOffsets(1700, ({"t": {"0": 5}}, None))
    assert parse_batch('v1\n{"batchWatermarkMs":0}\n17\n').ends == (None,), "a source of Spark's own"
    with pytest.raises(UnknownForm, match="v7"):
        parse_batch("v7\n{}")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[STREAM_FAILED] Query failed\nTraceback (most recent call last):\n  File x\n"
            "ottla.spark.errors.BadOption: includeHeader is no option\n SQLSTATE: 38000\n\tat org.apache.x",
            "includeHeader is no option",
        ),
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column cannot be resolved. SQLSTATE: 42703; line 1",
            "A column cannot be resolved.",
        ),
        ("x\nKeyError: 'a'\n", "KeyError: 'a'"),
        (
            "An exception\nottla.spark.errors.Undecodable: the record at 0 is none. Set x\n"
            "org.apache.spark.PythonException: noise",
            "the record at 0 is none. Set x",
        ),
        ("plain", "plain"),
    ],
)
def test_of_what_spark_says_one_sentence_is_left(text: str, sentence: str) -> None:
    assert sentence_of(text) == sentence
