"""Where fetching and group membership meet.

Owns: the shapes both sides speak in, and nothing that runs. A consumer asks its `Coordination` (coordination.py); that
tells the consumer through `ConsumerSeam` which partitions it holds. Neither imports the other.

Invariants: `assigned`, `revoked` and `lost` are called on the event loop, never while the holder hands over records of
the partitions concerned; the user's listener is called by the coordination, after `assigned` and before `revoked`.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from re import Pattern
from typing import Protocol, TypeAlias

from ottla.base.vocabulary import TopicPartition
from ottla.client.errors import ClientError
from ottla.client.groups.vocabulary import BrokerPattern
from ottla.client.groups.vocabulary import GroupMetadata as GroupMetadata
from ottla.client.groups.vocabulary import OffsetAndMetadata as OffsetAndMetadata


class RebalanceListener(Protocol):
    """What a program may do when partitions come and go; each method may be a coroutine function."""

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None: ...

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None: ...

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None: ...


Committed: TypeAlias = Callable[[Mapping[TopicPartition, OffsetAndMetadata], ClientError | None], object]
"""Told when a commit in the background has ended."""


class ConsumerSeam(Protocol):
    """The consumer, as the coordination sees it."""

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """These are new; where each starts is asked of `Coordination.committed`."""

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """These are no longer held; their positions have been committed, or may not be any more."""

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """As `revoked`, when others may hold them already."""

    def positions(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """How far each held partition has been handed over; only those that have a position."""

    def committed_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """A commit succeeded; for interceptors."""

    def wake(self) -> None:
        """A poll that waits should call `Coordination.poll` again: there is something to do."""


class Coordination(Protocol):
    """The group, as the consumer sees it. Deadlines are in the event loop's time."""

    def subscribe(
        self, topics: Collection[str] | Pattern[str] | BrokerPattern, listener: RebalanceListener | None
    ) -> None:
        """Join with this subscription at the next poll; replaces the one before."""

    async def unsubscribe(self, deadline: float) -> None:
        """Leave the group; what was held is revoked."""

    def polled(self, now: float) -> None:
        """The program is alive: it asked for records."""

    async def poll(self, deadline: float) -> None:
        """Do what only may happen while the program waits: join, sync, listeners, automatic commits.

        Called by every poll before records are taken; returns at once, without waiting for anything, when nothing is to
        do. Raises what the program must hear.
        """

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: float) -> None: ...

    def commit_async(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], done: Committed | None) -> None: ...

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """What the group has committed; partitions without are left out."""

    def group_metadata(self) -> GroupMetadata: ...

    def why_idle(self) -> str | None:
        """One readable line when membership keeps the consumer from its records, else None."""

    async def close(self, deadline: float) -> None:
        """A last automatic commit, revocation, and leaving the group."""
