"""What groups of the consumer protocol need to know of the cluster, in their own words.

Owns: the port. The broker implements it on the cluster's image.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from ottla.groups.patterns import matching


class Topic(NamedTuple):
    """A topic as assignments see it."""

    name: str
    topic_id: bytes
    partitions: int
    racks: tuple[frozenset[str], ...] = ()
    """Of each partition: the racks of its replicas."""


class GroupCluster(Protocol):
    """Topics and the settings of groups, as they are now."""

    @property
    def version(self) -> int:
        """Grows whenever a topic may have changed."""
        ...

    def topic(self, name: str) -> Topic | None: ...

    def topic_by_id(self, topic_id: bytes) -> Topic | None: ...

    def matching(self, pattern: str) -> frozenset[str]:
        """The names of the topics that a pattern matches as a whole; raises BadPattern."""
        ...

    def group_settings(self, group_id: str) -> Mapping[str, str]:
        """What is set on this group alone."""
        ...


class NoTopics:
    """A cluster without topics."""

    version = 0

    def topic(self, name: str) -> Topic | None:
        return None

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        return None

    def matching(self, pattern: str) -> frozenset[str]:
        return matching(pattern, ())

    def group_settings(self, group_id: str) -> Mapping[str, str]:
        return {}
