"""Addresses in settings: `listeners` and `advertised.listeners`.

Owns: their syntax. Never knows: sockets. Kafka's form is NAME://host:port; an empty host means every address.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

_FORM = re.compile(
    r"(?P<name>[A-Za-z0-9_.-]+)://(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^:/\[\]]*)):(?P<port>\d{1,5})"
)


class BadListener(Exception):
    """An address that cannot be used; the message says why."""


class Address(NamedTuple):
    """One listener."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_listeners(texts: Iterable[str], setting: str) -> list[Address]:
    """The addresses of one setting; names and ports must not repeat."""
    found: list[Address] = []
    for text in texts:
        matched = _FORM.fullmatch(text.strip())
        if matched is None or int(matched["port"]) > 65535:
            raise BadListener(f"{setting}: {text.strip()!r} is not of the form NAME://host:port.")
        found.append(Address(matched["name"].upper(), matched["six"] or matched["host"], int(matched["port"])))
    if not found:
        raise BadListener(f"{setting} names no address.")
    if len({address.name for address in found}) < len(found):
        raise BadListener(f"{setting} names a listener twice.")
    return found
