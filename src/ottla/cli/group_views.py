"""What `ottla group` shows, made from what the cluster told.

Owns: the rows and JSON documents, and what lag is. Never knows: how they were asked for, or printing. Pure functions of
values.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.cli.output import Column, Table
from ottla.client.admin.groups import CommittedOffset, GroupDescription, GroupMember, ListedGroup

SHOWN_PARTITIONS = 8
"""Partitions of a member named in a table; programs get all of them."""


FINE = frozenset({"Stable", "Empty", "-"})
"""States of groups that need nobody's attention."""


class DescribedGroup(NamedTuple):
    """A group, what it has committed, and where the partitions it reads end, as far as that was told."""

    group: GroupDescription
    committed: Mapping[TopicPartition, CommittedOffset]
    ends: Mapping[TopicPartition, int]


class GroupReading(NamedTuple):
    """How far a group is in one partition, and who reads it; None where it is not known."""

    partition: TopicPartition
    committed: int | None
    end: int | None
    member: GroupMember | None
    metadata: str

    @property
    def lag(self) -> int | None:
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


def list_table(groups: Sequence[ListedGroup], members: Mapping[str, int]) -> Table:
    columns = [Column("GROUP"), Column("TYPE"), Column("PROTOCOL"), Column("STATE", good=FINE), Column("MEMBERS", True)]
    rows = [
        [
            group.group_id,
            group.kind.lower() or "-",
            group.protocol_type or "-",
            group.state or "-",
            _number(members.get(group.group_id)),
        ]
        for group in groups
    ]
    return Table(columns, rows)


def list_json(groups: Sequence[ListedGroup], members: Mapping[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "group": group.group_id,
            "type": group.kind.lower() or None,
            "protocol": group.protocol_type or None,
            "state": group.state or None,
            "members": members.get(group.group_id),
        }
        for group in groups
    ]


def readings(described: DescribedGroup) -> Iterator[GroupReading]:
    """Every partition the group has an offset in or a member for, in order."""
    owners = {place: member for member in described.group.members for place in member.assignment}
    for place in sorted({*described.committed, *owners}):
        committed = described.committed.get(place)
        yield GroupReading(
            place,
            None if committed is None else committed.offset,
            described.ends.get(place),
            owners.get(place),
            "" if committed is None else committed.metadata,
        )


def total_lag(described: DescribedGroup) -> int:
    return sum(reading.lag or 0 for reading in readings(described))


def describe_summary(described: DescribedGroup) -> str:
    """The lines above the tables."""
    group = described.group
    facts = [
        ("group", group.group_id),
        ("state", group.state),
        ("type", group.kind),
        ("assignor", group.assignor or "-"),
        ("coordinator", str(group.coordinator)),
        ("members", str(len(group.members))),
        ("lag", f"{total_lag(described):,}"),
    ]
    if group.epoch >= 0:
        facts.insert(3, ("epoch", str(group.epoch)))
    return "".join(f"{name:<12} {text}\n" for name, text in facts)


def readings_table(described: DescribedGroup) -> Table:
    columns = [
        Column("TOPIC"),
        Column("PARTITION", True),
        Column("COMMITTED", True),
        Column("END", True),
        Column("LAG", True),
        Column("MEMBER"),
        Column("HOST"),
        Column("CLIENT"),
    ]
    rows = [
        [
            reading.partition.topic,
            str(reading.partition.partition),
            _number(reading.committed),
            _number(reading.end),
            _number(reading.lag),
            "-" if reading.member is None else reading.member.member_id,
            "-" if reading.member is None else reading.member.client_host,
            "-" if reading.member is None else reading.member.client_id,
        ]
        for reading in readings(described)
    ]
    return Table(columns, rows)


def members_table(group: GroupDescription) -> Table:
    columns = [
        Column("MEMBER"),
        Column("INSTANCE"),
        Column("HOST"),
        Column("CLIENT"),
        Column("PARTITIONS", True),
        Column("ASSIGNMENT"),
    ]
    rows = [
        [
            member.member_id,
            member.instance_id or "-",
            member.client_host,
            member.client_id,
            str(len(member.assignment)),
            _assignment(member.assignment),
        ]
        for member in group.members
    ]
    return Table(columns, rows)


def describe_json(described: DescribedGroup) -> dict[str, Any]:
    group = described.group
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.kind,
        "assignor": group.assignor or None,
        "coordinator": group.coordinator,
        "epoch": group.epoch if group.epoch >= 0 else None,
        "lag": total_lag(described),
        "members": [
            {
                "member": member.member_id,
                "instance": member.instance_id,
                "host": member.client_host,
                "client": member.client_id,
                "epoch": member.epoch if member.epoch >= 0 else None,
                "assignment": [
                    {"topic": place.topic, "partition": place.partition} for place in sorted(member.assignment)
                ],
            }
            for member in group.members
        ],
        "partitions": [
            {
                "topic": reading.partition.topic,
                "partition": reading.partition.partition,
                "committed": reading.committed,
                "end": reading.end,
                "lag": reading.lag,
                "metadata": reading.metadata,
                "member": None if reading.member is None else reading.member.member_id,
            }
            for reading in readings(described)
        ],
    }


def _assignment(places: Sequence[TopicPartition]) -> str:
    """`orders:0,1,2 payments:0`, the first few."""
    by_topic: dict[str, list[str]] = {}
    for place in sorted(places)[:SHOWN_PARTITIONS]:
        by_topic.setdefault(place.topic, []).append(str(place.partition))
    text = " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in by_topic.items())
    return f"{text} …" if len(places) > SHOWN_PARTITIONS else text or "-"


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
