# The second half of `_codec_columns.pyx`: columns in Arrow's layout read as rows, and rows written as records.

cdef struct View:
    # A column's buffers as the loops see them; `valid` is NULL where nothing is null, `data` where there is no column.
    const uint8_t *valid
    const uint8_t *offsets
    const uint8_t *data
    int64_t size
    int64_t first
    int64_t rows
    bint wide


cdef inline bint is_null(const View *view, int64_t row) noexcept nogil:
    cdef int64_t place = view.first + row
    return view.valid != NULL and not view.valid[place >> 3] >> (place & 7) & 1


cdef inline int64_t number_at(const uint8_t *data, int64_t place) noexcept nogil:
    return (<const int64_t *> data)[place]


cdef inline int64_t offset_at(const View *view, int64_t place) noexcept nogil:
    if view.wide:
        return number_at(view.offsets, place)
    return (<const int32_t *> view.offsets)[place]


cdef int bad_row(int64_t row, const char *reason) except -1 with gil:
    raise ValueError(reason.decode().format(row))


cdef inline int get_field(const View *view, int64_t row, const uint8_t **start, int64_t *size) except -1 nogil:
    # a size of -1 is a null
    cdef int64_t begins, ends
    size[0] = -1
    if view.offsets == NULL or is_null(view, row):
        return 0
    begins = offset_at(view, view.first + row)
    ends = offset_at(view, view.first + row + 1)
    if begins < 0 or ends < begins or ends > view.size:
        return bad_row(row, "the offsets of row {} lie outside its column")
    if ends - begins > INT32_MAX:
        return bad_row(ends - begins, "a field of {} bytes does not fit in a record")
    start[0] = view.data + begins
    size[0] = ends - begins
    return 0


cdef class Column:
    # Holds the buffers for as long as the loops may look at them.
    cdef View view
    cdef Py_buffer held[3]
    cdef int count

    def __dealloc__(self):
        cdef int index
        for index in range(self.count):
            PyBuffer_Release(&self.held[index])

    @property
    def rows(self):
        return self.view.rows

    cdef const Py_buffer *hold(self, source) except NULL:
        PyObject_GetBuffer(source, &self.held[self.count], PyBUF_SIMPLE)
        self.count += 1
        return &self.held[self.count - 1]

    cdef int begin(self, int64_t rows, int64_t first, validity) except -1:
        cdef const Py_buffer *bits
        if rows < 0 or first < 0 or rows > INT32_MAX or first > INT64_MAX // 16 - rows:
            raise ValueError(f"{rows} rows from {first} on are not a column")
        self.view.rows, self.view.first = rows, first
        if validity is not None:
            bits = self.hold(validity)
            if bits.len * 8 < first + rows:
                raise ValueError("a validity bitmap is too short")
            self.view.valid = <const uint8_t *> bits.buf
        return 0

    cdef int hold_offsets(self, offsets, bint wide) except -1:
        cdef const Py_buffer *held = self.hold(offsets)
        if self.view.rows and held.len < (self.view.first + self.view.rows + 1) * (8 if wide else 4):
            raise ValueError("an offsets buffer is too short")
        self.view.offsets = <const uint8_t *> held.buf
        self.view.wide = wide
        return 0


cdef class FieldColumn(Column):
    def __cinit__(self, int64_t rows, int64_t first, validity, offsets, data, bint wide):
        cdef const Py_buffer *held
        self.begin(rows, first, validity)
        self.hold_offsets(offsets, wide)
        held = self.hold(data)
        self.view.data = <const uint8_t *> held.buf
        self.view.size = held.len


cdef class NumberColumn(Column):
    def __cinit__(self, int64_t rows, int64_t first, validity, data):
        cdef const Py_buffer *held
        self.begin(rows, first, validity)
        held = self.hold(data)
        if held.len < (first + rows) * 8:
            raise ValueError("a numbers buffer is too short")
        self.view.data = <const uint8_t *> held.buf


