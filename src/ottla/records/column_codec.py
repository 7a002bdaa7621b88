"""Which twin of the column codec serves: the compiled one where it was built and `codec` serves its own, else Python's.

Owns: the choice, made once at import. Apart from `codec`, so that a broker does not load what only columns need.
"""

from typing import TYPE_CHECKING

from ottla.records.codec import COMPILED as _COMPILED

COMPILED = False

if TYPE_CHECKING:
    from ottla.records._pure_columns import (
        ColumnBuffers,
        FieldColumn,
        HeaderColumn,
        NumberColumn,
        RowSource,
        choose_partitions,
        encode_rows,
        group_rows,
    )
else:
    if _COMPILED:
        try:
            from ottla.records import _codec_columns as _twin

            COMPILED = True
        except ImportError:
            from ottla.records import _pure_columns as _twin
    else:
        from ottla.records import _pure_columns as _twin

    ColumnBuffers = _twin.ColumnBuffers
    FieldColumn = _twin.FieldColumn
    HeaderColumn = _twin.HeaderColumn
    NumberColumn = _twin.NumberColumn
    RowSource = _twin.RowSource
    choose_partitions = _twin.choose_partitions
    encode_rows = _twin.encode_rows
    group_rows = _twin.group_rows

__all__ = [
    "COMPILED",
    "ColumnBuffers",
    "FieldColumn",
    "HeaderColumn",
    "NumberColumn",
    "RowSource",
    "choose_partitions",
    "encode_rows",
    "group_rows",
]
