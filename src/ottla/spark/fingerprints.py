"""What tells two batches apart that have the same number.

Owns: the fingerprint of rows, and that of what a checkpoint says a batch reads. Never knows: what follows when two
differ. Invariants: a fingerprint of rows depends neither on their order nor on which task has them; where a checkpoint
cannot be read there is none, and that is no error.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import pyarrow as pa

_CONTENT = 0xFFFFFFFF


class Fingerprint(NamedTuple):
    """Of some rows."""

    rows: int = 0
    """Less than none where they were not counted."""
    content: int | None = None
    """The sum of their checksums; None where nobody looked at them."""

    def matches(self, other: "Fingerprint") -> bool:
        """Whether both can be of the same rows, as far as both were looked at."""
        if self.rows < 0 or other.rows < 0:
            return True
        if self.content is None or other.content is None:
            return self.rows == other.rows
        return self == other


UNKNOWN = Fingerprint(-1)


def combined(parts: Iterable[Fingerprint]) -> Fingerprint:
    """That of all the rows together."""
    rows, content = 0, 0
    looked = True
    for part in parts:
        rows += part.rows
        looked = looked and part.content is not None
        content += part.content or 0
    return Fingerprint(rows, content & _CONTENT if looked else None)


class Tally:
    """Takes rows as a writer does, and keeps nothing of them but their fingerprint."""

    def __init__(self, *, looks: bool) -> None:
        self._rows = 0
        self._content = 0
        self._looks = looks

    def write(self, _topic: str, rows: pa.RecordBatch) -> None:
        self._rows += rows.num_rows
        if self._looks and rows.num_rows:
            values = _bytes_of(rows, "value")
            keys = _bytes_of(rows, "key") if "key" in rows.schema.names else None
            sums = map(crc32, values) if keys is None else map(crc32, values, map(crc32, keys))
            self._content = (self._content + sum(sums)) & _CONTENT

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self._rows, self._content if self._looks else None)


def _bytes_of(rows: pa.RecordBatch, name: str) -> list[bytes]:
    values: list[bytes] = rows.column(name).cast(pa.binary()).fill_null(b"").to_pylist()
    return values


def planned_ranges(checkpoint: str) -> dict[int, str]:
    """What the newest batch of a query reads, by its number, as its checkpoint tells it: Spark notes that before the
    batch begins, and finds it there when the batch runs again."""
    folder = Path(checkpoint) / "offsets"
    try:
        newest = max(int(entry.name) for entry in folder.iterdir() if entry.name.isdigit())
        # the first line is the format's version, the second has the time of day in it
        _, _, offsets = (folder / str(newest)).read_bytes().split(b"\n", 2)
    except (OSError, ValueError):
        return {}
    return {newest: hashlib.sha256(offsets).hexdigest()[:32]}
