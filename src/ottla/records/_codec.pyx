# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""The records inside a batch, compiled: the fast twin of `_pure.py`, which is the reference and says what each does.

Invariants: those of the reference. Every read is bounded by the end of its record, every record by the payload.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from ottla.records.header import CorruptBatch
from ottla.records.record import Record

cdef extern from *:
    """
    static PyObject *allocate_record(PyTypeObject *type) { return type->tp_alloc(type, 5); }
    """
    tuple allocate_record(PyTypeObject *type)

cdef PyTypeObject *RECORD = <PyTypeObject *> Record
cdef enum:
    SMALLEST_RECORD = 7
    LARGEST_VARINT = 5


cdef struct Walk:
    # Where the walk over a payload stands, and the fields of the record it read last. Positions, not pointers: they are
    # what an error names. A size of -1 is a null.
    const uint8_t *data
    Py_ssize_t position
    Py_ssize_t end
    int64_t timestamp_delta
    int32_t offset_delta
    Py_ssize_t key
    Py_ssize_t key_size
    Py_ssize_t value
    Py_ssize_t value_size
    int32_t headers_count
    Py_ssize_t headers


cdef int corrupt(Py_ssize_t position, str reason) except -1:
    raise CorruptBatch(position, reason)


cdef inline int read_number(Walk *walk, Py_ssize_t stop, int last_shift, uint8_t last_mask, int64_t *out) except -1:
    cdef uint64_t raw = 0
    cdef int shift = 0
    cdef uint8_t byte
    cdef Py_ssize_t position = walk.position
    while True:
        if position >= stop:
            return corrupt(position, "a number is cut off")
        byte = walk.data[position]
        if shift == last_shift and byte > last_mask:
            return corrupt(position, "a number is too large")
        position += 1
        raw |= (<uint64_t> (byte & 0x7F)) << shift
        if byte < 0x80:
            break
        shift += 7
    walk.position = position
    out[0] = <int64_t> (raw >> 1) ^ -(<int64_t> (raw & 1))
    return 0


cdef inline int read_varint(Walk *walk, Py_ssize_t stop, int64_t *out) except -1:
    cdef uint8_t byte
    if walk.position < stop:
        byte = walk.data[walk.position]
        if byte < 0x80:
            walk.position += 1
            out[0] = (byte >> 1) ^ -(<int64_t> (byte & 1))
            return 0
    return read_number(walk, stop, 28, 0x0F, out)


cdef inline int read_field(Walk *walk, Py_ssize_t stop, Py_ssize_t *start, Py_ssize_t *size) except -1:
    cdef int64_t length = 0
    read_varint(walk, stop, &length)
    if length < -1 or length > stop - walk.position:
        return corrupt(walk.position, "a field's size is out of range")
    start[0] = walk.position
    size[0] = length
    if length > 0:
        walk.position += length
    return 0


cdef int skip_headers(Walk *walk, Py_ssize_t stop) except -1:
    cdef Py_ssize_t start = 0, size = 0
    cdef int32_t index
    if walk.headers_count < 0 or walk.headers_count > stop - walk.position:
        return corrupt(walk.position, "a header count is out of range")
    for index in range(walk.headers_count):
        read_field(walk, stop, &start, &size)
        if size < 0:
            return corrupt(walk.position, "a header has no name")
        read_field(walk, stop, &start, &size)
    return 0


cdef int begin(Walk *walk, const Py_buffer *buffer, int64_t count) except -1:
    walk.data = <const uint8_t *> buffer.buf
    walk.position = 0
    walk.end = buffer.len
    if count < 0:
        return corrupt(0, "the record count is negative")
    if count > buffer.len // SMALLEST_RECORD:
        return corrupt(0, "the batch is too small for its record count")
    return 0


cdef inline int read_record(Walk *walk) except -1:
    cdef int64_t number = 0
    cdef Py_ssize_t stop
    read_varint(walk, walk.end, &number)
    if number < 1 or number > walk.end - walk.position:
        return corrupt(walk.position, "a record's size is out of range")
    stop = walk.position + number
    walk.position += 1
    read_number(walk, stop, 63, 0x01, &walk.timestamp_delta)
    read_varint(walk, stop, &number)
    if number < 0:
        return corrupt(walk.position, "an offset delta is negative")
    walk.offset_delta = <int32_t> number
    read_field(walk, stop, &walk.key, &walk.key_size)
    read_field(walk, stop, &walk.value, &walk.value_size)
    read_varint(walk, stop, &number)
    walk.headers_count = <int32_t> number
    walk.headers = walk.position
    if number != 0:
        skip_headers(walk, stop)
    if walk.position != stop:
        return corrupt(walk.position, "a record is longer than its fields")
    return 0


cdef inline int finish(Walk *walk) except -1:
    if walk.position != walk.end:
        return corrupt(walk.position, "bytes follow the last record")
    return 0


