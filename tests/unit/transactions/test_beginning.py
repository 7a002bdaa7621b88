"""Who gets a transactional id, under which producer id and epoch."""

from __future__ import annotations

import pytest

from kit.machines.transactions import NAME, NEWER, OLDER, Coordinator
from ottla.base.errors import ErrorCode
from ottla.transactions.decision import TransactionLimits
from ottla.transactions.state import LAST_EPOCH, TransactionFact, TransactionState


def begun(coordinator: Coordinator) -> tuple[int, int]:
    error, producer_id, epoch = coordinator.init()
    assert error == ErrorCode.NONE
    return producer_id, epoch


def at_epoch(coordinator: Coordinator, epoch: int) -> tuple[int, int]:
    """A producer that has come so far."""
    producer_id, _ = begun(coordinator)
    coordinator.machine.apply(TransactionFact(NAME, coordinator.held()._replace(epoch=epoch)))
    return producer_id, epoch


def test_a_new_id_gets_a_producer_id_and_the_first_epoch() -> None:
    coordinator = Coordinator()
    assert begun(coordinator) == (1000, 0)
    assert coordinator.held().state is TransactionState.EMPTY
    assert coordinator.held().timeout_ms == 60_000


def test_every_further_producer_gets_a_higher_epoch() -> None:
    coordinator = Coordinator()
    assert [begun(coordinator) for _ in range(3)] == [(1000, 0), (1000, 1), (1000, 2)]


@pytest.mark.parametrize("timeout_ms", [0, -1, 5_001])
def test_a_time_out_must_be_positive_and_within_the_setting(timeout_ms: int) -> None:
    coordinator = Coordinator(TransactionLimits(max_timeout_ms=5_000))
    assert coordinator.init(timeout_ms=timeout_ms).error == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert coordinator.log == []
    assert coordinator.init(timeout_ms=5_000).error == ErrorCode.NONE


@pytest.mark.parametrize("server_version", [OLDER, NEWER])
def test_who_begins_while_a_transaction_is_open_aborts_it_and_must_ask_again(server_version: int) -> None:
    coordinator = Coordinator(server_version=server_version)
    first = begun(coordinator)
    coordinator.add(first, 0)
    assert coordinator.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.held().state is TransactionState.PREPARE_ABORT
    assert coordinator.held().epoch == first[1] + 1
    assert coordinator.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.complete()
    assert begun(coordinator) == (first[0], first[1] + 2)
    assert coordinator.add(first, 0) == ErrorCode.PRODUCER_FENCED


def test_a_producer_goes_on_after_an_error_with_its_own_next_epoch() -> None:
    coordinator = Coordinator()
    first = begun(coordinator)
    assert coordinator.init(first)[1:] == (first[0], 1)
    # The answer was lost: the same question has the same answer.
    assert coordinator.init(first)[1:] == (first[0], 1)


def test_a_producer_that_was_fenced_cannot_go_on() -> None:
    coordinator = Coordinator()
    first = begun(coordinator)
    begun(coordinator)
    assert coordinator.init(first).error == ErrorCode.PRODUCER_FENCED
    assert coordinator.init((first[0] + 1, 0)).error == ErrorCode.PRODUCER_FENCED


def test_a_producer_whose_id_was_forgotten_gets_a_new_one() -> None:
    assert Coordinator().init((77, 5))[1:] == (1000, 0)


def test_used_up_epochs_bring_a_new_producer_id() -> None:
    coordinator = Coordinator()
    producer_id, epoch = at_epoch(coordinator, LAST_EPOCH)
    assert begun(coordinator) == (1001, 0)
    assert coordinator.held().previous_producer_id == producer_id
    # It did not hear of its new producer id.
    assert coordinator.init((producer_id, epoch)).error == ErrorCode.PRODUCER_FENCED


def test_a_producer_that_goes_on_over_the_last_epoch_may_ask_again() -> None:
    coordinator = Coordinator()
    who = at_epoch(coordinator, LAST_EPOCH)
    assert coordinator.init(who)[1:] == (1001, 0)
    assert coordinator.init(who)[1:] == (1001, 0)


def test_an_id_fenced_at_its_last_epoch_begins_with_a_new_producer_id() -> None:
    coordinator = Coordinator()
    who = at_epoch(coordinator, LAST_EPOCH)
    coordinator.add(who, 0)
    assert coordinator.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.held().epoch == LAST_EPOCH + 1
    coordinator.complete()
    assert begun(coordinator) == (1001, 0)
