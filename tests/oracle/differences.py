"""Where ottla answers otherwise than Kafka on purpose. One function a difference, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kit.wire.messages import API_KEYS
from oracle.cases import VERSIONS

Pair = tuple[Any, Any]


def _pairs(ours: Any, theirs: Any) -> Iterator[Pair]:
    """Every pair of dictionaries at the same place of the two answers."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        yield ours, theirs
        for key in ours.keys() & theirs.keys():
            yield from _pairs(ours[key], theirs[key])
    elif isinstance(ours, list) and isinstance(theirs, list):
        for mine, other in zip(ours, theirs, strict=False):
            yield from _pairs(mine, other)


def says_why_a_write_was_refused(ours: Any, theirs: Any) -> None:
    """Kafka refuses most batches with a bare code and, depending on where in its code the check lies, with or without
    the start of the log. ottla says why in words and always tells the start."""
    for mine, other in _pairs(ours, theirs):
        if "base_offset" in mine and other.get("error_code") not in (None, "none"):
            if other.get("error_message", "") is None:
                mine["error_message"] = None
            if "log_start_offset" in other:
                mine["log_start_offset"] = other["log_start_offset"]


def answers_what_kafka_stumbles_over(ours: Any, theirs: Any) -> None:
    """An unknown isolation level, a negative limit, the zero topic id: Kafka answers "unknown server error", the code
    of its own faults. ottla reads the level as the lowest, the limit as zero, and knows no topic of that id."""
    for position, other in enumerate(theirs):
        if "unknown_server_error" in str(other) and "unknown_server_error" not in str(ours[position]):
            ours[position] = other


def speaks_what_is_built(ours: Any, theirs: Any) -> None:
    """APIs that ottla does not serve yet are not in its list; those it serves have Kafka's ranges. Features that need
    them are not named either; ottla's own formats begin with the newest level, as it has no older nodes to talk to."""
    spoken = {row["api_key"] for row in ours[0]["api_keys"]} | {API_KEYS[api] for api in VERSIONS}
    theirs[0]["api_keys"] = [row for row in theirs[0]["api_keys"] if row["api_key"] in spoken]
    for field in ("supported_features", "finalized_features"):
        if field in ours[0]:
            named = {row["name"] for row in ours[0][field]}
            theirs[0][field] = [row for row in theirs[0][field] if row["name"] in named]
    for mine, other in _pairs(ours[0].get("supported_features"), theirs[0].get("supported_features")):
        if mine["name"] in ("metadata.version", "kraft.version"):
            mine.update(other)


def leaves_the_inside_of_batches_alone(ours: Any, theirs: Any) -> None:
    """Kafka walks through the records of every batch and corrects or refuses what does not fit its header. ottla reads
    the header and the checksum: a batch that a client built wrongly and signed is kept as it is, which is where the
    speed comes from. Where a topic's settings ask for a look inside (keys, timestamps, compression), it looks."""
    ours[:] = theirs


def names_a_topic_without_partitions(ours: Any, theirs: Any) -> None:
    """A commit for no partition of a topic: Kafka leaves the topic out of its answer, ottla answers what was asked."""
    assert not any(topic["partitions"] for topic in ours[0]["topics"])
    ours[0]["topics"] = []


BY_API: dict[str, Callable[[Any, Any], None]] = {
    "produce": says_why_a_write_was_refused,
    "fetch": answers_what_kafka_stumbles_over,
    "create_partitions": answers_what_kafka_stumbles_over,
    "api_versions": speaks_what_is_built,
}
BY_CASE: dict[str, Callable[[Any, Any], None]] = {
    "write too high a record count": leaves_the_inside_of_batches_alone,
    "write too low a record count": leaves_the_inside_of_batches_alone,
    "write garbage for records": leaves_the_inside_of_batches_alone,
    "write garbage for gzip": leaves_the_inside_of_batches_alone,
    "commit to no partition": names_a_topic_without_partitions,
}


def allow(case: str, api: str, ours: list[Any], theirs: list[Any]) -> None:
    """Take the deliberate differences out of both answers."""
    for difference in (BY_API.get(api), BY_CASE.get(case)):
        if difference is not None:
            difference(ours, theirs)
