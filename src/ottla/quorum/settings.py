"""What a quorum node is made of: where it runs, who it is, its settings.

Owns: these values. Never knows: how facts are committed (that is in `raft`), what they say. What a node tells others is
in `metadata.quorum_events`, the port that `zookeeper` stands behind too.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from ottla.base.settings.values import BrokerValues
from ottla.log.files import World
from ottla.records.control import Endpoint, Voter

RunBlocking: TypeAlias = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs a function in an I/O thread; what it raises comes back."""


class QuorumPlatform(NamedTuple):
    """Where a quorum node lives."""

    loop: asyncio.AbstractEventLoop
    world: World
    run_blocking: RunBlocking
    directory: str
    """Of `__cluster_metadata-0` itself."""


class QuorumIdentity(NamedTuple):
    """Who it is, and whom it knows before it has read anything.

    Voters whose directory ids are sixteen zero bytes are fixed (kraft.version 0); with ids they are the first of a set
    that can change (kraft.version 1). A log or a snapshot that names voters knows better than this.
    """

    cluster_id: str
    node_id: int
    directory_id: bytes
    voters: tuple[Voter, ...]
    can_vote: bool
    bootstrap: tuple[tuple[str, int], ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    """Where this node's controller listens; told to others while it leads."""


class QuorumSettings(NamedTuple):
    """Times in seconds, sizes in bytes; Kafka's defaults."""

    election_timeout: float = 1.0
    election_backoff_max: float = 1.0
    fetch_timeout: float = 2.0
    request_timeout: float = 2.0
    retry_backoff: float = 0.02
    fetch_max_bytes: int = 1 << 20
    snapshot_max_bytes: int = 1 << 20
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    retention_bytes: int = 100 << 20
    retention_ms: int = 604_800_000
    auto_join: bool = False

    @classmethod
    def of(cls, values: BrokerValues) -> "QuorumSettings":
        small = values.get("internal.metadata.log.segment.bytes")
        return cls(
            election_timeout=values.integer("controller.quorum.election.timeout.ms") / 1000,
            election_backoff_max=values.integer("controller.quorum.election.backoff.max.ms") / 1000,
            fetch_timeout=values.integer("controller.quorum.fetch.timeout.ms") / 1000,
            request_timeout=values.integer("controller.quorum.request.timeout.ms") / 1000,
            retry_backoff=values.integer("controller.quorum.retry.backoff.ms") / 1000,
            fetch_max_bytes=values.integer("controller.quorum.fetch.max.bytes"),
            snapshot_max_bytes=values.integer("controller.quorum.fetch.snapshot.max.bytes"),
            segment_bytes=small if isinstance(small, int) else values.integer("metadata.log.segment.bytes"),
            segment_ms=values.integer("metadata.log.segment.ms"),
            retention_bytes=values.integer("metadata.max.retention.bytes"),
            retention_ms=values.integer("metadata.max.retention.ms"),
            auto_join=values.boolean("controller.quorum.auto.join.enable"),
        )
