"""client/retry.py: what a caller hears when the time is over."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from ottla.base.errors import ErrorCode
from ottla.client.errors import BrokerError, ClientError, DeadlineExceeded
from ottla.client.retry import Pauses, retry
from ottla.sim.world import SimRandom

AT_ONCE = Pauses(0.0, 0.0)


async def failing_with(*failures: ClientError) -> ClientError:
    """What the caller hears when the attempts fail in this order, the last one at the deadline."""
    left = list(failures)
    deadline = asyncio.get_running_loop().time() + 3600

    async def step() -> None:
        raise left.pop(0)

    with pytest.raises(ClientError) as raised:
        await retry(step, deadline, SimRandom(Random(1)), lambda _: bool(left), AT_ONCE)
    return raised.value


async def test_an_attempt_that_was_cut_off_does_not_hide_why_the_one_before_failed() -> None:
    reason = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, "t-0")
    assert await failing_with(DeadlineExceeded("first"), reason, DeadlineExceeded("last")) is reason


async def test_without_any_other_reason_the_deadline_is_what_is_heard() -> None:
    late = DeadlineExceeded("last")
    assert await failing_with(DeadlineExceeded("first"), late) is late


async def test_a_failure_at_the_end_is_heard_itself() -> None:
    reason = BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "t-0")
    assert await failing_with(BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, "t-0"), reason) is reason
