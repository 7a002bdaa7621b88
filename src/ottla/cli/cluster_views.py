"""What `ottla cluster status` shows, made from what the cluster told.

Owns: the rows and JSON documents, and what counts as trouble. Never knows: how it was asked for, or printing. Pure
functions of values.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple

from ottla.cli.output import Column, Table
from ottla.cli.quorum_views import quorum_json
from ottla.client.admin.brokers import BrokerState, ClusterState, Quorum
from ottla.client.cluster import Partition, Topic

MIN_IN_SYNC = "min.insync.replicas"
SHOWN_TROUBLES = 20

OFFLINE = "offline"
UNDER_MIN = "under min in-sync"
UNDER_REPLICATED = "under-replicated"
WORST_FIRST = (OFFLINE, UNDER_MIN, UNDER_REPLICATED)


class Status(NamedTuple):
    """A cluster at one moment; `least` is each topic's min.insync.replicas."""

    state: ClusterState
    quorum: Quorum | None
    topics: Sequence[Topic]
    least: Mapping[str, int]


class Trouble(NamedTuple):
    """A partition and everything that is wrong with it, the worst first."""

    kinds: tuple[str, ...]
    topic: str
    partition: Partition


def troubles(status: Status) -> Iterator[Trouble]:
    for topic in status.topics:
        least = status.least.get(topic.name, 1)
        for part in topic.partitions:
            found = (
                (OFFLINE, part.leader < 0),
                (UNDER_MIN, len(part.in_sync) < least),
                (UNDER_REPLICATED, len(part.in_sync) < len(part.replicas)),
            )
            kinds = tuple(kind for kind, holds in found if holds)
            if kinds:
                yield Trouble(kinds, topic.name, part)


class Counts(NamedTuple):
    """What a broker carries; `preferred` leaders are those it should have."""

    leaders: int
    preferred: int
    replicas: int
    in_sync: int


def counts(status: Status, broker_id: int) -> Counts:
    parts = [part for topic in status.topics for part in topic.partitions]
    return Counts(
        sum(part.leader == broker_id for part in parts),
        sum(part.replicas[:1] == (broker_id,) for part in parts),
        sum(broker_id in part.replicas for part in parts),
        sum(broker_id in part.in_sync for part in parts),
    )


def leader_skew(status: Status) -> float:
    """How far the busiest leader is above what it need have, in even shares: 0.0 is as even as can be."""
    led = [counts(status, broker.node_id).leaders for broker in status.state.brokers if not broker.fenced]
    if not sum(led):
        return 0.0
    share = sum(led) / len(led)
    return max(0, max(led) - ceil(share)) / share


def summary(status: Status) -> str:
    """The lines above the tables."""
    parts = [part for topic in status.topics for part in topic.partitions]
    kinds = Counter(kind for trouble in troubles(status) for kind in trouble.kinds)
    found = ", ".join(f"{kinds[kind]} {kind}" for kind in WORST_FIRST if kinds[kind])
    misled = sum(part.leader >= 0 and part.leader != part.replicas[0] for part in parts if part.replicas)
    facts = [
        ("cluster", status.state.cluster_id),
        ("controller", _node(controller_of(status))),
        ("topics", str(len(status.topics))),
        ("partitions", f"{len(parts)}: {found or 'all in sync'}"),
        ("leader skew", f"{leader_skew(status):.0%}" + (f", {misled} not led by the first replica" if misled else "")),
    ]
    return "".join(f"{name:<12} {text}\n" for name, text in facts)


def brokers_table(status: Status) -> Table:
    columns = [
        Column("BROKER", True),
        Column("ADDRESS"),
        Column("RACK"),
        Column("STATE"),
        Column("LEADS", True),
        Column("PREFERRED", True),
        Column("REPLICAS", True),
        Column("IN SYNC", True),
    ]
    rows = []
    for broker in status.state.brokers:
        carried = counts(status, broker.node_id)
        rows.append(
            [
                str(broker.node_id),
                str(broker.address),
                broker.rack or "-",
                "fenced" if broker.fenced else "up",
                *map(str, carried),
            ]
        )
    return Table(columns, rows)


def trouble_table(found: Iterable[Trouble], most: int = SHOWN_TROUBLES) -> Table:
    """The partitions in trouble, worst first; where there are many, the first of them."""
    ordered = sorted(found, key=lambda trouble: (WORST_FIRST.index(trouble.kinds[0]), trouble.topic, trouble.partition))
    rows = [
        [
            trouble.topic,
            str(trouble.partition.number),
            trouble.kinds[0],
            _node(trouble.partition.leader),
            ",".join(map(str, trouble.partition.replicas)),
            ",".join(map(str, trouble.partition.in_sync)),
        ]
        for trouble in ordered[:most]
    ]
    if len(ordered) > most:
        rows.append([f"… and {len(ordered) - most} more", "", "", "", "", ""])
    columns = [
        Column("TOPIC"),
        Column("PARTITION", True),
        Column("TROUBLE"),
        Column("LEADER", True),
        Column("REPLICAS"),
        Column("IN SYNC"),
    ]
    return Table(columns, rows)


def status_json(status: Status) -> dict[str, Any]:
    found = list(troubles(status))
    controller = controller_of(status)
    return {
        "cluster_id": status.state.cluster_id,
        "controller": controller if controller >= 0 else None,
        "brokers": [_broker_json(status, broker) for broker in status.state.brokers],
        "quorum": None if status.quorum is None else quorum_json(status.quorum),
        "topics": len(status.topics),
        "partitions": sum(len(topic.partitions) for topic in status.topics),
        "leader_skew": round(leader_skew(status), 4),
        "offline": [trouble_json(trouble) for trouble in found if OFFLINE in trouble.kinds],
        "under_min_in_sync": [trouble_json(trouble) for trouble in found if UNDER_MIN in trouble.kinds],
        "under_replicated": [trouble_json(trouble) for trouble in found if UNDER_REPLICATED in trouble.kinds],
    }


def _broker_json(status: Status, broker: BrokerState) -> dict[str, Any]:
    return {
        "id": broker.node_id,
        "address": str(broker.address),
        "rack": broker.rack,
        "fenced": broker.fenced,
        **counts(status, broker.node_id)._asdict(),
    }


def trouble_json(trouble: Trouble) -> dict[str, Any]:
    part = trouble.partition
    return {
        "topic": trouble.topic,
        "partition": part.number,
        "leader": part.leader if part.leader >= 0 else None,
        "replicas": list(part.replicas),
        "in_sync": list(part.in_sync),
    }


def controller_of(status: Status) -> int:
    """The quorum's leader; where no quorum is known, whom the cluster names for changes."""
    return status.state.controller_id if status.quorum is None else status.quorum.leader_id


def _node(node_id: int) -> str:
    return str(node_id) if node_id >= 0 else "none"
