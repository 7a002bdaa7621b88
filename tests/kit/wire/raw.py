"""Requests over a bare socket: what no client library would send can be sent, and every field of an answer is seen."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Any, Self

from kit.wire.messages import Answer, Fields, decode, encode

SECONDS = 60.0


class ConnectionClosed(Exception):
    """The broker closed the connection instead of answering."""


class RawConnection:
    """One socket to a broker; requests may be pipelined with `send` and `receive`."""

    def __init__(self, host: str, port: int, client: str | None = "test", seconds: float = SECONDS) -> None:
        self.socket = socket.create_connection((host, port), timeout=seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client = client
        self._correlation = 0
        self._awaited: list[tuple[int, str, int]] = []

    def send(self, api: str, version: int, fields: Fields, *, answered: bool = True) -> None:
        self._correlation += 1
        self.send_frame(encode(api, version, fields, self._correlation, self._client))
        if answered:
            self._awaited.append((self._correlation, api, version))

    def receive(self) -> Answer:
        """The answer to the oldest request that has none yet: a broker answers in order."""
        correlation, api, version = self._awaited.pop(0)
        answered, answer = decode(api, version, self.receive_frame())
        assert answered == correlation, f"answer {answered} to request {correlation} ({api} {version})"
        return answer

    def ask(self, api: str, version: int, **fields: Any) -> Answer:
        self.send(api, version, fields)
        return self.receive()

    def send_frame(self, frame: bytes) -> None:
        try:
            self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        except (ConnectionResetError, BrokenPipeError):
            raise ConnectionClosed from None

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(size)

    def _receive_exactly(self, size: int) -> bytes:
        chunks = bytearray()
        while len(chunks) < size:
            try:
                chunk = self.socket.recv(size - len(chunks))
            except ConnectionResetError:
                raise ConnectionClosed from None
            if not chunk:
                raise ConnectionClosed
            chunks += chunk
        return bytes(chunks)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
