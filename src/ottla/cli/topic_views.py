"""What `ottla topic` shows, made from what the cluster told.

Owns: the rows and JSON documents. Never knows: how they were asked for, or printing. Pure functions of values.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.base.vocabulary import NO_TOPIC_ID, TopicPartition, identity_text
from ottla.cli.output import Column, Table, size_text
from ottla.client.admin.topics import Config
from ottla.client.cluster import Partition, Topic

Sizes = Mapping[TopicPartition, int]


class Described(NamedTuple):
    """A topic with what its partitions hold; a missing offset or size is one the cluster did not tell."""

    topic: Topic
    earliest: Mapping[int, int]
    latest: Mapping[int, int]
    sizes: Mapping[int, int]
    overridden: Sequence[Config]


def list_table(topics: Sequence[Topic], sizes: Sizes | None) -> Table:
    columns = [Column("TOPIC"), Column("PARTITIONS", True), Column("REPLICATION", True)]
    if sizes is not None:
        columns.append(Column("SIZE", True))
    columns.append(Column("STATE"))
    rows = []
    for topic in topics:
        row = [topic.name, str(len(topic.partitions)), str(replication(topic))]
        if sizes is not None:
            row.append(size_text(total_size(topic, sizes)))
        rows.append([*row, state(topic)])
    return Table(columns, rows)


def list_json(topics: Sequence[Topic], sizes: Sizes | None) -> list[dict[str, Any]]:
    return [
        {
            "name": topic.name,
            "id": _id(topic),
            "internal": topic.internal,
            "partitions": len(topic.partitions),
            "replication_factor": replication(topic),
            "size": None if sizes is None else total_size(topic, sizes),
            "state": state(topic),
        }
        for topic in topics
    ]


def describe_summary(described: Described) -> str:
    """The lines above the table of partitions."""
    topic = described.topic
    facts = [("topic", topic.name)]
    if topic.topic_id != NO_TOPIC_ID:
        facts.append(("id", identity_text(topic.topic_id)))
    facts.append(("partitions", str(len(topic.partitions))))
    facts.append(("replication", str(replication(topic))))
    counts = [_records(described, part) for part in topic.partitions]
    known = [count for count in counts if count is not None]
    if len(known) == len(counts):
        facts.append(("records", f"{sum(known):,}"))
    if described.sizes:
        facts.append(("size", size_text(sum(described.sizes.values()))))
    facts.append(("state", state(topic)))
    facts += [("setting", f"{config.name}={_value(config)}") for config in described.overridden]
    return "".join(f"{name:<12} {text}\n" for name, text in facts)


def describe_table(described: Described) -> Table:
    columns = [
        Column("PARTITION", True),
        Column("LEADER", True),
        Column("REPLICAS"),
        Column("IN SYNC"),
        Column("FIRST", True),
        Column("NEXT", True),
        Column("RECORDS", True),
        Column("SIZE", True),
    ]
    rows = [
        [
            str(part.number),
            str(part.leader) if part.leader >= 0 else "none",
            ",".join(map(str, part.replicas)),
            ",".join(map(str, part.in_sync)),
            _number(described.earliest.get(part.number)),
            _number(described.latest.get(part.number)),
            _number(_records(described, part)),
            size_text(described.sizes[part.number]) if part.number in described.sizes else "?",
        ]
        for part in described.topic.partitions
    ]
    return Table(columns, rows)


def describe_json(described: Described) -> dict[str, Any]:
    topic = described.topic
    return {
        "name": topic.name,
        "id": _id(topic),
        "internal": topic.internal,
        "replication_factor": replication(topic),
        "state": state(topic),
        "configs": {config.name: config.value for config in described.overridden},
        "partitions": [
            {
                "partition": part.number,
                "leader": part.leader if part.leader >= 0 else None,
                "leader_epoch": part.leader_epoch,
                "replicas": list(part.replicas),
                "in_sync": list(part.in_sync),
                "earliest_offset": described.earliest.get(part.number),
                "latest_offset": described.latest.get(part.number),
                "size": described.sizes.get(part.number),
            }
            for part in topic.partitions
        ],
    }


def replication(topic: Topic) -> int:
    """Replicas of the partition that has the fewest: partitions differ while they are being moved."""
    return min((len(part.replicas) for part in topic.partitions), default=0)


def state(topic: Topic) -> str:
    """'ok', or what is wrong with how many partitions."""
    leaderless = sum(part.leader < 0 for part in topic.partitions)
    lagging = sum(part.leader >= 0 and len(part.in_sync) < len(part.replicas) for part in topic.partitions)
    found = [f"{leaderless} without leader"] if leaderless else []
    found += [f"{lagging} under-replicated"] if lagging else []
    return ", ".join(found) or "ok"


def total_size(topic: Topic, sizes: Sizes) -> int:
    return sum(sizes.get(TopicPartition(topic.name, part.number), 0) for part in topic.partitions)


def _records(described: Described, part: Partition) -> int | None:
    first, following = described.earliest.get(part.number), described.latest.get(part.number)
    return None if first is None or following is None else following - first


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)


def _value(config: Config) -> str:
    return "(secret)" if config.sensitive else config.value or ""


def _id(topic: Topic) -> str | None:
    return None if topic.topic_id == NO_TOPIC_ID else identity_text(topic.topic_id)
