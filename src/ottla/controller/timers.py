"""What the active controller does unasked: fences brokers whose session expired, balances leaders, writes no-ops.

Owns: the timers. Never knows: requests, how facts are stored. Invariant: no timer outlives the leadership it was set
in; a chore that cannot be done now is done the next time round.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from ottla.base.ports import Clock
from ottla.base.settings.values import BrokerValues
from ottla.controller.heartbeats import Heartbeats
from ottla.metadata import elections
from ottla.metadata.decision import DecisionContext
from ottla.metadata.facts import Fact

AGAIN_SECONDS = 0.1
"""Between two rounds of elections when one was not enough: clients follow the first meanwhile."""


class Intervals(NamedTuple):
    """How often, in seconds; None is never."""

    session: float
    balance: float | None
    unclean: float
    idle: float | None

    @classmethod
    def of(cls, values: BrokerValues) -> "Intervals":
        idle = values.integer("metadata.max.idle.interval.ms")
        return cls(
            session=values.integer("broker.session.timeout.ms") / 1000,
            balance=values.integer("leader.imbalance.check.interval.seconds")
            if values.boolean("auto.leader.rebalance.enable")
            else None,
            unclean=values.integer("unclean.leader.election.interval.ms") / 1000,
            idle=idle / 1000 if idle else None,
        )


class TimerActions(Protocol):
    """The controller, as far as its timers call it."""

    def session_expired(self, broker_id: int) -> None:
        """A broker's session is over: it sent no heartbeat while one lasts."""
        ...

    def carry_out(self, decide: Callable[[DecisionContext], list[Fact]], why: str) -> int:
        """Store what is decided, if it can be; how many facts that were."""
        ...

    def write_no_op(self) -> None:
        """Nothing was stored for a while, and followers are to see that the leader lives."""
        ...


class ControllerTimers:
    """The timers of one leadership."""

    def __init__(self, actions: TimerActions, heartbeats: Heartbeats, clock: Clock, intervals: Intervals) -> None:
        self._actions = actions
        self._heartbeats = heartbeats
        self._clock = clock
        self._intervals = intervals
        self._timers: dict[Callable[[], float], asyncio.TimerHandle] = {}
        self._going = False

    def start(self) -> None:
        self._going = True
        intervals = self._intervals
        self._later(self._check_sessions, intervals.session)
        self._later(self._elect_uncleanly, intervals.unclean)
        if intervals.balance is not None:
            self._later(self._balance, intervals.balance)
        if intervals.idle is not None:
            self._later(self._idle, intervals.idle)

    def stop(self) -> None:
        self._going = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def stored(self) -> None:
        """Something was: nobody needs another sign of life for a while."""
        if self._intervals.idle is not None and self._idle in self._timers:
            self._timers.pop(self._idle).cancel()
            self._later(self._idle, self._intervals.idle)

    def _later(self, chore: Callable[[], float], seconds: float) -> None:
        self._timers[chore] = asyncio.get_running_loop().call_later(seconds, self._run, chore)

    def _run(self, chore: Callable[[], float]) -> None:
        del self._timers[chore]
        seconds = chore()
        # The chore itself may have ended the leadership, or have seen the next one begin.
        if self._going and chore not in self._timers:
            self._later(chore, seconds)

    def _check_sessions(self) -> float:
        now = self._clock.monotonic()
        for broker_id in self._heartbeats.expired(now):
            self._actions.session_expired(broker_id)
        expiry = self._heartbeats.next_expiry()
        return self._intervals.session if expiry is None else max(expiry - now, AGAIN_SECONDS)

    def _balance(self) -> float:
        done = self._actions.carry_out(elections.balance, "leaders go back to the first replicas")
        assert self._intervals.balance is not None
        return AGAIN_SECONDS if done >= elections.MOST_AT_ONCE else self._intervals.balance

    def _elect_uncleanly(self) -> float:
        done = self._actions.carry_out(elections.elect_uncleanly, "leaders are elected that lack records")
        return AGAIN_SECONDS if done >= elections.MOST_AT_ONCE else self._intervals.unclean

    def _idle(self) -> float:
        self._actions.write_no_op()
        assert self._intervals.idle is not None
        return self._intervals.idle
