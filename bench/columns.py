"""Rows per second between record batches and Arrow columns, without any broker: `python -m bench.columns`.

Counts the process's own time, so that a busy machine does not show; prints one line a case.
"""

import time
from collections.abc import Callable

import pyarrow as pa

from ottla.records.batch import read_records
from ottla.records.column_batches import Format, Placement, encode_batches
from ottla.records.column_codec import COMPILED
from ottla.records.columns import ColumnReader
from ottla.records.compression import Compression
from ottla.records.header import assign, iterate_headers

ROUNDS = 5
NOW = 1_700_000_000_000
PARTITIONS = 12


def table(rows: int, size: int, keyed: bool) -> pa.Table:
    columns = {"value": pa.array([b"v" * size] * rows)}
    if keyed:
        columns["key"] = pa.array([b"key-%07d" % row for row in range(rows)])
    return pa.table(columns)


def fastest(work: Callable[[], int]) -> float:
    """Rows per second of the best of some rounds."""
    best = 0.0
    for _ in range(ROUNDS):
        begun = time.process_time()
        rows = work()
        best = max(best, rows / (time.process_time() - begun))
    return best


def show(name: str, work: Callable[[], int], row_bytes: int) -> None:
    speed = fastest(work)
    print(f"{name:58} {speed / 1e6:7.2f} M rows/s {speed * row_bytes / 1e9:6.2f} GB/s", flush=True)


def reading(size: int, batch_bytes: int, compression: Compression) -> None:
    rows = max(20_000, 20_000_000 // (size + 20))
    given = table(rows, size, keyed=True)
    data = bytearray()
    offset = 0
    for each in encode_batches(given, Placement(1), Format(batch_bytes, compression), now=NOW):
        assign(each.data, 0, offset, 0)
        data += each.data
        offset += each.records_count
    case = f"{size} B values, {batch_bytes >> 10} KiB batches, {compression.name.lower()}"
    for checked in (True, False):
        reader = ColumnReader(check_crc=checked)

        def columns(reader: ColumnReader = reader) -> int:
            reader.add(data, 0)
            rows: int = reader.finish().num_rows
            return rows

        show(f"columns from {case}{'' if checked else ', no checksum'}", columns, size)
    show(
        f"records from {case}",
        lambda: sum(len(read_records(data, header, start)) for start, header in iterate_headers(data)),
        size,
    )


def writing(size: int, batch_bytes: int, compression: Compression, keyed: bool) -> None:
    given = table(max(20_000, 20_000_000 // (size + 20)), size, keyed)
    placement = Placement(PARTITIONS, range(PARTITIONS))
    kind = "keyed" if keyed else "keyless"

    def batches() -> int:
        made = encode_batches(given, placement, Format(batch_bytes, compression), now=NOW)
        return sum(each.records_count for each in made)

    case = f"{size} B values, {batch_bytes >> 10} KiB batches, {compression.name.lower()}"
    show(f"{kind} batches of {case}", batches, size)


def main() -> None:
    print(f"compiled: {COMPILED}")
    for size, batch_bytes in ((100, 16 << 10), (100, 1 << 20), (1000, 1 << 20)):
        reading(size, batch_bytes, Compression.NONE)
    reading(100, 1 << 20, Compression.LZ4)
    for keyed in (True, False):
        writing(100, 16 << 10, Compression.NONE, keyed)
        writing(100, 1 << 20, Compression.NONE, keyed)
    writing(100, 1 << 18, Compression.LZ4, keyed=True)
    writing(100, 1 << 18, Compression.ZSTD, keyed=True)


if __name__ == "__main__":
    main()
