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
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from ottla.records.header import CorruptBatch
from ottla.records.record import ConsumedRecord, Record

cdef extern from *:
    """
    static PyObject *allocate_record(PyTypeObject *type, Py_ssize_t fields) { return type->tp_alloc(type, fields); }
    """
    tuple allocate_record(PyTypeObject *type, Py_ssize_t fields)
    # numbers, bytes and text can be in no cycle: the collector need not look at the millions that a consumer may hold
    void PyObject_GC_UnTrack(void *record)

include "_records.pxi"

cdef PyTypeObject *RECORD = <PyTypeObject *> Record
cdef PyTypeObject *CONSUMED = <PyTypeObject *> ConsumedRecord
cdef enum:
    LARGEST_VARINT = 5


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
            record = allocate_record(RECORD, 5)
            set_item(record, 0, offset)
            set_item(record, 1, append_time if appended else timestamp)
            set_item(record, 2, field(&walk, walk.key, walk.key_size))
            set_item(record, 3, field(&walk, walk.value, walk.value_size))
            set_item(record, 4, headers)
            PyObject_GC_UnTrack(<void *> record)
            records.append(record)
        finish(&walk)
    finally:
        PyBuffer_Release(&buffer)
    return records


def decode_consumed(payload, header, topic, partition, position):
    cdef int64_t base_offset = header.base_offset
    cdef int64_t base_timestamp = header.base_timestamp
    cdef int64_t count = header.records_count
    cdef int64_t first = position
    cdef int64_t timestamp, offset, last = 0
    cdef bint appended = header.log_append_time
    cdef object moment = header.max_timestamp if appended else last
    cdef object kind = 1 if appended else 0
    cdef object epoch = header.leader_epoch
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
            if not appended:
                timestamp = add_timestamp(base_timestamp, walk.timestamp_delta)
                if timestamp != last:  # neighbours often share a millisecond, and then the number
                    last = timestamp
                    moment = timestamp
            offset = add_offset(base_offset, walk.offset_delta)
            if offset < first:
                continue
            headers = no_headers if walk.headers_count == 0 else read_headers(&walk)
            record = allocate_record(CONSUMED, 9)
            set_item(record, 0, topic)
            set_item(record, 1, partition)
            set_item(record, 2, offset)
            set_item(record, 3, moment)
            set_item(record, 4, kind)
            set_item(record, 5, field(&walk, walk.key, walk.key_size))
            set_item(record, 6, field(&walk, walk.value, walk.value_size))
            set_item(record, 7, headers)
            set_item(record, 8, epoch)
            PyObject_GC_UnTrack(<void *> record)
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
        with nogil:  # a thread that looks into a large batch holds nobody up
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


def find_timestamp(payload, header, target, start=0):
    cdef int64_t base_offset = header.base_offset
    cdef int64_t base_timestamp = header.base_timestamp
    cdef int64_t append_time = header.max_timestamp
    cdef int64_t index, timestamp = 0, offset = 0, count = header.records_count, wanted = target, first = start
    cdef bint appended = header.log_append_time, found = False
    cdef Walk walk
    cdef Py_buffer buffer
    PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
    try:
        with nogil:
            begin(&walk, &buffer, count)
            for index in range(count):
                read_record(&walk)
                timestamp = append_time if appended else add_timestamp(base_timestamp, walk.timestamp_delta)
                if timestamp >= wanted:
                    offset = add_offset(base_offset, walk.offset_delta)
                    if offset >= first:
                        found = True
                        break
            if not found:
                finish(&walk)
    finally:
        PyBuffer_Release(&buffer)
    return (timestamp, offset) if found else None


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
        with nogil:
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


cdef int make_room(bytearray output, Output *out, Py_ssize_t needed) except -1:
    if needed > out.capacity - out.position:
        out.capacity = max(out.capacity * 2, out.position + needed)
        PyByteArray_Resize(output, out.capacity)
        out.data = <uint8_t *> PyByteArray_AS_STRING(output)
    return 0


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


def murmur2(bytes data not None):
    return hash_key(<const uint8_t *> PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
