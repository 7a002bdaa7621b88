"""Which partitions belong to a transaction, and who may say so."""

from __future__ import annotations

import pytest

from kit.machines.transactions import NAME, NEWER, OLDER, Coordinator, partitions
from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.transactions.decision import ProducerIdentity
from ottla.transactions.state import TransactionState

IN = TopicPartition("topic", 0)
OUT = TopicPartition("topic", 9)


@pytest.fixture
def coordinator() -> Coordinator:
    begun = Coordinator()
    begun.init()
    return begun


WHO = (1000, 0)


def test_the_first_partition_begins_the_transaction(coordinator: Coordinator) -> None:
    coordinator.advance(5)
    assert coordinator.add(WHO, 0, 1) == ErrorCode.NONE
    assert coordinator.held().state is TransactionState.ONGOING
    assert coordinator.held().partitions == partitions(0, 1)
    assert coordinator.held().start_ms == coordinator.now.wall_ms


def test_more_partitions_come_to_those_that_are_there(coordinator: Coordinator) -> None:
    coordinator.add(WHO, 0)
    started = coordinator.held().start_ms
    coordinator.advance(5)
    coordinator.add(WHO, 1)
    assert coordinator.held().partitions == partitions(0, 1)
    assert coordinator.held().start_ms == started


def test_partitions_that_are_there_are_not_stored_again(coordinator: Coordinator) -> None:
    coordinator.add(WHO, 0, 1)
    stored = len(coordinator.log)
    assert coordinator.add(WHO, 1) == ErrorCode.NONE
    assert len(coordinator.log) == stored


@pytest.mark.parametrize(
    ("who", "error"),
    [
        ((1001, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ((1000, 1), ErrorCode.PRODUCER_FENCED),
        ((1000, -1), ErrorCode.PRODUCER_FENCED),
    ],
)
def test_only_the_current_producer_adds(coordinator: Coordinator, who: tuple[int, int], error: ErrorCode) -> None:
    assert coordinator.add(who, 0) == error
    assert coordinator.machine.verify(ProducerIdentity(NAME, *who), IN) == error


def test_an_unknown_id_has_no_transaction(coordinator: Coordinator) -> None:
    assert coordinator.add(WHO, 0, name="unknown") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.machine.verify(ProducerIdentity("unknown", *WHO), IN) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_nothing_comes_to_a_transaction_whose_end_is_decided(coordinator: Coordinator) -> None:
    coordinator.add(WHO, 0, version=OLDER)
    coordinator.end(WHO, True, OLDER)
    assert coordinator.add(WHO, 1, version=OLDER) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.machine.verify(ProducerIdentity(NAME, *WHO), IN) == ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.complete()
    assert coordinator.add(WHO, 1, version=OLDER) == ErrorCode.NONE
    assert coordinator.held().partitions == partitions(1)


def test_a_partition_is_verified_only_while_it_is_in_an_open_transaction(coordinator: Coordinator) -> None:
    who = ProducerIdentity(NAME, *WHO)
    assert coordinator.machine.verify(who, IN) == ErrorCode.TRANSACTION_ABORTABLE
    coordinator.add(WHO, 0, version=OLDER)
    assert coordinator.machine.verify(who, IN) == ErrorCode.NONE
    assert coordinator.machine.verify(who, OUT) == ErrorCode.TRANSACTION_ABORTABLE
    coordinator.end(WHO, False, OLDER)
    coordinator.complete()
    # A late write of the older protocol, whose epoch is still good, finds its transaction over.
    assert coordinator.machine.verify(who, IN) == ErrorCode.TRANSACTION_ABORTABLE


def test_the_version_of_the_protocol_is_kept_for_the_markers(coordinator: Coordinator) -> None:
    coordinator.add(WHO, 0, version=NEWER)
    assert coordinator.held().marker_version == NEWER
    coordinator.end(WHO, True, OLDER)
    assert coordinator.held().marker_version == 0
