"""Records to columns and columns to records, in plain Python: the reference twin of `_codec_columns.pyx`.

Owns: filling column buffers from decompressed payloads; reading Arrow's buffers; choosing partitions for rows, grouping
rows by them, writing rows as the records of a batch. Never knows: Arrow's library, batch headers' bytes, compression.

Invariants: a payload is added whole or not at all. Whatever the bytes, the answer is rows or CorruptBatch; whatever a
column's buffers say, it is bytes inside them or ValueError. Both twins answer alike. The compiled one works without the
interpreter's lock; one object is for one thread at a time.
"""

from array import array
from collections.abc import Sequence
from itertools import accumulate
from struct import unpack_from

from ottla.base.ports import ByteView
from ottla.records._pure import add_offset, add_timestamp, murmur2, put_bytes, put_varint, walk
from ottla.records.column_parts import ColumnParts, ColumnsFull, FieldParts, HeaderParts
from ottla.records.header import BatchHeader
from ottla.records.record import Headers

MOST = 0x7FFFFFFF
"""What 32-bit offsets can reach: bytes of a column, rows of a source, bytes of a record."""

RECORD_OVERHEAD = 14
"""What a record takes beside its key and value, guessed generously: it decides how long a run of keyless rows is."""

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


class _Fields:
    """A growing column of byte strings."""

    def __init__(self) -> None:
        self.valid: list[bool] = []
        self.offsets = array("i", [0])
        self.data = bytearray()

    def put(self, content: bytes | None) -> None:
        self.valid.append(content is not None)
        if content is not None:
            self.data += content
        self.offsets.append(len(self.data))

    def parts(self) -> FieldParts:
        nulls = self.valid.count(False)
        validity = None
        if nulls:
            bits = bytearray((len(self.valid) + 7) // 8)
            for row, valid in enumerate(self.valid):
                bits[row >> 3] |= valid << (row & 7)
            validity = bytes(bits)
        return FieldParts(validity, nulls, self.offsets.tobytes(), bytes(self.data))


class ColumnBuffers:
    """Rows gathered from any number of payloads; `scale` multiplies the milliseconds of the timestamps."""

    def __init__(self, keys: bool, values: bool, headers: bool, scale: int) -> None:
        self._wanted = keys, values, headers
        self._scale = scale
        self._clear()

    def _clear(self) -> None:
        self._offsets = array("q")
        self._timestamps = array("q")
        self._types = array("b")
        self._keys = _Fields()
        self._values = _Fields()
        self._header_offsets = array("i", [0])
        self._names = _Fields()
        self._contents = _Fields()

    @property
    def rows(self) -> int:
        return len(self._offsets)

    @property
    def size(self) -> int:
        """Bytes in the fullest column."""
        columns = (self._keys, self._values, self._names, self._contents)
        return max(len(column.data) for column in columns)

    def add(self, payload: ByteView, header: BatchHeader, first: int, end: int) -> int:
        """The records of the payload from offset `first` on and before `end`; how many those were.

        ColumnsFull when the columns might not hold them: `take` first.
        """
        if self.size + len(payload) > MOST or self.rows + max(header.records_count, 0) > MOST:
            raise ColumnsFull
        append_time = header.max_timestamp if header.log_append_time else None
        rows = []
        for offset_delta, timestamp_delta, key, value, headers in walk(payload, header.records_count):
            offset = add_offset(header.base_offset, offset_delta)
            if not first <= offset < end:
                continue
            timestamp = append_time
            if timestamp is None:
                timestamp = add_timestamp(header.base_timestamp, timestamp_delta)
            rows.append((offset, timestamp, key, value, headers))
        for row in rows:
            self._put(*row)
        self._types.extend([header.log_append_time] * len(rows))
        return len(rows)

    def _put(self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        keys, values, with_headers = self._wanted
        self._offsets.append(offset)
        self._timestamps.append(min(max(timestamp * self._scale, _LOWEST), _HIGHEST))
        if keys:
            self._keys.put(key)
        if values:
            self._values.put(value)
        if with_headers:
            for name, content in headers:
                self._names.put(name.encode("utf-8", "surrogateescape"))
                self._contents.put(content)
            self._header_offsets.append(len(self._names.valid))

    def take(self) -> ColumnParts:
        """The columns so far; the buffers start anew."""
        keys, values, with_headers = self._wanted
        headers = None
        if with_headers:
            names, contents = self._names.parts(), self._contents.parts()
            headers = HeaderParts(self._header_offsets.tobytes(), len(self._names.valid), names, contents)
        parts = ColumnParts(
            self.rows,
            self._offsets.tobytes(),
            self._timestamps.tobytes(),
            self._types.tobytes(),
            self._keys.parts() if keys else None,
            self._values.parts() if values else None,
            headers,
        )
        self._clear()
        return parts


class _Column:
    """What Arrow's columns have in common: rows that begin somewhere in the buffers, some of them null."""

    def __init__(self, rows: int, first: int, validity: ByteView | None) -> None:
        if rows < 0 or first < 0 or rows > MOST:
            raise ValueError(f"{rows} rows from {first} on are not a column")
        if validity is not None and len(validity) * 8 < first + rows:
            raise ValueError("a validity bitmap is too short")
        self.rows = rows
        self.first = first
        self.validity = validity

    def place(self, row: int) -> int | None:
        """Where the row stands in the buffers, None for a null."""
        place = self.first + row
        if self.validity is not None and not self.validity[place >> 3] >> (place & 7) & 1:
            return None
        return place


def _number(data: ByteView, place: int, wide: bool) -> int:
    value: int = unpack_from("<q" if wide else "<i", data, place * (8 if wide else 4))[0]
    return value


class FieldColumn(_Column):
    """Byte strings of any sizes, behind offsets of 64 (`wide`) or 32 bits."""

    def __init__(
        self, rows: int, first: int, validity: ByteView | None, offsets: ByteView, data: ByteView, wide: bool
    ) -> None:
        super().__init__(rows, first, validity)
        if rows and len(offsets) < (first + rows + 1) * (8 if wide else 4):
            raise ValueError("an offsets buffer is too short")
        self.offsets, self.data, self.wide = offsets, data, wide

    def get(self, row: int) -> bytes | None:
        place = self.place(row)
        if place is None:
            return None
        start, stop = _number(self.offsets, place, self.wide), _number(self.offsets, place + 1, self.wide)
        if not 0 <= start <= stop <= len(self.data):
            raise ValueError(f"the offsets of row {row} lie outside its column")
        if stop - start > MOST:
            raise ValueError(f"a field of {stop - start} bytes does not fit in a record")
        return bytes(self.data[start:stop])


class NumberColumn(_Column):
    """Whole numbers of 64 bits."""

    def __init__(self, rows: int, first: int, validity: ByteView | None, data: ByteView) -> None:
        super().__init__(rows, first, validity)
        if len(data) < (first + rows) * 8:
            raise ValueError("a numbers buffer is too short")
        self.data = data

    def get(self, row: int) -> int | None:
        place = self.place(row)
        return None if place is None else _number(self.data, place, True)


class HeaderColumn(_Column):
    """Lists of headers: offsets of 32 bits into a column of names and one of contents."""

    def __init__(
        self,
        rows: int,
        first: int,
        validity: ByteView | None,
        offsets: ByteView,
        names: FieldColumn,
        contents: FieldColumn,
    ) -> None:
        super().__init__(rows, first, validity)
        if rows and len(offsets) < (first + rows + 1) * 4:
            raise ValueError("an offsets buffer is too short")
        self.offsets, self.names, self.contents = offsets, names, contents

    def get(self, row: int) -> list[tuple[bytes, bytes | None]]:
        place = self.place(row)
        if place is None:
            return []
        start, stop = _number(self.offsets, place, False), _number(self.offsets, place + 1, False)
        if not 0 <= start <= stop <= min(self.names.rows, self.contents.rows):
            raise ValueError(f"the headers of row {row} lie outside their column")
        headers = []
        for index in range(start, stop):
            name = self.names.get(index)
            if name is None:
                raise ValueError(f"a header of row {row} has no name")
            headers.append((name, self.contents.get(index)))
        return headers


class RowSource:
    """The columns that make up records; `now` is the timestamp of rows without one."""

    def __init__(
        self,
        rows: int,
        keys: FieldColumn | None,
        values: FieldColumn | None,
        timestamps: NumberColumn | None,
        headers: HeaderColumn | None,
        now: int,
    ) -> None:
        if any(column is not None and column.rows != rows for column in (keys, values, timestamps, headers)):
            raise ValueError("the columns differ in length")
        if not 0 <= rows <= MOST:
            raise ValueError(f"{rows} rows are too many at once")
        self.rows = rows
        self.keys, self.values, self.timestamps, self.headers, self.now = keys, values, timestamps, headers, now

    def key(self, row: int) -> bytes | None:
        return None if self.keys is None else self.keys.get(row)

    def value(self, row: int) -> bytes | None:
        return None if self.values is None else self.values.get(row)

    def timestamp(self, row: int) -> int:
        given = None if self.timestamps is None else self.timestamps.get(row)
        return self.now if given is None else given

    def body(self, row: int, offset_delta: int, timestamp_delta: int) -> bytearray:
        """The row's record without the size in front."""
        body = bytearray(1)
        put_varint(body, timestamp_delta)
        put_varint(body, offset_delta)
        put_bytes(body, self.key(row))
        put_bytes(body, self.value(row))
        headers = [] if self.headers is None else self.headers.get(row)
        put_varint(body, len(headers))
        for name, content in headers:
            put_bytes(body, name)
            put_bytes(body, content)
        return body


def choose_partitions(
    source: RowSource, explicit: NumberColumn | None, partitions: int, keyless: Sequence[int], run_bytes: int
) -> tuple[ByteView, int]:
    """An int32 partition for each row: the explicit one, else that of its key, else one of `keyless`.

    Rows with neither go to one of `keyless` until about `run_bytes` are there, then to the next; the second answer is
    how many times that happened. ValueError for a partition that does not exist.
    """
    if partitions < 1 or any(not 0 <= each < partitions for each in keyless):
        raise ValueError(f"there are {partitions} partitions")
    if explicit is not None and explicit.rows != source.rows:
        raise ValueError("the columns differ in length")
    chosen = array("i")
    turn = filled = 0
    for row in range(source.rows):
        given = None if explicit is None else explicit.get(row)
        if given is not None:
            if not 0 <= given < partitions:
                raise ValueError(f"row {row} is for a partition that does not exist")
            chosen.append(given)
            continue
        key = source.key(row)
        if key is not None:
            chosen.append((murmur2(key) & MOST) % partitions)
            continue
        if not keyless:
            raise ValueError(f"row {row} has no key, and no partition is open for such rows")
        size = RECORD_OVERHEAD + len(source.value(row) or b"")
        if filled and filled + size > run_bytes:
            turn += 1
            filled = 0
        filled += size
        chosen.append(keyless[turn % len(keyless)])
    return chosen.tobytes(), turn


def group_rows(chosen: ByteView, partitions: int) -> tuple[ByteView, list[int]]:
    """The rows' numbers (int32) partition by partition, in their order; and where each partition begins among them."""
    if partitions < 1:
        raise ValueError(f"there are {partitions} partitions")
    numbers = array("i")
    numbers.frombytes(chosen)
    counts = [0] * partitions
    for partition in numbers:
        if not 0 <= partition < partitions:
            raise ValueError(f"partition {partition} is none of them")
        counts[partition] += 1
    order = array("i", sorted(range(len(numbers)), key=numbers.__getitem__))
    return order.tobytes(), [0, *accumulate(counts)]


def encode_rows(
    source: RowSource, order: ByteView, start: int, stop: int, room: int, reserved: int
) -> tuple[bytearray, int, int, int]:
    """The rows `order[start:stop]` as records behind `reserved` zero bytes, as far as they fit in `room` bytes.

    At least one is written, however large. Also answers where in `order` to go on, the first and the largest timestamp.
    """
    if not 0 <= start < stop <= len(order) // 4:
        raise ValueError(f"rows {start} to {stop} are not in the order")
    most = MOST - reserved
    output = bytearray(reserved)
    base = latest = 0
    for index in range(start, stop):
        row = _number(order, index, False)
        if not 0 <= row < source.rows:
            raise ValueError(f"there is no row {row}")
        timestamp = source.timestamp(row)
        if index == start:
            base = latest = timestamp
        if not _LOWEST <= timestamp - base <= _HIGHEST:  # too far from the first one: another batch can hold it
            return output, index, base, latest
        body = source.body(row, index - start, timestamp - base)
        record = bytearray()
        put_varint(record, len(body))
        record += body
        if len(record) > most:
            raise ValueError(f"a record of {len(body)} bytes does not fit in a batch")
        if index > start and len(output) - reserved + len(record) > min(room, most):
            return output, index, base, latest
        latest = max(latest, timestamp)
        output += record
    return output, stop, base, latest
