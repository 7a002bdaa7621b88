# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Records to columns and back, compiled: the fast twin of `_pure_columns.py`, the reference, which says what each does.

Invariants: those of the reference. The loops touch no Python object: room for the worst that a payload can hold is made
before, and a failure leaves what was there before it. Every read is bounded, also where the bytes change meanwhile.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from ottla.records.column_parts import ColumnParts, ColumnsFull, FieldParts, HeaderParts
from ottla.records.header import CorruptBatch

include "_records.pxi"

cdef enum:
    RECORD_OVERHEAD = 14
    SMALLEST_HEADER = 2
    FIRST_CAPACITY = 256


@cython.final
@cython.no_gc
cdef class Spare:
    # A block that a column used before and nobody holds any more: its pages are there already, which is most of the
    # cost of filling new memory. One for each column of a reader, and gone with it.
    cdef uint8_t *data
    cdef Py_ssize_t capacity

    def __dealloc__(self):
        free(self.data)

    cdef void swap(self, Memory memory) noexcept:
        with cython.critical_section(self):
            self.data, memory.data = memory.data, self.data
            self.capacity, memory.capacity = memory.capacity, self.capacity


@cython.final
@cython.no_gc
cdef class Memory:
    # Bytes that grow while a column is filled; once handed over, whoever holds them (an Arrow array) keeps them alive.
    cdef uint8_t *data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity
    cdef Spare spare

    def __cinit__(self, Spare spare=None):
        self.spare = spare
        if spare is not None:
            spare.swap(self)

    def __dealloc__(self):
        if self.spare is not None and self.spare.capacity < self.capacity:
            self.spare.swap(self)
        free(self.data)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.data, self.size, 1, flags)

    cdef int resize(self, Py_ssize_t capacity) except -1:
        cdef uint8_t *data = <uint8_t *> realloc(self.data, max(capacity, 1))
        if data == NULL:
            raise MemoryError
        self.data = data
        self.capacity = capacity
        return 0

    cdef int reserve(self, Py_ssize_t needed) except -1:
        if needed > self.capacity:
            self.resize(max(needed, self.capacity * 2, FIRST_CAPACITY))
        return 0

    cdef Memory handed_over(self, Py_ssize_t size):
        if size <= self.capacity // 2 or self.data == NULL:
            self.resize(size)
        self.size = size
        return self


cdef struct Field:
    # One growing column of byte strings, as the loop sees it.
    uint8_t *valid
    int32_t *offsets
    uint8_t *data
    int64_t rows
    int64_t nulls
    int64_t used


cdef inline void put(Field *field, const uint8_t *source, Py_ssize_t size) noexcept nogil:
    cdef uint8_t mask = <uint8_t> (1 << (field.rows & 7))
    cdef uint8_t *valid = field.valid + (field.rows >> 3)
    if size < 0:
        valid[0] &= ~mask
        field.nulls += 1
    else:
        valid[0] |= mask
        memcpy(field.data + field.used, source, size)
        field.used += size
    field.rows += 1
    field.offsets[field.rows] = <int32_t> field.used


