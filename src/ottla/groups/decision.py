"""What a decider of groups answers, and what it is told beside the request.

Owns: the shapes. A decision is made without changing anything; it takes effect as a whole once its facts are stored
(`GroupMachine.apply` for each fact, then `GroupMachine.follow`), or not at all.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.machines import Now as Now
from ottla.base.machines import Token as Token
from ottla.groups.facts import Fact
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.groups.classic import ClassicGroup


class Caller(NamedTuple):
    """Who asks, and in which version of the API."""

    token: Token
    client_id: str
    host: str
    version: int


class SessionExtended(NamedTuple):
    """A member was heard of: its session now lasts until then."""

    group_id: str
    member_id: str
    until_ms: int


class Wait(Enum):
    """What a member of the consumer protocol has until a deadline for."""

    SESSION = "session"
    REVOKE = "revoke"
    JOIN = "join"
    """A classic member was told to join again."""
    SYNC = "sync"
    """A classic member was told that it has an assignment to fetch."""


class Timer(NamedTuple):
    """A member's deadline is now this; None: it has none."""

    member_id: str
    wait: Wait
    until_ms: int | None
    if_absent: bool = False


class Aftermath(NamedTuple):
    """What a decision does to a group of the consumer protocol beside its facts."""

    group_id: str
    timers: Sequence[Timer]
    seen_version: int
    """The version of the cluster that the group's topics were compared with."""


class GroupDecision(NamedTuple):
    """Facts to store, then answers to give. `reply` is the asker's; None when it waits or is among `released`."""

    reply: Message | None
    facts: Sequence[Fact] = ()
    released: Sequence[tuple[Token, Message]] = ()
    """Answers to requests that waited, by their tokens."""
    group: "ClassicGroup | None" = None
    """The group as it is afterwards, with what is not stored: who waits, until when."""
    session: SessionExtended | None = None
    aftermath: Aftermath | None = None


CONSUMER_DEFAULTS: Mapping[str, int] = {
    "session.timeout": 45_000,
    "min.session.timeout": 45_000,
    "max.session.timeout": 60_000,
    "heartbeat.interval": 5_000,
    "min.heartbeat.interval": 5_000,
    "max.heartbeat.interval": 15_000,
    "assignment.interval": 1_000,
    "min.assignment.interval": 0,
    "max.assignment.interval": 15_000,
}


class GroupLimits(NamedTuple):
    """What settings say about groups."""

    min_session_ms: int = 6_000
    max_session_ms: int = 1_800_000
    initial_delay_ms: int = 3_000
    max_size: int = 2_147_483_647
    metadata_bytes: int = 4_096
    retention_ms: int = 7 * 24 * 3_600_000
    retention_check_ms: int = 600_000
    consumer_max_size: int = 2_147_483_647
    assignors: tuple[str, ...] = ("uniform", "range")
    consumer: Mapping[str, int] = CONSUMER_DEFAULTS
    """Times of groups of the consumer protocol, in milliseconds, with their bounds."""
    migration: str = "bidirectional"
    """Which way a group with members may change its protocol."""
