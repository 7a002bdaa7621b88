"""What the controller needs of the quorum, in its own words.

Owns: the protocols only. `quorum.node` fulfils them, and `zookeeper.node` where ZooKeeper coordinates.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from ottla.log.files import StorageFailure
from ottla.metadata.facts import Fact
from ottla.records.control import Voter
from ottla.wire.schema import Root


class MetadataQuorum(Protocol):
    """Where facts go. They come back through the controller's `committed`."""

    @property
    def epoch(self) -> int: ...

    @property
    def end_offset(self) -> int:
        """Where the next fact goes."""
        ...

    @property
    def damaged(self) -> StorageFailure | None:
        """Why nothing can be stored on this node now."""
        ...

    @property
    def interrupted(self) -> bool:
        """Whether the facts told so far end inside a transaction that nobody will end."""
        ...

    @property
    def voters(self) -> Sequence[Voter]: ...

    def append(self, facts: list[Fact]) -> int:
        """Facts that count together or not at all; the offset of the last. Raises NotLeader, StorageFailure."""
        ...


class ServedQuorum(MetadataQuorum, Protocol):
    """What a controller's listener needs beside."""

    @property
    def leader(self) -> tuple[int, int]:
        """The leader's id and its epoch; -1 when nobody is known."""
        ...

    async def handle(self, request: Root, version: int) -> Root:
        """Answer another node, or an operator."""
        ...


class Snapshots(Protocol):
    """Where snapshots go."""

    @property
    def log_size(self) -> int:
        """Bytes of the log on disk."""
        ...

    def take_snapshot(self, facts: Iterable[Fact], offset: int, epoch: int) -> None:
        """Write the state that all facts up to and with `offset` amount to, beside the loop."""
        ...
