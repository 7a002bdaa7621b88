"""Sending a reply that is made of byte strings and file ranges.

Owns: the choice between send, sendfile and reading first, and the look whether a range is in the page cache.
Never knows: what the bytes mean, who waits. Invariants: a call never blocks, on the socket or on the disk; parts leave
in order; what is sent is gone from the queue.
"""

import errno
import os
import socket
from collections import deque
from enum import Enum
from typing import Any, TypeAlias

from ottla.log.cached_reads import CachedReads
from ottla.log.segment import FileRange

Part: TypeAlias = bytes | bytearray | memoryview | FileRange
PartQueue: TypeAlias = "deque[Any]"

SMALL = 16 * 1024
"""Ranges up to this size are read and sent together with what surrounds them: one system call instead of two."""
TURN = 16 * 1024 * 1024
"""What one connection may send before others get their turn: more than the usual answer to a fetch of several
partitions, which would otherwise pay for a second trip through the event loop (a third of the throughput)."""
WINDOW = 1024 * 1024
"""How much of a file is looked at, and sent, at a time."""
COPYING = 16
"""How many times bytes in memory count in a turn, for the kernel copies them: 1 MiB takes it about a millisecond."""

_MORE = getattr(socket, "MSG_MORE", 0)
_SENDFILE = getattr(os, "sendfile", None)


class SendProgress(Enum):
    """Where a queue stands after a call."""

    DONE = 0
    SOCKET_FULL = 1
    FILE_COLD = 2
    TURN_OVER = 3


class RangeGone(OSError):
    """The file ended before the range did: it was truncated or removed after the reply was made."""


class PageCache(CachedReads):
    """Tells whether sending would wait for the disk."""

    def holds_range(self, part: FileRange) -> bool:
        """Its first and last page, of at most one window: the kernel reads ahead what lies between."""
        descriptor = part.file.fileno()
        length = min(part.length, WINDOW)
        return descriptor < 0 or (
            self.holds(descriptor, part.position) and self.holds(descriptor, part.position + length - 1)
        )


def warm(part: FileRange) -> None:
    """Bring the next window of a range into the page cache. Blocking: runs in an I/O thread."""
    part.file.read_at(part.position, min(part.length, WINDOW))


def transmit(connection: socket.socket, queue: PartQueue, cache: PageCache, warmed: bool = False) -> SendProgress:
    """Send as much of the queue as the socket takes now; `warmed` when the range at its head has just been read."""
    budget = TURN
    try:
        if len(queue) == 1 and type(queue[0]) is bytearray and len(queue[0]) <= WINDOW:
            # One small answer to one small request: what decides the latency of a client that waits for it.
            sent = connection.send(queue[0])
            if sent == len(queue[0]):
                queue.clear()
                return SendProgress.DONE
            queue[0] = memoryview(queue[0])[sent:]
            return SendProgress.SOCKET_FULL
        while queue:
            if budget <= 0:
                return SendProgress.TURN_OVER
            head = queue[0]
            if type(head) is FileRange:
                if not warmed and not cache.holds_range(head):
                    return SendProgress.FILE_COLD
                warmed = False
                budget -= _send_range(connection, queue, head)
            else:
                sent, whole = _send_bytes(connection, queue, cache)
                budget -= sent * COPYING
                if not whole:
                    return SendProgress.SOCKET_FULL
    except BlockingIOError:
        return SendProgress.SOCKET_FULL
    return SendProgress.DONE


def _send_range(connection: socket.socket, queue: PartQueue, part: FileRange) -> int:
    file, position, length = part
    descriptor = file.fileno()
    if _SENDFILE is None or descriptor < 0 or length <= SMALL:
        data = file.read_at(position, min(length, WINDOW))
        if not data:
            raise RangeGone(errno.EIO, "the file ended before the range", file.path)
        sent = connection.send(data)
    else:
        sent = _SENDFILE(connection.fileno(), descriptor, position, min(length, WINDOW))
        if sent == 0:
            raise RangeGone(errno.EIO, "the file ended before the range", file.path)
    if sent == length:
        queue.popleft()
    else:
        queue[0] = FileRange(file, position + sent, length - sent)
    return int(sent)


def _send_bytes(connection: socket.socket, queue: PartQueue, cache: PageCache) -> tuple[int, bool]:
    """Send the run of byte strings (and small ranges) at the head, a window at most; says how much went and whether
    that was all of it."""
    if len(queue[0]) > WINDOW:
        head = memoryview(queue[0])
        sent = connection.send(head[:WINDOW], _MORE)
        queue[0] = head[sent:]
        return sent, sent == WINDOW
    chunks: list[Any] = []
    size = 0
    flags = 0
    for part in queue:
        if type(part) is FileRange:
            if part.length > SMALL or not cache.holds_range(part):
                flags = _MORE
                break
            data = part.file.read_at(part.position, part.length)
            if len(data) != part.length:
                raise RangeGone(errno.EIO, "the file ended before the range", part.file.path)
            chunks.append(data)
            size += part.length
        else:
            if chunks and len(part) > WINDOW:
                flags = _MORE  # joining would copy it
                break
            chunks.append(part)
            size += len(part)
        if size >= WINDOW:
            break
    for _ in chunks:
        queue.popleft()
    joined = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    try:
        sent = connection.send(joined, flags)
    except BlockingIOError:
        queue.appendleft(joined)
        raise
    if sent == size:
        return sent, True
    queue.appendleft(memoryview(joined)[sent:])
    return sent, False
