"""What of a consumer's settings matters for fetching.

Owns: reading it once, in the units the fetcher needs, and what `auto.offset.reset` means. Never knows: who set it.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from ottla.client.settings import Settings

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d*))?S)?)?", re.IGNORECASE)


class FetchLimits(NamedTuple):
    """Sizes in bytes, times in seconds."""

    isolation: int
    min_bytes: int
    max_bytes: int
    partition_bytes: int
    wait_seconds: float
    request_seconds: float
    metadata_seconds: float
    rack: str
    check_crcs: bool
    reset: str
    create_topics: bool
    internal_topics: bool
    """Whether patterns match internal topics."""

    @property
    def committed_only(self) -> bool:
        return self.isolation == READ_COMMITTED

    @classmethod
    def of(cls, settings: Settings) -> "FetchLimits":
        return cls(
            isolation=READ_COMMITTED if settings.text("isolation.level") == "read_committed" else READ_UNCOMMITTED,
            min_bytes=settings.integer("fetch.min.bytes"),
            max_bytes=settings.integer("fetch.max.bytes"),
            partition_bytes=settings.integer("max.partition.fetch.bytes"),
            wait_seconds=settings.seconds("fetch.max.wait.ms"),
            request_seconds=settings.seconds("request.timeout.ms"),
            metadata_seconds=settings.seconds("metadata.max.age.ms"),
            rack=settings.text("client.rack"),
            check_crcs=settings.boolean("check.crcs"),
            reset=settings.text("auto.offset.reset"),
            create_topics=settings.boolean("allow.auto.create.topics"),
            internal_topics=not settings.boolean("exclude.internal.topics"),
        )


def reset_moment(policy: str, now_ms: Callable[[], int]) -> int | None:
    """The moment a reset goes to, for `find_offsets`; None when the policy is not to guess."""
    if policy == "none":
        return None
    if policy == "earliest":
        return EARLIEST
    if policy == "latest":
        return LATEST
    return max(0, now_ms() - duration_ms(policy.partition(":")[2]))


def duration_ms(text: str) -> int:
    """Milliseconds of an ISO 8601 duration that has passed the setting's check."""
    match = _DURATION.fullmatch(text)
    assert match is not None, text
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
    thousandths = int((match[5] or "0")[:3].ljust(3, "0"))
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + thousandths
