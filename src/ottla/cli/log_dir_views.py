"""What `ottla cluster log-dirs` shows, made from what the brokers told of their directories.

Owns: the sums, rows and JSON documents. Never knows: how they were asked for, or printing. Pure functions of values.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.cli.output import Column, Table, size_text
from ottla.client.admin.nodes import LogDirectory, StoredReplica

Directories = Mapping[int, Sequence[LogDirectory]]

_ONLINE = "online"


def of_topics(directories: Directories, topics: Sequence[str]) -> Directories:
    """The directories with the replicas of these topics alone; none named: all."""
    if not topics:
        return directories
    return {
        broker: [
            directory._replace(
                replicas={place: stored for place, stored in directory.replicas.items() if place.topic in topics}
            )
            for directory in found
        ]
        for broker, found in directories.items()
    }


def directories_table(directories: Directories) -> Table:
    columns = [
        Column("BROKER", True),
        Column("DIRECTORY"),
        Column("STATE", good=frozenset({_ONLINE})),
        Column("REPLICAS", True),
        Column("SIZE", True),
        Column("FREE", True),
        Column("OF", True),
    ]
    rows = [
        [
            str(broker),
            directory.path,
            _state(directory),
            str(len(directory.replicas)),
            size_text(_size(directory)),
            _bytes(directory.usable_bytes),
            _bytes(directory.total_bytes),
        ]
        for broker, found in sorted(directories.items())
        for directory in found
    ]
    return Table(columns, rows)


def topics_table(directories: Directories) -> Table:
    """What each topic takes on each broker, the largest first."""
    sizes: Counter[tuple[str, int]] = Counter()
    counts: Counter[tuple[str, int]] = Counter()
    for broker, found in directories.items():
        for directory in found:
            for place, stored in directory.replicas.items():
                sizes[place.topic, broker] += stored.size
                counts[place.topic, broker] += 1
    columns = [Column("TOPIC"), Column("BROKER", True), Column("REPLICAS", True), Column("SIZE", True)]
    order = sorted(sizes, key=lambda key: (-sum(size for (topic, _), size in sizes.items() if topic == key[0]), key))
    rows = [
        [topic, str(broker), str(counts[topic, broker]), size_text(sizes[topic, broker])] for topic, broker in order
    ]
    return Table(columns, rows)


def replicas_table(directories: Directories) -> Table:
    columns = [
        Column("TOPIC"),
        Column("PARTITION", True),
        Column("BROKER", True),
        Column("DIRECTORY"),
        Column("SIZE", True),
        Column("LAG", True),
        Column("STATE"),
    ]
    rows = [
        [
            place.topic,
            str(place.partition),
            str(broker),
            directory.path,
            size_text(stored.size),
            str(stored.offset_lag),
            "moving here" if stored.future else "current",
        ]
        for broker, found in directories.items()
        for directory in found
        for place, stored in directory.replicas.items()
    ]
    return Table(columns, sorted(rows, key=lambda row: (row[0], int(row[1]), int(row[2]))))


def directories_json(directories: Directories) -> list[dict[str, Any]]:
    return [
        {
            "broker": broker,
            "directory": directory.path,
            "error": None if directory.outcome.error == ErrorCode.NONE else directory.outcome.error.name,
            "size": _size(directory),
            "total": directory.total_bytes if directory.total_bytes >= 0 else None,
            "usable": directory.usable_bytes if directory.usable_bytes >= 0 else None,
            "replicas": [_replica_json(*each) for each in sorted(directory.replicas.items())],
        }
        for broker, found in sorted(directories.items())
        for directory in found
    ]


def _replica_json(place: TopicPartition, stored: StoredReplica) -> dict[str, Any]:
    return {
        "topic": place.topic,
        "partition": place.partition,
        "size": stored.size,
        "lag": stored.offset_lag,
        "future": stored.future,
    }


def _size(directory: LogDirectory) -> int:
    return sum(stored.size for stored in directory.replicas.values())


def _state(directory: LogDirectory) -> str:
    error = directory.outcome.error
    if error == ErrorCode.NONE:
        return _ONLINE
    return "offline" if error == ErrorCode.KAFKA_STORAGE_ERROR else error.name


def _bytes(count: int) -> str:
    return size_text(count) if count >= 0 else "?"
