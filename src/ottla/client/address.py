"""Where a broker listens, and the text people write for it.

Owns: parsing `host:port,host:port` (IPv6 in brackets). Never knows: name resolution, sockets.
"""

from typing import NamedTuple

DEFAULT_PORT = 9092
_LARGEST_PORT = 65535


class Address(NamedTuple):
    """One host and port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(text: str) -> tuple[Address, ...]:
    """The addresses of a comma-separated list, each once; ValueError with a sentence when one is wrong."""
    found = dict.fromkeys(_parse(part.strip()) for part in text.split(",") if part.strip())
    if not found:
        raise ValueError("an address list is empty; write host:port, or host:port,host:port")
    return tuple(found)


def _parse(text: str) -> Address:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{text!r} is not an address; write an IPv6 one as [::1]:9092")
        port = rest[1:]
    elif text.count(":") > 1:
        raise ValueError(f"{text!r} is not an address; write an IPv6 one as [::1]:9092")
    else:
        host, _, port = text.partition(":")
    if not host:
        raise ValueError(f"{text!r} names no host; write host:port")
    if not port:
        return Address(host, DEFAULT_PORT)
    if not port.isascii() or not port.isdigit() or not 0 < int(port) <= _LARGEST_PORT:
        raise ValueError(f"{text!r} has no valid port; ports are 1 to {_LARGEST_PORT}")
    return Address(host, int(port))
