"""A group machine on virtual time with topics of one's own, and requests of the consumer protocol in a line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kit.machines.groups import GROUP, Coordinator
from ottla.base.ports import Random
from ottla.groups.cluster import Topic
from ottla.groups.decision import Caller, GroupLimits
from ottla.groups.facts import GroupFact, OffsetFact
from ottla.groups.machine import GroupMachine
from ottla.groups.modern import ConsumerGroup
from ottla.groups.patterns import matching
from ottla.groups.records import read
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

Assigned = dict[str, list[int]]


class Topics:
    """The cluster port on a table."""

    def __init__(self, **counts: int) -> None:
        self.version = 1
        self.counts = counts
        self.settings: dict[str, str] = {}
        self._anew: dict[str, bytes] = {}

    def make_again(self, name: str) -> None:
        """Deleted and created: the same name under another id."""
        self._anew[name] = b"again" + topic_id(name)[:11]
        self.version += 1

    def grow(self, **counts: int) -> None:
        self.counts |= counts
        self.version += 1

    def remove(self, name: str) -> None:
        del self.counts[name]
        self.version += 1

    def topic(self, name: str) -> Topic | None:
        if name not in self.counts:
            return None
        return Topic(name, self._anew.get(name) or topic_id(name), self.counts[name])

    def topic_by_id(self, found: bytes) -> Topic | None:
        return next((topic for name in self.counts if (topic := self.topic(name)) and topic.topic_id == found), None)

    def matching(self, pattern: str) -> frozenset[str]:
        return matching(pattern, self.counts)

    def group_settings(self, group_id: str) -> Mapping[str, str]:
        return self.settings


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


class ModernCoordinator(Coordinator):
    """See the module. Assignments are computed at once unless limits say otherwise."""

    def __init__(self, limits: GroupLimits | None = None, random: Random | None = None, /, **counts: int) -> None:
        chosen = limits or quick()
        super().__init__(chosen, random)
        self.topics = Topics(**(counts or {"t": 4}))
        self.machine = GroupMachine(chosen, self.random, self.now, self.topics)

    @property
    def modern(self) -> ConsumerGroup:
        group = self.machine.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def beat(
        self,
        member_id: str,
        epoch: int = 0,
        *,
        topics: Iterable[str] | None = None,
        pattern: str | None = None,
        owned: Assigned | None = None,
        instance: str | None = None,
        rebalance_ms: int = -1,
        assignor: str | None = None,
        version: int = 1,
    ) -> Any:
        """One heartbeat; with epoch 0 a join, which brings what a join must bring."""
        if epoch == 0:
            owned, rebalance_ms = {}, 60_000 if rebalance_ms == -1 else rebalance_ms
            topics = ["t"] if topics is None and pattern is None else topics
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=pattern,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None
            else [TopicPartitions(topic_id(name), numbers) for name, numbers in owned.items()],
        )
        caller = Caller(None, "client", "/host", version)
        return self.carry_out(self.machine.decide_consumer_heartbeat(request, caller, self.now))

    def reload(self) -> None:
        """Another coordinator takes over, who knows what compaction has left of the log."""
        facts = [read(key, value) for key, value in dict(self.log).items() if value is not None]
        facts.sort(key=lambda fact: isinstance(fact, OffsetFact) * 2 + (not isinstance(fact, GroupFact)))
        self.machine = GroupMachine(self.machine.limits, self.random, self.now, self.topics)
        for fact in facts:
            self.machine.apply(fact)
        self.machine.loaded(self.now)


def quick(**changes: Any) -> GroupLimits:
    times = {**GroupLimits().consumer, "assignment.interval": 0}
    return GroupLimits(initial_delay_ms=0, consumer=times)._replace(**changes)


def assigned(answer: Any) -> Assigned | None:
    """What an answer tells a member to have, by topic name; None when it says nothing about it."""
    if answer.assignment is None:
        return None
    return {
        topic.topic_id.rstrip(b"\0").decode(): sorted(topic.partitions) for topic in answer.assignment.topic_partitions
    }
