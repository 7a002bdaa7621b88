"""Which APIs there are, which versions of them are served, and how a request begins.

Owns: the API table (it feeds dispatch, the ApiVersions answer and the documentation) and the request and response
headers. Never knows: sockets, what a request means.
"""

from importlib import import_module
from struct import Struct
from struct import error as StructError
from typing import NamedTuple, TypeAlias

from ottla.wire.messages import APIS
from ottla.wire.primitives import MalformedMessage, skip_tags
from ottla.wire.schema import Root

PRODUCE = 0
FETCH = 1
JOIN_GROUP = 11
SYNC_GROUP = 14
API_VERSIONS = 18
INIT_PRODUCER_ID = 22


class Api(NamedTuple):
    """One API as it is served: the advertised versions are `first` to `last`."""

    key: int
    name: str
    module: str
    first: int
    last: int
    flexible_from: int

    def request_class(self) -> type[Root]:
        found: type[Root] = getattr(import_module(f"ottla.wire.messages.{self.module}"), f"{self.name}Request")
        return found

    def response_class(self) -> type[Root]:
        found: type[Root] = getattr(import_module(f"ottla.wire.messages.{self.module}"), f"{self.name}Response")
        return found


# Kafka's newest InitProducerId is not stable there: it is served by brokers that are told to serve such versions.
STABLE_LAST = {INIT_PRODUCER_ID: 5}
UNSTABLE_LAST = {INIT_PRODUCER_ID: 6}

TABLE: dict[int, Api] = {
    key: Api(key, name, module, first, STABLE_LAST.get(key, last), flexible)
    for key, name, module, first, last, flexible in APIS
}

# Kafka serves Produce from version 3 but says 0: some versions of librdkafka read it to decide on compression.
ADVERTISED_FIRST = {PRODUCE: 0}


_FLEXIBLE_FROM = {key: TABLE[key].flexible_from for key in (PRODUCE, FETCH)}


class RequestHead(NamedTuple):
    """The header of a request, and where its body begins in the frame."""

    key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: int


HEAD = Struct(">hhih")
"""API key, version, correlation id, length of the client id (-1: none)."""
_CORRELATION = Struct(">i")
_START = Struct(">ii")

HotHead: TypeAlias = tuple[int, int, int]
"""Version, correlation id and where the body begins: all that Produce and Fetch need of a header."""


def read_head(frame: memoryview) -> RequestHead:
    """The header of a request frame; the API's version decides whether tagged fields follow the client id."""
    try:
        key, version, correlation_id, size = HEAD.unpack_from(frame)
    except StructError:
        raise MalformedMessage("the frame is shorter than a request header") from None
    position = 10
    client_id: str | None = None
    if size >= 0:
        position += size
        if position > len(frame):
            raise MalformedMessage("the frame ends inside the client id")
        try:
            client_id = str(frame[10:position], "utf-8")
        except UnicodeDecodeError:
            raise MalformedMessage("the client id is not UTF-8") from None
    api = TABLE.get(key)
    if api is not None and api.flexible_from <= version <= UNSTABLE_LAST.get(key, api.last):
        position = skip_tags(frame, position)
    return RequestHead(key, version, correlation_id, client_id, position)


def hot_body(frame: memoryview, key: int, version: int, client_id_size: int) -> int:
    """Where the body of a Produce or Fetch begins; the client id is skipped unread."""
    position = 10 + client_id_size if client_id_size > 0 else 10
    return skip_tags(frame, position) if version >= _FLEXIBLE_FROM[key] else position


def hot_response(key: int, version: int, correlation_id: int) -> bytearray:
    """The beginning of a response frame, with room for the size, for Produce and Fetch."""
    out = bytearray(_START.pack(0, correlation_id))
    if version >= _FLEXIBLE_FROM[key]:
        out.append(0)
    return out


def response_head(api: Api, version: int, correlation_id: int) -> bytes:
    """The header that precedes a response's body, without the frame's size."""
    head = _CORRELATION.pack(correlation_id)
    # ApiVersions always answers with the oldest header, so that a client of any age can read it.
    if version >= api.flexible_from and api.key != API_VERSIONS:
        return head + b"\0"
    return head
