"""Arrow columns written as record batches, without a Python object per row.

Owns: reading Arrow's types, placing rows on partitions, cutting them into batches. Never knows: topics, brokers, when a
batch leaves. Needs pyarrow, which is an extra: import this module only where columns are sent.

Invariants: every row is in exactly one batch; those of one partition keep their order. A batch is at most `batch_bytes`
before compression, unless one row alone is larger. What no record can be made of is BadColumns; types
and partitions are looked at before the first batch is made.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

try:
    import pyarrow as pa
except ImportError as missing:
    raise ImportError("columns need pyarrow: pip install 'ottla[arrow]'") from missing

from ottla.base.ports import ByteView
from ottla.records.builder import write_header
from ottla.records.column_codec import (
    FieldColumn,
    HeaderColumn,
    NumberColumn,
    RowSource,
    choose_partitions,
    encode_rows,
    group_rows,
)
from ottla.records.compression import Compression, compress
from ottla.records.header import HEADER_SIZE, LOG_OVERHEAD, MAGIC, TRANSACTIONAL, BatchHeader, next_sequence

WRITTEN = ("key", "value", "timestamp", "headers", "partition")
"""Columns that become records or say where these go."""
IGNORED = ("topic", "offset", "timestamp_type")
"""Columns that reading gives and writing has no use for: what was read can be sent as it is."""


class BadColumns(ValueError):
    """A table that cannot be read as records; the message names the column."""


class ProducerHeader(NamedTuple):
    """Who writes: goes into every batch's header."""

    producer_id: int
    producer_epoch: int
    transactional: bool
    sequences: Mapping[int, int]
    """The sequence number of the next record of each partition; 0 where there is none."""


class Format(NamedTuple):
    """What batches look like."""

    batch_bytes: int
    compression: int = Compression.NONE
    level: int | None = None


class Placement(NamedTuple):
    """Where rows go that name no partition: by their key among `partitions`, without key to those in `keyless`.

    Keyless rows fill one batch for the first of them, then one for the next, and so on.
    """

    partitions: int
    keyless: Sequence[int] = ()


class Encoded(NamedTuple):
    """A batch, ready to be sent; the rows count from the start of the table."""

    partition: int
    data: bytearray
    records_count: int
    first_row: int
    last_row: int
    max_timestamp: int


def encode_batches(
    table: "pa.Table | pa.RecordBatch",
    placement: Placement,
    form: Format,
    *,
    now: int,
    producer: ProducerHeader | None = None,
) -> Iterator[Encoded]:
    """The table's rows as batches, made as they are asked for, partition by partition.

    Columns: `key`, `value` (binary or text), `timestamp` (of any unit, or milliseconds), `headers` (lists of key and
    value, or a map) and `partition`; each may be missing, and nulls may be anywhere. Rows without timestamp get `now`.
    Nothing here holds the interpreter's lock for long: another thread may ask for the batches.
    """
    unknown = [name for name in table.schema.names if name not in WRITTEN + IGNORED]
    if unknown or len(set(table.schema.names)) < len(table.schema.names):
        raise BadColumns(f"the columns of records are {', '.join(WRITTEN)}, each once; not {', '.join(unknown)}")
    pieces = [table] if isinstance(table, pa.RecordBatch) else table.combine_chunks().to_batches()
    try:
        return _encode(_placed(pieces, placement, form, now), form, producer)
    except ValueError as failure:
        raise BadColumns(str(failure)) from None


class _Placed(NamedTuple):
    """Rows that lie together in memory, grouped by partition."""

    source: RowSource
    order: ByteView
    starts: list[int]
    first_row: int


def _placed(pieces: "list[pa.RecordBatch]", placement: Placement, form: Format, now: int) -> list[_Placed]:
    keyless = list(placement.keyless)
    placed: list[_Placed] = []
    first_row = 0
    for piece in pieces:
        source = _source(piece, now)
        chosen, turns = choose_partitions(source, _partitions(piece), placement.partitions, keyless, _room(form))
        placed.append(_Placed(source, *group_rows(chosen, placement.partitions), first_row))
        first_row += piece.num_rows
        if keyless:
            turns %= len(keyless)
            keyless = keyless[turns:] + keyless[:turns]
    return placed


def _room(form: Format) -> int:
    return max(form.batch_bytes - HEADER_SIZE, 1)


