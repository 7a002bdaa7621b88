"""Partitions and moments as people name them on a command line.

Owns: TOPIC, TOPIC:N and TOPIC:N,M; ISO times; durations as `1h30m` or Kafka's `PT1H30M`; names of states in any case.
Never knows: what is done with them. Invariant: what cannot be understood is wrong usage (exit code 2) and named as it
was written.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ottla.base.vocabulary import TopicPartition
    from ottla.client.cluster import Cluster

_ISO = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_SHORT = re.compile(r"(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_UNIT_SECONDS = (7 * 86_400, 86_400, 3_600, 60, 1)


def parse_partitions(text: str) -> tuple[str, tuple[int, ...]]:
    """The topic and the numbers after its colon; none: all partitions."""
    topic, colon, numbers = text.partition(":")
    if not topic or (colon and not numbers):
        raise typer.BadParameter(f"{text!r} is not TOPIC, TOPIC:N or TOPIC:N,M")
    return topic, tuple(whole_number(number, text) for number in numbers.split(",")) if colon else ()


def parse_partition(text: str) -> "TopicPartition":
    """Exactly one partition, TOPIC:N."""
    from ottla.base.vocabulary import TopicPartition

    topic, numbers = parse_partitions(text)
    if len(numbers) != 1:
        raise typer.BadParameter(f"{text!r} is not one partition; write TOPIC:N")
    return TopicPartition(topic, numbers[0])


def whole_number(text: str, whole: str) -> int:
    """A number that stands in `whole`."""
    if not (text.isascii() and text.isdigit()):
        raise typer.BadParameter(f"{text!r} in {whole!r} is not a number")
    return int(text)


async def partitions_named(cluster: "Cluster", names: Sequence[str], seconds: float) -> "list[TopicPartition]":
    """The partitions of such names, each once. Raises BrokerError for what the cluster does not have."""
    from ottla.base.vocabulary import TopicPartition
    from ottla.client.admin.topics import TopicAdmin
    from ottla.client.cluster import Cluster
    from ottla.client.errors import BrokerError

    wanted = [parse_partitions(name) for name in names]
    described = await TopicAdmin(cluster).describe_topics(sorted({topic for topic, _ in wanted}), seconds)
    found: list[TopicPartition] = []
    for name, numbers in wanted:
        topic = described[name]
        if isinstance(topic, BrokerError):
            raise topic
        for number in numbers:
            if number >= len(topic.partitions):
                raise Cluster.leaderless(TopicPartition(name, number), topic)
        found += [TopicPartition(name, number) for number in numbers or range(len(topic.partitions))]
    return list(dict.fromkeys(found))


def parse_moment(text: str, option: str) -> int:
    """Milliseconds since 1970 of an ISO time, which is local where it names no zone."""
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a time such as 2026-01-31T12:00", param_hint=option) from None


def parse_duration(text: str, option: str) -> int:
    """Milliseconds of a duration."""
    matched = _ISO.fullmatch(text) or _SHORT.fullmatch(text)
    if matched is None or not any(matched.groups()):
        raise typer.BadParameter(f"{text!r} is not a duration such as 1h30m, 7d or PT1H30M", param_hint=option)
    parts = zip(matched.groups(), _UNIT_SECONDS, strict=True)
    return int(1000 * sum(float(number) * unit for number, unit in parts if number))


def spelled(texts: Sequence[str] | None, known: Sequence[str], option: str) -> list[str]:
    """Words as the protocol spells them, however they were typed."""
    spellings = {name.lower(): name for name in known}
    for text in texts or ():
        if text.lower() not in spellings:
            raise typer.BadParameter(f"{text!r} is none of {', '.join(known)}", param_hint=option)
    return [spellings[text.lower()] for text in texts or ()]
