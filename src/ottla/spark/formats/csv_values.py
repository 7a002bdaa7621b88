"""CSV as columns: each value is one row, without a header.

Owns: reading values with Arrow's CSV reader. Never knows: records, Spark. Invariants: a value never takes part in
another's row: each gets a last field with its number, and the numbers must come back as they went.
"""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ottla.spark.errors import BadOption
from ottla.spark.formats.decoding import Decoded, Unreadable, bytes_of, check_decimals, decode_together

_NUMBER = "\0number"
_ZONED = pa.timestamp("us", "UTC")
_SIMPLE = (
    pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_date,
    pa.types.is_timestamp, pa.types.is_decimal,
)  # fmt: skip


class CsvDecoder:
    """Values that are rows of CSV."""

    def __init__(self, row: pa.StructType, separator: str, null_text: str) -> None:
        for field in row:
            if not any(fits(field.type) for fits in _SIMPLE):
                raise BadOption(f"CSV has nothing for column {field.name} of type {field.type}")
        self._row = row
        self._separator = separator
        read = {field.name: pa.string() if field.type == _ZONED else field.type for field in row}
        self._parse = pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True, ignore_empty_lines=False)
        self._convert = pyarrow.csv.ConvertOptions(
            column_types=read | {_NUMBER: pa.int32()},
            null_values=[null_text],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        self._names = [*read, _NUMBER]

    def decode(self, values: pa.Array) -> Decoded:
        if not len(values):
            return Decoded(pa.nulls(0, self._row), {})
        return decode_together(values, self._together, self._singly)

    def _together(self, values: pa.Array) -> pa.StructArray:
        try:
            return self._rows(values)
        except (pa.ArrowInvalid, UnicodeError) as problem:
            raise Unreadable from problem

    def _singly(self, values: pa.Array) -> Decoded:
        rows: list[pa.StructArray] = []
        bad: dict[int, str] = {}
        for number in range(len(values)):
            try:
                rows.append(self._rows(values[number : number + 1]))
            except (pa.ArrowInvalid, UnicodeError, Unreadable) as problem:
                rows.append(pa.nulls(1, self._row))
                bad[number] = str(problem).replace("\n", " ")
        return Decoded(pa.concat_arrays(rows), bad)

    def _rows(self, values: pa.Array) -> pa.StructArray:
        texts = pc.utf8_rtrim(values.drop_null().cast(pa.string()), "\r\n")
        if not len(texts):
            return pa.nulls(len(values), self._row)
        numbers = pa.array(range(len(texts)), pa.int32())
        lines = bytes_of(pc.binary_join_element_wise(texts, self._separator, numbers.cast(pa.string()), "\n", ""))
        reading = pyarrow.csv.ReadOptions(use_threads=False, column_names=self._names, block_size=lines.size + 1)
        table = pyarrow.csv.read_csv(pa.BufferReader(lines), reading, self._parse, self._convert).combine_chunks()
        if table.num_rows != len(texts) or not table.column(_NUMBER).combine_chunks().equals(numbers):
            raise Unreadable("it is not one row")
        columns = []
        for field in self._row:
            column = table.column(field.name).combine_chunks()
            columns.append(_moments(column) if field.type == _ZONED else column)
        rows = pa.StructArray.from_arrays(columns, fields=list(self._row))
        check_decimals(rows)
        if not values.null_count:
            return rows
        there = values.is_valid()
        return rows.take(pc.if_else(there, pc.subtract(pc.cumulative_sum(there.cast(pa.int64())), 1), None))


def _moments(texts: pa.Array) -> pa.Array:
    """Times with their zone, or all without: those are UTC."""
    try:
        return texts.cast(_ZONED)
    except pa.ArrowInvalid:
        return texts.cast(pa.timestamp("us")).cast(_ZONED)
