"""What `ottla topic` shows, made from what the cluster told.

Owns: the rows and JSON documents. Never knows: how they were asked for, or printing. Pure functions of values.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.base.vocabulary import NO_TOPIC_ID, TopicPartition, identity_text
from ottla.cli.output import Column, Table, size_text
from ottla.client.admin.part import Outcome
from ottla.client.admin.topics import Config, Created
from ottla.client.cluster import Partition, Topic
from ottla.client.offsets import FoundOffset

PerPartition = Mapping[TopicPartition, int]
GOOD = frozenset({"ok"})


class Described(NamedTuple):
    """A topic with what its partitions hold; a missing offset or size is one the cluster did not tell."""

    topic: Topic
    earliest: Mapping[int, int]
    latest: Mapping[int, int]
    sizes: Mapping[int, int]
    overridden: Sequence[Config]


class Listed(NamedTuple):
    """Topics with the bytes and records of their partitions; None where the cluster did not tell."""

    topics: Sequence[Topic]
    sizes: PerPartition | None
    counts: PerPartition | None


class OffsetRange(NamedTuple):
    """Where a partition begins, and the offset its next record gets."""

    place: TopicPartition
    first: int
    following: int


class Deletion(NamedTuple):
    """A partition that began at `before` and begins at `now`, unless that was refused."""

    place: TopicPartition
    before: int
    now: int
    outcome: Outcome


def created_text(name: str, created: Created, dry_run: bool) -> str:
    if created.error:
        return f"topic {name!r} exists already\n"
    many, copies = created.partitions, created.replication_factor
    numbers = "" if many < 0 else f": {many} partition{'s' if many != 1 else ''}, replication factor {copies}"
    return f"{'would create' if dry_run else 'created'} topic {name!r}{numbers}\n"


def created_json(name: str, created: Created) -> dict[str, Any]:
    refused = bool(created.error)
    return {
        "topic": name,
        "id": None if refused or created.topic_id == NO_TOPIC_ID else identity_text(created.topic_id),
        "partitions": None if refused or created.partitions < 0 else created.partitions,
        "replication_factor": None if refused or created.replication_factor < 0 else created.replication_factor,
        "error": created.error.name if refused else None,
        "message": created.message if refused else None,
    }


def list_table(listed: Listed) -> Table:
    sizes, counts = listed.sizes, listed.counts
    columns = [Column("TOPIC"), Column("PARTITIONS", True), Column("REPLICATION", True)]
    columns += [Column("RECORDS", True)] if counts is not None else []
    columns += [Column("SIZE", True)] if sizes is not None else []
    columns.append(Column("STATE", good=GOOD))
    rows = []
    for topic in listed.topics:
        row = [topic.name, str(len(topic.partitions)), str(replication(topic))]
        if counts is not None:
            row.append(_number(total_count(topic, counts)))
        if sizes is not None:
            row.append(size_text(total_size(topic, sizes)))
        rows.append([*row, state(topic)])
    return Table(columns, rows)


def list_json(listed: Listed) -> list[dict[str, Any]]:
    return [
        {
            "name": topic.name,
            "id": _id(topic),
            "internal": topic.internal,
            "partitions": len(topic.partitions),
            "replication_factor": replication(topic),
            "records": None if listed.counts is None else total_count(topic, listed.counts),
            "size": None if listed.sizes is None else total_size(topic, listed.sizes),
            "state": state(topic),
        }
        for topic in listed.topics
    ]


def reach_table(rows: Sequence[OffsetRange]) -> Table:
    columns = [
        Column("TOPIC"),
        Column("PARTITION", True),
        Column("FIRST", True),
        Column("NEXT", True),
        Column("RECORDS", True),
    ]
    cells = [
        [row.place.topic, *map(str, (row.place.partition, row.first, row.following, row.following - row.first))]
        for row in rows
    ]
    return Table(columns, cells)


def reach_json(rows: Sequence[OffsetRange]) -> list[dict[str, Any]]:
    return [
        {
            "topic": row.place.topic,
            "partition": row.place.partition,
            "earliest_offset": row.first,
            "latest_offset": row.following,
        }
        for row in rows
    ]


def found_table(found: Mapping[TopicPartition, FoundOffset]) -> Table:
    from ottla.cli.record_text import time_text

    columns = [Column("TOPIC"), Column("PARTITION", True), Column("OFFSET", True), Column("TIME")]
    cells = [
        [
            place.topic,
            str(place.partition),
            "none" if row.offset < 0 else str(row.offset),
            "-" if row.timestamp < 0 else time_text(row.timestamp),
        ]
        for place, row in found.items()
    ]
    return Table(columns, cells)


def found_json(found: Mapping[TopicPartition, FoundOffset]) -> list[dict[str, Any]]:
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "offset": None if row.offset < 0 else row.offset,
            "timestamp": None if row.timestamp < 0 else row.timestamp,
        }
        for place, row in found.items()
    ]


def deletion_table(rows: Sequence[Deletion]) -> Table:
    columns = [
        Column("TOPIC"),
        Column("PARTITION", True),
        Column("BEGAN AT", True),
        Column("BEGINS AT", True),
        Column("DELETED", True),
    ]
    cells = [
        [row.place.topic, *map(str, (row.place.partition, row.before, row.now, row.now - row.before))]
        for row in rows
        if not row.outcome.error
    ]
    return Table(columns, cells)


def deletion_json(row: Deletion) -> dict[str, Any]:
    refused = bool(row.outcome.error)
    return {
        "topic": row.place.topic,
        "partition": row.place.partition,
        "began_at": row.before,
        "begins_at": None if refused else row.now,
        "error": row.outcome.error.name if refused else None,
    }


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


def total_count(topic: Topic, counts: PerPartition) -> int | None:
    """None when it is not known of every partition."""
    known = [counts.get(TopicPartition(topic.name, part.number)) for part in topic.partitions]
    return None if None in known else sum(count for count in known if count is not None)


def total_size(topic: Topic, sizes: PerPartition) -> int:
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