cdef class Fields:
    cdef Memory valid, offsets, data
    cdef Spare spare_valid, spare_offsets, spare_data
    cdef Field field

    def __cinit__(self):
        self.spare_valid, self.spare_offsets, self.spare_data = Spare(), Spare(), Spare()
        self.clear()

    cdef int clear(self) except -1:
        self.valid, self.offsets = Memory(self.spare_valid), Memory(self.spare_offsets)
        self.data = Memory(self.spare_data)
        self.field.rows = self.field.nulls = self.field.used = 0
        self.reserve(0, 0)
        self.field.offsets[0] = 0
        return 0

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t size) except -1:
        self.valid.reserve((self.field.rows + rows + 7) // 8)
        self.offsets.reserve((self.field.rows + rows + 1) * sizeof(int32_t))
        self.data.reserve(self.field.used + size)
        self.field.valid = self.valid.data
        self.field.offsets = <int32_t *> self.offsets.data
        self.field.data = self.data.data
        return 0

    cdef object parts(self):
        cdef object validity = None
        if self.field.nulls:
            validity = self.valid.handed_over((self.field.rows + 7) // 8)
        offsets = self.offsets.handed_over((self.field.rows + 1) * sizeof(int32_t))
        parts = FieldParts(validity, self.field.nulls, offsets, self.data.handed_over(self.field.used))
        self.clear()
        return parts


cdef struct Rows:
    # Where the loop writes, and which offsets it wants. A column that is not wanted is NULL.
    int64_t *offsets
    int64_t *timestamps
    int32_t *lists
    Field *keys
    Field *values
    Field *names
    Field *contents
    int64_t count
    int64_t first
    int64_t end
    int64_t base_offset
    int64_t base_timestamp
    int64_t append_time
    int64_t scale
    bint appended


cdef inline int64_t scaled(int64_t timestamp, int64_t scale) noexcept nogil:
    if scale == 1:
        return timestamp
    if timestamp > INT64_MAX // scale:
        return INT64_MAX
    if timestamp < INT64_MIN // scale:
        return INT64_MIN
    return timestamp * scale


cdef int put_headers(Walk *walk, Rows *rows) except -1 nogil:
    cdef Walk inner = walk[0]
    cdef Py_ssize_t start = 0, size = 0
    cdef int32_t index
    inner.position = walk.headers
    for index in range(walk.headers_count):
        read_field(&inner, walk.position, &start, &size)
        if size < 0:
            return corrupt(inner.position, "a header has no name")
        put(rows.names, inner.data + start, size)
        read_field(&inner, walk.position, &start, &size)
        put(rows.contents, inner.data + start, size)
    return 0


cdef int read_rows(Walk *walk, int64_t count, Rows *rows) except -1 nogil:
    cdef int64_t index, offset, timestamp
    for index in range(count):
        read_record(walk)
        offset = add_offset(rows.base_offset, walk.offset_delta)
        if offset < rows.first or offset >= rows.end:
            continue
        timestamp = rows.append_time
        if not rows.appended:
            timestamp = add_timestamp(rows.base_timestamp, walk.timestamp_delta)
        rows.offsets[rows.count] = offset
        rows.timestamps[rows.count] = scaled(timestamp, rows.scale)
        if rows.keys != NULL:
            put(rows.keys, walk.data + walk.key, walk.key_size)
        if rows.values != NULL:
            put(rows.values, walk.data + walk.value, walk.value_size)
        rows.count += 1
        if rows.lists != NULL:
            if walk.headers_count:
                put_headers(walk, rows)
            rows.lists[rows.count] = <int32_t> rows.names.rows
    return finish(walk)


cdef class ColumnBuffers:
    cdef bint keys_wanted, values_wanted, headers_wanted, busy
    cdef int64_t scale
    cdef int64_t count
    cdef Memory offsets, timestamps, types, lists
    cdef Spare spare_offsets, spare_timestamps, spare_types, spare_lists
    cdef Fields keys, values, names, contents

    def __cinit__(self, bint keys, bint values, bint headers, int64_t scale):
        self.keys_wanted, self.values_wanted, self.headers_wanted = keys, values, headers
        self.scale = scale
        self.keys, self.values, self.names, self.contents = Fields(), Fields(), Fields(), Fields()
        self.spare_offsets, self.spare_timestamps = Spare(), Spare()
        self.spare_types, self.spare_lists = Spare(), Spare()
        self.clear()

    cdef int clear(self) except -1:
        self.count = 0
        self.offsets, self.timestamps = Memory(self.spare_offsets), Memory(self.spare_timestamps)
        self.types, self.lists = Memory(self.spare_types), Memory(self.spare_lists)
        self.lists.reserve(sizeof(int32_t))
        (<int32_t *> self.lists.data)[0] = 0
        return 0

    @property
    def rows(self):
        return self.count

    @property
    def size(self):
        return self.fullest()

    cdef int64_t fullest(self):
        return max(
            max(self.keys.field.used, self.values.field.used), max(self.names.field.used, self.contents.field.used)
        )

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t size) except -1:
        cdef Py_ssize_t total = self.count + rows
        self.offsets.reserve(total * sizeof(int64_t))
        self.timestamps.reserve(total * sizeof(int64_t))
        self.types.reserve(total)
        if self.keys_wanted:
            self.keys.reserve(rows, size)
        if self.values_wanted:
            self.values.reserve(rows, size)
        if self.headers_wanted:
            self.lists.reserve((total + 1) * sizeof(int32_t))
            self.names.reserve(size // SMALLEST_HEADER, size)
            self.contents.reserve(size // SMALLEST_HEADER, size)
        return 0

    def add(self, payload, header, int64_t first, int64_t end):
        cdef int64_t count = header.records_count
        cdef Field keys, values, names, contents
        cdef Rows rows
        cdef Walk walk
        cdef Py_buffer buffer
        cdef int64_t added
        rows.base_offset = header.base_offset
        rows.base_timestamp = header.base_timestamp
        rows.append_time = header.max_timestamp
        rows.appended = header.log_append_time
        rows.first, rows.end, rows.scale = first, end, self.scale
        self.enter()
        try:
            PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
            try:
                if self.fullest() + buffer.len > INT32_MAX or self.count + max(count, 0) > INT32_MAX:
                    raise ColumnsFull
                begin(&walk, &buffer, count)
                self.reserve(count, buffer.len)
                # copies: what a damaged payload did to them is forgotten
                keys, values = self.keys.field, self.values.field
                names, contents = self.names.field, self.contents.field
                rows.count = self.count
                rows.offsets = <int64_t *> self.offsets.data
                rows.timestamps = <int64_t *> self.timestamps.data
                rows.lists = <int32_t *> self.lists.data if self.headers_wanted else NULL
                rows.keys = &keys if self.keys_wanted else NULL
                rows.values = &values if self.values_wanted else NULL
                rows.names = &names
                rows.contents = &contents
                with nogil:
                    read_rows(&walk, count, &rows)
                added = rows.count - self.count
                memset(self.types.data + self.count, rows.appended, added)
                self.keys.field, self.values.field = keys, values
                self.names.field, self.contents.field = names, contents
                self.count = rows.count
                return added
            finally:
                PyBuffer_Release(&buffer)
        finally:
            self.busy = False

    cdef int enter(self) except -1:
        if self.busy:
            raise RuntimeError("column buffers are for one thread at a time")
        self.busy = True
        return 0

    def take(self):
        cdef object headers = None, keys = None, values = None
        cdef int64_t total
        self.enter()
        try:
            if self.headers_wanted:
                total = self.names.field.rows
                lists = self.lists.handed_over((self.count + 1) * sizeof(int32_t))
                headers = HeaderParts(lists, total, self.names.parts(), self.contents.parts())
            if self.keys_wanted:
                keys = self.keys.parts()
            if self.values_wanted:
                values = self.values.parts()
            parts = ColumnParts(
                self.count,
                self.offsets.handed_over(self.count * sizeof(int64_t)),
                self.timestamps.handed_over(self.count * sizeof(int64_t)),
                self.types.handed_over(self.count),
                keys,
                values,
                headers,
            )
            self.clear()
        finally:
            self.busy = False
        return parts


include "_column_rows.pxi"
