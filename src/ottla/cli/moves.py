"""Moving replicas: carrying a reassignment out, following it to its end, and showing both.

Owns: throttles around a move, how far it is, tables and JSON of plans and moves. Never knows: how requests are
retried. Invariant: a move that was followed to its end leaves no throttle behind.
"""

import asyncio
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.cli.failures import Failure
from ottla.cli.output import Column, Table, progress, size_text
from ottla.client.admin.brokers import LEADER_THROTTLED, BrokerAdmin, Reassignment
from ottla.client.admin.topics import TopicAdmin
from ottla.client.balancing import BalancePlan, load
from ottla.client.cluster import Cluster, Topic
from ottla.client.errors import BrokerError

LOOK_SECONDS = 0.25
_UNITS = {"": 1, "k": 1_000, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
Targets = Mapping[TopicPartition, Sequence[int]]


class Moved(NamedTuple):
    """What was begun: the partitions, and the brokers whose copying may be bounded."""

    partitions: frozenset[TopicPartition]
    brokers: frozenset[int]


class Move(NamedTuple):
    """A move under way: bytes the new replicas have, and will have in all."""

    partition: TopicPartition
    reassignment: Reassignment
    copied: int
    size: int

    @property
    def left(self) -> int:
        return self.size - self.copied


async def carry_out(cluster: Cluster, targets: Targets, rate: int | None, seconds: float) -> Moved:
    """Begin the moves, bounded before the first byte is copied."""
    admin = BrokerAdmin(cluster)
    names = sorted({partition.topic for partition in targets})
    topics = await cluster.retry(lambda: cluster.refresh(names, cluster.deadline(seconds)), cluster.deadline(seconds))
    copying: dict[TopicPartition, tuple[Sequence[int], Sequence[int]]] = {}
    for partition, replicas in targets.items():
        topic = topics.get(partition.topic)
        if not isinstance(topic, Topic):
            raise topic or BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {partition.topic!r}")
        if partition.partition >= len(topic.partitions):
            raise Cluster.leaderless(partition, topic)
        now = topic.partitions[partition.partition].replicas
        copying[partition] = now, [broker for broker in replicas if broker not in now]
    if rate is not None:
        await admin.throttle({partition: sides for partition, sides in copying.items() if sides[1]}, rate, seconds)
    outcomes = await admin.reassign(targets, seconds)
    brokers = {broker for sides in copying.values() for side in sides for broker in side}
    refused = {partition: outcome for partition, outcome in outcomes.items() if outcome.error}
    if refused:
        if rate is not None and len(refused) == len(targets):
            await admin.unthrottle(names, sorted(brokers), seconds)
        partition, outcome = min(refused.items())
        raise BrokerError(outcome.error, f"partition {partition.topic}:{partition.partition}", outcome.message)
    return Moved(frozenset(targets), frozenset(brokers))


async def follow(cluster: Cluster, moved: Moved, seconds: float, *, throttled: bool) -> None:
    """Wait until nothing of it is under way, then lift the throttle and let the first replicas lead."""
    admin = BrokerAdmin(cluster)
    moves = await moves_under_way(cluster, moved.partitions, seconds)
    left = sum(move.left for move in moves)
    with progress("copying", left, "B") as advance:
        while moves:
            await asyncio.sleep(LOOK_SECONDS)
            moves = await moves_under_way(cluster, moved.partitions, seconds)
            now = sum(move.left for move in moves)
            advance(max(0, left - now))
            left = min(left, now)
    if throttled:
        topics = sorted({partition.topic for partition in moved.partitions})
        await admin.unthrottle(topics, sorted(moved.brokers), seconds)
    await admin.elect_leaders(moved.partitions, seconds)


async def unthrottle(cluster: Cluster, seconds: float) -> None:
    """Lift what any move has left behind, on every topic and broker."""
    admin = TopicAdmin(cluster)
    topics = [topic.name for topic in await admin.topics(seconds)]
    bounded = await admin.topic_setting(topics, LEADER_THROTTLED, seconds)
    left = [topic for topic, replicas in bounded.items() if replicas]
    await BrokerAdmin(cluster).unthrottle(left, sorted(cluster.brokers), seconds)


async def moves_under_way(
    cluster: Cluster, partitions: Collection[TopicPartition] | None, seconds: float
) -> list[Move]:
    """The moves, with how much of them is copied as far as brokers tell."""
    admin = BrokerAdmin(cluster)
    found = await admin.reassignments(partitions, seconds)
    sizes = await admin.replica_sizes(seconds) if found else {}
    moves = []
    for partition, move in sorted(found.items()):
        whole = max((sizes.get(broker, {}).get(partition, 0) for broker in move.replicas), default=0)
        copied = sum(min(whole, sizes.get(broker, {}).get(partition, 0)) for broker in move.adding)
        moves.append(Move(partition, move, copied, whole * len(move.adding)))
    return moves


# --- plans and moves as tables and JSON -------------------------------------------------------------------------------


def plan_table(plan: BalancePlan, sizes: Mapping[TopicPartition, int]) -> Table:
    rows = []
    for partition, after in plan.after.items():
        before = plan.before[partition]
        copies = [broker for broker in after if broker not in before]
        rows.append(
            [
                partition.topic,
                str(partition.partition),
                ",".join(map(str, before)),
                ",".join(map(str, after)),
                size_text(sizes.get(partition, 0) * len(copies)) if copies else "nothing",
            ]
        )
    columns = [Column("TOPIC"), Column("PARTITION", True), Column("NOW"), Column("THEN"), Column("COPIES", True)]
    return Table(columns, rows)


def load_table(plan: BalancePlan, topics: Sequence[Topic]) -> Table:
    """What each broker carries now and then."""
    now = {TopicPartition(topic.name, part.number): part.replicas for topic in topics for part in topic.partitions}
    brokers = sorted({broker for each in (*now.values(), *plan.after.values()) for broker in each})
    before, after = load(now, brokers), load({**now, **plan.after}, brokers)
    rows = [
        [
            str(broker),
            f"{before[broker].replicas} → {after[broker].replicas}",
            f"{before[broker].leaders} → {after[broker].leaders}",
        ]
        for broker in brokers
    ]
    return Table([Column("BROKER", True), Column("REPLICAS", True), Column("LEADERS", True)], rows)


def plan_json(targets: Targets) -> dict[str, Any]:
    """Kafka's own form, which its tools and `--file` read."""
    return {
        "version": 1,
        "partitions": [
            {"topic": partition.topic, "partition": partition.partition, "replicas": list(replicas)}
            for partition, replicas in targets.items()
        ],
    }


def read_plan(path: str) -> dict[TopicPartition, tuple[int, ...]]:
    try:
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)["partitions"]
        targets = {
            TopicPartition(str(row["topic"]), int(row["partition"])): tuple(int(broker) for broker in row["replicas"])
            for row in rows
        }
    except OSError as problem:
        raise Failure(f"cannot read the plan {path}: {problem.strerror}") from None
    except (ValueError, KeyError, TypeError) as problem:
        form = '{"partitions": [{"topic": …, "partition": …, "replicas": […]}, …]}'
        raise Failure(f"{path} is no plan ({problem!r}); it should look like {form}") from None
    if not targets:
        raise Failure(f"the plan {path} names no partition")
    return targets


