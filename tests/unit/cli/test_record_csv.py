"""Rows carry any record and come back as the same one; other files become objects."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.vocabulary import TopicPartition
from ottla.cli.record_csv import CsvReader, CsvRules, csv_heading, to_csv
from ottla.cli.record_json import Input
from ottla.records.record import Record

PLACE = TopicPartition("t", 3)
NULL = b"\x00null"
TEXTS = st.text(st.characters(exclude_characters="\x00", codec="utf-8"), max_size=20).map(str.encode)
ANY_BYTES = st.binary(max_size=40).filter(lambda data: NULL not in data)


def read(lines: bytes, rules: CsvRules) -> list[Input]:
    reader = CsvReader(rules)
    records = [reader.read(line) for line in lines.removesuffix(b"\n").split(b"\n")]
    reader.end()
    return [record for record in records if record is not None]


@given(
    key=st.none() | ANY_BYTES.filter(bool),
    value=st.none() | ANY_BYTES | TEXTS,
    headers=st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=5), TEXTS | st.none()), max_size=3),
    separator=st.sampled_from(",;\t|"),
)
def test_every_record_survives_the_way_out_and_in(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], separator: str
) -> None:
    lines = csv_heading(separator) + to_csv(PLACE, [Record(9, 1234, key, value, tuple(headers))], separator, NULL)
    assert read(lines, CsvRules(separator, NULL)) == [(key, value, tuple(headers), 1234, 3)]


def test_rows_without_a_value_column_are_objects_and_a_column_may_be_the_key() -> None:
    first, second = read(b"id,name\n7,ann\n\n8,\xff\n", CsvRules(key_column="id"))
    assert first == (b"7", b'{"id":"7","name":"ann"}', (), None, None)
    assert second.value == b'{"id":"8","name":"\xff"}'
    assert read(b"a\r\n1\r\n", CsvRules())[0].value == b'{"a":"1"}'


def test_large_cells_are_taken() -> None:
    (record,) = read(b"value\n" + b"x" * 1_000_000, CsvRules())
    assert record.value == b"x" * 1_000_000


@pytest.mark.parametrize(
    ("lines", "rules", "words"),
    [
        (b"a,b\n1", CsvRules(), "has 1 cells, and the heading has 2"),
        (b"a,b\n1,2", CsvRules(key_column="c"), "names no column 'c': it has a, b"),
        (b'a\n"x"y', CsvRules(), "is no row of comma-separated values"),
        (b'a\n"x', CsvRules(), "ends inside quotes"),
        (b"value,headers\nx,no json", CsvRules(), "headers that are not JSON"),
        (b"value,timestamp\nx,soon", CsvRules(), "a timestamp that is neither"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_with_a_reason(lines: bytes, rules: CsvRules, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(lines, rules)


def test_headers_are_json_in_their_cell() -> None:
    (row,) = to_csv(PLACE, [Record(9, 1, None, b"v", (("h", b"\xff"),))], ",", b"").splitlines()
    assert json.loads(row.split(b',"')[1].rstrip(b'"').replace(b'""', b'"')) == [["h", {"base64": "/w=="}]]
