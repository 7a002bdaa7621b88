"""A client that goes on producing and fetching while a test troubles the broker: what it sees is what others notice.

Every record it got an acknowledgement for must come back, once, in order; every answer must arrive before the
connection's deadline. The first thing that goes wrong is kept and raised when the bystander leaves.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any, Self

from kit.brokers.processes import until
from kit.wire.batches import Rec, batch, read_batches
from kit.wire.raw import RawConnection

SECONDS = 60.0
MANY = 64
"""Partitions of a single node that are there when their creation is answered."""


class Bystander:
    """A thread with a connection and a topic of its own, between `__enter__` and `__exit__`."""

    def __init__(self, host: str, port: int, topic: str = "bystander") -> None:
        self._connection = RawConnection(host, port, "bystander", SECONDS)
        self._topic = topic
        self._leave = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.rounds = 0
        create_topic(self._connection, topic)

    def _run(self) -> None:
        try:
            while not self._leave.is_set():
                self._round()
        except BaseException as error:
            self._failure = error

    def go_on(self, rounds: int) -> None:
        """Return when it has done so many more rounds; fail at once when it noticed something."""
        wanted = self.rounds + rounds
        until(lambda: self.rounds >= wanted or self._failure is not None, f"{rounds} rounds of the bystander")
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise AssertionError(f"the bystander noticed, in round {self.rounds}: {self._failure!r}") from self._failure

    def _round(self) -> None:
        value = f"record {self.rounds}".encode()
        offset = produce(self._connection, self._topic, value)
        assert offset == self.rounds, f"record {self.rounds} was stored at {offset}"
        found = fetch(self._connection, self._topic, offset)
        assert [record.value for record in found] == [value], f"offset {offset} holds {found}"
        self.rounds += 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._leave.set()
        self._thread.join(3 * SECONDS)
        self._connection.close()
        if kind is None:
            self._check()
            assert self.rounds > 0, "the bystander never got a round done"


def create_topic(
    connection: RawConnection, topic: str, partitions: int = 1, settings: dict[str, str] | None = None
) -> None:
    configs = [{"name": name, "value": value} for name, value in (settings or {}).items()]
    wanted = {"name": topic, "num_partitions": partitions, "replication_factor": 1, "configs": configs}
    answer = connection.ask("create_topics", 5, topics=[wanted], timeout=10_000)
    assert [each["error_code"] for each in answer["topics"]] == ["none"], answer
    if partitions > MANY:
        # Their logs are made in portions, in their order.
        until(lambda: _end_offset(connection, topic, partitions - 1)["error_code"] == "none", f"{topic} can be reached")


def try_produce(connection: RawConnection, topic: str, value: bytes, partition: int = 0) -> tuple[str, int, str | None]:
    """One record, acks=all: the error's name, the offset and the message."""
    record = Rec(value, timestamp=time.time_ns() // 1_000_000)  # of today, or retention would take it away
    rows = [{"index": partition, "records": batch([record])}]
    answer = connection.ask("produce", 9, acks=-1, timeout=5000, topic_data=[{"name": topic, "partition_data": rows}])
    found = answer["responses"][0]["partition_responses"][0]
    return found["error_code"], found["base_offset"], found["error_message"]


def produce(connection: RawConnection, topic: str, value: bytes, partition: int = 0) -> int:
    error, offset, message = try_produce(connection, topic, value, partition)
    assert error == "none", f"{topic}-{partition}: {error}: {message}"
    return offset


def fetch(
    connection: RawConnection, topic: str, offset: int, partition: int = 0, max_bytes: int = 1 << 20
) -> list[Rec]:
    """The records from this offset on, as far as one answer goes."""
    rows = [{"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}]
    answer = connection.ask(
        "fetch", 11, max_wait=500, min_bytes=1, max_bytes=max_bytes, topics=[{"topic": topic, "partitions": rows}]
    )
    found = answer["responses"][0]["partitions"][0]
    assert found["error_code"] == "none", f"{topic}-{partition} at {offset}: {found['error_code']}"
    batches = read_batches(found["records"])
    return [record for each in batches for record in each.records if record.offset >= offset]


def fetch_all(connection: RawConnection, topic: str, partition: int = 0) -> list[Rec]:
    """Every record of a partition up to its end at the time of the call."""
    records: list[Rec] = []
    end = end_offset(connection, topic, partition)
    while (position := records[-1].offset + 1 if records else 0) < end:
        more = fetch(connection, topic, position, partition, 8 << 20)
        assert more, f"{topic}-{partition} gives nothing at {position}, before its end {end}"
        records += more
    return records


def end_offset(connection: RawConnection, topic: str, partition: int = 0) -> int:
    found = _end_offset(connection, topic, partition)
    assert found["error_code"] == "none", found
    return int(found["offset"])


def _end_offset(connection: RawConnection, topic: str, partition: int) -> dict[str, Any]:
    rows = [{"partition_index": partition, "timestamp": -1}]
    answer = connection.ask(
        "list_offsets", 5, replica_id=-1, isolation_level=0, topics=[{"name": topic, "partitions": rows}]
    )
    found: dict[str, Any] = answer["topics"][0]["partitions"][0]
    return found
