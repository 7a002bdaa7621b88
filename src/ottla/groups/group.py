"""What every kind of group can be asked, whatever its protocol: the seam between protocols and offsets.

Owns: the protocol only. A further kind of group (the consumer protocol) is one more implementation of it.
"""

from typing import Protocol

from ottla.base.errors import ErrorCode
from ottla.groups.facts import StoredOffset


class Group(Protocol):
    """One group as offsets, expiry and administration see it."""

    group_id: str

    @property
    def empty(self) -> bool: ...

    def commit_error(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Whether these credentials may commit offsets now."""
        ...

    def offset_delete_error(self) -> ErrorCode:
        """Whether offsets may be deleted at all."""
        ...

    def delete_error(self) -> ErrorCode:
        """Whether the group may be deleted."""
        ...

    def subscribes_to(self, topic: str) -> bool:
        """Whether the offsets of this topic are in use."""
        ...

    def expiry_base_ms(self, committed: StoredOffset) -> int | None:
        """From when on the retention of an offset counts; None while the group holds it."""
        ...

    def next_deadline(self) -> int | None:
        """When something is due, in steady milliseconds."""
        ...
