"""Compression: framings that Kafka's clients write are read, ours are ones they read, and no bomb gets through."""

import gzip
import tracemalloc

import cramjam
import pytest

from ottla.records.compression import Compression, compress, decompress
from ottla.records.header import CorruptBatch

TEXT = b"".join(b"key-%d and a value of some words " % number for number in range(5000))
REAL = [kind for kind in Compression if kind]


@pytest.mark.parametrize("kind", list(Compression))
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(range(256)) * 300], ids=["nothing", "a byte", "text", "noise"])
def test_what_is_compressed_decompresses_to_the_same(kind: Compression, data: bytes) -> None:
    assert decompress(kind, compress(kind, data)) == data
    view = memoryview(bytearray(b"..") + data)[2:]
    assert decompress(kind, memoryview(compress(kind, view))) == data


@pytest.mark.parametrize(
    ("kind", "levels"), [(Compression.GZIP, [-1, 1, 9]), (Compression.LZ4, [1, 9, 17]), (Compression.ZSTD, [-7, 1, 19])]
)
def test_kafkas_levels_are_taken(kind: Compression, levels: list[int]) -> None:
    sizes = [len(compress(kind, TEXT, level)) for level in levels]
    assert all(decompress(kind, compress(kind, TEXT, level)) == TEXT for level in levels)
    assert len(set(sizes)) > 1, "the level made no difference"


def test_lz4_frames_have_independent_blocks_which_is_all_that_java_reads() -> None:
    frame = compress(Compression.LZ4, TEXT)
    assert frame[:4] == b"\x04\x22\x4d\x18"
    assert frame[4] & 0x20
    assert frame[5] == 0x40, "blocks of 64 KiB"


def test_lz4_frames_of_linked_blocks_are_read_too() -> None:
    assert decompress(Compression.LZ4, bytes(cramjam.lz4.compress(TEXT))) == TEXT


def test_snappy_is_written_in_javas_framing() -> None:
    frame = compress(Compression.SNAPPY, TEXT)
    assert frame[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


def test_snappy_is_read_bare_and_in_joined_streams() -> None:
    bare = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Compression.SNAPPY, bare) == TEXT
    joined = compress(Compression.SNAPPY, TEXT) + compress(Compression.SNAPPY, b"more")
    assert decompress(Compression.SNAPPY, joined) == TEXT + b"more"


def test_a_gzip_member_of_another_writer_is_read() -> None:
    assert decompress(Compression.GZIP, gzip.compress(TEXT, 9)) == TEXT


@pytest.mark.parametrize("kind", REAL)
def test_a_payload_larger_than_the_limit_is_refused_without_the_memory(kind: Compression) -> None:
    bomb = compress(kind, bytes(64 << 20))
    tracemalloc.start()
    with pytest.raises(CorruptBatch):
        decompress(kind, bomb, 1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


@pytest.mark.parametrize("kind", list(Compression))
def test_a_payload_of_exactly_the_limit_is_read(kind: Compression) -> None:
    data = bytes(3 << 20)
    assert decompress(kind, compress(kind, data), len(data)) == data
    with pytest.raises(CorruptBatch):
        decompress(kind, compress(kind, data), len(data) - 1)


@pytest.mark.parametrize("kind", REAL)
@pytest.mark.parametrize("damage", [b"", b"\x07", b"not compressed at all", b"\xff" * 50])
def test_damage_is_corrupt_and_nothing_else(kind: Compression, damage: bytes) -> None:
    whole = compress(kind, TEXT)
    for data in (damage, whole[: len(whole) // 2]):
        with pytest.raises(CorruptBatch):
            decompress(kind, data, 1 << 22)


@pytest.mark.parametrize("block", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x09abc", b"\x00\x00"])
def test_a_snappy_block_that_does_not_fit_is_corrupt(block: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decompress(Compression.SNAPPY, compress(Compression.SNAPPY, b"fine") + block)


def test_a_kind_nobody_knows_is_corrupt_to_read_and_an_error_to_write() -> None:
    with pytest.raises(CorruptBatch, match="unknown compression 5"):
        decompress(5, b"")
    with pytest.raises(ValueError, match="unknown compression 5"):
        compress(5, b"")
