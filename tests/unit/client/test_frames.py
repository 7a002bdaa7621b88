"""Frames come out whole however the stream is cut."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.frames import FrameReader, FrameTooLarge


def feed(reader: FrameReader, stream: bytes, cuts: list[int]) -> list[bytes]:
    frames = []
    sizes = iter(cuts)
    while stream:
        room = reader.room()
        assert len(room) > 0
        count = min(len(room), next(sizes, len(stream)), len(stream))
        room[:count] = stream[:count]
        stream = stream[count:]
        frames += [bytes(frame) for frame in reader.received(count)]
    return frames


def framed(bodies: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


@given(
    sizes=st.lists(st.sampled_from([0, 1, 3, 100, 65_528, 65_531, 65_532, 65_533, 65_536, 200_000]), max_size=8),
    cuts=st.lists(st.integers(1, 70_000), max_size=40),
)
def test_frames_of_every_size_survive_every_cut(sizes: list[int], cuts: list[int]) -> None:
    bodies = [bytes([position % 251]) * size for position, size in enumerate(sizes)]
    assert feed(FrameReader(1 << 20), framed(bodies), cuts) == bodies


def test_single_bytes_make_frames_too() -> None:
    bodies = [b"first", b"", b"x" * 300]
    stream = framed(bodies)
    assert feed(FrameReader(1000), stream, [1] * len(stream)) == bodies


@pytest.mark.parametrize("size", [-1, 1001, 0x7FFFFFFF])
def test_a_length_out_of_range_is_refused_before_memory_is_taken(size: int) -> None:
    with pytest.raises(FrameTooLarge, match=str(size)):
        feed(FrameReader(1000), struct.pack(">i", size) + b"body", [])
