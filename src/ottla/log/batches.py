"""Walking through the batches of a segment file.

Owns: reading a `.log` file in chunks of bounded size, batch by batch. Never knows: what is done with them.
Invariants: a batch is handed out whole and once; the file's bytes are never all in memory.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ottla.base.ports import File
from ottla.records.batch import read_payload
from ottla.records.header import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, iterate_headers, read_header

CHUNK_BYTES = 1024 * 1024


class StoredBatch(NamedTuple):
    """One batch, where it stands in its file, and its bytes (valid as long as they are held)."""

    position: int
    header: BatchHeader
    data: memoryview

    def payload(self) -> bytes | memoryview:
        """The records, decompressed. Raises CorruptBatch."""
        return read_payload(self.data, self.header)


def read_batches(
    file: File, position: int = 0, end: int | None = None, chunk: int = CHUNK_BYTES
) -> Iterator[StoredBatch]:
    """The whole batches from a batch's position on; a partial one at the end is left out. Raises CorruptBatch.

    A batch larger than the chunk is read in one piece of its own.
    """
    size = file.size() if end is None else end
    wanted = chunk
    while size - position >= HEADER_SIZE:
        view = memoryview(file.read_at(position, min(wanted, size - position)))
        taken = 0
        for start, header in iterate_headers(view):
            taken = start + header.size
            yield StoredBatch(position + start, header, view[start:taken])
        if taken:
            position += taken
            wanted = chunk
            continue
        needed = read_header(view).length + LOG_OVERHEAD
        if needed > size - position:
            return
        wanted = needed
