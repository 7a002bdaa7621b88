"""How transactions end, once and again, in both generations of the protocol."""

from __future__ import annotations

import pytest

from kit.machines.transactions import NAME, NEWER, OLDER, Coordinator, partitions
from ottla.base.errors import ErrorCode
from ottla.transactions.state import LAST_EPOCH, NO_EPOCH, TransactionFact, TransactionState

WHO = (1000, 0)
NEXT = (1000, 1)
AFTER = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}
BEFORE = {True: TransactionState.PREPARE_COMMIT, False: TransactionState.PREPARE_ABORT}


@pytest.fixture
def coordinator() -> Coordinator:
    begun = Coordinator()
    begun.init()
    return begun


def ended(coordinator: Coordinator, commit: bool, version: int) -> None:
    coordinator.add(WHO, 0, version=version)
    assert coordinator.end(WHO, commit, version).error == ErrorCode.NONE
    coordinator.complete()


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [OLDER, NEWER])
def test_an_end_is_decided_first_and_complete_when_all_partitions_know(
    coordinator: Coordinator, commit: bool, version: int
) -> None:
    coordinator.add(WHO, 0, 1, version=version)
    assert coordinator.end(WHO, commit, version).error == ErrorCode.NONE
    assert coordinator.held().state is BEFORE[commit]
    assert coordinator.held().partitions == partitions(0, 1)
    assert coordinator.machine.ending() == [NAME]
    coordinator.complete()
    assert coordinator.held().state is AFTER[commit]
    assert coordinator.held().partitions == frozenset()
    assert coordinator.machine.ending() == []


@pytest.mark.parametrize("commit", [True, False])
def test_the_older_protocol_keeps_the_epoch(coordinator: Coordinator, commit: bool) -> None:
    ended(coordinator, commit, OLDER)
    assert coordinator.held().epoch == 0
    assert coordinator.add(WHO, 0, version=OLDER) == ErrorCode.NONE


@pytest.mark.parametrize("commit", [True, False])
def test_the_newer_protocol_gives_the_next_transaction_an_epoch_of_its_own(
    coordinator: Coordinator, commit: bool
) -> None:
    coordinator.add(WHO, 0)
    assert coordinator.end(WHO, commit)[1:] == NEXT
    coordinator.complete()
    assert coordinator.add(WHO, 0) == ErrorCode.PRODUCER_FENCED
    assert coordinator.add(NEXT, 0) == ErrorCode.NONE


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [OLDER, NEWER])
def test_asking_twice_waits_for_the_first_and_then_agrees(coordinator: Coordinator, commit: bool, version: int) -> None:
    coordinator.add(WHO, 0, version=version)
    first = coordinator.end(WHO, commit, version)
    assert coordinator.end(WHO, commit, version).error == ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.complete()
    stored = len(coordinator.log)
    assert coordinator.end(WHO, commit, version) == first
    assert len(coordinator.log) == stored


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [OLDER, NEWER])
def test_a_decision_stands(coordinator: Coordinator, commit: bool, version: int) -> None:
    coordinator.add(WHO, 0, version=version)
    coordinator.end(WHO, commit, version)
    assert coordinator.end(WHO, not commit, version).error == ErrorCode.INVALID_TXN_STATE
    coordinator.complete()
    assert coordinator.end(WHO, not commit, version).error == ErrorCode.INVALID_TXN_STATE
    assert coordinator.held().state is AFTER[commit]


@pytest.mark.parametrize("commit", [True, False])
def test_the_older_protocol_cannot_end_what_has_not_begun(coordinator: Coordinator, commit: bool) -> None:
    assert coordinator.end(WHO, commit, OLDER).error == ErrorCode.INVALID_TXN_STATE


def test_the_newer_protocol_can_abort_what_may_not_have_begun(coordinator: Coordinator) -> None:
    assert coordinator.end(WHO, True).error == ErrorCode.INVALID_TXN_STATE
    assert coordinator.end(WHO, False)[1:] == NEXT
    coordinator.complete()
    assert coordinator.end(NEXT, False)[1:] == (1000, 2)
    coordinator.complete()
    assert coordinator.end((1000, 2), True).error == ErrorCode.INVALID_TXN_STATE


def test_generations_do_not_mix(coordinator: Coordinator) -> None:
    ended(coordinator, True, NEWER)
    assert coordinator.end(WHO, True, OLDER).error == ErrorCode.PRODUCER_FENCED
    coordinator.add(NEXT, 0, version=OLDER)
    coordinator.end(NEXT, True, OLDER)
    coordinator.complete()
    assert coordinator.end(NEXT, True, NEWER).error == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("version", [OLDER, NEWER])
def test_only_the_current_producer_ends(coordinator: Coordinator, version: int) -> None:
    coordinator.add(WHO, 0)
    assert coordinator.end((1001, 0), True, version).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.end((1000, 1), True, version).error == ErrorCode.PRODUCER_FENCED
    assert coordinator.end((1000, -1), True, version).error == ErrorCode.PRODUCER_FENCED
    assert coordinator.end(WHO, True, version, name="unknown").error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.held().state is TransactionState.ONGOING


@pytest.mark.parametrize("commit", [True, False])
def test_the_last_epoch_is_followed_by_a_new_producer_id(coordinator: Coordinator, commit: bool) -> None:
    who = (1000, LAST_EPOCH)
    coordinator.machine.apply(TransactionFact(NAME, coordinator.held()._replace(epoch=LAST_EPOCH)))
    coordinator.add(who, 0)
    first = coordinator.end(who, commit)
    assert first == (ErrorCode.NONE, 1001, 0)
    # The markers still go out under the old producer id, with an epoch above all that it had.
    assert coordinator.held()[:2] == (1000, LAST_EPOCH + 1)
    assert coordinator.end(who, commit).error == ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.complete()
    assert coordinator.held()[:2] == (1001, 0)
    assert coordinator.end(who, commit) == first
    assert coordinator.add((1001, 0), 0) == ErrorCode.NONE


@pytest.mark.parametrize("version", [OLDER, NEWER])
def test_a_new_coordinator_goes_on_where_the_old_one_stopped(coordinator: Coordinator, version: int) -> None:
    coordinator.add(WHO, 0, 1, version=version)
    coordinator.end(WHO, True, version)
    before = coordinator.held()
    coordinator.reload()
    assert coordinator.held() == before._replace(last_epoch=NO_EPOCH)
    assert coordinator.machine.ending() == [NAME]
    coordinator.complete()
    assert coordinator.end(WHO, True, version).error == ErrorCode.NONE
