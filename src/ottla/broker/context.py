"""What a handler knows of the request beside its body."""

from typing import NamedTuple


class Context(NamedTuple):
    version: int
    client_id: str | None
    listener: str
    """The name of the listener it came in by; answers name addresses of the same listener."""
    peer: str
