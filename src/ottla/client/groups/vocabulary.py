"""The words of group membership: what is subscribed to, what is committed, who a member is, what changes for it.

Owns: the shapes only. Never knows: protocols, connections, time.
"""

from dataclasses import dataclass
from operator import index
from typing import NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.client.errors import Misuse

NO_GENERATION = -1
_LARGEST_OFFSET = (1 << 63) - 1


class OffsetAndMetadata(NamedTuple):
    """The offset of the next record to read, and what the committer wants to remember with it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1

    @classmethod
    def of(cls, given: "int | OffsetAndMetadata") -> "OffsetAndMetadata":
        """What a program says, which must be an offset."""
        said = given if isinstance(given, OffsetAndMetadata) else cls(given)
        try:
            if 0 <= index(said.offset) <= _LARGEST_OFFSET:
                return said
        except TypeError:
            pass
        raise Misuse(f"an offset is a whole number, 0 or more, and not {said.offset!r}")


class GroupMetadata(NamedTuple):
    """Who a member is at the moment; a producer hands it to the group's coordinator with a transaction's offsets."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class BrokerPattern:
    """Every topic whose whole name matches, in RE2's syntax; the broker matches it, which needs the consumer protocol.

    A pattern of Python's `re` is matched here instead, against all topics of the cluster, under either protocol.
    """

    text: str


class MemberSettings(NamedTuple):
    """How a member behaves; seconds."""

    group_id: str
    instance_id: str | None = None
    rack: str | None = None
    session: float = 45.0
    heartbeat: float = 3.0
    poll_interval: float = 300.0
    """A member that asks for nothing this long leaves; also how long others wait for it in a rebalance."""
    retry: float = 0.1
    """The first pause before something that failed is tried again; each is twice the one before."""
    longest_retry: float = 1.0


class Change(NamedTuple):
    """What becomes of a member's partitions; it counts once the consumer has carried it out."""

    revoked: frozenset[TopicPartition] = frozenset()
    assigned: frozenset[TopicPartition] | None = None
    """New ones; None when there is no word about an assignment yet."""
    lost: bool = False
    """What is revoked may belong to somebody else already: nothing can be committed for it."""
