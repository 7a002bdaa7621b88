"""What `ottla top` shows: two looks at a cluster, and what happened between them.

Owns: rates, lag and time to catch up; the tables and the JSON document. Never knows: how a look is taken, terminals.
Pure functions of values. Invariant: what went backwards between two looks (a topic made anew, old records deleted)
counts as nothing, never as a negative rate.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.cli.cluster_views import (
    OFFLINE,
    UNDER_REPLICATED,
    Trouble,
    controller_of,
    counts,
    leader_skew,
    trouble_json,
    trouble_table,
    troubles,
)
from ottla.cli.group_views import FINE
from ottla.cli.output import Column, Table, size_text
from ottla.cli.top_looks import GroupLook, Look

SHOWN_TROUBLES = 5
"""Partitions in trouble that are named; 'ottla cluster status' names more."""


class TopicFigures(NamedTuple):
    name: str
    partitions: int
    under_replicated: int
    offline: int
    records_in: float
    bytes_in: float
    records_out: float
    records: int
    size: int


class BrokerFigures(NamedTuple):
    id: int
    address: str
    fenced: bool
    leaders: int
    replicas: int
    in_sync: int
    records_in: float
    bytes_in: float
    records_out: float
    size: int


class GroupFigures(NamedTuple):
    name: str
    state: str
    members: int | None
    records_out: float
    lag: int
    catch_up: float | None
    """Seconds until it has caught up at this pace; None when it never will, or has."""


class Frame(NamedTuple):
    """What is shown at once; rates are a second."""

    cluster_id: str
    controller: int
    seconds: float
    skew: float
    troubles: tuple[Trouble, ...]
    topics: tuple[TopicFigures, ...]
    brokers: tuple[BrokerFigures, ...]
    groups: tuple[GroupFigures, ...]

    def troubled(self, kind: str) -> int:
        """How many partitions that is wrong with."""
        return sum(kind in trouble.kinds for trouble in self.troubles)


def frame(before: Look, after: Look, *, internal: bool) -> Frame:
    """The busiest first; `internal`: also the cluster's own topics."""
    seconds = max(after.moment - before.moment, 1e-9)
    written = _grown(before.ends, after.ends)
    read = _read(before.groups, after.groups)
    leaders = {
        TopicPartition(topic.name, part.number): part.leader
        for topic in after.status.topics
        for part in topic.partitions
    }
    grown = _grown(_led_sizes(before.sizes, leaders), _led_sizes(after.sizes, leaders))
    rates = _Rates(written, grown, read, seconds)
    return Frame(
        after.status.state.cluster_id,
        controller_of(after.status),
        seconds,
        leader_skew(after.status),
        tuple(troubles(after.status)),
        tuple(sorted(_topics(after, rates, leaders, internal), key=lambda each: (-each.records_in, -each.size, each))),
        tuple(_brokers(after, rates, leaders)),
        tuple(sorted(_groups(before, after, seconds), key=lambda each: (-each.lag, each.name))),
    )


class _Rates(NamedTuple):
    """What each partition gained in so many seconds."""

    records: Mapping[TopicPartition, int]
    bytes: Mapping[TopicPartition, int]
    read: Mapping[TopicPartition, int]
    seconds: float

    def of(self, places: Iterable[TopicPartition]) -> tuple[float, float, float]:
        chosen = list(places)
        return (
            sum(self.records.get(place, 0) for place in chosen) / self.seconds,
            sum(self.bytes.get(place, 0) for place in chosen) / self.seconds,
            sum(self.read.get(place, 0) for place in chosen) / self.seconds,
        )


