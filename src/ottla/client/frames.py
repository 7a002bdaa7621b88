"""Answers cut out of a stream of bytes.

Owns: the receive buffer of one connection and the frame length in front of each answer. Never knows: sockets, what is
in a frame. Invariants: a small frame is copied once out of the shared buffer, a large one is received straight into
memory of its own size; a length beyond the limit is refused before anything is allocated for it.
"""

from collections.abc import Iterator

_SHARED = 64 * 1024
_PREFIX = 4


class FrameTooLarge(Exception):
    """A frame's length is negative or beyond the limit."""


class FrameReader:
    """Give it memory to receive into with `room`, then tell it with `received` how much came."""

    __slots__ = ("_end", "_large", "_limit", "_shared", "_start", "_view")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._shared = bytearray(_SHARED)
        self._view = memoryview(self._shared)
        self._start = 0
        self._end = 0
        self._large: memoryview | None = None
        """The frame that outgrew the shared buffer; then `_end` counts within it."""

    def room(self) -> memoryview:
        """Memory for the next bytes of the stream; never empty."""
        if self._large is not None:
            return self._large[self._end :]
        if self._start == self._end:
            self._start = self._end = 0
        elif _SHARED - self._end < _PREFIX:
            self._move_to_front()
        return self._view[self._end :]

    def received(self, count: int) -> Iterator[memoryview]:
        """The frames that are whole now, without their lengths; FrameTooLarge for one that cannot be taken."""
        self._end += count
        large = self._large
        if large is not None:
            if self._end < len(large):
                return
            self._large = None
            self._start = self._end = 0
            yield large
            return
        while self._end - self._start >= _PREFIX:
            size = int.from_bytes(self._shared[self._start : self._start + _PREFIX], "big", signed=True)
            if not 0 <= size <= self._limit:
                raise FrameTooLarge(f"a frame claims {size} bytes, the limit is {self._limit}")
            first = self._start + _PREFIX
            last = first + size
            if last <= self._end:
                self._start = last
                yield memoryview(self._shared[first:last])
            elif last <= _SHARED:
                return
            else:
                self._set_aside(first, size)
                return

    def _set_aside(self, first: int, size: int) -> None:
        present = self._end - first
        large = memoryview(bytearray(size))
        large[:present] = self._view[first : self._end]
        self._large = large
        self._start = 0
        self._end = present

    def _move_to_front(self) -> None:
        length = self._end - self._start
        self._shared[:length] = self._shared[self._start : self._end]
        self._start, self._end = 0, length
