"""Numbers in Kafka's binary forms, as text and back."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.record_types import DataType, decoder, encoder

SIZES = {DataType.SHORT: 2, DataType.INTEGER: 4, DataType.LONG: 8}


@pytest.mark.parametrize(
    ("kind", "text", "data"),
    [
        (DataType.SHORT, b"-2", b"\xff\xfe"),
        (DataType.INTEGER, b"258", b"\x00\x00\x01\x02"),
        (DataType.LONG, b"-1", b"\xff" * 8),
        (DataType.FLOAT, b"0.1", struct.pack(">f", 0.1)),
        (DataType.DOUBLE, b"0.1", struct.pack(">d", 0.1)),
        (DataType.HEX, b"00ff", b"\x00\xff"),
        (DataType.BASE64, b"AP8=", b"\x00\xff"),
    ],
)
def test_text_and_bytes_are_two_sides_of_one_number(kind: DataType, text: bytes, data: bytes) -> None:
    encode, decode = encoder(kind), decoder(kind)
    assert encode is not None
    assert decode is not None
    assert (encode(text), decode(data)) == (data, text)
    assert (encode(None), decode(None)) == (None, None)


def test_text_stays_as_it_is() -> None:
    assert encoder(DataType.TEXT) is None
    assert decoder(DataType.TEXT) is None


@given(number=st.floats(width=32, allow_nan=False))
def test_a_float_is_shown_with_as_many_digits_as_it_needs(number: float) -> None:
    encode, decode = encoder(DataType.FLOAT), decoder(DataType.FLOAT)
    assert encode is not None
    assert decode is not None
    data = struct.pack(">f", number)
    assert encode(decode(data)) == data


@pytest.mark.parametrize("kind", SIZES)
def test_what_does_not_fit_is_refused_with_a_reason(kind: DataType) -> None:
    encode, decode = encoder(kind), decoder(kind)
    assert encode is not None
    assert decode is not None
    with pytest.raises(ValueError, match=f"is 3 bytes, and a {kind} has {SIZES[kind]}"):
        decode(b"abc")
    for text in (b"ten", b"1.5", str(1 << 70).encode()):
        with pytest.raises(ValueError, match=f"which is no {kind}"):
            encode(text)