cdef class HeaderColumn(Column):
    cdef FieldColumn names, contents

    def __cinit__(
        self, int64_t rows, int64_t first, validity, offsets, FieldColumn names not None, FieldColumn contents not None
    ):
        self.begin(rows, first, validity)
        self.hold_offsets(offsets, False)
        self.names, self.contents = names, contents


cdef struct Views:
    View keys
    View values
    View timestamps
    View headers
    View names
    View contents
    int64_t now


cdef class RowSource:
    cdef readonly int64_t rows
    cdef Views views
    cdef tuple columns

    def __cinit__(
        self,
        int64_t rows,
        FieldColumn keys,
        FieldColumn values,
        NumberColumn timestamps,
        HeaderColumn headers,
        int64_t now,
    ):
        self.columns = (keys, values, timestamps, headers)
        for column in self.columns:
            if column is not None and (<Column> column).view.rows != rows:
                raise ValueError("the columns differ in length")
        if rows < 0 or rows > INT32_MAX:
            raise ValueError(f"{rows} rows are too many at once")
        self.rows = rows
        self.views.now = now
        if keys is not None:
            self.views.keys = keys.view
        if values is not None:
            self.views.values = values.view
        if timestamps is not None:
            self.views.timestamps = timestamps.view
        if headers is not None:
            self.views.headers = headers.view
            self.views.names, self.views.contents = headers.names.view, headers.contents.view


cdef inline int get_headers(const Views *views, int64_t row, int64_t *begins, int64_t *ends) except -1 nogil:
    cdef const View *view = &views.headers
    begins[0] = ends[0] = 0
    if view.offsets == NULL or is_null(view, row):
        return 0
    begins[0] = offset_at(view, view.first + row)
    ends[0] = offset_at(view, view.first + row + 1)
    if begins[0] < 0 or ends[0] < begins[0] or ends[0] > min(views.names.rows, views.contents.rows):
        return bad_row(row, "the headers of row {} lie outside their column")
    return 0


cdef inline int64_t timestamp_of(const Views *views, int64_t row) noexcept nogil:
    cdef const View *view = &views.timestamps
    if view.data == NULL or is_null(view, row):
        return views.now
    return number_at(view.data, view.first + row)


cdef inline int64_t sized(int64_t size) noexcept nogil:
    return 1 if size < 0 else number_size(size) + size


cdef int64_t body_size(const Views *views, int64_t row, int64_t offset_delta, int64_t timestamp_delta) except -1 nogil:
    cdef const uint8_t *start = NULL
    cdef int64_t size = 0, total, begins = 0, ends = 0, index
    total = 1 + number_size(timestamp_delta) + number_size(offset_delta)
    get_field(&views.keys, row, &start, &size)
    total += sized(size)
    get_field(&views.values, row, &start, &size)
    total += sized(size)
    get_headers(views, row, &begins, &ends)
    total += number_size(ends - begins)
    for index in range(begins, ends):
        get_field(&views.names, index, &start, &size)
        if size < 0:
            return bad_row(row, "a header of row {} has no name")
        total += sized(size)
        get_field(&views.contents, index, &start, &size)
        total += sized(size)
    return total


cdef inline int put_field(Output *out, const View *view, int64_t row) except -1 nogil:
    cdef const uint8_t *start = NULL
    cdef int64_t size = 0
    get_field(view, row, &start, &size)
    if out.capacity - out.position < sized(size):
        return bad_row(row, "row {} changed while it was written")
    put_number(out, size)
    if size > 0:
        memcpy(out.data + out.position, start, size)
        out.position += size
    return 0


