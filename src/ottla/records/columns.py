"""Record batches read as Arrow columns, without a Python object per row.

Owns: gathering what fetches brought, of any partitions, into one RecordBatch. Never knows: requests, brokers, groups.
Needs pyarrow, which is an extra: import this module only where columns are asked for.

Invariants: the next offset never goes back and passes every whole batch that was looked at, also those of which nothing
was left. A damaged batch behind good ones is left for the next fetch, which begins with it; then it is CorruptBatch.
The columns of a finished RecordBatch are the buffers that were filled: nothing is copied once more.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any, Literal, NamedTuple

try:
    import pyarrow as pa
except ImportError as missing:
    raise ImportError("columns need pyarrow: pip install 'ottla[arrow]'") from missing

from ottla.base.ports import ByteView
from ottla.records.batch import read_payload
from ottla.records.column_codec import ColumnBuffers
from ottla.records.column_parts import ColumnsFull, FieldParts, HeaderParts
from ottla.records.compression import DECOMPRESSED_LIMIT
from ottla.records.header import CorruptBatch
from ottla.records.visible import LAST_OFFSET, Aborted, sift_batches

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type")
"""What a reader gives when nobody says otherwise; `headers` must be asked for. `timestamp_type` is 0 for CreateTime and
1 for LogAppendTime."""

HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))

_SCALES = {"ms": 1, "us": 1000}
_INT32 = Struct("<i")


class Added(NamedTuple):
    """What `add` did with some bytes."""

    rows: int
    next_offset: int
    used: int
    """Bytes up to the end of the last batch that was passed."""
    full: bool
    """The columns can, or shall, hold no more: finish, and add the same bytes again from `next_offset` on."""


class Most(NamedTuple):
    """How much columns shall hold before they are taken: rows, and bytes in the fullest."""

    rows: int
    size: int


NO_LIMIT = Most(1 << 62, 1 << 62)


class _Run(NamedTuple):
    """Rows that came one after another from one partition."""

    topic: int
    partition: int
    rows: int


class ColumnReader:
    """Gathers records into columns; `finish` gives them and starts anew. For one thread at a time."""

    def __init__(
        self,
        columns: Sequence[str] = COLUMNS,
        *,
        unit: Literal["ms", "us"] = "ms",
        check_crc: bool = True,
        limit: int = DECOMPRESSED_LIMIT,
        most: Most = NO_LIMIT,
    ) -> None:
        """`columns` names what is wanted, in the order wanted; `limit` bounds a decompressed batch.

        With `most`, no batch is added once the columns hold so much: however well records were compressed, memory holds
        that and one batch. A timestamp that microseconds cannot express becomes the last one they can.
        """
        self.schema = _schema(columns, unit)
        self._check_crc = check_crc
        self._limit = limit
        self._most = most
        self._buffers = ColumnBuffers("key" in columns, "value" in columns, "headers" in columns, _SCALES[unit])
        self._topics: dict[str, int] = {}
        self._runs: list[_Run] = []

    @property
    def rows(self) -> int:
        return self._buffers.rows

    @property
    def size(self) -> int:
        """Bytes in the fullest column."""
        return self._buffers.size

    def add(
        self,
        data: ByteView,
        position: int,
        *,
        topic: str = "",
        partition: int = 0,
        aborted: Iterable[Aborted] = (),
        end_offset: int = LAST_OFFSET + 1,
    ) -> Added:
        """The records at or after `position` and before `end_offset` of one partition's fetched bytes.

        With `aborted`, read_committed: those transactions' records are left out. Records that end at `end_offset` give
        it as the next offset, also where the log has a gap there. CorruptBatch when the first batch is damaged.
        """
        begun = position
        rows = used = 0
        full = False
        try:
            for start, header, shown in sift_batches(data, position, aborted, self._check_crc):
                if position >= end_offset:
                    break
                if self._buffers.rows >= self._most.rows or self._buffers.size >= self._most.size:
                    full = True
                    break
                if shown and header.base_offset < end_offset:
                    payload = read_payload(data, header, start, self._limit)
                    rows += self._buffers.add(payload, header, position, end_offset)
                used = start + header.size
                position = min(header.next_offset, end_offset)
        except ColumnsFull:
            full = True
        except CorruptBatch:
            if position == begun:
                raise
        if rows:
            number = self._topics.setdefault(topic, len(self._topics))
            self._runs.append(_Run(number, partition, rows))
        return Added(rows, position, used, full)

    def finish(self) -> pa.RecordBatch:
        """Everything added since the last time."""
        parts = self._buffers.take()
        topics, self._topics = list(self._topics), {}
        runs, self._runs = self._runs, []
        arrays: list[pa.Array] = []
        for field in self.schema:
            match field.name:
                case "key":
                    arrays.append(_fields(parts.rows, parts.keys))
                case "value":
                    arrays.append(_fields(parts.rows, parts.values))
                case "topic":
                    numbers = _repeated([(run.topic, run.rows) for run in runs])
                    arrays.append(pa.DictionaryArray.from_arrays(numbers, pa.array(topics, pa.string())))
                case "partition":
                    arrays.append(_repeated([(run.partition, run.rows) for run in runs]))
                case "offset":
                    arrays.append(_fixed(field.type, parts.rows, parts.offsets))
                case "timestamp":
                    arrays.append(_fixed(field.type, parts.rows, parts.timestamps))
                case "timestamp_type":
                    arrays.append(_fixed(field.type, parts.rows, parts.timestamp_types))
                case "headers":
                    arrays.append(_headers(parts.rows, parts.headers))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _schema(columns: Sequence[str], unit: str) -> pa.Schema:
    types: dict[str, pa.DataType] = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.dictionary(pa.int32(), pa.string()),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp(unit, tz="UTC"),
        "timestamp_type": pa.int8(),
        "headers": HEADERS_TYPE,
    }
    unknown = [name for name in columns if name not in types]
    if unknown or len(set(columns)) < len(columns):
        raise ValueError(f"columns are some of {', '.join(types)}, each once; not {', '.join(unknown or columns)}")
    nullable = {"key", "value"}
    return pa.schema([pa.field(name, types[name], nullable=name in nullable) for name in columns])


def _fixed(kind: pa.DataType, rows: int, data: ByteView) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)], 0)


def _fields(rows: int, parts: FieldParts | None) -> pa.Array:
    assert parts is not None, "a column that is in the schema was filled"
    validity = None if parts.validity is None else pa.py_buffer(parts.validity)
    buffers = [validity, pa.py_buffer(parts.offsets), pa.py_buffer(parts.data)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers, parts.nulls)


def _headers(rows: int, parts: HeaderParts | None) -> pa.Array:
    assert parts is not None, "a column that is in the schema was filled"
    names = _text(_fields(parts.headers, parts.names))
    contents = _fields(parts.headers, parts.contents)
    pairs = pa.StructArray.from_arrays([names, contents], fields=list(HEADERS_TYPE.value_type))
    return pa.Array.from_buffers(HEADERS_TYPE, rows, [None, pa.py_buffer(parts.offsets)], 0, children=[pairs])


def _text(names: pa.Array) -> pa.Array:
    """Header names as text; in those that other clients sent as any bytes, what is not text is replaced."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        replaced: list[Any] = [name.decode("utf-8", "replace") for name in names.to_pylist()]
        return pa.array(replaced, pa.string())


def _repeated(runs: list[tuple[int, int]]) -> pa.Array:
    data = b"".join([_INT32.pack(number) * rows for number, rows in runs])
    return pa.Array.from_buffers(pa.int32(), len(data) // _INT32.size, [None, pa.py_buffer(data)], 0)
