"""What happens to transactional ids by themselves."""

from __future__ import annotations

import pytest

from kit.machines.transactions import NAME, NEWER, OLDER, Coordinator
from ottla.base.errors import ErrorCode
from ottla.transactions.decision import TransactionLimits
from ottla.transactions.machine import ABORTED_AT_ONCE
from ottla.transactions.state import TransactionState

WHO = (1000, 0)
LIMITS = TransactionLimits(expiration_ms=50_000, abort_check_ms=10_000, expiration_check_ms=20_000)


@pytest.mark.parametrize("server_version", [OLDER, NEWER])
def test_a_transaction_past_its_time_out_is_aborted_and_its_producer_fenced(server_version: int) -> None:
    coordinator = Coordinator(LIMITS, server_version)
    coordinator.init(timeout_ms=15_000)
    coordinator.add(WHO, 0, version=server_version)
    coordinator.advance(15_000)
    assert coordinator.held().state is TransactionState.ONGOING
    coordinator.advance(10_000)
    assert coordinator.held().state is TransactionState.PREPARE_ABORT
    assert coordinator.held().epoch == 1
    coordinator.complete()
    assert coordinator.add(WHO, 0) == ErrorCode.PRODUCER_FENCED
    assert coordinator.end(WHO, True, OLDER).error == ErrorCode.PRODUCER_FENCED
    assert coordinator.end(WHO, True, NEWER).error == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("server_version", [OLDER, NEWER])
def test_a_transaction_of_a_two_phase_commit_has_no_time_out(server_version: int) -> None:
    coordinator = Coordinator(LIMITS, server_version)
    assert coordinator.init(timeout_ms=-1, two_phases=True).error == ErrorCode.NONE
    coordinator.add(WHO, 0, version=server_version)
    coordinator.advance(2**31)
    coordinator.reload()
    coordinator.advance(2**31)
    assert coordinator.held().state is TransactionState.ONGOING
    assert coordinator.end(WHO, True, server_version).error == ErrorCode.NONE
    coordinator.complete()
    coordinator.init(timeout_ms=15_000)  # whoever comes next may have one again
    assert coordinator.held().timeout_ms == 15_000


def test_who_takes_over_from_a_two_phase_commit_aborts_what_is_open() -> None:
    coordinator = Coordinator(LIMITS)
    coordinator.init(two_phases=True)
    coordinator.add(WHO, 0)
    assert coordinator.init(two_phases=True).error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.held().state is TransactionState.PREPARE_ABORT


def test_an_id_without_an_open_transaction_does_not_time_out() -> None:
    coordinator = Coordinator(LIMITS)
    coordinator.init(timeout_ms=1_000)
    coordinator.advance(30_000)
    assert coordinator.held().state is TransactionState.EMPTY
    assert coordinator.held().epoch == 0


def test_time_counts_from_the_first_partition_not_from_the_last() -> None:
    coordinator = Coordinator(LIMITS)
    coordinator.init(timeout_ms=15_000)
    coordinator.add(WHO, 0)
    coordinator.advance(9_000)
    coordinator.add(WHO, 1)
    coordinator.advance(11_500)
    assert coordinator.held().state is TransactionState.PREPARE_ABORT


def test_a_time_out_outlives_the_coordinator() -> None:
    coordinator = Coordinator(LIMITS)
    coordinator.init(timeout_ms=15_000)
    coordinator.add(WHO, 0)
    coordinator.advance(14_000)
    coordinator.reload()
    coordinator.advance(10_500)
    assert coordinator.held().state is TransactionState.PREPARE_ABORT


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    coordinator = Coordinator(LIMITS)
    coordinator.init()
    coordinator.advance(49_000)
    assert NAME in coordinator.machine.transactions
    coordinator.advance(20_000)
    assert NAME not in coordinator.machine.transactions
    assert coordinator.log[-1][1] is None
    assert coordinator.init()[1:] == (1001, 0)


@pytest.mark.parametrize("decided", [True, False])
def test_an_id_with_a_transaction_is_not_forgotten(decided: bool) -> None:
    coordinator = Coordinator(LIMITS._replace(max_timeout_ms=10_000_000))
    coordinator.init(timeout_ms=10_000_000)
    coordinator.add(WHO, 0)
    if decided:
        coordinator.end(WHO, True)
    coordinator.advance(200_000)
    assert NAME in coordinator.machine.transactions


def test_without_open_transactions_nothing_is_due_but_the_look_at_old_ids() -> None:
    coordinator = Coordinator(LIMITS)
    coordinator.init()
    assert coordinator.machine.next_deadline() == LIMITS.expiration_check_ms
    coordinator.add(WHO, 0)
    assert coordinator.machine.next_deadline() == LIMITS.abort_check_ms


def test_many_transactions_that_time_out_together_are_aborted_a_few_at_a_time() -> None:
    coordinator = Coordinator(LIMITS)
    names = [f"id {number}" for number in range(2 * ABORTED_AT_ONCE + 1)]
    for name in names:
        _, producer_id, epoch = coordinator.init(timeout_ms=5_000, name=name)
        coordinator.add((producer_id, epoch), 0, name=name)
    coordinator.steady_ms = LIMITS.abort_check_ms
    sizes = []
    while (decision := coordinator.machine.expire(coordinator.now)) is not None:
        sizes.append(len(decision.facts))
        coordinator.carry_out(decision)
    assert sizes == [ABORTED_AT_ONCE, ABORTED_AT_ONCE, 1]
    assert {coordinator.held(name).state for name in names} == {TransactionState.PREPARE_ABORT}


def test_an_abort_that_could_not_be_stored_is_decided_on_again_at_the_next_look() -> None:
    coordinator = Coordinator(LIMITS)
    coordinator.init(timeout_ms=5_000)
    coordinator.add(WHO, 0)
    coordinator.steady_ms = LIMITS.abort_check_ms
    decision = coordinator.machine.expire(coordinator.now)
    assert decision is not None
    assert len(decision.facts) == 1
    assert coordinator.machine.expire(coordinator.now) is None
    assert coordinator.machine.next_deadline() == 2 * LIMITS.abort_check_ms
    coordinator.advance(LIMITS.abort_check_ms)
    assert coordinator.held().state is TransactionState.PREPARE_ABORT
