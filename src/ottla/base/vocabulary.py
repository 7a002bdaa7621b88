"""The words every room shares: identities and positions.

Owns: the names of partitions, topic ids and their text form. Never knows: bytes on the wire, files, time.
Invariant: a topic id is always 16 bytes; its text is Kafka's URL-safe base64 without padding.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple, NewType

TopicId = NewType("TopicId", bytes)

NO_TOPIC_ID = TopicId(bytes(16))
NO_PRODUCER_ID = -1
NO_TIMESTAMP = -1


class TopicPartition(NamedTuple):
    """One partition of one topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def identity_text(identity: bytes) -> str:
    """The text Kafka shows for a 16-byte id (topic, directory, cluster)."""
    return urlsafe_b64encode(identity).rstrip(b"=").decode()


def identity_bytes(text: str) -> bytes:
    """The 16 bytes behind an id's text; ValueError when it is not such a text."""
    raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"not a 16-byte id: {text!r}")
    return raw
