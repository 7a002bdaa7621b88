# Shared by the compiled modules of this room: reading and writing numbers, walking over a payload, the key hash. None of
# it needs the interpreter's lock; only a failure takes it. Whoever includes this has CorruptBatch and the C integers.

cdef enum:
    SMALLEST_RECORD = 7


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


cdef int corrupt(Py_ssize_t position, const char *reason) except -1 with gil:
    raise CorruptBatch(position, reason.decode())


cdef inline int read_number(
    Walk *walk, Py_ssize_t stop, int last_shift, uint8_t last_mask, int64_t *out
) except -1 nogil:
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


cdef inline int read_varint(Walk *walk, Py_ssize_t stop, int64_t *out) except -1 nogil:
    cdef uint8_t byte
    if walk.position < stop:
        byte = walk.data[walk.position]
        if byte < 0x80:
            walk.position += 1
            out[0] = (byte >> 1) ^ -(<int64_t> (byte & 1))
            return 0
    return read_number(walk, stop, 28, 0x0F, out)


cdef inline int read_field(Walk *walk, Py_ssize_t stop, Py_ssize_t *start, Py_ssize_t *size) except -1 nogil:
    cdef int64_t length = 0
    read_varint(walk, stop, &length)
    if length < -1 or length > stop - walk.position:
        return corrupt(walk.position, "a field's size is out of range")
    start[0] = walk.position
    size[0] = length
    if length > 0:
        walk.position += length
    return 0


cdef int skip_headers(Walk *walk, Py_ssize_t stop) except -1 nogil:
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


cdef int begin(Walk *walk, const Py_buffer *buffer, int64_t count) except -1 nogil:
    walk.data = <const uint8_t *> buffer.buf
    walk.position = 0
    walk.end = buffer.len
    if count < 0:
        return corrupt(0, "the record count is negative")
    if count > buffer.len // SMALLEST_RECORD:
        return corrupt(0, "the batch is too small for its record count")
    return 0


cdef inline int read_record(Walk *walk) except -1 nogil:
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


cdef inline int finish(Walk *walk) except -1 nogil:
    if walk.position != walk.end:
        return corrupt(walk.position, "bytes follow the last record")
    return 0


cdef inline int64_t add_offset(int64_t base, int32_t delta) except? -1 nogil:
    if base > INT64_MAX - delta:
        corrupt(0, "an offset is too large")
    return base + delta


cdef inline int64_t add_timestamp(int64_t base, int64_t delta) except? -1 nogil:
    if (delta > 0 and base > INT64_MAX - delta) or (delta < 0 and base < INT64_MIN - delta):
        corrupt(0, "a timestamp is too large")
    return base + delta


cdef struct Output:
    uint8_t *data
    Py_ssize_t position
    Py_ssize_t capacity


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t> value << 1) ^ <uint64_t> (value >> 63)


cdef inline int number_size(int64_t value) noexcept nogil:
    cdef uint64_t raw = zigzag(value)
    cdef int size = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


cdef inline void put_number(Output *out, int64_t value) noexcept nogil:
    cdef uint64_t raw = zigzag(value)
    while raw >= 0x80:
        out.data[out.position] = <uint8_t> (raw & 0x7F) | 0x80
        out.position += 1
        raw >>= 7
    out.data[out.position] = <uint8_t> raw
    out.position += 1


cdef inline uint32_t hash_key(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    cdef uint32_t factor = 0x5BD1E995
    cdef uint32_t value = <uint32_t> 0x9747B28C ^ <uint32_t> size
    cdef uint32_t word
    cdef Py_ssize_t position = 0
    while size - position >= 4:
        word = data[position] | data[position + 1] << 8 | data[position + 2] << 16 | <uint32_t> data[position + 3] << 24
        word *= factor
        word ^= word >> 24
        value = value * factor ^ word * factor
        position += 4
    if position < size:
        if size - position == 3:
            value ^= <uint32_t> data[position + 2] << 16
        if size - position >= 2:
            value ^= <uint32_t> data[position + 1] << 8
        value = (value ^ data[position]) * factor
    value = (value ^ value >> 13) * factor
    return value ^ value >> 15