def _grown(before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """By how much; a partition that was not there before has begun at nothing."""
    return {place: max(0, number - before.get(place, 0)) for place, number in after.items()}


def _read(before: Mapping[str, GroupLook], after: Mapping[str, GroupLook]) -> Counter[TopicPartition]:
    """What all groups together went on by. A group's first commit says nothing of its pace."""
    read: Counter[TopicPartition] = Counter()
    for name, group in after.items():
        known = before[name].committed if name in before else {}
        for place, offset in group.committed.items():
            read[place] += max(0, offset - known.get(place, offset))
    return read


def _led_sizes(
    sizes: Mapping[int, Mapping[TopicPartition, int]], leaders: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Bytes of each partition at the broker that leads it."""
    return {place: sizes[leader][place] for place, leader in leaders.items() if place in sizes.get(leader, ())}


def _topics(
    after: Look, rates: _Rates, leaders: Mapping[TopicPartition, int], internal: bool
) -> Iterable[TopicFigures]:
    sizes = _led_sizes(after.sizes, leaders)
    for topic in after.status.topics:
        if topic.internal and not internal:
            continue
        places = [TopicPartition(topic.name, part.number) for part in topic.partitions]
        yield TopicFigures(
            topic.name,
            len(places),
            sum(len(part.in_sync) < len(part.replicas) for part in topic.partitions),
            sum(part.leader < 0 for part in topic.partitions),
            *rates.of(places),
            sum(after.ends.get(place, 0) for place in places),
            sum(sizes.get(place, 0) for place in places),
        )


def _brokers(after: Look, rates: _Rates, leaders: Mapping[TopicPartition, int]) -> Iterable[BrokerFigures]:
    for broker in after.status.state.brokers:
        carried = counts(after.status, broker.node_id)
        led = [place for place, leader in leaders.items() if leader == broker.node_id]
        yield BrokerFigures(
            broker.node_id,
            str(broker.address),
            broker.fenced,
            carried.leaders,
            carried.replicas,
            carried.in_sync,
            *rates.of(led),
            sum(after.sizes.get(broker.node_id, {}).values()),
        )


def _groups(before: Look, after: Look, seconds: float) -> Iterable[GroupFigures]:
    for name, group in after.groups.items():
        known = before.groups[name].committed if name in before.groups else {}
        pace = sum(max(0, offset - known.get(place, offset)) for place, offset in group.committed.items()) / seconds
        lag = _lag(group, after.ends)
        gained = _lag(before.groups[name], before.ends) - lag if name in before.groups else 0
        catch_up = lag / (gained / seconds) if lag and gained > 0 else None
        yield GroupFigures(name, group.state, group.members, pace, lag, catch_up)


def _lag(group: GroupLook, ends: Mapping[TopicPartition, int]) -> int:
    return sum(max(0, ends[place] - offset) for place, offset in group.committed.items() if place in ends)


# --- shown ------------------------------------------------------------------------------------------------------------


def heading(shown: Frame) -> str:
    """The line above the tables."""
    records = sum(broker.records_in for broker in shown.brokers)
    volume = sum(broker.bytes_in for broker in shown.brokers)
    trouble = [f"{number} {kind}" for kind in (OFFLINE, UNDER_REPLICATED) if (number := shown.troubled(kind))]
    return (
        f"cluster {shown.cluster_id}  controller {shown.controller if shown.controller >= 0 else 'none'}  "
        f"brokers {sum(not broker.fenced for broker in shown.brokers)}/{len(shown.brokers)}  "
        f"in {records:,.0f} records/s, {size_text(int(volume))}/s  "
        f"{', '.join(trouble) or 'all in sync'}  leader skew {shown.skew:.0%}"
    )


def tables(shown: Frame, most: int) -> list[Table]:
    """Those that have something in them; so many rows at most, and of partitions in trouble a few."""
    trouble = trouble_table(shown.troubles, min(most, SHOWN_TROUBLES))
    every = (brokers_table(shown), trouble, topics_table(shown, most), groups_table(shown, most))
    return [table for table in every if table.rows]


def rows_that_fit(shown: Frame, height: int) -> int:
    """How many topics and groups each a screen of so many lines has room for, beside the brokers."""
    heading_lines, table_lines, more_lines = 4, 4, 1
    left = height - heading_lines - (len(shown.brokers) + table_lines)
    if shown.troubles:
        left -= min(len(shown.troubles), SHOWN_TROUBLES) + table_lines + more_lines
    tables_left = 2 if shown.groups else 1
    return max(1, left // tables_left - table_lines - more_lines)


def brokers_table(shown: Frame) -> Table:
    columns = [
        Column("BROKER", True),
        Column("ADDRESS"),
        Column("STATE", good=frozenset({"up"})),
        Column("LEADS", True),
        Column("REPLICAS", True),
        Column("BEHIND", True),
        Column("IN/S", True),
        Column("BYTES/S", True),
        Column("OUT/S", True),
        Column("SIZE", True),
    ]
    rows = [
        [
            str(broker.id),
            broker.address,
            "fenced" if broker.fenced else "up",
            str(broker.leaders),
            str(broker.replicas),
            str(broker.replicas - broker.in_sync),
            f"{broker.records_in:,.0f}",
            size_text(int(broker.bytes_in)),
            f"{broker.records_out:,.0f}",
            size_text(broker.size),
        ]
        for broker in shown.brokers
    ]
    return Table(columns, rows)


def topics_table(shown: Frame, most: int) -> Table:
    columns = [
        Column("TOPIC"),
        Column("PARTITIONS", True),
        Column("TROUBLE", good=frozenset({"-"})),
        Column("IN/S", True),
        Column("BYTES/S", True),
        Column("OUT/S", True),
        Column("END", True),
        Column("SIZE", True),
    ]
    rows = [
        [
            topic.name,
            str(topic.partitions),
            _trouble(topic),
            f"{topic.records_in:,.0f}",
            size_text(int(topic.bytes_in)),
            f"{topic.records_out:,.0f}",
            f"{topic.records:,}",
            size_text(topic.size),
        ]
        for topic in shown.topics[:most]
    ]
    return Table(columns, _and_more(rows, len(shown.topics), most))


def groups_table(shown: Frame, most: int) -> Table:
    columns = [
        Column("GROUP"),
        Column("STATE", good=FINE),
        Column("MEMBERS", True),
        Column("OUT/S", True),
        Column("LAG", True),
        Column("CATCHES UP IN", True),
    ]
    rows = [
        [
            group.name,
            group.state,
            "?" if group.members is None else str(group.members),
            f"{group.records_out:,.0f}",
            f"{group.lag:,}",
            _duration(group),
        ]
        for group in shown.groups[:most]
    ]
    return Table(columns, _and_more(rows, len(shown.groups), most))


def frame_json(shown: Frame) -> dict[str, Any]:
    return {
        "cluster_id": shown.cluster_id,
        "controller": shown.controller if shown.controller >= 0 else None,
        "seconds": round(shown.seconds, 3),
        "leader_skew": round(shown.skew, 4),
        "under_replicated": shown.troubled(UNDER_REPLICATED),
        "offline": shown.troubled(OFFLINE),
        "troubles": [{"kind": trouble.kinds[0], **trouble_json(trouble)} for trouble in shown.troubles],
        "brokers": [_rounded(broker._asdict()) for broker in shown.brokers],
        "topics": [_rounded(topic._asdict()) for topic in shown.topics],
        "groups": [_rounded(group._asdict()) for group in shown.groups],
    }


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()}


def _trouble(topic: TopicFigures) -> str:
    found = [f"{topic.offline} offline"] if topic.offline else []
    found += [f"{topic.under_replicated} under-replicated"] if topic.under_replicated else []
    return ", ".join(found) or "-"


def _and_more(rows: list[list[str]], count: int, most: int) -> list[list[str]]:
    if count <= most or not rows:
        return rows
    return [*rows, [f"… and {count - most} more", *([""] * (len(rows[0]) - 1))]]


def _duration(group: GroupFigures) -> str:
    if not group.lag:
        return "-"
    if group.catch_up is None:
        return "never"
    seconds = int(group.catch_up)
    if seconds >= 3600:
        return f"{seconds // 3600} h {seconds % 3600 // 60} m"
    return f"{seconds // 60} m {seconds % 60} s" if seconds >= 60 else f"{seconds} s"
