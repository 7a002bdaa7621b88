"""What `__consumer_offsets` says about groups of the consumer protocol (KIP-848), as values.

Owns: their shape; each kind of fact is one kind of record of Kafka's. Never knows: their bytes, who decides on them.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple, TypeAlias

Partitions: TypeAlias = Mapping[bytes, frozenset[int]]
"""Partition numbers by topic id; a topic without partitions is not in it."""
Owned: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""Like `Partitions`, with the epoch at which the member was given each of them."""


NOTHING: Owned = {}


class MemberProgress(IntEnum):
    """How far a member has come towards its target, with Kafka's numbers."""

    STABLE = 0
    UNREVOKED = 1
    """It must first give partitions back."""
    UNRELEASED = 2
    """It waits for partitions that others have not given back."""
    UNKNOWN = 127
    """Written by a newer release."""


class ClassicSide(NamedTuple):
    """What a member that still speaks the classic protocol joined with."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class Subscription(NamedTuple):
    """Who a member is and what it wants."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str = ""
    """Further topics, by regular expression; empty for none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicSide | None = None


class Current(NamedTuple):
    """What a member has."""

    epoch: int = 0
    previous_epoch: int = 0
    progress: MemberProgress = MemberProgress.STABLE
    assigned: Owned = NOTHING
    revoking: Owned = NOTHING
    """What it must give back and may still be working on."""


class Resolved(NamedTuple):
    """The topics that a regular expression stands for."""

    topics: frozenset[str]
    version: int
    """Of the metadata it was matched against."""
    resolved_ms: int


class EpochFact(NamedTuple):
    """The group's epoch, with a digest of the topics it stands on; None: the group is gone."""

    group_id: str
    epoch: int | None
    digest: int = 0


class SubscriptionFact(NamedTuple):
    """A member is now like this; None: it is gone."""

    group_id: str
    member_id: str
    subscription: Subscription | None


class TargetEpochFact(NamedTuple):
    """The targets of all members are those of this epoch; None: there are none."""

    group_id: str
    epoch: int | None
    computed_ms: int = 0


class TargetFact(NamedTuple):
    """A member shall get this; None: it shall get nothing, being gone."""

    group_id: str
    member_id: str
    partitions: Partitions | None


class CurrentFact(NamedTuple):
    """A member has this; None: it is gone."""

    group_id: str
    member_id: str
    current: Current | None


class PatternFact(NamedTuple):
    """A regular expression of the group stands for this; None: nobody uses it any more."""

    group_id: str
    pattern: str
    resolved: Resolved | None


def is_end(fact: "ModernFact") -> bool:
    """Whether it says that something is gone."""
    if isinstance(fact, EpochFact | TargetEpochFact):
        return fact.epoch is None
    return fact[-1] is None


ModernFact: TypeAlias = EpochFact | SubscriptionFact | TargetEpochFact | TargetFact | CurrentFact | PatternFact
