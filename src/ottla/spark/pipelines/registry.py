"""Where pipelines are heard of: compacted topics on the cluster they read from.

Owns: the topics, their keys, reading and writing them. Never knows: Spark, what the documents say beyond their state.
Invariants: the last document of a key counts, and null takes it away; who only looks makes no topics.

`ottla.pipelines` has a document under each pipeline's name and a request under `NAME/request`;
`ottla.pipelines.progress` has a document under `NAME/QUERY` (`progress.document`); `ottla.pipelines.dead-letters` has
under `NAME/QUERY` the last batch whose dead letters are written. The last one alone is written in transactions, and
apart, so that one that was left open keeps nobody from hearing the others.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla import blocking
from ottla.admin import LATEST, NewTopic
from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.cluster import Topic
from ottla.client.errors import BrokerError, DeadlineExceeded
from ottla.client.settings import ADMIN, CONSUMER, PRODUCER, ClientKind
from ottla.runtime.world import RealClock

PIPELINES = "ottla.pipelines"
PROGRESS = "ottla.pipelines.progress"
NOTES = "ottla.pipelines.dead-letters"
REQUEST = "request"
STOP = "stop"
RUNNING, STARTING, STOPPED, FINISHED, FAILED = "running", "starting", "stopped", "finished", "failed"
ALIVE = (STARTING, RUNNING)

_NOTES_SECONDS = 180.0
"""Longer than a transaction of dead letters may be open."""
_CONFIGS = {"cleanup.policy": "compact", "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.1"}

Document = dict[str, Any]


def settings_of(kind: ClientKind, client: Mapping[str, str], **more: object) -> dict[str, object]:
    """Of the client settings of a pipeline those that this kind of client has."""
    return {name: value for name, value in client.items() if name in kind.settings} | more


def create_topics(client: Mapping[str, str], others: Iterable[str] = ()) -> None:
    """The topics of this page where they are missing, and others as the cluster makes them."""
    own = [NewTopic(name, 1, -1, _CONFIGS) for name in (PIPELINES, PROGRESS, NOTES)]
    wanted = {topic.name: topic for topic in (*own, *(NewTopic(name, -1, -1) for name in others))}
    with blocking.Admin(settings_of(ADMIN, client)) as admin:
        found = admin.describe_topics(list(wanted))
        new = [topic for name, topic in wanted.items() if not isinstance(found[name], Topic)]
        for name, created in (admin.create_topics(new) if new else {}).items():
            if created.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                raise BrokerError(created.error, f"topic {name!r}", created.message)


def missing_topics(client: Mapping[str, str], names: Sequence[str], seconds: float) -> list[str]:
    """Those that the cluster does not have."""
    with blocking.Admin(settings_of(ADMIN, client)) as admin:
        described = admin.describe_topics(names, seconds)
        return [name for name, found in described.items() if not isinstance(found, Topic)]


def read_notes(client: Mapping[str, str]) -> dict[str, Document]:
    """How far the dead letters of each query are.

    Everything that is there now is waited for, also behind a transaction that somebody left open: a note that is not
    seen would mean letters that are written again.
    """
    place = TopicPartition(NOTES, 0)
    clock = RealClock()
    with blocking.Admin(settings_of(ADMIN, client)) as admin:
        end = admin.offsets({place: LATEST})[place].offset
    found: dict[str, Document] = {}
    deadline = clock.monotonic() + _NOTES_SECONDS
    with blocking.Consumer(settings_of(CONSUMER, client) | {"isolation.level": "read_committed"}) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning()
        while consumer.position(place) < end:
            for record in consumer.poll(0.5):
                found[(record.key or b"").decode()] = json.loads(record.value or b"{}")
            if clock.monotonic() > deadline:
                raise DeadlineExceeded(f"topic {NOTES} was not read to its end")
    return found


class Board:
    """The documents of pipelines and their progress, kept up to date by `refresh`; a context manager."""

    def __init__(self, client: Mapping[str, str], seconds: float = 30.0) -> None:
        topics = (PIPELINES, PROGRESS)
        self.documents: dict[str, dict[str, Document]] = {topic: {} for topic in topics}
        with blocking.Admin(settings_of(ADMIN, client)) as admin:
            found = admin.describe_topics(topics, seconds)
        there = [TopicPartition(name, 0) for name, topic in found.items() if isinstance(topic, Topic)]
        self._consumer = blocking.Consumer(settings_of(CONSUMER, client))
        self._there = there
        self._consumer.assign(there)
        if there:
            self._consumer.seek_to_beginning()
            self._catch_up(seconds)

    def _catch_up(self, seconds: float) -> None:
        """Everything that is there now."""
        deadline = RealClock().monotonic() + seconds
        ends = self._consumer.end_offsets(self._there)
        while any(self._consumer.position(each) < ends[each] for each in self._there):
            self.refresh(0.2)
            if RealClock().monotonic() > deadline:
                raise DeadlineExceeded(f"topic {PIPELINES} was not read to its end")

    def refresh(self, seconds: float) -> bool:
        """Take what has come; waits up to so many seconds for the first. True when anything came."""
        if not self._there:
            return False
        records = self._consumer.poll(seconds)
        for record in records:
            documents, key = self.documents[record.topic], (record.key or b"").decode(errors="replace")
            if record.value is None:
                documents.pop(key, None)
            else:
                documents[key] = json.loads(record.value)
        return bool(records)

    def pipelines(self) -> dict[str, Document]:
        """What is known of each pipeline, by name."""
        return {key: found for key, found in sorted(self.documents[PIPELINES].items()) if "/" not in key}

    def queries(self, pipeline: str) -> dict[str, Document]:
        """The progress of a pipeline's queries, by name."""
        found = self.documents[PROGRESS]
        return {key.partition("/")[2]: each for key, each in sorted(found.items()) if key.partition("/")[0] == pipeline}

    def request(self, pipeline: str) -> Document | None:
        return self.documents[PIPELINES].get(f"{pipeline}/{REQUEST}")

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> "Board":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Publisher:
    """Writes documents; a context manager."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._producer = blocking.Producer(settings_of(PRODUCER, client, acks="all"))

    def put(self, topic: str, key: str, document: Document | None) -> None:
        """Hand a document over, or take it away with None."""
        value = None if document is None else json.dumps(document, separators=(",", ":")).encode()
        self._producer.put(topic, value, key.encode())

    def flush(self) -> None:
        self._producer.flush()

    def close(self) -> None:
        self._producer.close(10.0)

    def __enter__(self) -> "Publisher":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
