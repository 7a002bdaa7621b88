"""Frames that no client library sends: ottla answers, or closes the connection, where Kafka does."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from kit.brokers.brokers import Broker
from kit.others.kafka import RealKafka
from kit.wire.messages import API_KEYS, decode, encode
from oracle.cases import VERSIONS
from oracle.sides import Side


def _header(key: int, version: int, client: bytes | None = b"test", flexible: bool = False) -> bytes:
    text = struct.pack(">h", -1) if client is None else struct.pack(">h", len(client)) + client
    return struct.pack(">hhi", key, version, 7) + text + (b"\0" if flexible else b"")


def _frames() -> Iterator[tuple[str, bytes]]:
    for api, versions in VERSIONS.items():
        key = API_KEYS[api]
        if api != "api_versions":
            yield f"{api} in a version above the highest", _header(key, versions[-1] + 1, flexible=True) + b"\0" * 40
            yield f"{api} in a negative version", _header(key, -1) + b"\0" * 40
            yield f"{api} without a body", _header(key, versions[-1], flexible=True)
    for version in range(3):
        yield f"produce in the version {version} that Kafka names but does not serve", _header(0, version) + b"\0" * 40
    yield "an API nobody has", _header(999, 0) + b"\0" * 8
    yield "a negative API", _header(-1, 0) + b"\0" * 8
    yield "api_versions in a version above the highest", _header(18, 99, flexible=True) + b"\0" * 8
    yield "api_versions in a negative version", _header(18, -3)
    yield "an empty frame", b""
    yield "half a header", b"\0\x12\0"
    yield "a header with a client name that is too long", struct.pack(">hhih", 18, 0, 1, 5000) + b"x"
    yield "a header without a client name", _header(18, 0, client=None)
    yield "metadata with a topic count that is too high", _header(3, 1) + struct.pack(">i", 2**31 - 1)
    yield "metadata with a negative topic count", _header(3, 1) + struct.pack(">i", -5)
    yield "metadata with bytes after its end", encode("metadata", 1, {"topics": []}, 7) + b"junk"
    yield "api_versions with bytes after its end", encode("api_versions", 0, {}, 7) + b"junk"
    yield "api_versions with unknown tagged fields", _header(18, 3)[:-1] + b"t\x00\x02a\x02b\x01\x55\x02xy"
    yield "a broker's own API", _header(API_KEYS["begin_quorum_epoch"], 0) + b"\0" * 20


def _seen(side: Side, frame: bytes) -> str:
    """What came back: nothing but the end of the connection, or an answer whose correlation and fields compare."""
    answer = side.send_frame(frame)
    if answer is None:
        return "closed"
    if frame[:2] != struct.pack(">h", API_KEYS["api_versions"]) or struct.unpack_from(">h", frame, 2)[0] in range(5):
        return f"answered {struct.unpack_from('>i', answer)[0]}"
    correlation, fields = decode("api_versions", 0, answer)
    rows = [row for row in fields["api_keys"] if row["api_key"] == API_KEYS["api_versions"]]
    return f"answered {correlation}: {fields['error_code']} {rows}"


@pytest.mark.parametrize("frame", [pytest.param(frame, id=name) for name, frame in _frames()])
def test_a_strange_frame_is_met_as_kafka_meets_it(broker: Broker, real_kafka: RealKafka, frame: bytes) -> None:
    theirs = _seen(Side(real_kafka, "frame", 0), frame)
    ours = _seen(Side(broker, "frame", 0), frame)
    assert ours == theirs
