"""A raw connection for measurements: the few requests the bench needs, written by hand in old, simple versions.

Owns: bytes of requests and the fields it looks at in the answers. Never knows: ottla's own codec, so that a fault there
cannot hide itself here, and nothing between the clock and the socket costs more than it must.
"""

import socket
import struct
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

import crc32c

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS, DESCRIBE_CONFIGS = 0, 1, 2, 3, 18, 19, 32
LATEST = -1
TOPIC_RESOURCE = 2


class Fetched(NamedTuple):
    error: int
    records: bytes


class Refused(Exception):
    """The broker answered with an error code."""


def string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def array(parts: Iterable[bytes]) -> bytes:
    items = list(parts)
    return struct.pack(">i", len(items)) + b"".join(items)


def frame(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    request = struct.pack(">hhi", api_key, version, correlation_id) + string("bench") + body
    return struct.pack(">i", len(request)) + request


def one_record_batch(value: bytes) -> bytes:
    """A batch of one record without key, headers or compression."""
    record = b"\x00\x00\x00\x01" + varint(len(value)) + value + b"\x00"
    return batch_of(varint(len(record)) + record)


def varint(value: int) -> bytes:
    """A number that is not negative, as records have it."""
    value *= 2
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def batch_of(payload: bytes, attributes: int = 0) -> bytes:
    """A batch that claims to hold one record, whatever its payload is."""
    now_ms = time.time_ns() // 1_000_000
    body = struct.pack(">hiqqqhii", attributes, 0, now_ms, now_ms, -1, -1, -1, 1) + payload
    return struct.pack(">qiibI", 0, len(body) + 9, -1, 2, crc32c.crc32c(body)) + body


def produce_body(topic: str, partition: int, batch: bytes) -> bytes:
    data = struct.pack(">ii", partition, len(batch)) + batch
    return string(None) + struct.pack(">hi", -1, 30_000) + array([string(topic) + array([data])])


def fetch_body(topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
    wanted = struct.pack(">iqi", partition, offset, max_bytes)
    return struct.pack(">iiiib", -1, 0, 0, max_bytes, 0) + array([string(topic) + array([wanted])])


def metadata_of_everything() -> bytes:
    return struct.pack(">ibbb", -1, 0, 0, 0)


def configs_of_topics(names: Iterable[str]) -> bytes:
    """Every setting of every topic, with synonyms and documentation: the largest answer there is."""
    resources = (struct.pack(">b", TOPIC_RESOURCE) + string(name) + struct.pack(">i", -1) for name in names)
    return array(resources) + b"\x01\x01"


class Connection:
    """One blocking connection; requests go out one at a time."""

    def __init__(self, port: int, timeout: float = 120.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, api_key: int, version: int, body: bytes) -> bytes:
        """Send one request and return its answer without the correlation id."""
        self.send(api_key, version, body)
        return self.receive()

    def send(self, api_key: int, version: int, body: bytes) -> None:
        """Send one request whose answer is received later, before the next is sent."""
        self._correlation_id += 1
        self.socket.sendall(frame(api_key, version, self._correlation_id, body))

    def receive(self) -> bytes:
        answer = self.receive_frame()
        (correlation_id,) = struct.unpack_from(">i", answer)
        assert correlation_id == self._correlation_id, "answers come in the order of the requests"
        return answer[4:]

    def receive_frame(self) -> bytes:
        """The next answer, whatever was asked."""
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        while len(view):
            got = self.socket.recv_into(view)
            if not got:
                raise ConnectionResetError("the broker closed the connection")
            view = view[got:]
        return bytes(data)

    def api_versions(self) -> None:
        self.ask(API_VERSIONS, 0, b"")

    def create_topics(
        self, names: Iterable[str], partitions: int, settings: Mapping[str, str] | None = None, replicas: int = 1
    ) -> None:
        configs = array(string(name) + string(value) for name, value in (settings or {}).items())
        topics = array(string(name) + struct.pack(">ihi", partitions, replicas, 0) + configs for name in names)
        answer = self.ask(CREATE_TOPICS, 4, topics + struct.pack(">ib", 60_000, 0))
        (count,) = struct.unpack_from(">i", answer, 4)
        position = 8
        for _ in range(count):
            (length,) = struct.unpack_from(">h", answer, position)
            name = answer[position + 2 : position + 2 + length].decode()
            error, message = struct.unpack_from(">hh", answer, position + 2 + length)
            if error:
                raise Refused(f"creating topic {name}: error {error}")
            position += 6 + length + max(message, 0)

    def produce(self, topic: str, partition: int, batch: bytes) -> None:
        answer = self.ask(PRODUCE, 7, produce_body(topic, partition, batch))
        (error,) = struct.unpack_from(">h", answer, 4 + 2 + len(topic.encode()) + 4 + 4)
        if error:
            raise Refused(f"producing to {topic}-{partition}: error {error}")

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> Fetched:
        answer = self.ask(FETCH, 4, fetch_body(topic, partition, offset, max_bytes))
        # throttle, topics, name, partitions, then: index, error, high watermark, last stable offset, aborted, records.
        position = 4 + 4 + 2 + len(topic.encode()) + 4 + 4
        (error,) = struct.unpack_from(">h", answer, position)
        (aborted,) = struct.unpack_from(">i", answer, position + 2 + 8 + 8)
        position += 2 + 8 + 8 + 4 + 16 * max(aborted, 0)
        return Fetched(error, answer[position + 4 :])

    def end_offset(self, topic: str, partition: int) -> int:
        wanted = array([string(topic) + array([struct.pack(">iq", partition, LATEST)])])
        answer = self.ask(LIST_OFFSETS, 1, struct.pack(">i", -1) + wanted)
        _, error, _, offset = struct.unpack_from(">ihqq", answer, 4 + 2 + len(topic.encode()) + 4)
        if error:
            raise Refused(f"end offset of {topic}-{partition}: error {error}")
        return int(offset)
