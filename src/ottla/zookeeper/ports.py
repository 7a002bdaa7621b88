"""What the rest of the room needs of ZooKeeper, in its own words.

Owns: the protocol and its values. `zookeeper.session` fulfils it with a real ensemble.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from ottla.zookeeper.translation import Create, Operation

Watch = Callable[[], None]


class ConnectionState(Enum):
    """How the session stands."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """No server is reached; the session may live on or not."""
    LOST = "lost"
    """The ensemble has ended the session, and with it our ephemeral znodes."""


class Unreachable(Exception):
    """The ensemble did not answer; whether it did what was asked is not known."""


class EnsembleRefusal(Exception):
    """The ensemble said no: a version is another, a znode is there or not there."""

    def __init__(self, reason: str, path: str, *, exists: bool = False, missing: bool = False) -> None:
        super().__init__(f"{reason} at {path}")
        self.path = path
        self.exists = exists
        self.missing = missing


class Stat(NamedTuple):
    """What ZooKeeper knows of a znode beside its data; `owner` is the session of an ephemeral one."""

    version: int
    owner: int
    created_ms: int


class Found(NamedTuple):
    data: bytes
    stat: Stat


class Ensemble(Protocol):
    """One session. Every question may raise Unreachable or Refused, and ends by its deadline."""

    @property
    def state(self) -> ConnectionState: ...

    @property
    def identity(self) -> int:
        """The session's number, which owns its ephemeral znodes."""
        ...

    @property
    def session_seconds(self) -> float:
        """How long the session lasts without a sign of life."""
        ...

    @property
    def in_flight(self) -> int:
        """How many questions may be under way at a time."""
        ...

    def listen(self, listener: Callable[[ConnectionState], None]) -> None:
        """Hear of every change of the connection, on the loop."""
        ...

    async def get(self, path: str, watch: Watch | None = None) -> Found | None:
        """A znode, or None; the watch is set in both cases.

        A watch fires once, on the loop, also when the connection was lost: what it watched may have changed unseen.
        """
        ...

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Names, in order; none where the znode is not there."""
        ...

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> None:
        """A znode and the ones above it. Refused where it is there."""
        ...

    async def remove(self, path: str, version: int = -1) -> None:
        """It is gone afterwards, whoever removed it. Refused where the version is another."""
        ...

    async def ensure(self, paths: Iterable[str]) -> None:
        """These are there afterwards, and those above them."""
        ...

    async def commit(
        self,
        operations: Sequence[Operation],
        checks: Sequence[tuple[str, int]] = (),
        *,
        ephemeral: Create | None = None,
    ) -> None:
        """All of it or nothing, if the checked znodes have these versions.

        It is on its way when the first step of this coroutine was taken, so calls in a row are done in a row.
        """
        ...

    def close(self) -> None:
        """End the session, and with it its ephemeral znodes. Blocking, but not for long."""
        ...
