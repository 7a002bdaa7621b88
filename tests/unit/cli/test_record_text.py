"""Lines of records: bytes go out as they are, columns in a fixed order, templates filled."""

import pytest

from ottla.base.vocabulary import TopicPartition
from ottla.cli.record_text import TextRules, csv_printer, format_printer, text_printer, time_text, unescaped
from ottla.records.record import Record

PLACE = TopicPartition("orders", 2)
RECORDS = [
    Record(5, 1_769_860_800_250, b"key", b"\xff\x00 value", (("h", b"1"), ("h", None))),
    Record(6, 1_769_860_800_251, None, None),
]


def test_values_alone_are_printed_as_the_bytes_they_are() -> None:
    assert text_printer(TextRules())(PLACE, RECORDS) == b"\xff\x00 value\nnull\n"


def test_columns_stand_in_a_fixed_order_with_the_value_last() -> None:
    rules = TextRules(partition=True, timestamp=True, key=True, headers=True, separator=b"|", null=b"-")
    assert text_printer(rules)(PLACE, RECORDS) == (
        b"2:5|2026-01-31T12:00:00.250Z|h=1,h=-|key|\xff\x00 value\n2:6|2026-01-31T12:00:00.251Z||-|-\n"
    )


def test_on_a_terminal_what_stands_beside_the_value_has_colours() -> None:
    rules = TextRules(partition=True, key=True, separator=b" ", coloured=True)
    assert text_printer(rules)(PLACE, RECORDS[:1]) == b"\x1b[2m2:5\x1b[0m \x1b[36mkey\x1b[0m \xff\x00 value\n"


def test_a_template_is_filled_in_and_nothing_is_added() -> None:
    show = format_printer(r"{topic}/{partition}@{offset}\t{timestamp} {key}={value}\\ \{x\n", b"~")
    assert show(PLACE, RECORDS[1:]) == b"orders/2@6\t1769860800251 ~=~\\ {x\n"


@pytest.mark.parametrize("template", ["{nothing}", "{}", "{header}", "{key:x}"])
def test_a_template_that_names_what_is_not_there_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"is none of \{topic\}"):
        format_printer(template, b"")


@pytest.mark.parametrize("template", ["json", r"\{key\}", ""])
def test_a_template_that_shows_nothing_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match="shows nothing of a record; --json"):
        format_printer(template, b"")


def test_times_no_calendar_has_are_shown_as_numbers() -> None:
    assert time_text(-1) == "1969-12-31T23:59:59.999Z"
    assert time_text(2**62) == str(2**62)


def test_a_template_shows_one_header_and_sizes() -> None:
    show = format_printer(r"{header:h}/{header:missing}/{key_size}/{value_size}\n", b"~")
    named = RECORDS[0]._replace(headers=(("h", b"first"), ("h", b"")))
    assert show(PLACE, [named, RECORDS[1]]) == b"/~/3/8\n~/~/-1/-1\n"


def test_what_parts_records_is_told_with_the_usual_escapes() -> None:
    assert unescaped(r"\0\t\x\\") == b"\0\t\\x\\"
    assert text_printer(TextRules(delimiter=unescaped(r"\0")))(PLACE, RECORDS) == b"\xff\x00 value\0null\0"


def test_rows_have_one_heading_however_many_times_they_are_printed() -> None:
    show = csv_printer(";", b"")
    assert show(PLACE, RECORDS[1:]) == (
        b"topic;partition;offset;timestamp;key;value;headers\norders;2;6;1769860800251;;;\n"
    )
    assert show(PLACE, RECORDS[:1]) == b'orders;2;5;1769860800250;key;\xff\x00 value;"[[""h"",""1""],[""h"",null]]"\n'
