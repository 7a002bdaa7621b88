"""Tables line up and sizes read well."""

import pytest

from ottla.cli.output import Column, Table, plain, size_text


def test_text_is_aligned_left_and_numbers_right_without_trailing_blanks() -> None:
    table = Table([Column("NAME"), Column("SIZE", True), Column("STATE")], [["a", "12", "ok"], ["longer", "3", ""]])
    assert plain(table) == "NAME    SIZE  STATE\na         12  ok\nlonger     3\n"


def test_a_table_without_rows_is_its_headings() -> None:
    assert plain(Table([Column("NAME"), Column("N", True)], [])) == "NAME  N\n"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (1 << 60, "1024.0 PiB")],
)
def test_sizes_are_given_in_the_unit_that_reads_best(size: int, text: str) -> None:
    assert size_text(size) == text
