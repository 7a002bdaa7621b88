"""The two brokers of a comparison, and what a case can ask of either.

A `Side` is one broker as one run of one case sees it: a connection of its own, names that no other case uses (the same
on both sides), and the identifiers that the broker made up, so that answers can be compared although those differ.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Mapping
from typing import Any

from kit.brokers.brokers import Broker
from kit.brokers.processes import until
from kit.brokers.topics import create_topic, write
from kit.wire.batches import Rec, batch
from kit.wire.messages import ZERO_ID, Answer, Fields
from kit.wire.raw import ConnectionClosed, RawConnection

CLOSED: Answer = {"the broker": "closed the connection"}
UNKNOWN_ID = uuid.uuid5(uuid.NAMESPACE_DNS, "no such topic")


class Side:
    """One broker in one run of one case."""

    def __init__(self, broker: Broker, prefix: str, version: int) -> None:
        self.broker = broker
        self.prefix = prefix
        self.version = version
        self.answers: list[Answer] = []
        self.topic_ids: dict[uuid.UUID, str] = {ZERO_ID: "no id", UNKNOWN_ID: "an id nobody has"}
        self.producer_ids: list[int] = []
        self.members: dict[str, str] = {}  # the ids of a group's members by what the case calls them
        self.generation = -1  # the group's newest
        self.epoch = -1  # the transactional producer's newest
        self.kept: list[RawConnection] = []  # connections that stay open until the case ends
        self.started = int(time.time() * 1000)
        self._connection: RawConnection | None = None

    # Names and identifiers

    def name(self, short: str) -> str:
        """The full name of a topic of this case."""
        return f"{self.prefix}.{short}"

    def id(self, short: str) -> uuid.UUID:
        """The broker's id of a topic of this case; the zero id when there is no such topic."""
        answer = self.ask("metadata", 12, topics=[{"name": self.name(short)}], allow_auto_topic_creation=False)
        identifier: uuid.UUID = answer["topics"][0]["topic_id"]
        self.topic_ids.setdefault(identifier, f"id of {self.name(short)}")
        return identifier

    def id_text(self, short: str) -> str:
        """A topic's id as Kafka prints it."""
        return base64.urlsafe_b64encode(self.id(short).bytes).decode().rstrip("=")

    # Requests

    def send(self, api: str, version: int, fields: Fields, *, answered: bool = True) -> Answer | None:
        """The answer to a request, `CLOSED` when the broker closed the connection instead."""
        if self._connection is None:
            self._connection = RawConnection(self.broker.host, self.broker.port)
        try:
            self._connection.send(api, version, fields, answered=answered)
            return self._connection.receive() if answered else None
        except (ConnectionClosed, ConnectionError):  # a broken pipe or a reset, as the closing arrived
            self._disconnect()
            return CLOSED

    def send_frame(self, frame: bytes) -> bytes | None:
        """The bytes of the answer to a frame built by hand; None when the broker closed the connection."""
        with RawConnection(self.broker.host, self.broker.port) as connection:
            try:
                connection.send_frame(frame)
                return connection.receive_frame()
            except (ConnectionClosed, ConnectionError):
                return None

    def ask(self, api: str, version: int, **fields: Any) -> Answer:
        """A request whose answer prepares a case and is not compared itself."""
        answer = self.send(api, version, fields)
        assert answer is not None
        assert answer is not CLOSED, f"{self.broker.name} closed the connection on {api} {version}: {fields}"
        return answer

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        self._disconnect()
        for connection in self.kept:
            connection.close()

    # What cases start from

    def create(self, short: str, partitions: int = 1, **configs: str) -> None:
        """A topic that is ready to be used. Settings by keyword, with underscores for dots."""
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        identifier = create_topic(self.broker, self.name(short), partitions, settings)
        self.topic_ids[identifier] = f"id of {self.name(short)}"

    def settle(self) -> None:
        """Wait until the broker serves all that its controller has decided so far: metadata arrives in order."""
        self.create(f"barrier{len(self.answers)}-{uuid.uuid4().hex[:6]}")

    def produce(self, short: str, *batches: bytes, partition: int = 0) -> None:
        for data in batches:
            write(self.broker, self.name(short), data, partition)

    def create_kept(self, short: str, partitions: int = 1, **configs: str) -> None:
        """A topic whose records stay although their timestamps are those of long ago."""
        self.create(short, partitions, retention_ms="-1", **configs)

    def create_all(self, *shorts: str) -> None:
        for short in shorts:
            self.create(short)

    def create_filled(self, short: str = "t", **configs: str) -> None:
        """A topic with three batches of three records: offsets 0 to 8, timestamps from 1,000 in steps of 100."""
        self.create_kept(short, 1, **configs)
        for start in (0, 3, 6):
            rows = [Rec(b"value %d" % at, b"key %d" % at, timestamp=1000 + 100 * at) for at in range(start, start + 3)]
            self.produce(short, batch(rows))

    def create_compressed(self, short: str) -> None:
        """A topic with two records in each compression."""
        self.create_kept(short)
        rows = [Rec(b"a" * 50), Rec(b"b" * 50)]
        self.produce(short, *(batch(rows, kind) for kind in ("gzip", "snappy", "lz4", "zstd")))

    def producer_id(self) -> int:
        """A producer id for idempotent batches."""
        given = until(self._given_producer_id, f"a producer id of {self.broker.name}")
        self.producer_ids.extend(given)
        return given[0]

    def _given_producer_id(self) -> list[int]:
        """Nothing while Kafka's broker still waits for its first block of ids."""
        answer = self.ask("init_producer_id", 4, transactional_id=None)
        return [answer["producer_id"]] if answer["error_code"] == "none" else []

    # What broker-made values are called on both sides

    def topic_id_name(self, identifier: uuid.UUID) -> str:
        return f"<{self.topic_ids.get(identifier, 'some id')}>"

    def producer_id_name(self, identifier: int) -> int | str:
        if identifier < 0:
            return identifier
        if identifier not in self.producer_ids:
            self.producer_ids.append(identifier)
        return f"<producer {self.producer_ids.index(identifier)}>"

    def member_text(self, text: str) -> str:
        """A text in which the members of groups have the names the case gives them."""
        for short, identifier in self.members.items():
            text = text.replace(identifier, f"<member {short}>")
        return text

    def moment(self, timestamp: int, tolerance: int = 5_000) -> int | str:
        return "<now>" if self.started - tolerance <= timestamp <= time.time() * 1000 + tolerance else timestamp


def learn_topic_ids(side: Side, answer: Mapping[str, Any]) -> None:
    """Remember which topic an answer says an id belongs to."""
    for topic in answer.get("topics", ()) or ():
        if isinstance(topic, dict) and topic.get("name") and topic.get("topic_id", ZERO_ID) != ZERO_ID:
            side.topic_ids[topic["topic_id"]] = f"id of {topic['name']}"
