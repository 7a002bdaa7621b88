"""Options and columns of the sink."""

from __future__ import annotations

import pytest

from ottla.spark.errors import BadOption
from ottla.spark.sink_options import parse_sink

GIVEN = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t", "checkpointLocation": "/c"}
VALUE = {"value": "string"}


def test_streams_are_exactly_once_and_batches_at_least_once_unless_said() -> None:
    assert parse_sink(GIVEN, VALUE, streaming=True).exactly_once
    assert not parse_sink(GIVEN, VALUE, streaming=False).exactly_once
    assert not parse_sink({**GIVEN, "delivery": "at-least-once"}, VALUE, streaming=True).exactly_once


def test_a_sink_is_the_same_after_a_restart_and_another_elsewhere() -> None:
    first = parse_sink(GIVEN, VALUE, streaming=True).sink_id
    assert parse_sink({**GIVEN, "checkpointLocation": "/c/"}, VALUE, streaming=True).sink_id == first
    assert parse_sink({**GIVEN, "checkpointLocation": "/d"}, VALUE, streaming=True).sink_id != first
    assert parse_sink({**GIVEN, "topic": "u"}, VALUE, streaming=True).sink_id != first


@pytest.mark.parametrize(
    ("spelled", "place"),
    [
        ("/c/q/", "/c/q"),
        ("file:/c/q", "/c/q"),
        ("file:///c//q", "/c/q"),
        ("FILE://localhost/c/./x/../q", "/c/q"),
        ("c/q", "/here/c/q"),
        ("s3a://Store/c/q/", "s3://store/c/q"),
        ("s3://store/c/q", "s3://store/c/q"),
        ("hdfs://far:8020//c/q", "hdfs://far:8020/c/q"),
        ("hdfs:///c/q", "hdfs:///c/q"),
    ],
)
def test_one_checkpoint_has_one_name_however_it_is_spelled(
    spelled: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getcwd", lambda: "/here")
    assert parse_sink({**GIVEN, "checkpointLocation": spelled}, VALUE, streaming=True).place == place


def test_columns_that_are_no_part_of_a_record_are_ignored() -> None:
    columns = {"value": "binary", "key": "string", "offset": "bigint", "topic": "string"}
    assert parse_sink(GIVEN, columns, streaming=True).columns == ("key", "value")


@pytest.mark.parametrize(
    ("options", "columns", "said"),
    [
        ({}, {"key": "string"}, "have no column value"),
        ({}, {"value": "int"}, "column value is int: allowed is binary or string"),
        ({}, {"value": "string", "partition": "bigint"}, "column partition is bigint"),
        ({"delivery": "once"}, VALUE, "allowed is exactly-once or at-least-once"),
        ({"transactional.id": "x"}, VALUE, "the sink's own affair"),
        ({"transaction.two.phase.commit.enable": "true"}, VALUE, "the sink's own affair"),
        ({"acks": "0"}, VALUE, "acks cannot be 0"),
        ({"acks": "1"}, VALUE, "acks cannot be 1 with delivery=exactly-once"),
        ({"compression.typ": "lz4"}, VALUE, "did you mean compression.type?"),
        ({"subscribe": "t"}, VALUE, "subscribe is no option"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(options: dict[str, str], columns: dict[str, str], said: str) -> None:
    with pytest.raises(BadOption) as failure:
        parse_sink(GIVEN | options, columns, streaming=True)
    assert said in str(failure.value)


def test_rows_may_be_on_fewer_replicas_where_they_may_be_written_twice() -> None:
    given = {**GIVEN, "acks": "1", "delivery": "at-least-once"}
    assert parse_sink(given, VALUE, streaming=True).settings["acks"] == "1"


def test_rows_need_a_place_to_go() -> None:
    with pytest.raises(BadOption, match="nothing says where rows go"):
        parse_sink({"bootstrap.servers": "x:1", "checkpointLocation": "/c"}, VALUE, streaming=True)


def test_exactly_once_needs_a_name_that_outlives_the_driver() -> None:
    with pytest.raises(BadOption, match="checkpointLocation, or sinkId"):
        parse_sink({"bootstrap.servers": "x:1", "topic": "t"}, VALUE, streaming=True)
    with pytest.raises(BadOption, match="is for streams"):
        parse_sink({**GIVEN, "delivery": "exactly-once"}, VALUE, streaming=False)
