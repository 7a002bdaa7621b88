"""What `transaction.partition.verification.enable` changes on the wire: whether a transactional write by a client that
adds partitions itself (Produce before version 12) is refused when it has not. Newer clients leave the adding to the
broker, which does it either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import pytest

from kit.brokers.brokers import Broker
from kit.brokers.processes import until
from kit.brokers.topics import create_topic
from kit.wire.batches import Rec, batch
from kit.wire.raw import RawConnection

SECONDS = 60.0
TRANSACTIONAL = 0x10
LATEST = -1
READ_COMMITTED = 1
OLDER, ABORTABLE, ADDING = 9, 11, 12
"""Versions of Produce: of older clients, of those that can be told to abort, and the first that adds partitions."""
StartBroker = Callable[[Mapping[str, str]], AbstractContextManager[Broker]]


@pytest.fixture
def trusting(start_broker: StartBroker) -> Iterator[Broker]:
    """A broker that does not ask the coordinator about writes of older clients."""
    with start_broker({"transaction.partition.verification.enable": "false"}) as running:
        yield running


class Writer(AbstractContextManager["Writer"]):
    """A transactional producer that sends what it is told."""

    def __init__(self, broker: Broker, name: str) -> None:
        create_topic(broker, name)
        self.name = name
        self.connection = RawConnection(broker.host, broker.port)
        self._sequence = 0

        def given() -> Any:
            asked = {"transactional_id": name, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
            answer = self.connection.ask("init_producer_id", 4, **asked)
            return answer if answer["error_code"] == "none" else None

        # The first question makes the topic that coordinators keep their state in.
        until(lambda: self.connection.ask("find_coordinator", 1, key=name, key_type=1)["error_code"] == "none", name)
        mine = until(given, "a producer id", SECONDS)
        self.producer_id, self.epoch = mine["producer_id"], mine["producer_epoch"]

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def write(self, version: int) -> str:
        data = batch(
            [Rec(b"value")],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequence,
            flags=TRANSACTIONAL,
        )
        rows = [{"name": self.name, "partition_data": [{"index": 0, "records": data}]}]
        answer = self.connection.ask(
            "produce", version, transactional_id=self.name, acks=-1, timeout=10_000, topic_data=rows
        )
        error = str(answer["responses"][0]["partition_responses"][0]["error_code"])
        self._sequence += error == "none"
        return error

    def add(self) -> None:
        asked = {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "topics": [{"name": self.name, "partitions": [0]}],
        }
        fields = {f"v3_and_below_{name}": value for name, value in asked.items()}
        answer = self.connection.ask("add_partitions_to_txn", 3, **fields)
        assert answer["results_by_topic_v3_and_below"][0]["results_by_partition"][0]["partition_error_code"] == "none"

    def end(self) -> str:
        asked = {"producer_id": self.producer_id, "producer_epoch": self.epoch, "committed": True}
        return str(self.connection.ask("end_txn", 3, transactional_id=self.name, **asked)["error_code"])

    def stable_and_end(self) -> tuple[int, int]:
        """The last stable offset and the high watermark."""
        found = []
        for isolation in (READ_COMMITTED, 0):
            rows = [{"name": self.name, "partitions": [{"partition_index": 0, "timestamp": LATEST}]}]
            answer = self.connection.ask("list_offsets", 2, replica_id=-1, isolation_level=isolation, topics=rows)
            found.append(answer["topics"][0]["partitions"][0]["offset"])
        return found[0], found[1]


@pytest.mark.parametrize(("version", "error"), [(OLDER, "invalid_txn_state"), (ABORTABLE, "transaction_abortable")])
def test_a_write_to_a_partition_that_was_not_added_is_refused(
    broker: Broker, topic: str, version: int, error: str
) -> None:
    with Writer(broker, topic) as writer:
        assert writer.write(version) == error
        assert writer.stable_and_end() == (0, 0)
        writer.add()
        assert writer.write(version) == "none"


@pytest.mark.parametrize("version", [OLDER, ABORTABLE])
def test_without_verification_it_is_taken_and_hangs(trusting: Broker, topic: str, version: int) -> None:
    with Writer(trusting, topic) as writer:
        assert writer.write(version) == "none"
        assert writer.stable_and_end() == (0, 1)
        assert writer.end() == "invalid_txn_state", "the coordinator knows of no transaction"
        assert writer.stable_and_end() == (0, 1)


def test_without_verification_a_partition_that_was_added_ends_with_its_transaction(
    trusting: Broker, topic: str
) -> None:
    with Writer(trusting, topic) as writer:
        writer.add()
        assert writer.write(OLDER) == "none"
        assert writer.end() == "none"
        until(lambda: writer.stable_and_end() == (2, 2), "the marker", SECONDS)


def test_without_verification_newer_clients_still_have_their_partitions_added(trusting: Broker, topic: str) -> None:
    with Writer(trusting, topic) as writer:
        assert writer.write(ADDING) == "none"
        assert writer.stable_and_end() == (0, 1)
        assert writer.end() == "none"
        until(lambda: writer.stable_and_end() == (2, 2), "the marker", SECONDS)