def moves_table(moves: Sequence[Move]) -> Table:
    columns = [
        Column("TOPIC"),
        Column("PARTITION", True),
        Column("REPLICAS"),
        Column("ADDING"),
        Column("REMOVING"),
        Column("COPIED", True),
        Column("OF", True),
    ]
    rows = [
        [
            move.partition.topic,
            str(move.partition.partition),
            *(
                ",".join(map(str, each)) or "-"
                for each in (move.reassignment.replicas, move.reassignment.adding, move.reassignment.removing)
            ),
            size_text(move.copied),
            size_text(move.size),
        ]
        for move in moves
    ]
    return Table(columns, rows)


def moves_json(moves: Sequence[Move]) -> list[dict[str, Any]]:
    return [
        {
            "topic": move.partition.topic,
            "partition": move.partition.partition,
            "replicas": list(move.reassignment.replicas),
            "adding": list(move.reassignment.adding),
            "removing": list(move.reassignment.removing),
            "copied": move.copied,
            "size": move.size,
        }
        for move in moves
    ]


def parse_rate(text: str) -> int | None:
    """Bytes as people write them; None when it is no such number."""
    matched = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]i?)?(b(?:/s)?)?", text.strip().lower())
    if matched is None:
        return None
    rate = int(float(matched[1]) * _UNITS[matched[2] or ""])
    return rate if rate > 0 else None
