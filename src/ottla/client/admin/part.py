"""What the parts of an admin client share.

Owns: how long a call may take, and what a broker that is not the controller means. Never knows: any request.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerError

DEFAULT_SECONDS = 30.0


class Outcome(NamedTuple):
    """What became of one thing; `message` is the broker's own sentence, if it gave one."""

    error: ErrorCode
    message: str | None = None


class Part:
    """Some of the calls of an admin client; each takes the seconds it may last in all, None for the default."""

    def __init__(self, cluster: Cluster, default_seconds: float = DEFAULT_SECONDS) -> None:
        self._reached = cluster
        self._default_seconds = default_seconds

    @property
    def _cluster(self) -> Cluster:
        return self._reached

    def _deadline(self, seconds: float | None) -> float:
        return self._cluster.deadline(self._default_seconds if seconds is None else seconds)

    def _milliseconds(self, seconds: float | None) -> int:
        """What the broker may take: a little less than we wait, so that its own answer arrives."""
        return max(1, int((self._default_seconds if seconds is None else seconds) * 900))

    def _require_controller(self, errors: Iterable[ErrorCode]) -> None:
        """A request that met a broker that is not the controller changed nothing: look for the controller again."""
        if any(error == ErrorCode.NOT_CONTROLLER for error in errors):
            self._cluster.controller_id = -1
            raise BrokerError(ErrorCode.NOT_CONTROLLER, "the cluster", "the controller is moving")

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for topic in {partition.topic for partition in partitions}:
            self._cluster.forget(topic)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of the partitions of each topic."""
    grouped: dict[str, list[int]] = defaultdict(list)
    for partition in partitions:
        grouped[partition.topic].append(partition.partition)
    return grouped
