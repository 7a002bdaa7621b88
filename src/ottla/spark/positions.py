"""Where reading begins and ends, as users and checkpoints write it.

Owns: the JSON of Spark's Kafka source (`{"topic": {"0": 23}}`, -2 for the earliest and -1 for the latest offset), what
a checkpoint keeps besides, the words around it and their meaning per partition. Never knows: clusters, Spark.
Invariants: what cannot be understood is a `BadOption` that names the option; a bound answers for every partition that
it is asked for, or says which it does not know; checkpoints of Spark's Kafka source are understood as our own.
"""

import json
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.spark.errors import BadOption, CheckpointMismatch

LATEST, EARLIEST = -1, -2
_GROUP = "group:"

Offsets = dict[TopicPartition, int]


class BoundKind(Enum):
    """What a bound is made of."""

    OFFSETS = "offsets"
    MOMENTS = "moments"
    GROUP = "group"


class Bound(NamedTuple):
    """One end of what is read; `everywhere` is for the partitions that `by_partition` does not name."""

    kind: BoundKind
    everywhere: int | None = None
    by_partition: Mapping[TopicPartition, int] = {}
    group: str = ""
    option: str = ""

    def of(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Offset (with LATEST and EARLIEST) or moment of each partition."""
        found: Offsets = {}
        missing = []
        for partition in partitions:
            value = self.by_partition.get(partition, self.everywhere)
            if value is None:
                missing.append(str(partition))
            else:
                found[partition] = value
        if missing:
            raise BadOption(f"{self.option} says nothing about {', '.join(missing)}: it must name every partition")
        return found


BEGINNING = Bound(BoundKind.OFFSETS, EARLIEST)
END = Bound(BoundKind.OFFSETS, LATEST)


def parse_offsets(option: str, text: str) -> Bound:
    """`earliest`, `latest`, `group:NAME` or JSON."""
    word = text.strip()
    if word.lower() == "earliest":
        return Bound(BoundKind.OFFSETS, EARLIEST, option=option)
    if word.lower() == "latest":
        return Bound(BoundKind.OFFSETS, LATEST, option=option)
    if word.startswith(_GROUP):
        if not word[len(_GROUP) :]:
            raise BadOption(f"{option} names no group: write group:NAME")
        return Bound(BoundKind.GROUP, group=word[len(_GROUP) :], option=option)
    by_partition = parse_json(option, word, least=EARLIEST)
    return Bound(BoundKind.OFFSETS, None, by_partition, option=option)


def parse_moment(option: str, text: str) -> Bound:
    """Milliseconds since 1970, for all partitions."""
    try:
        moment = int(text)
    except ValueError:
        moment = -1
    if moment < 0:
        raise BadOption(f"{option} cannot be {text!r}: allowed are milliseconds since 1970")
    return Bound(BoundKind.MOMENTS, moment, option=option)


def parse_moments(option: str, text: str) -> Bound:
    """JSON with milliseconds since 1970."""
    return Bound(BoundKind.MOMENTS, None, parse_json(option, text, least=0), option=option)


def parse_json(option: str, text: str, least: int) -> Offsets:
    """Numbers by topic and partition."""
    found: Offsets = {}
    try:
        for topic, numbers in json.loads(text).items():
            for partition, number in numbers.items():
                if type(number) is not int or number < least or int(partition) < 0:
                    raise ValueError
                found[TopicPartition(topic, int(partition))] = number
    except (ValueError, AttributeError, RecursionError):
        example = '{"topic": {"0": 23, "1": -2}}' if least < 0 else '{"topic": {"0": 1700000000000}}'
        words = ", earliest, latest or group:NAME" if least < 0 else ""
        raise BadOption(f"{option} cannot be {text!r}: allowed is JSON like {example}{words}") from None
    return found


def parse_assignment(option: str, text: str) -> tuple[TopicPartition, ...]:
    """`{"topic": [0, 1]}`."""
    found: dict[TopicPartition, None] = {}
    try:
        for topic, numbers in json.loads(text).items():
            for number in numbers:
                if type(number) is not int or number < 0:
                    raise ValueError
                found[TopicPartition(topic, number)] = None
    except (ValueError, AttributeError, TypeError, RecursionError):
        found.clear()
    if not found:
        raise BadOption(f'{option} cannot be {text!r}: allowed is JSON like {{"topic": [0, 1]}}')
    return tuple(sorted(found))


class Reached(NamedTuple):
    """How far a stream is, and what its next start has to know: without it a topic that was made again looks like the
    one before, and a batch that is run again begins where the log happens to begin by then."""

    offsets: Offsets
    ids: Mapping[str, str] = {}
    """Of the topics; empty where brokers have none, and in checkpoints of others."""
    begun: Mapping[TopicPartition, int] = {}
    """Where the batch that ends here began, in partitions that did not go on from the batch before."""
    initial: bool = False
    """Nothing was read yet: this is where the first batch begins."""


_LARGEST_OFFSET = (1 << 63) - 1
_SHOWN = 200
"""Characters of what cannot be understood."""
# What an offset of a checkpoint says beside the offset: design/0027.
_BESIDES = ""
"""Where a checkpoint keeps what is no offset: a name that no topic can have."""


def to_checkpoint(reached: Reached) -> dict[str, Any]:
    """The form a query's checkpoint keeps: that of Spark's Kafka source, and one name more."""
    besides: dict[str, Any] = {}
    if reached.ids:
        besides["ids"] = dict(sorted(reached.ids.items()))
    if reached.begun:
        besides["begun"] = _by_topic(reached.begun)
    if reached.initial:
        besides["initial"] = True
    return ({_BESIDES: besides} if besides else {}) | _by_topic(reached.offsets)


def from_checkpoint(form: Mapping[str, Any]) -> Reached:
    """CheckpointMismatch when somebody else wrote it, as where the source of a query was changed for another."""
    try:
        besides = form.get(_BESIDES, {})
        begun = _from_topics(besides.get("begun", {}))
        ids = {str(topic): str(identity) for topic, identity in besides.get("ids", {}).items()}
        return Reached(_from_topics(plain(form)), ids, begun, bool(besides.get("initial", False)))
    except (ValueError, AttributeError):
        raise CheckpointMismatch(
            f"the checkpoint says {str(form)[:_SHOWN]}, which are no offsets of topics: it belongs to another source, "
            "or was damaged. Bring the right one back, or begin with a new checkpointLocation."
        ) from None


def plain(form: Mapping[str, Any]) -> dict[str, Any]:
    """The offsets of a checkpoint alone, as Spark's Kafka source would write them."""
    return {topic: numbers for topic, numbers in form.items() if topic != _BESIDES}


def _by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    form: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        form.setdefault(topic, {})[str(partition)] = offset
    return form


def _from_topics(form: Mapping[str, Mapping[str, int]]) -> Offsets:
    found: Offsets = {}
    for topic, numbers in form.items():
        for partition, offset in numbers.items():
            if type(offset) is not int or not 0 <= offset <= _LARGEST_OFFSET:
                raise ValueError
            found[TopicPartition(topic, int(partition))] = offset
    return found
