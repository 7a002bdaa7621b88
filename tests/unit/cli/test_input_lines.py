"""Lines become records, byte for byte, from pipes and from files."""

import asyncio
import os
from pathlib import Path

import pytest

from ottla.cli.input_lines import Common, LineRules, line_reader, lines_of, whole_of
from ottla.cli.record_csv import CsvRules
from ottla.cli.record_types import DataType, encoder


async def read(descriptor: int) -> list[bytes]:
    return [line async for lines in lines_of(descriptor) for line in lines]


async def test_a_file_is_cut_at_line_feeds_only(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\r\n\n\xff\x00three\nlast")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert await read(descriptor) == [b"one\r", b"", b"\xff\x00three", b"last"]
    finally:
        os.close(descriptor)


async def test_a_line_longer_than_what_is_read_at_once_stays_whole(tmp_path: Path) -> None:
    long = b"x" * 1_000_000
    path = tmp_path / "lines"
    path.write_bytes(long + b"\nshort\n")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert await read(descriptor) == [long, b"short"]
    finally:
        os.close(descriptor)


async def test_lines_of_a_pipe_come_as_soon_as_they_are_written() -> None:
    out, into = os.pipe()
    os.write(into, b"first\nhal")
    lines = lines_of(out)
    assert await anext(lines) == [b"first"]
    os.write(into, b"f\n")
    os.close(into)
    assert [line async for chunk in lines for line in chunk] == [b"half"]
    os.close(out)


async def test_waiting_for_a_slow_writer_keeps_nobody_else_from_running() -> None:
    out, into = os.pipe()
    os.write(into, b"first\n")
    lines = lines_of(out)
    assert await anext(lines) == [b"first"]
    second = asyncio.ensure_future(anext(lines))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not second.done()
    os.write(into, b"second\n")
    assert await second == [b"second"]
    await lines.aclose()
    os.close(into)
    os.close(out)


async def test_records_may_be_parted_by_other_bytes_and_a_file_be_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\n||b||")
    for expected in ([b"a\n", b"b"], b"a\n||b||"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if isinstance(expected, bytes):
                assert await whole_of(descriptor) == expected
            else:
                assert [line async for lines in lines_of(descriptor, b"||") for line in lines] == expected
        finally:
            os.close(descriptor)


HEADER = Common(headers=(("h", b"1"),))


@pytest.mark.parametrize(
    ("rules", "common", "line", "record"),
    [
        (LineRules(), Common(), b"a:b", (None, b"a:b", (), None, None)),
        (LineRules(), Common(), b"", (None, b"", (), None, None)),
        (LineRules(key_separator=b":"), Common(), b"a:b:c", (b"a", b"b:c", (), None, None)),
        (LineRules(key_separator=b"::"), Common(), b"\xff::", (b"\xff", b"", (), None, None)),
        (LineRules(key_separator=b":", null_value=b""), Common(), b"gone:", (b"gone", None, (), None, None)),
        (LineRules(null_value=b"NULL"), Common(), b"NULL", (None, None, (), None, None)),
        (LineRules(), HEADER, b"v", (None, b"v", (("h", b"1"),), None, None)),
        (LineRules(), Common(key=b"k", timestamp=5), b"v", (b"k", b"v", (), 5, None)),
        (LineRules(key_separator=b":"), Common(key=b"k"), b"own:v", (b"own", b"v", (), None, None)),
        (LineRules(), Common(value_type=encoder(DataType.SHORT)), b"258", (None, b"\x01\x02", (), None, None)),
        (
            LineRules(as_json=True),
            HEADER._replace(timestamp=7),
            b'{"key":"k","value":null,"headers":[["i","2"]],"timestamp":9,"partition":3}',
            (b"k", None, (("h", b"1"), ("i", b"2")), 9, 3),
        ),
    ],
)
def test_the_options_say_what_a_line_means(
    rules: LineRules, common: Common, line: bytes, record: tuple[object, ...]
) -> None:
    assert line_reader(rules, common).read(line) == record


def test_a_line_without_the_separator_is_refused() -> None:
    with pytest.raises(ValueError, match="no key separator ':'"):
        line_reader(LineRules(key_separator=b":"), Common()).read(b"nothing here")


def test_a_row_that_completes_no_record_is_none_also_with_common_headers() -> None:
    reader = line_reader(LineRules(as_csv=CsvRules()), HEADER)
    assert reader.read(b"key,value") is None
    assert reader.read(b"k,v") == (b"k", b"v", (("h", b"1"),), None, None)
    assert reader.read(b'k,"begun') is None
    with pytest.raises(ValueError, match="ends inside quotes"):
        reader.end()
