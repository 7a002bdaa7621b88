"""How long to wait before trying again.

Owns: the growing, jittered pause and the rule that the last failure is what the caller hears. Never knows: what is
being tried. Invariant: no attempt starts after the deadline.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.ports import Random
from ottla.client.errors import BrokerError, ClientError, DeadlineExceeded

T = TypeVar("T")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
_JITTER = 0.2


class Pauses(NamedTuple):
    """How long to wait between tries, in seconds: each pause is twice the one before."""

    first: float = FIRST_PAUSE
    longest: float = LONGEST_PAUSE


DEFAULT_PAUSES = Pauses()


def pause_before(attempt: int, random: Random, pauses: Pauses = DEFAULT_PAUSES) -> float:
    """Seconds to wait before the given attempt (1 is the first repetition)."""
    pause = min(pauses.longest, pauses.first * 2.0 ** min(attempt - 1, 16))
    return pause * random.uniform(1 - _JITTER, 1 + _JITTER)


def any_retriable(failure: ClientError) -> bool:
    return failure.retriable


def unless_missing(failure: ClientError) -> bool:
    """A topic that is not there is not waited for, though it could appear."""
    missing = isinstance(failure, BrokerError) and failure.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return failure.retriable and not missing


async def retry(
    step: Callable[[], Awaitable[T]],
    deadline: float,
    random: Random,
    retriable: Callable[[ClientError], bool] = any_retriable,
    pauses: Pauses = DEFAULT_PAUSES,
) -> T:
    """The first success of `step`; its failure when that is final or when the deadline leaves no time to try again.

    An attempt that the deadline cut off knows nothing: the caller hears why the one before it failed.
    """
    loop = asyncio.get_running_loop()
    attempt = 0
    known: ClientError | None = None
    while True:
        try:
            return await step()
        except ClientError as failure:
            attempt += 1
            pause = pause_before(attempt, random, pauses)
            if not retriable(failure) or loop.time() + pause >= deadline:
                if known is not None and isinstance(failure, DeadlineExceeded):
                    raise known from None
                raise
            if not isinstance(failure, DeadlineExceeded):
                known = failure
        await asyncio.sleep(pause)
