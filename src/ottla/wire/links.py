"""How one node asks another: the port, and what can go wrong on the way.

Owns: the protocols and the one exception. The real ones are in `client.links`; the simulation has its own.
Invariants: requests on one link are answered in their order; every question has a deadline; a link that went down is
opened anew by the next question.
"""

from typing import Protocol, TypeVar

from ottla.wire.schema import LATEST, Root

R = TypeVar("R", bound=Root)


class LinkDown(Exception):
    """The other node did not answer: not reachable, gone in between, or too slow."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused
        """Whether its machine says that nobody listens there: the process is gone, not merely slow."""


class Link(Protocol):
    """A connection of its own to one address; nothing else is asked on it."""

    async def ask(self, request: Root, answer: type[R], seconds: float, *, highest: int = LATEST) -> R:
        """The answer, or LinkDown. Opens the connection where there is none; asks in the newest version both speak."""
        ...

    def close(self) -> None:
        """What waits fails; the next question would open it anew."""
        ...


class Links(Protocol):
    """Where links come from."""

    def link(self, host: str, port: int) -> Link:
        """A new link; it connects when it is first asked."""
        ...
