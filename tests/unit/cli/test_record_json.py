"""JSON lines carry any record and come back as the same one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.vocabulary import TopicPartition
from ottla.cli.record_json import from_json, to_json
from ottla.records.record import Record

PLACE = TopicPartition("t", 3)
ANY_BYTES = st.none() | st.binary(max_size=40) | st.text(max_size=20).map(str.encode)
HEADER_NAMES = st.binary(max_size=10).map(lambda raw: raw.decode("utf-8", "surrogateescape"))


@given(
    key=ANY_BYTES,
    value=ANY_BYTES,
    headers=st.lists(st.tuples(HEADER_NAMES, ANY_BYTES), max_size=3).map(tuple),
    timestamp=st.integers(0, 2**53),
)
def test_every_record_survives_the_way_out_and_in(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...], timestamp: int
) -> None:
    line = to_json(PLACE, Record(9, timestamp, key, value, headers))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert from_json(line) == (key, value, headers, timestamp, 3)


def test_a_line_says_where_its_record_stood() -> None:
    assert json.loads(to_json(PLACE, Record(9, 17, b"k", b"\xff", (("h", None),)))) == {
        "topic": "t",
        "partition": 3,
        "offset": 9,
        "timestamp": 17,
        "key": "k",
        "value": {"base64": "/w=="},
        "headers": [["h", None]],
    }


def test_structured_values_are_sent_as_compact_json() -> None:
    assert from_json(b'{"value": {"a": [1, 2.5, null]}, "key": 7}')[:2] == (b"7", b'{"a":[1,2.5,null]}')


def test_headers_may_be_an_object_and_times_iso() -> None:
    record = from_json(
        b'{"value": "v", "headers": {"a": "b", "c": null}, "timestamp": "2026-01-31T12:00:00.250+00:00"}'
    )
    assert record.headers == (("a", b"b"), ("c", None))
    assert record.timestamp == 1769860800250


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"not json", "is not JSON"),
        (b"[1]", "is not an object"),
        (b'{"vaule": 1}', "is not an object with"),
        (b'{"value": {"base64": "?"}}', "base64"),
        (b'{"value": {"base64": 5}}', "base64"),
        (b'{"value": "v", "headers": ["a"]}', "headers"),
        (b'{"value": "v", "headers": "ab"}', "headers"),
        (b'{"value": "v", "timestamp": "noon"}', "timestamp"),
        (b'{"value": "v", "timestamp": true}', "timestamp"),
        (b'{"value": "v", "timestamp": -1}', "timestamp"),
        (b'{"value": "v", "timestamp": 9223372036854775808}', "timestamp"),
        (b'{"value": "\\ud800"}', "surrogates"),
    ],
)
def test_what_is_no_record_is_refused_with_the_reason(line: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        from_json(line)
