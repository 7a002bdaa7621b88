"""Facts in Kafka's formats."""

from __future__ import annotations

import struct

import pytest

from ottla.base.vocabulary import TopicPartition
from ottla.transactions.records import BadTransactionRecord, is_known, read, written
from ottla.transactions.state import STATES, Transaction, TransactionFact, TransactionState

OPEN = Transaction(
    5,
    3,
    60_000,
    TransactionState.ONGOING,
    frozenset({TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)}),
    start_ms=111,
    update_ms=222,
    previous_producer_id=4,
    next_producer_id=6,
    version=2,
)


@pytest.mark.parametrize("state", list(TransactionState))
def test_what_is_written_reads_back(state: TransactionState) -> None:
    fact = TransactionFact("id", OPEN._replace(state=state, partitions=frozenset()))
    assert read(*written(fact)) == fact


def test_partitions_read_back() -> None:
    fact = TransactionFact("id", OPEN)
    assert read(*written(fact)) == fact


def test_a_forgotten_id_is_a_key_without_value() -> None:
    key, value = written(TransactionFact("id", None))
    assert (key, value) == (b"\x00\x00\x00\x02id", None)
    assert read(key, value) == TransactionFact("id", None)


def test_the_oldest_value_is_read() -> None:
    value = struct.pack(">hqhib", 0, 5, 3, 60_000, 0) + struct.pack(">iqq", -1, 222, -1)
    assert read(b"\x00\x00\x00\x02id", value) == TransactionFact("id", Transaction(5, 3, 60_000, update_ms=222))


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x02", b"\x00\x01\x00", b"\x00\x00" + b"\xff" * 40])
def test_what_is_no_value_is_said_to_be_bad(value: bytes) -> None:
    with pytest.raises(BadTransactionRecord):
        read(b"\x00\x00\x00\x02id", value)


def test_foreign_keys_are_not_known() -> None:
    assert is_known(b"\x00\x00\x00\x02id")
    assert not is_known(b"\x00\x01\x00\x02id")
    assert not is_known(b"\x00")


def test_states_have_the_names_that_clients_know() -> None:
    assert list(STATES) == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
