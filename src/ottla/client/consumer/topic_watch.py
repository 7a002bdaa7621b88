"""The topics of a subscription: which exist, which match a pattern, how many partitions they have, and in which racks.

Owns: when they are looked at, and a task that does so. Never knows: what a member does with it.
Invariants: a member hears of the topics after every look; a look that failed or left something open is repeated, but
never without a pause.
"""

import asyncio
from collections.abc import Callable
from re import Pattern

from ottla.client.cluster import Cluster
from ottla.client.consumer.group_settings import GroupSettings
from ottla.client.errors import ClientError
from ottla.client.groups.member import Member
from ottla.client.groups.modern import ModernMember
from ottla.client.groups.racks import NO_RACKS, Racks

MISSING_PAUSE = 1.0
"""Topics that are not there are looked for this often at most."""


class TopicWatch:
    """`pattern` is the subscription's, if it has one; `told` is called when the member may have something to do."""

    def __init__(
        self,
        cluster: Cluster,
        settings: GroupSettings,
        member: Member,
        pattern: Pattern[str] | None,
        told: Callable[[], None],
    ) -> None:
        self.trouble: str | None = None
        """Why the topics are not known, or which are missing."""
        self._cluster = cluster
        self._settings = settings
        self._member = member
        self._pattern = pattern
        self._told = told
        self._broker_racks: dict[int, str] = {}
        """Also of brokers that are gone for now: nobody should have to move for a restart."""
        self._wanted = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def look(self) -> None:
        """Do not wait for the next time."""
        self._wanted.set()

    async def run(self) -> None:
        while True:
            self._wanted.clear()
            try:
                await self._look()
            except ClientError as failure:
                self.trouble = f"the topics are not known: {failure}"
            self._told()
            if self.trouble is not None:
                await asyncio.sleep(self._settings.member.retry)
            try:
                age = self._settings.topics_age
                async with asyncio.timeout(age if self.trouble is None else min(age, MISSING_PAUSE)):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    async def _look(self) -> None:
        cluster, member = self._cluster, self._member
        deadline = cluster.deadline(cluster.settings.request_seconds)
        unknown = isinstance(member, ModernMember) and bool(member.unknown_ids)
        watched = member.watched
        if self._pattern is not None or unknown:
            await cluster.refresh(None, deadline)
        elif watched:
            await cluster.refresh(watched, deadline, create=self._settings.create_topics)
        now = self._loop.time()
        if self._pattern is not None:
            member.subscribe(self._matching(self._pattern), now)
        if isinstance(member, ModernMember):
            member.named({topic.topic_id: name for name, topic in cluster.topics.items()})
        member.known({name: len(topic.partitions) for name, topic in cluster.topics.items()}, now, self._racks())
        missing = sorted(watched - cluster.topics.keys())
        self.trouble = f"no such topic: {', '.join(missing)}" if missing else None
        if isinstance(member, ModernMember) and member.unknown_ids:
            self.trouble = "the topics of its assignment are not known yet"

    def _racks(self) -> Racks:
        """Where the topics' replicas are; nothing, as long as no broker says where it is."""
        cluster, known = self._cluster, self._broker_racks
        known.update({node_id: broker.rack for node_id, broker in cluster.brokers.items() if broker.rack})
        if not known:
            return NO_RACKS
        return {
            name: tuple(
                frozenset(known[each] for each in partition.replicas if each in known)
                for partition in cluster.topics[name].partitions
            )
            for name in self._member.watched & cluster.topics.keys()
        }

    def _matching(self, pattern: Pattern[str]) -> frozenset[str]:
        return frozenset(
            name
            for name, topic in self._cluster.topics.items()
            if pattern.fullmatch(name) and (self._settings.internal_topics or not topic.internal)
        )