def _encode(placed: list[_Placed], form: Format, producer: ProducerHeader | None) -> Iterator[Encoded]:
    sequences = {} if producer is None else dict(producer.sequences)
    for source, order, starts, first_row in placed:
        rows = memoryview(order).cast("i")
        for partition in range(len(starts) - 1):
            start, stop = starts[partition], starts[partition + 1]
            while start < stop:
                try:
                    data, end, base, latest = encode_rows(source, order, start, stop, _room(form), HEADER_SIZE)
                except ValueError as failure:
                    raise BadColumns(str(failure)) from None
                count = end - start
                sequence = sequences.get(partition, 0)
                _seal(data, form, count, (base, latest), producer, sequence)
                sequences[partition] = next_sequence(sequence, count)
                yield Encoded(partition, data, count, first_row + rows[start], first_row + rows[end - 1], latest)
                start = end


def _seal(
    data: bytearray,
    form: Format,
    count: int,
    timestamps: tuple[int, int],
    producer: ProducerHeader | None,
    sequence: int,
) -> None:
    """Compress what stands behind the header's place, and fill in the header."""
    attributes = int(form.compression)
    if attributes:
        data[HEADER_SIZE:] = compress(form.compression, memoryview(data)[HEADER_SIZE:], form.level)
    producer_id = producer_epoch = base_sequence = -1
    if producer is not None:
        producer_id, producer_epoch, base_sequence = producer.producer_id, producer.producer_epoch, sequence
        attributes |= TRANSACTIONAL if producer.transactional else 0
    base_timestamp, latest = timestamps
    length = len(data) - LOG_OVERHEAD
    identity = producer_id, producer_epoch, base_sequence
    write_header(
        data, BatchHeader(0, length, -1, MAGIC, 0, attributes, count - 1, base_timestamp, latest, *identity, count)
    )


def _source(piece: "pa.RecordBatch", now: int) -> RowSource:
    columns = dict(zip(piece.schema.names, piece.columns, strict=True))
    keys, values, timestamps, headers = (columns.get(name) for name in ("key", "value", "timestamp", "headers"))
    return RowSource(
        piece.num_rows,
        None if keys is None else _fields("key", keys),
        None if values is None else _fields("value", values),
        None if timestamps is None else _numbers("timestamp", _milliseconds(timestamps)),
        None if headers is None else _headers(headers),
        now,
    )


def _partitions(piece: "pa.RecordBatch") -> NumberColumn | None:
    if "partition" not in piece.schema.names:
        return None
    return _numbers("partition", piece.column(piece.schema.names.index("partition")))


def _fields(name: str, array: "pa.Array") -> FieldColumn:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _fields(name, array.dictionary_decode())
    if pa.types.is_null(kind) or pa.types.is_fixed_size_binary(kind):
        return _fields(name, array.cast(pa.binary()))
    if kind in (pa.binary_view(), pa.string_view()):
        return _fields(name, array.cast(pa.large_binary()))
    wide = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    if not (wide or pa.types.is_binary(kind) or pa.types.is_string(kind)):
        raise BadColumns(f"column {name} is {kind}: bytes or text are what a record holds")
    validity, offsets, data = (_held(buffer) for buffer in array.buffers())
    return FieldColumn(len(array), array.offset, validity, offsets or b"", data or b"", wide)


def _milliseconds(array: "pa.Array") -> "pa.Array":
    kind = array.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return array.cast(pa.timestamp("ms", tz=getattr(kind, "tz", None)), safe=False)
    return array


def _numbers(name: str, array: "pa.Array") -> NumberColumn:
    kind = array.type
    if not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_null(kind)):
        raise BadColumns(f"column {name} is {kind}: a whole number is needed")
    try:
        array = array.cast(pa.int64())
    except pa.ArrowInvalid as failure:
        raise BadColumns(f"column {name}: {failure}") from None
    validity, data = (_held(buffer) for buffer in array.buffers())
    return NumberColumn(len(array), array.offset, validity, data or b"")


def _headers(array: "pa.Array") -> HeaderColumn | None:
    kind = array.type
    if pa.types.is_null(kind):
        return None
    if pa.types.is_large_list(kind):
        return _headers(array.cast(pa.list_(kind.value_type)))
    if pa.types.is_map(kind):
        names, contents = array.keys, array.items
    elif pa.types.is_list(kind) and pa.types.is_struct(kind.value_type) and kind.value_type.num_fields == 2:
        names, contents = array.values.flatten()
    else:
        raise BadColumns(f"column headers is {kind}: lists of structs of key and value are what a record holds")
    validity, offsets = (_held(buffer) for buffer in array.buffers()[:2])
    pair = _fields("headers", names), _fields("headers", contents)
    return HeaderColumn(len(array), array.offset, validity, offsets or b"", *pair)


def _held(buffer: "pa.Buffer | None") -> ByteView | None:
    """Arrow's buffer as Python sees it: it keeps the memory for as long as it is held."""
    return None if buffer is None else memoryview(buffer)
