"""Fetch sessions: a broker remembers what a consumer reads, and only changes travel.

Owns: what one broker was told, the session's number and its count of requests. Pure: never knows connections or
records. Invariant: after `answered` the broker knows exactly the partitions of the last request; after `reset` it knows
none, and the next request names all of them.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.wire.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

FIRST_EPOCH = 0
_LARGEST_EPOCH = 2**31 - 1


class WantedRead(NamedTuple):
    """How a partition is read."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    max_bytes: int


class SessionFields(NamedTuple):
    """The parts of a request that a session decides."""

    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class FetchSession:
    """The session with one broker."""

    __slots__ = ("_epoch", "_id", "_known", "_names")

    def __init__(self) -> None:
        self._id = 0
        self._epoch = FIRST_EPOCH
        self._known: dict[TopicPartition, WantedRead] = {}
        self._names: dict[bytes, str] = {}

    def request(self, wanted: Mapping[TopicPartition, WantedRead]) -> SessionFields:
        """What to tell the broker so that it reads these and nothing else."""
        known = self._known
        changed = {place: how for place, how in wanted.items() if known.get(place) != how}
        gone: dict[tuple[str, bytes], list[int]] = {}
        for place, how in known.items():
            now = wanted.get(place)
            if now is None or now.topic_id != how.topic_id:
                gone.setdefault((place.topic, how.topic_id), []).append(place.partition)
        self._known = dict(wanted)
        self._names = {how.topic_id: place.topic for place, how in wanted.items()}
        topics: dict[str, FetchTopic] = {}
        for place, how in changed.items():
            row = FetchPartition(place.partition, how.leader_epoch, how.offset, partition_max_bytes=how.max_bytes)
            topic = topics.get(place.topic)
            if topic is None:
                topic = topics[place.topic] = FetchTopic(place.topic, how.topic_id, [])
            assert isinstance(topic.partitions, list)
            topic.partitions.append(row)
        forgotten = [ForgottenTopic(name, topic_id, numbers) for (name, topic_id), numbers in gone.items()]
        return SessionFields(self._id, self._epoch, list(topics.values()), forgotten)

    def name_of(self, topic_id: bytes) -> str:
        """The topic of the last request that has this id."""
        return self._names.get(topic_id, "")

    def answered(self, session_id: int) -> None:
        """The broker took the request; without a session of its own it remembers nothing."""
        if session_id == 0:
            self.reset()
            return
        self._epoch = self._epoch + 1 if session_id == self._id and self._epoch < _LARGEST_EPOCH else 1
        self._id = session_id

    def reset(self) -> None:
        """Begin anew: the broker forgot the session, or the connection is another."""
        self._id = 0
        self._epoch = FIRST_EPOCH
        self._known = {}
