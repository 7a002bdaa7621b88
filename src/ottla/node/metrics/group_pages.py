"""The groups and transactions that a broker coordinates, and how far the groups lag behind.

Owns: the lag: where a partition ends, less what a group has committed. Never knows: how numbers are asked for.
Invariants: a lag is told only where the end is known; ends of partitions that lie elsewhere are asked of their leaders,
once for all groups, and nobody waits long for them.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.broker.broker import Broker
from ottla.node.metrics import families
from ottla.node.metrics.exposition import Page, labels_of
from ottla.wire.links import LinkDown
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from ottla.groups.machine import GroupMachine

LATEST = -1
ASKING_SECONDS = 1.0
"""How long the leaders of partitions that lie elsewhere may take to say where they end."""

Ends = Mapping[TopicPartition, int]


def machines(broker: Broker) -> "list[GroupMachine]":
    return [shard.machine for shard in broker.groups.shards() if not isinstance(shard, ErrorCode)]


async def ends_elsewhere(broker: Broker) -> Ends:
    """Where the partitions end that groups coordinated here have offsets in, and that have no replica here."""
    wanted: dict[int, set[TopicPartition]] = {}
    topics = broker.image.topics
    for machine in machines(broker):
        for group_id in tuple(machine.groups):
            for topic, partitions in machine.offsets.held(group_id).items():
                image = topics.get(topic)
                for number in partitions if image is not None else ():
                    name = TopicPartition(topic, number)
                    if image is not None and number < len(image.partitions) and broker.partitions.get(name) is None:
                        wanted.setdefault(image.partitions[number].leader, set()).add(name)
        await asyncio.sleep(0)
    ends: dict[TopicPartition, int] = {}
    await asyncio.gather(*(_ask(broker, leader, names, ends) for leader, names in wanted.items()))
    return ends


async def _ask(broker: Broker, leader: int, names: set[TopicPartition], ends: dict[TopicPartition, int]) -> None:
    address = broker.context.address_of(leader)
    if address is None:
        return
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for name in sorted(names):
        topics.setdefault(name.topic, []).append(ListOffsetsPartition(partition_index=name.partition, timestamp=LATEST))
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=parts) for topic, parts in topics.items()]
    )
    link = broker.context.links.link(*address)
    try:
        answer = await link.ask(request, ListOffsetsResponse, ASKING_SECONDS)
    except LinkDown:
        return
    finally:
        link.close()
    for topic in answer.topics:
        for part in topic.partitions:
            if part.error_code == ErrorCode.NONE:
                ends[TopicPartition(topic.name, part.partition_index)] = part.offset


def _end(broker: Broker, name: TopicPartition, elsewhere: Ends) -> int | None:
    partition = broker.partitions.get(name)
    if partition is None or partition.log is None:
        return elsewhere.get(name)
    return partition.log.high_watermark


def write_groups(page: Page, broker: Broker, elsewhere: Ends) -> Iterator[None]:
    found = machines(broker)
    states = dict.fromkeys(families.GROUPS_BY_STATE, 0)
    members: list[tuple[str, int]] = []
    lines: list[tuple[str, str, int, int | None]] = []
    sums: dict[str, tuple[int, int | None]] = {}
    offsets = 0
    for machine in found:
        for group_id, group in tuple(machine.groups.items()):
            state = group.state.value.lower()
            # The consumer protocol has states between which the classic one does not tell apart.
            state = {"assigning": "preparingrebalance", "reconciling": "completingrebalance"}.get(state, state)
            states[state] += 1
            members.append((labels_of(families.GROUP_MEMBERS, (group_id,)), len(group.members)))
            for topic, partitions in machine.offsets.held(group_id).items():
                of_topic = labels_of(families.GROUP_LAG_SUM, (group_id, topic))
                committed = 0
                behind: int | None = 0
                for number, stored in partitions.items():
                    end = _end(broker, TopicPartition(topic, number), elsewhere)
                    lag = None if end is None else max(end - stored.offset, 0)
                    lines.append((of_topic, str(number), stored.offset, lag))
                    committed += stored.offset
                    behind = None if lag is None or behind is None else behind + lag
                sums[of_topic] = committed, behind
                offsets += len(partitions)
            yield
    page.number(families.GROUP_COUNT, len(members))
    page.number(families.GROUP_OFFSETS, offsets)
    for state, family in families.GROUPS_BY_STATE.items():
        page.number(family, states[state])
    page.number(families.REBALANCES, broker.groups.rebalances)
    yield from _write_series(page, members, lines, sums)


def _write_series(
    page: Page,
    members: list[tuple[str, int]],
    lines: list[tuple[str, str, int, int | None]],
    sums: dict[str, tuple[int, int | None]],
) -> Iterator[None]:
    page.begin(families.GROUP_MEMBERS)
    for labels, count in members:
        page.series(families.GROUP_MEMBERS, labels, count)
        yield
    page.begin(families.GROUP_OFFSET)
    for of_topic, number, committed, _ in lines:
        page.series(families.GROUP_OFFSET, f'{of_topic},partition="{number}"', committed)
        yield
    page.begin(families.GROUP_LAG)
    for of_topic, number, _, lag in lines:
        if lag is not None:
            page.series(families.GROUP_LAG, f'{of_topic},partition="{number}"', lag)
            yield
    page.begin(families.GROUP_OFFSET_SUM)
    for of_topic, (total, _) in sums.items():
        page.series(families.GROUP_OFFSET_SUM, of_topic, total)
    page.begin(families.GROUP_LAG_SUM)
    for of_topic, (_, behind) in sums.items():
        if behind is not None:
            page.series(families.GROUP_LAG_SUM, of_topic, behind)


def write_transactions(page: Page, broker: Broker) -> Iterator[None]:
    counts: dict[str, int] = {}
    for shard in list(broker.transactions.shards()):
        if isinstance(shard, ErrorCode):
            continue
        for transaction in tuple(shard.machine.transactions.values()):
            counts[transaction.state.title] = counts.get(transaction.state.title, 0) + 1
            yield
    page.all_series(families.TRANSACTIONS, (((title,), count) for title, count in sorted(counts.items())))
