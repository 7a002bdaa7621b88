"""What every reader of a format is to the rest.

Owns: the shape of a decoder, and finding the values it cannot read. Never knows: records, options, Spark.
Invariants: a decoder answers a row for every value; where the value is null or cannot be read the row is null; every
decimal fits the digits of its column, which Arrow's readers of text do not look at.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import pyarrow as pa


class Decoded(NamedTuple):
    """Rows, and why some of them are missing, by their number."""

    rows: pa.StructArray
    bad: dict[int, str]


class Decoder(Protocol):
    """Made once, used for one batch of values after another."""

    def decode(self, values: pa.Array) -> Decoded: ...


class Unreadable(Exception):
    """Some value is not what it should be."""


AT_ONCE = 256
"""So few values are read one by one, once reading them together has failed."""


def decode_together(
    values: pa.Array, together: Callable[[pa.Array], pa.StructArray], singly: Callable[[pa.Array], Decoded]
) -> Decoded:
    """All values at once; where that fails, halves of them, so that a bad one costs little."""
    try:
        return Decoded(together(values), {})
    except Unreadable:
        if len(values) <= AT_ONCE:
            return singly(values)
    middle = len(values) // 2
    first = decode_together(values[:middle], together, singly)
    second = decode_together(values[middle:], together, singly)
    bad = first.bad | {middle + row: why for row, why in second.bad.items()}
    return Decoded(pa.concat_arrays([first.rows, second.rows]), bad)


def decode_each(values: pa.Array, read: Callable[[bytes], Any], row: pa.StructType) -> Decoded:
    """One value after another; whatever `read` raises is why that one cannot be read."""
    rows: list[Any] = []
    bad: dict[int, str] = {}
    for number, value in enumerate(values.to_pylist()):
        made = None
        if value is not None:
            try:
                made = read(value)
            except Exception as problem:  # libraries raise what they like when bytes are not what they expect
                bad[number] = str(problem) or type(problem).__name__
        rows.append(made)
    try:
        return Decoded(pa.array(rows, row), bad)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
        if len(rows) == 1:
            return Decoded(pa.nulls(1, row), {0: str(problem)})
    singles = [decode_each(values[number : number + 1], read, row) for number in range(len(values))]
    bad |= {number: single.bad[0] for number, single in enumerate(singles) if single.bad}
    return Decoded(pa.concat_arrays([single.rows for single in singles]), bad)


def holds_decimals(kind: pa.DataType) -> bool:
    """Whether `check_decimals` has something to do."""
    inner = [kind.field(number).type for number in range(kind.num_fields)]
    return pa.types.is_decimal(kind) or any(map(holds_decimals, inner))


def check_decimals(array: pa.Array) -> None:
    """ArrowInvalid when a decimal has more digits than its type: Spark would end the query over it, in every mode."""
    if pa.types.is_decimal(array.type):
        array.validate(full=True)
    elif pa.types.is_struct(array.type):
        for column in array.flatten():
            check_decimals(column)
    elif pa.types.is_list(array.type):
        check_decimals(array.flatten())


def bytes_of(texts: pa.Array) -> pa.Buffer:
    """What an array of texts without nulls holds, one behind the other, without a copy."""
    _, offsets, data = texts.buffers()
    ends = pa.Array.from_buffers(pa.int32(), len(texts) + 1, [None, offsets], offset=texts.offset)
    first, last = ends[0].as_py(), ends[len(texts)].as_py()
    return data.slice(first, last - first)
