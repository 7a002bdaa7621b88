"""What the column codec hands over: plain buffers in Arrow's layout, for whoever makes arrays of them.

Owns: the shapes only, which both twins fill. Never knows: Arrow's library, batches.
Invariants: offsets are little-endian int32 and one more than there are rows; a validity bitmap has the lowest bit first
and is left out where nothing is null.
"""

from typing import NamedTuple

from ottla.base.ports import ByteView


class ColumnsFull(Exception):
    """A payload might take a column past what offsets of 32 bits can say: take what is there first."""


class FieldParts(NamedTuple):
    """A column of byte strings."""

    validity: ByteView | None
    nulls: int
    offsets: ByteView
    data: ByteView


class HeaderParts(NamedTuple):
    """A column of lists of headers: which of the names and contents belong to each row."""

    offsets: ByteView
    headers: int
    names: FieldParts
    contents: FieldParts


class ColumnParts(NamedTuple):
    """The columns of some rows; a column that was not wanted is None."""

    rows: int
    offsets: ByteView
    timestamps: ByteView
    timestamp_types: ByteView
    keys: FieldParts | None
    values: FieldParts | None
    headers: HeaderParts | None