cdef inline object field(Walk *walk, Py_ssize_t start, Py_ssize_t size):
    if size < 0:
        return None
    return PyBytes_FromStringAndSize(<const char *> walk.data + start, size)


cdef tuple read_headers(Walk *walk):
    # skip_headers has been here before: every size is known to be right
    cdef Walk inner = walk[0]
    cdef Py_ssize_t start = 0, size = 0
    cdef int32_t index
    cdef list headers = []
    inner.position = walk.headers
    for index in range(walk.headers_count):
        read_field(&inner, walk.position, &start, &size)
        name = PyUnicode_DecodeUTF8(<char *> inner.data + start, size, "surrogateescape")
        read_field(&inner, walk.position, &start, &size)
        headers.append((name, field(&inner, start, size)))
    return tuple(headers)


cdef inline int64_t add_offset(int64_t base, int32_t delta) except? -1:
    if base > INT64_MAX - delta:
        corrupt(0, "an offset is too large")
    return base + delta


cdef inline int64_t add_timestamp(int64_t base, int64_t delta) except? -1:
    if (delta > 0 and base > INT64_MAX - delta) or (delta < 0 and base < INT64_MIN - delta):
        corrupt(0, "a timestamp is too large")
    return base + delta


cdef inline void set_item(tuple record, Py_ssize_t index, object item) noexcept:
    Py_INCREF(item)
    PyTuple_SET_ITEM(record, index, item)


def decode(payload, header):
    cdef int64_t base_offset = header.base_offset
    cdef int64_t base_timestamp = header.base_timestamp
    cdef int64_t count = header.records_count
    cdef int64_t timestamp, offset
    cdef bint appended = header.log_append_time
    cdef object append_time = header.max_timestamp
    cdef list records = []
    cdef tuple record, headers, no_headers = ()
    cdef Walk walk
    cdef Py_buffer buffer
    cdef int64_t index
    PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
    try:
        begin(&walk, &buffer, count)
        for index in range(count):
            read_record(&walk)
            timestamp = 0 if appended else add_timestamp(base_timestamp, walk.timestamp_delta)
            offset = add_offset(base_offset, walk.offset_delta)
            headers = no_headers if walk.headers_count == 0 else read_headers(&walk)
            record = allocate_record(RECORD)
            set_item(record, 0, offset)
            set_item(record, 1, append_time if appended else timestamp)
            set_item(record, 2, field(&walk, walk.key, walk.key_size))
            set_item(record, 3, field(&walk, walk.value, walk.value_size))
            set_item(record, 4, headers)
            records.append(record)
        finish(&walk)
    finally:
        PyBuffer_Release(&buffer)
    return records


def scan(payload, count):
    cdef int64_t index, records_count = count
    cdef list found = []
    cdef Walk walk
    cdef Py_buffer buffer
    PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
    try:
        begin(&walk, &buffer, records_count)
        for index in range(records_count):
            read_record(&walk)
            key = field(&walk, walk.key, walk.key_size)
            found.append((walk.offset_delta, walk.timestamp_delta, key, walk.value_size < 0))
        finish(&walk)
    finally:
        PyBuffer_Release(&buffer)
    return found


def inspect(payload, count):
    cdef int64_t index, records_count = count
    cdef int64_t earliest = INT64_MAX, latest = INT64_MIN, keyless = 0
    cdef bint contiguous = True
    cdef Walk walk
    cdef Py_buffer buffer
    PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
    try:
        begin(&walk, &buffer, records_count)
        for index in range(records_count):
            read_record(&walk)
            if walk.offset_delta != index:
                contiguous = False
            earliest = min(earliest, walk.timestamp_delta)
            latest = max(latest, walk.timestamp_delta)
            if walk.key_size < 0:
                keyless += 1
        finish(&walk)
    finally:
        PyBuffer_Release(&buffer)
    if records_count == 0:
        return True, 0, 0, 0
    return bool(contiguous), earliest, latest, keyless


def find_timestamp(payload, header, target):
    cdef int64_t base_offset = header.base_offset
    cdef int64_t base_timestamp = header.base_timestamp
    cdef int64_t append_time = header.max_timestamp
    cdef int64_t index, timestamp, count = header.records_count, wanted = target
    cdef bint appended = header.log_append_time
    cdef Walk walk
    cdef Py_buffer buffer
    PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
    try:
        begin(&walk, &buffer, count)
        for index in range(count):
            read_record(&walk)
            timestamp = append_time if appended else add_timestamp(base_timestamp, walk.timestamp_delta)
            if timestamp >= wanted:
                return timestamp, add_offset(base_offset, walk.offset_delta)
        finish(&walk)
    finally:
        PyBuffer_Release(&buffer)
    return None


