"""What a consumer's settings say about its group.

Owns: their translation, and the assignors that words stand for. Never knows: what they are used for.
"""

from typing import NamedTuple

from ottla.client.errors import InvalidSetting
from ottla.client.groups.assignors import Assignor, RangeAssignor, RoundRobinAssignor
from ottla.client.groups.sticky import CooperativeStickyAssignor, StickyAssignor
from ottla.client.groups.vocabulary import MemberSettings
from ottla.client.settings import Settings

_STRATEGY = "partition.assignment.strategy"
_KINDS = (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
_WORDS: dict[str, type[Assignor]] = {
    **{kind.name: kind for kind in _KINDS},
    **{f"org.apache.kafka.clients.consumer.{kind.__name__}": kind for kind in _KINDS},
}
"""Kafka's class names too, since configurations are copied."""


class GroupSettings(NamedTuple):
    """Times are seconds."""

    member: MemberSettings
    modern: bool = False
    assignors: tuple[Assignor, ...] = ()
    remote_assignor: str | None = None
    auto_commit: float | None = 5.0
    """How often positions are committed by themselves; None: never."""
    stable_offsets: bool = False
    create_topics: bool = True
    internal_topics: bool = False
    """Whether patterns match internal topics."""
    topics_age: float = 300.0
    """How often the topics are looked at."""

    @classmethod
    def of(cls, settings: Settings) -> "GroupSettings":
        """Of a consumer that has a `group.id`."""
        member = MemberSettings(
            group_id=settings.text("group.id"),
            instance_id=settings.text_or_none("group.instance.id"),
            rack=settings.text("client.rack") or None,
            session=settings.seconds("session.timeout.ms"),
            heartbeat=settings.seconds("heartbeat.interval.ms"),
            poll_interval=settings.seconds("max.poll.interval.ms"),
            retry=settings.seconds("retry.backoff.ms"),
            longest_retry=settings.seconds("retry.backoff.max.ms"),
        )
        every = settings.seconds("auto.commit.interval.ms")
        return cls(
            member=member,
            modern=settings.text("group.protocol") == "CONSUMER",
            assignors=_assignors(settings),
            remote_assignor=settings.text_or_none("group.remote.assignor"),
            auto_commit=every if settings.boolean("enable.auto.commit") else None,
            stable_offsets=settings.text("isolation.level") == "read_committed",
            create_topics=settings.boolean("allow.auto.create.topics"),
            internal_topics=not settings.boolean("exclude.internal.topics"),
            topics_age=settings.seconds("metadata.max.age.ms"),
        )


def _assignors(settings: Settings) -> tuple[Assignor, ...]:
    found = []
    for given in settings.things(_STRATEGY):
        meant = settings.known(_STRATEGY, given, _WORDS)
        assignor = meant() if isinstance(meant, type) and issubclass(meant, Assignor) else meant
        if not isinstance(assignor, Assignor):
            raise InvalidSetting(_STRATEGY, f"{_STRATEGY} cannot be {given!r}: it is no assignor")
        found.append(assignor)
    if len({assignor.name for assignor in found}) != len(found):
        raise InvalidSetting(_STRATEGY, f"{_STRATEGY} has two assignors of the same name")
    return tuple(found)
