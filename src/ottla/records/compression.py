"""The four compressions of record batches, in exactly the framings that Kafka's clients read.

Owns: codec numbers, names and levels, compressing and bounded decompressing. Never knows: what the bytes mean.

Invariants: `decompress` never holds more than `limit` bytes of output, whatever the input claims; a failure is
always `CorruptBatch`, and `PayloadTooLarge` where only the limit was in the way. Large outputs are made without the
interpreter's lock, so that a thread that decompresses holds nobody up. Snappy is written in the framing of Java's
snappy-java (every client reads it, Java's only that or a bare block) and read in both; LZ4 is written as frames of
independent 64 KiB blocks, the only ones Java reads.
"""

from enum import IntEnum
from mmap import mmap
from struct import Struct

import cramjam

from ottla.base.ports import ByteView
from ottla.records.header import CorruptBatch


class Compression(IntEnum):
    """The numbers in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


DECOMPRESSED_LIMIT = 128 * 1024 * 1024
"""What a payload may grow to when nobody says otherwise: above the largest request a broker takes by default."""

GZIP_DEFAULT_LEVEL = 6
ZSTD_DEFAULT_LEVEL = 3
LZ4_DEFAULT_LEVEL = 9
"""Kafka's default for LZ4; alone among the levels it means the fast compressor, the others the thorough one."""
_LZ4_FAST = 1

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK = 32 * 1024
_BLOCK_LENGTH = Struct(">i")

_FIRST_GUESS = 64 * 1024
_LARGE = 1024 * 1024
"""Outputs of more bytes lie in fresh pages: a bytearray would be filled with zeros, and bytes be copied, under the
interpreter's lock."""
_GROWTH = 4
_LARGEST_EXPANSION = {Compression.GZIP: 1040, Compression.LZ4: 260}
"""No valid stream of the kind grows further than so many times its size."""


class PayloadTooLarge(CorruptBatch):
    """A payload that grows past the limit it was given."""


def compress(kind: int, data: ByteView, level: int | None = None) -> bytes:
    """`data` compressed; `level` is Kafka's number for the kind (None and gzip's -1 = Kafka's default)."""
    if kind == Compression.LZ4:
        fast = level is None or level == LZ4_DEFAULT_LEVEL
        compressor = cramjam.lz4.Compressor(
            level=_LZ4_FAST if fast else level, content_checksum=False, block_linked=False
        )
        compressor.compress(bytes(data))
        return bytes(compressor.finish())
    if kind == Compression.ZSTD:
        return bytes(cramjam.zstd.compress(data, ZSTD_DEFAULT_LEVEL if level is None else level))
    if kind == Compression.GZIP:
        return bytes(cramjam.gzip.compress(data, GZIP_DEFAULT_LEVEL if level is None or level < 0 else level))
    if kind == Compression.SNAPPY:
        return _compress_xerial(data)
    if kind == Compression.NONE:
        return bytes(data)
    raise ValueError(f"unknown compression {kind}")


def decompress(kind: int, data: ByteView, limit: int = DECOMPRESSED_LIMIT) -> bytes | memoryview:
    """What was compressed; CorruptBatch when it is damaged or of an unknown kind, PayloadTooLarge above `limit`."""
    if kind == Compression.NONE:
        if len(data) > limit:
            raise PayloadTooLarge(0, f"a payload of {len(data)} bytes exceeds {limit}")
        return bytes(data)
    if kind == Compression.SNAPPY:
        return _decompress_snappy(memoryview(data), limit)
    if kind not in _STREAMS:
        raise CorruptBatch(0, f"unknown compression {kind}")
    return _decompress_stream(Compression(kind), data, limit)


_STREAMS = {
    Compression.GZIP: cramjam.gzip.decompress_into,
    Compression.LZ4: cramjam.lz4.decompress_into,
    Compression.ZSTD: cramjam.zstd.decompress_into,
}


_NO_ROOM = "failed to write whole buffer"
"""How the library says that the output does not fit."""


def _decompress_stream(kind: Compression, data: ByteView, limit: int) -> bytes | memoryview:
    """Decompress into a buffer of a guessed size, then of larger ones: these streams do not reliably tell their size.

    A failure does not say whether the room or the stream was at fault, so only one with all the room there may be
    counts as damage.
    """
    decompress_into = _STREAMS[kind]
    most = min(limit, len(data) * _LARGEST_EXPANSION.get(kind, limit))
    room = min(most, max(_FIRST_GUESS, len(data) * _GROWTH))
    while True:
        output = memoryview(bytearray(room) if room <= _LARGE else mmap(-1, room))
        try:
            length: int = decompress_into(data, output)
        except cramjam.DecompressionError as failure:
            if room >= most:
                reason = f"{kind.name.lower()} payload does not decompress within {limit} bytes: {failure}"
                too_large = most == limit and _NO_ROOM in str(failure)
                raise (PayloadTooLarge if too_large else CorruptBatch)(0, reason) from None
            room = min(most, room * _GROWTH)
            continue
        return bytes(output[:length]) if room <= _LARGE else output[:length]


def _compress_xerial(data: ByteView) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        parts.append(_BLOCK_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, limit: int) -> bytes:
    if data[:8] != _XERIAL_MAGIC:
        return _decompress_snappy_block(data, 0, limit)
    parts = []
    position = 0
    end = len(data)
    while position < end:
        if data[position : position + 8] == _XERIAL_MAGIC:  # streams may be joined: a header stands before each
            position += len(_XERIAL_HEADER)
            continue
        if end - position < 4:
            raise CorruptBatch(position, "a snappy block's length is cut off")
        length = _BLOCK_LENGTH.unpack_from(data, position)[0]
        position += 4
        if length < 0 or length > end - position:
            raise CorruptBatch(position, f"a snappy block of {length} bytes does not fit")
        block = _decompress_snappy_block(data[position : position + length], position, limit)
        limit -= len(block)
        parts.append(block)
        position += length
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, position: int, limit: int) -> bytes:
    try:
        length = cramjam.snappy.decompress_raw_len(block)
        if length > limit:
            raise PayloadTooLarge(position, f"a snappy payload grows past its limit by {length - limit} bytes")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as failure:
        raise CorruptBatch(position, f"snappy payload does not decompress: {failure}") from None
