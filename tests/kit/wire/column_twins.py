"""Both twins of the column codec, for tests that run over each, and a way to let one of them serve."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from ottla.records import _pure_columns, column_batches, columns

TWINS: list[ModuleType] = [_pure_columns]
try:
    from ottla.records import _codec_columns
except ImportError:  # not built here: the Python twin is what serves, so it is what is tested
    COMPILED = False
else:
    COMPILED = True
    TWINS.append(_codec_columns)

each_twin = pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__.rpartition(".")[2])
needs_compiled = pytest.mark.skipif(not COMPILED, reason="the compiled codec was not built")

USERS = {
    columns: ["ColumnBuffers"],
    column_batches: [
        "FieldColumn",
        "HeaderColumn",
        "NumberColumn",
        "RowSource",
        "choose_partitions",
        "encode_rows",
        "group_rows",
    ],
}


@contextmanager
def serving(twin: ModuleType) -> Iterator[None]:
    """What reads and writes columns does it by this twin."""
    with pytest.MonkeyPatch.context() as patch:
        for user, names in USERS.items():
            for name in names:
                patch.setattr(user, name, getattr(twin, name))
        yield
