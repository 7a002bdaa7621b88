"""What `__consumer_offsets` says: the durable facts of groups, as values.

Owns: their shape. Never knows: their bytes (that is `groups.records`), who decides on them.
"""

from typing import NamedTuple, TypeAlias

from ottla.base.vocabulary import NO_TOPIC_ID
from ottla.groups.modern_facts import ModernFact

NO_EXPIRY = -1


class StoredMember(NamedTuple):
    """A member of a stored generation, with what it subscribed to and what it was assigned."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class StoredGroup(NamedTuple):
    """One generation of a classic group; without members it is an empty group."""

    protocol_type: str | None
    generation: int
    protocol: str | None
    leader: str | None
    since_ms: int
    """When the group reached this state; -1 when nobody wrote it down."""
    members: tuple[StoredMember, ...] = ()


class StoredOffset(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = NO_EXPIRY
    """Set by old clients that ask for a retention of their own."""
    topic_id: bytes = NO_TOPIC_ID


class GroupFact(NamedTuple):
    """A classic group is now like this; None: it is gone."""

    group_id: str
    group: StoredGroup | None


class OffsetFact(NamedTuple):
    """A group's offset in a partition is now this; None: it has none."""

    group_id: str
    topic: str
    partition: int
    committed: StoredOffset | None


Fact: TypeAlias = GroupFact | OffsetFact | ModernFact
