"""What the controller needs of the quorum, in its own words.

Owns: the protocol only. `controller.quorum_node` fulfils it.
"""

from collections.abc import Sequence
from typing import Protocol

from ottla.controller.quorum_ports import Voter
from ottla.metadata.facts import Fact


class Quorum(Protocol):
    """Where facts go. They come back through the controller's `committed`."""

    @property
    def epoch(self) -> int: ...

    @property
    def end_offset(self) -> int:
        """Where the next fact goes."""
        ...

    @property
    def voters(self) -> Sequence[Voter]: ...

    def append(self, facts: list[Fact]) -> int:
        """Facts that count together or not at all; the offset of the last. Raises NotLeader, StorageFailure."""
        ...