cdef int put_record(
    Output *out, const Views *views, int64_t row, int64_t offset_delta, int64_t timestamp_delta
) except -1 nogil:
    cdef int64_t begins = 0, ends = 0, index
    cdef int64_t size = body_size(views, row, offset_delta, timestamp_delta)
    if out.capacity - out.position < number_size(size) + size:
        return bad_row(row, "row {} changed while it was written")
    put_number(out, size)
    out.data[out.position] = 0
    out.position += 1
    put_number(out, timestamp_delta)
    put_number(out, offset_delta)
    put_field(out, &views.keys, row)
    put_field(out, &views.values, row)
    get_headers(views, row, &begins, &ends)
    if out.capacity - out.position < number_size(ends - begins):
        return bad_row(row, "row {} changed while it was written")
    put_number(out, ends - begins)
    for index in range(begins, ends):
        put_field(out, &views.names, index)
        put_field(out, &views.contents, index)
    return 0


cdef inline bint too_far(int64_t timestamp, int64_t base) noexcept nogil:
    return timestamp > INT64_MAX + base if base < 0 else timestamp < INT64_MIN + base


cdef int64_t measure(
    const Views *views, const int32_t *order, int64_t rows, int64_t *stop, int64_t start, int64_t room, int64_t most
) except -1 nogil:
    # how many bytes the records take that fit; `stop` becomes the end of those
    cdef int64_t index, timestamp, size, total = 0, base = 0
    for index in range(start, stop[0]):
        if order[index] < 0 or order[index] >= rows:
            return bad_row(order[index], "there is no row {}")
        timestamp = timestamp_of(views, order[index])
        if index == start:
            base = timestamp
        if too_far(timestamp, base):
            stop[0] = index
            break
        size = body_size(views, order[index], index - start, timestamp - base)
        if number_size(size) + size > most:
            return bad_row(size, "a record of {} bytes does not fit in a batch")
        size += number_size(size)
        if index > start and total + size > room:
            stop[0] = index
            break
        total += size
    return total


cdef int write_rows(
    Output *out, const Views *views, const int32_t *order, int64_t start, int64_t stop, int64_t *base, int64_t *latest
) except -1 nogil:
    cdef int64_t index, timestamp
    base[0] = latest[0] = timestamp_of(views, order[start])
    for index in range(start, stop):
        timestamp = timestamp_of(views, order[index])
        if too_far(timestamp, base[0]):
            return bad_row(order[index], "row {} changed while it was written")
        latest[0] = max(latest[0], timestamp)
        put_record(out, views, order[index], index - start, timestamp - base[0])
    if out.position != out.capacity:
        return bad_row(order[start], "row {} changed while it was written")
    return 0


def encode_rows(RowSource source not None, order, int64_t start, int64_t stop, int64_t room, Py_ssize_t reserved):
    cdef Py_buffer buffer
    cdef Output out
    cdef const int32_t *numbers
    cdef int64_t total, base = 0, latest = 0, rows = source.rows, most = INT32_MAX - reserved
    cdef bytearray output
    PyObject_GetBuffer(order, &buffer, PyBUF_SIMPLE)
    try:
        if start < 0 or start >= stop or stop > buffer.len // 4:
            raise ValueError(f"rows {start} to {stop} are not in the order")
        numbers = <const int32_t *> buffer.buf
        with nogil:
            total = measure(&source.views, numbers, rows, &stop, start, min(room, most), most)
        output = PyByteArray_FromStringAndSize(NULL, reserved + total)
        out.data = <uint8_t *> PyByteArray_AS_STRING(output)
        out.position, out.capacity = reserved, reserved + total
        memset(out.data, 0, reserved)
        with nogil:
            write_rows(&out, &source.views, numbers, start, stop, &base, &latest)
    finally:
        PyBuffer_Release(&buffer)
    return output, stop, base, latest


cdef struct Choice:
    const View *explicit
    int32_t *chosen
    const int32_t *keyless
    int64_t keyless_count
    int64_t run_bytes
    int32_t partitions
    int64_t turn


