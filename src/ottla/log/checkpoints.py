"""Kafka's checkpoint files: one offset for each partition of a log directory.

Owns: the text format (version, count, `topic partition offset` lines) and the four file names. Never knows: what the
offsets are used for. Invariant: a file that does not parse whole is refused whole; half a checkpoint is no checkpoint.
"""

import os
from collections.abc import Mapping
from enum import Enum

from ottla.base.ports import Disk
from ottla.base.vocabulary import TopicPartition
from ottla.log.whole_file import read_whole

VERSION = 0


class Checkpoint(Enum):
    """The checkpoint files of a log directory, by name."""

    RECOVERY_POINT = "recovery-point-offset-checkpoint"
    START_OFFSET = "log-start-offset-checkpoint"
    HIGH_WATERMARK = "replication-offset-checkpoint"
    CLEANED = "cleaner-offset-checkpoint"


class BadCheckpoint(Exception):
    """A checkpoint file that cannot be understood; the message says which line and what to do."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} cannot be read: {reason}; remove it to have its offsets worked out from the logs.")
        self.path = path
        self.reason = reason


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """The text of a checkpoint file."""
    lines = [f"{VERSION}\n{len(offsets)}\n"]
    lines.extend([f"{topic} {partition} {offset}\n" for (topic, partition), offset in offsets.items()])
    return "".join(lines).encode()


def parse_offsets(content: bytes, path: str) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint's text; an empty file is an empty checkpoint. Raises BadCheckpoint."""
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError as error:
        raise BadCheckpoint(path, "it is not text") from error
    if not lines:
        return {}
    if lines[0] != str(VERSION):
        raise BadCheckpoint(path, f"its version is {lines[0]!r} where {VERSION} was expected")
    offsets: dict[TopicPartition, int] = {}
    for number, line in enumerate(lines[2:], start=3):
        try:
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError as error:
            raise BadCheckpoint(path, f"line {number} is not 'topic partition offset': {line!r}") from error
    if len(lines) > 1 and lines[1] != str(len(lines) - 2):
        raise BadCheckpoint(path, f"it promises {lines[1]} entries and holds {len(lines) - 2}")
    return offsets


def read_checkpoint(disk: Disk, directory: str, kind: Checkpoint) -> dict[TopicPartition, int]:
    """The offsets of one file of a log directory; none when it is not there. Raises BadCheckpoint and OSError."""
    path = os.path.join(directory, kind.value)
    content = read_whole(disk, path)
    return {} if content is None else parse_offsets(content, path)
