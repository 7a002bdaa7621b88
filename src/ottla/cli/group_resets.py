"""Where a group shall go on to read: working a reset out, in every form Kafka's own tool has, and writing it down.

Owns: the ways to say where (`Aim`), the plan, its tables, JSON and Kafka's CSV. Never knows: options and printing.
Invariants: a plan names only offsets its partition has (what lies outside is moved to the nearest end); making one
changes nothing.
"""

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.cli.failures import Failure
from ottla.cli.output import Column, Table
from ottla.client.cluster import Cluster
from ottla.client.offsets import EARLIEST, LATEST, find_offsets, raise_errors


class Way(Enum):
    """How a reset says where."""

    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    CURRENT = "--to-current"
    OFFSET = "--to-offset"
    SHIFT = "--shift-by"
    MOMENT = "--to-datetime"
    FILE = "--from-file"


class Aim(NamedTuple):
    """Where to: `number` is the offset, the shift or the moment in milliseconds; `offsets` what a file asks for."""

    way: Way
    number: int = 0
    offsets: Mapping[TopicPartition, int] = {}


class Bounds(NamedTuple):
    """The first offset of a partition and the next one to be written."""

    first: int
    end: int


class ResetStep(NamedTuple):
    """One partition of a plan: where the group is (None: nowhere yet), where it shall be, and where that lies."""

    group: str
    partition: TopicPartition
    current: int | None
    target: int
    bounds: Bounds

    @property
    def lag(self) -> int:
        """What there will be to read."""
        return max(0, self.bounds.end - self.target)


async def plan_reset(
    cluster: Cluster,
    group: str,
    aim: Aim,
    places: Collection[TopicPartition],
    committed: Mapping[TopicPartition, int],
    seconds: float,
) -> list[ResetStep]:
    """A step for each partition, in order."""
    deadline = cluster.deadline(seconds)

    async def offsets(moment: int) -> dict[TopicPartition, int]:
        found = await find_offsets(cluster, dict.fromkeys(places, moment), deadline)
        raise_errors(found)
        return {place: answer.offset for place, answer in found.items()}

    first, end = await offsets(EARLIEST), await offsets(LATEST)
    by_time = await offsets(aim.number) if aim.way is Way.MOMENT else {}
    steps = []
    for place in sorted(places):
        bounds = Bounds(first[place], end[place])
        target = target_of(aim, place, committed.get(place), bounds, by_time.get(place, -1))
        steps.append(ResetStep(group, place, committed.get(place), target, bounds))
    return steps


def target_of(aim: Aim, place: TopicPartition, current: int | None, bounds: Bounds, by_time: int) -> int:
    """The offset a partition is to be read from; `by_time` is the first at or after the moment, -1 when none is."""
    way = aim.way
    if way is Way.EARLIEST:
        return bounds.first
    if way is Way.LATEST:
        return bounds.end
    if way is Way.CURRENT:
        return bounds.end if current is None else current
    if way is Way.MOMENT:
        return bounds.end if by_time < 0 else by_time
    if way is Way.SHIFT:
        if current is None:
            raise Failure(
                f"the group has no offset in {place.topic}:{place.partition} that could be shifted; "
                "leave that partition out, or say where with --to-earliest, --to-latest or --to-offset"
            )
        return within(current + aim.number, bounds)
    return within(aim.number if way is Way.OFFSET else aim.offsets[place], bounds)


def within(offset: int, bounds: Bounds) -> int:
    return min(max(offset, bounds.first), bounds.end)


def plan_table(steps: Sequence[ResetStep]) -> Table:
    columns = [
        Column("GROUP"),
        Column("TOPIC"),
        Column("PARTITION", True),
        Column("NOW", True),
        Column("THEN", True),
        Column("LAG THEN", True),
    ]
    rows = [
        [
            step.group,
            step.partition.topic,
            str(step.partition.partition),
            "-" if step.current is None else str(step.current),
            str(step.target),
            str(step.lag),
        ]
        for step in steps
    ]
    return Table(columns, rows)


def plan_json(steps: Sequence[ResetStep]) -> list[dict[str, Any]]:
    return [
        {
            "group": step.group,
            "topic": step.partition.topic,
            "partition": step.partition.partition,
            "current": step.current,
            "offset": step.target,
            "lag": step.lag,
        }
        for step in steps
    ]


def plan_csv(steps: Sequence[ResetStep], groups: Sequence[str]) -> str:
    """Kafka's own form: topic,partition,offset, with the group before them where there are several."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    for step in steps:
        row = [step.partition.topic, step.partition.partition, step.target]
        writer.writerow(row if len(groups) == 1 else [step.group, *row])
    return text.getvalue()


def read_csv(content: str, name: str, groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """The offsets of each group that a file asks for, in either form."""
    wanted: dict[str, dict[TopicPartition, int]] = {}
    for number, row in enumerate(csv.reader(io.StringIO(content)), start=1):
        if not row:
            continue
        try:
            if len(row) == 3 and len(groups) == 1:
                row = [groups[0], *row]
            group, topic, partition, offset = row
            place, asked = TopicPartition(topic, int(partition)), int(offset)
        except ValueError:
            form = "topic,partition,offset" if len(groups) == 1 else "group,topic,partition,offset"
            raise Failure(f"line {number} of {name} is not {form}: {','.join(row)!r}") from None
        wanted.setdefault(group, {})[place] = asked
    return wanted