cdef int choose_rows(const Views *views, int64_t rows, Choice *choice) except -1 nogil:
    cdef const uint8_t *start = NULL
    cdef int64_t row, size = 0, filled = 0, given
    for row in range(rows):
        if choice.explicit != NULL and not is_null(choice.explicit, row):
            given = number_at(choice.explicit.data, choice.explicit.first + row)
            if given < 0 or given >= choice.partitions:
                return bad_row(row, "row {} is for a partition that does not exist")
            choice.chosen[row] = <int32_t> given
            continue
        get_field(&views.keys, row, &start, &size)
        if size >= 0:
            choice.chosen[row] = <int32_t> ((hash_key(start, size) & INT32_MAX) % <uint32_t> choice.partitions)
            continue
        if choice.keyless_count == 0:
            return bad_row(row, "row {} has no key, and no partition is open for such rows")
        get_field(&views.values, row, &start, &size)
        size = RECORD_OVERHEAD + max(size, 0)
        if filled and filled + size > choice.run_bytes:
            choice.turn += 1
            filled = 0
        filled += size
        choice.chosen[row] = choice.keyless[choice.turn % choice.keyless_count]
    return 0


def choose_partitions(RowSource source not None, NumberColumn explicit, int32_t partitions, keyless, int64_t run_bytes):
    cdef Memory chosen = Memory(), opened = Memory()
    cdef int64_t rows = source.rows, index
    cdef Choice choice
    if partitions < 1 or any(not 0 <= each < partitions for each in keyless):
        raise ValueError(f"there are {partitions} partitions")
    if explicit is not None and explicit.view.rows != rows:
        raise ValueError("the columns differ in length")
    opened.reserve(len(keyless) * sizeof(int32_t))
    for index in range(len(keyless)):
        (<int32_t *> opened.data)[index] = keyless[index]
    chosen.reserve(rows * sizeof(int32_t))
    choice.explicit = NULL if explicit is None else &explicit.view
    choice.chosen, choice.keyless = <int32_t *> chosen.data, <int32_t *> opened.data
    choice.keyless_count, choice.run_bytes = len(keyless), run_bytes
    choice.partitions, choice.turn = partitions, 0
    with nogil:
        choose_rows(&source.views, rows, &choice)
    return chosen.handed_over(rows * sizeof(int32_t)), choice.turn


cdef int sort_rows(const int32_t *chosen, int64_t rows, int32_t partitions, int64_t *begins, int32_t *order) except -1 nogil:
    # counting sort; `begins` has room for one more than there are partitions, and afterwards says where each ends
    cdef int64_t row, total = 0, count
    cdef int32_t partition
    memset(begins, 0, partitions * sizeof(int64_t))
    for row in range(rows):
        if chosen[row] < 0 or chosen[row] >= partitions:
            return bad_row(chosen[row], "partition {} is none of them")
        begins[chosen[row]] += 1
    for partition in range(partitions):
        count = begins[partition]
        begins[partition] = total
        total += count
    for row in range(rows):
        order[begins[chosen[row]]] = <int32_t> row
        begins[chosen[row]] += 1
    return 0


def group_rows(chosen, int32_t partitions):
    cdef Memory order = Memory(), begins = Memory()
    cdef Py_buffer buffer
    cdef int64_t rows
    cdef int32_t index
    if partitions < 1:
        raise ValueError(f"there are {partitions} partitions")
    PyObject_GetBuffer(chosen, &buffer, PyBUF_SIMPLE)
    try:
        rows = buffer.len // sizeof(int32_t)
        order.reserve(rows * sizeof(int32_t))
        begins.reserve(partitions * sizeof(int64_t))
        with nogil:
            sort_rows(
                <const int32_t *> buffer.buf, rows, partitions, <int64_t *> begins.data, <int32_t *> order.data
            )
    finally:
        PyBuffer_Release(&buffer)
    starts = [0]
    for index in range(partitions):
        starts.append((<int64_t *> begins.data)[index])
    return order.handed_over(rows * sizeof(int32_t)), starts