def latest_timestamp(payload, header):
    cdef int64_t base_offset = header.base_offset
    cdef int64_t base_timestamp = header.base_timestamp
    cdef int64_t append_time = header.max_timestamp
    cdef int64_t index, timestamp, latest = 0, offset = 0, count = header.records_count
    cdef bint appended = header.log_append_time
    cdef Walk walk
    cdef Py_buffer buffer
    PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
    try:
        begin(&walk, &buffer, count)
        for index in range(count):
            read_record(&walk)
            timestamp = append_time if appended else add_timestamp(base_timestamp, walk.timestamp_delta)
            if index == 0 or timestamp > latest:
                latest = timestamp
                offset = add_offset(base_offset, walk.offset_delta)
        finish(&walk)
    finally:
        PyBuffer_Release(&buffer)
    return None if count == 0 else (latest, offset)


cdef struct Output:
    uint8_t *data
    Py_ssize_t position
    Py_ssize_t capacity


cdef int make_room(bytearray output, Output *out, Py_ssize_t needed) except -1:
    if needed > out.capacity - out.position:
        out.capacity = max(out.capacity * 2, out.position + needed)
        PyByteArray_Resize(output, out.capacity)
        out.data = <uint8_t *> PyByteArray_AS_STRING(output)
    return 0


cdef inline uint64_t zigzag(int64_t value) noexcept:
    return (<uint64_t> value << 1) ^ <uint64_t> (value >> 63)


cdef inline int number_size(int64_t value) noexcept:
    cdef uint64_t raw = zigzag(value)
    cdef int size = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


cdef inline void put_number(Output *out, int64_t value) noexcept:
    cdef uint64_t raw = zigzag(value)
    while raw >= 0x80:
        out.data[out.position] = <uint8_t> (raw & 0x7F) | 0x80
        out.position += 1
        raw >>= 7
    out.data[out.position] = <uint8_t> raw
    out.position += 1


cdef inline Py_ssize_t field_size(bytes value) noexcept:
    cdef Py_ssize_t size
    if value is None:
        return 1
    size = PyBytes_GET_SIZE(value)
    return number_size(size) + size


cdef inline void put_field(Output *out, bytes value) noexcept:
    cdef Py_ssize_t size
    if value is None:
        put_number(out, -1)
        return
    size = PyBytes_GET_SIZE(value)
    put_number(out, size)
    memcpy(out.data + out.position, PyBytes_AS_STRING(value), size)
    out.position += size


cdef inline bytes as_bytes(value):
    # the reference takes anything that is bytes-like
    if value is None or type(value) is bytes:
        return <bytes> value
    return bytes(value)


def encode(records, base_offset, base_timestamp, reserved=0):
    cdef bytearray output = bytearray()
    cdef Output out
    cdef int64_t latest = -1, offset_delta, timestamp_delta, moment
    cdef Py_ssize_t size
    cdef bytes key, value, name
    cdef list names
    out.position = out.capacity = 0
    make_room(output, &out, reserved + 16 * len(records) + 64)
    memset(out.data, 0, reserved)
    out.position = reserved
    for offset, timestamp, key_given, value_given, headers in records:
        delta = offset - base_offset
        if not 0 <= delta <= INT32_MAX:
            raise ValueError(f"offset {offset} does not fit in a batch that starts at {base_offset}")
        offset_delta = delta
        delta = timestamp - base_timestamp
        if not INT64_MIN <= delta <= INT64_MAX or not INT64_MIN <= timestamp <= INT64_MAX:
            raise ValueError(f"timestamp {timestamp} does not fit in a batch that starts at {base_timestamp}")
        timestamp_delta = delta
        moment = timestamp
        latest = max(latest, moment)
        key = as_bytes(key_given)
        value = as_bytes(value_given)
        size = 1 + number_size(timestamp_delta) + number_size(offset_delta) + field_size(key) + field_size(value)
        size += number_size(len(headers))
        names = None
        if headers:
            names = []
            for header_name, content in headers:
                name = header_name.encode("utf-8", "surrogateescape")
                key_given = as_bytes(content)
                size += field_size(name) + field_size(<bytes> key_given)
                names.append((name, key_given))
        if size > INT32_MAX:
            raise ValueError(f"a record of {size} bytes does not fit in a batch")
        make_room(output, &out, size + LARGEST_VARINT)
        put_number(&out, size)
        out.data[out.position] = 0
        out.position += 1
        put_number(&out, timestamp_delta)
        put_number(&out, offset_delta)
        put_field(&out, key)
        put_field(&out, value)
        put_number(&out, 0 if names is None else len(names))
        if names is not None:
            for pair in names:
                put_field(&out, <bytes> (<tuple> pair)[0])
                put_field(&out, <bytes> (<tuple> pair)[1])
    PyByteArray_Resize(output, out.position)
    return output, latest
