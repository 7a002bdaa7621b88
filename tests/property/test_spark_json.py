"""JSON as columns: what Arrow reads together is what is read one by one, whatever the values are."""

import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.spark.formats.decoding import Unreadable
from ottla.spark.formats.json_values import JsonDecoder
from ottla.spark.formats.texts import JsonEncoder

ROW = pa.struct(
    [
        ("whole", pa.int16()),
        ("real", pa.float64()),
        ("text", pa.string()),
        ("truth", pa.bool_()),
        ("exact", pa.decimal128(6, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("many", pa.list_(pa.field("element", pa.int64()))),
        ("inner", pa.struct([("text", pa.string())])),
    ]
)
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(["2026-03-01", "2026-03-01T10:00:00Z", "2026-03-01 10:00:00.123456", "1.25", "NaN"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "x"]), inner, max_size=2),
    max_leaves=5,
)
rows = st.dictionaries(st.sampled_from([*(field.name for field in ROW), "other"]), anything, max_size=6)
fitting = st.fixed_dictionaries(
    {},
    optional={
        "whole": st.integers(-(1 << 15), (1 << 15) - 1) | st.none(),
        "real": st.floats(allow_nan=False, allow_infinity=False),
        "text": st.text(st.characters(codec="utf-8"), max_size=12),
        "truth": st.booleans(),
        "exact": st.integers(-999, 999).map(lambda number: number / 4),
        "day": st.dates().map(str),
        "at": st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
        "many": st.lists(st.none() | st.integers(-(1 << 63), (1 << 63) - 1), max_size=3),
        "inner": st.none() | st.fixed_dictionaries({}, optional={"text": st.text(max_size=3)}),
    },
)
tails = st.sampled_from([',"x":2', ',"x":[1,2]', "}", "]", ",", ",{}", "\n{}", ' ,"whole":1', "]}", '},"v":{'])
"""What stands behind an object where nothing may."""
values = st.lists(
    st.one_of(
        st.none(),
        st.binary(max_size=6),
        fitting.map(lambda row: json.dumps(row, ensure_ascii=False).encode()),
        rows.map(lambda row: json.dumps(row).encode()),
        st.tuples(fitting, fitting).map(lambda two: "".join(map(json.dumps, two)).encode()),
        st.tuples(fitting, tails).map(lambda two: (json.dumps(two[0]) + two[1]).encode()),
        st.sampled_from([b'{"text":"}', b'{"text":[{}', b'{"whole":1}]}', b" {}\n", b"null", b'{"exact":12345}']),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(values)
def test_values_read_together_and_one_by_one_are_the_same(some: list[bytes | None]) -> None:
    decoder = JsonDecoder(ROW)
    array = pa.array(some, pa.binary())
    singly, bad = decoder._singly(array)
    try:
        together = decoder._together(array)
    except Unreadable:
        return  # it may refuse what is read one by one
    assert not bad
    assert together.equals(singly), (some, together.to_pylist(), singly.to_pylist())


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(fitting, min_size=1, max_size=5))
def test_what_is_written_is_read_again(some: list[dict[str, Any]]) -> None:
    decoder = JsonDecoder(ROW)
    read, bad = decoder.decode(pa.array([json.dumps(row).encode() for row in some], pa.binary()))
    assert not bad
    again, bad = decoder.decode(JsonEncoder(ROW).encode(read).cast(pa.binary()))
    assert not bad
    assert again.equals(read)
