"""One look at a whole cluster, with nothing but what any Kafka tells a client.

Owns: asking for brokers, topics, ends, sizes and groups, and when. Never knows: what is made of two looks
(`top_views`). Invariant: a look is bounded: of very many groups the first are asked, and what one of them refuses to
tell is missing, not a failure.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.cli.cluster_views import Status
from ottla.client.admin.brokers import BrokerAdmin, Quorum
from ottla.client.admin.groups import GroupAdmin
from ottla.client.admin.topics import TopicAdmin
from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerError, ClientError
from ottla.client.offsets import LATEST
from ottla.runtime.world import RealClock

MOST_GROUPS = 200


class GroupLook(NamedTuple):
    """A group: its state, how many members, and how far it is."""

    state: str
    members: int | None
    committed: Mapping[TopicPartition, int]


class Look(NamedTuple):
    """A cluster at one moment, in seconds; sizes are bytes by broker."""

    moment: float
    status: Status
    ends: Mapping[TopicPartition, int]
    sizes: Mapping[int, Mapping[TopicPartition, int]]
    groups: Mapping[str, GroupLook]


async def look(cluster: Cluster, seconds: float) -> Look:
    brokers = BrokerAdmin(cluster)
    state = await brokers.describe_cluster(seconds)
    topics = await TopicAdmin(cluster).topics(seconds)
    led = {
        TopicPartition(topic.name, part.number): LATEST
        for topic in topics
        for part in topic.partitions
        if part.leader in cluster.brokers
    }
    moment = RealClock().monotonic()
    ends, sizes, groups, quorum = await asyncio.gather(
        TopicAdmin(cluster).offsets(led, seconds),
        _sizes(brokers, seconds),
        _groups(cluster, seconds),
        _quorum(brokers, seconds),
    )
    found = {place: answer.offset for place, answer in ends.items() if not answer.error}
    return Look(moment, Status(state, quorum, topics, {}), found, sizes, groups)


async def _quorum(admin: BrokerAdmin, seconds: float) -> Quorum | None:
    try:
        return await admin.describe_quorum(seconds)
    except ClientError:
        return None  # not every cluster has one, and not every one tells us


async def _sizes(admin: BrokerAdmin, seconds: float) -> dict[int, dict[TopicPartition, int]]:
    try:
        return await admin.replica_sizes(seconds)
    except ClientError:
        return {}  # not everybody may see the disks


async def _groups(cluster: Cluster, seconds: float) -> dict[str, GroupLook]:
    admin = GroupAdmin(cluster)
    try:
        listed = (await admin.groups((), (), seconds))[:MOST_GROUPS]
    except BrokerError:
        return {}
    names = [group.group_id for group in listed]
    described = await admin.describe_groups(names, seconds)
    committed = await asyncio.gather(*(_committed(admin, name, seconds) for name in names))
    found = {}
    for group, offsets in zip(listed, committed, strict=True):
        description = described[group.group_id]
        known = not isinstance(description, BrokerError)
        members = len(description.members) if not isinstance(description, BrokerError) else None
        state = description.state if not isinstance(description, BrokerError) else group.state
        if known or offsets:
            found[group.group_id] = GroupLook(state, members, offsets)
    return found


async def _committed(admin: GroupAdmin, name: str, seconds: float) -> dict[TopicPartition, int]:
    try:
        return {place: at.offset for place, at in (await admin.group_offsets(name, None, seconds)).items()}
    except BrokerError:
        return {}
