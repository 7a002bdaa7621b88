"""One led partition of an internal topic and the machine whose facts it holds.

Owns: the way of a decision: its facts become one batch in the log, then hold, then its answers leave; and the timer of
the machine's deadlines. Never knows: what is decided. Invariants: what is answered is in the log (and, where the log
flushes every message, on the disk); a decision that cannot be stored changes nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.machines import Now, Token
from ottla.broker.partitions import Partition
from ottla.log.files import StorageFailure
from ottla.records.builder import build_batch
from ottla.records.record import Record

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger("ottla.broker")

F = TypeVar("F")
R = TypeVar("R")
F_co = TypeVar("F_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)

SLICE_MS = 2
"""How long deadlines may hold the loop at a time."""
MOST_FACTS = 1_000
"""Facts in one batch, where they need not be stored together."""

# What clients are told of failed appends, as Kafka tells them.
_TOLD = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class Decided(Protocol[F_co, R_co]):
    """What a machine's decider answers."""

    @property
    def reply(self) -> R_co | None: ...

    @property
    def facts(self) -> Sequence[F_co]: ...

    @property
    def released(self) -> Sequence[tuple[Token, R_co]]: ...


class Machine(Protocol):
    """What a shard does with its machine, beside asking it to decide."""

    def apply(self, fact: Any, /) -> None: ...

    def follow(self, decision: Any, /) -> None: ...

    def loaded(self, now: Now) -> None: ...

    def given_up(self) -> Sequence[tuple[Token, Any]]: ...

    def next_deadline(self) -> int: ...

    def expire(self, now: Now) -> Any: ...


class Writer(NamedTuple):
    """In whose name a batch is written: a producer's, for facts that belong to its transaction."""

    producer_id: int
    epoch: int


class MachineShard(Generic[F, R]):
    """See the module."""

    def __init__(
        self,
        broker: "Broker",
        partition: Partition,
        machine: Machine,
        written: Callable[[F], tuple[bytes, bytes | None]],
        compression: int = 0,
    ) -> None:
        self._broker = broker
        self.partition = partition
        self.loaded = False
        self._machine = machine
        self._written = written
        self._compression = compression
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    def now(self) -> Now:
        return read_clock(self._broker)

    def begin(self) -> None:
        """The log has been read: the machine can be asked."""
        self._machine.loaded(self.now())
        self.loaded = True
        self._set_timer()

    # --- decisions ---

    def carry_out(
        self, decision: Decided[F, R], refused: Callable[[ErrorCode], R], writer: Writer | None = None
    ) -> "R | asyncio.Future[R] | None":
        """Store and apply it; answers the asker's reply, now or as a future, or None when the asker waits."""
        if decision.facts:
            error = self._store(decision.facts, writer)
            if error != ErrorCode.NONE:
                return refused(_TOLD.get(error, error))
        self._machine.follow(decision)
        self._set_timer()
        log = self.partition.log
        if decision.facts and log is not None and log.unflushed_messages >= log.settings.flush_messages:
            return self._after_flush(decision, refused)
        self._release(decision.released)
        return decision.reply

    def _store(self, facts: Sequence[F], writer: Writer | None = None) -> ErrorCode:
        """Append them as one batch and apply them."""
        error = self._append(facts, writer)
        if error == ErrorCode.NONE:
            self._apply(facts, writer)
        return error

    def _apply(self, facts: Sequence[F], writer: Writer | None) -> None:
        apply = self._machine.apply
        for fact in facts:
            apply(fact)

    def _append(self, facts: Sequence[F], writer: Writer | None) -> ErrorCode:
        log = self.partition.log
        if log is None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        now_ms = self._broker.clock.now_ms()
        written = self._written
        records = [Record(position, now_ms, *written(fact)) for position, fact in enumerate(facts)]
        if writer is None:
            batch = build_batch(records, compression=self._compression)
        else:
            batch = build_batch(
                records,
                compression=self._compression,
                producer_id=writer.producer_id,
                producer_epoch=writer.epoch,
                transactional=True,
            )
        try:
            outcome = log.append_as_leader(memoryview(batch), self.partition.leader_epoch, now_ms, origin_client=False)
        except StorageFailure as failure:
            self._broker.storage_failed(failure)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if outcome.error != ErrorCode.NONE:
            logger.error("a change in %s was not stored: %s", self.partition, outcome.message)
            return outcome.error
        log.high_watermark = log.end_offset
        self._broker.waiting.nudge(self.partition)
        return ErrorCode.NONE

    def _after_flush(self, decision: Decided[F, R], refused: Callable[[ErrorCode], R]) -> "asyncio.Future[R] | None":
        """Every message of this log is flushed before it is acknowledged."""
        place: asyncio.Future[R] | None = None if decision.reply is None else self._broker.loop.create_future()

        def flushed(error: ErrorCode) -> None:
            told = _TOLD.get(error, error)
            released = decision.released
            if error != ErrorCode.NONE:
                for _, answer in released:
                    answer.error_code = told  # type: ignore[attr-defined]
            self._release(released)
            if place is not None and not place.done():
                assert decision.reply is not None
                place.set_result(decision.reply if error == ErrorCode.NONE else refused(told))

        self._broker.flusher.when_flushed([self.partition], flushed)
        return place

    def _release(self, released: Sequence[tuple[Token, R]]) -> None:
        for place, answer in released:
            assert isinstance(place, asyncio.Future)
            if not place.done():
                place.set_result(answer)

    def carry_out_in_portions(self, facts: Sequence[F]) -> None:
        """Facts that nobody waits for and that need not be stored together."""
        for start in range(0, len(facts), MOST_FACTS):
            error = self._store(facts[start : start + MOST_FACTS])
            if error != ErrorCode.NONE:
                return
        self._set_timer()

    # --- time ---

    def _set_timer(self) -> None:
        deadline = self._machine.next_deadline()
        if self._timer is not None:
            if self._timer_ms <= deadline:
                return
            self._timer.cancel()
        self._timer_ms = deadline
        delay_ms = deadline - int(self._broker.clock.monotonic() * 1000)
        # A millisecond later, as a timer may come a little early.
        self._timer = self._broker.loop.call_later(max(delay_ms + 1, 0) / 1000, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self.now()
        until_ms = now.steady_ms + SLICE_MS
        while (decision := self._machine.expire(now)) is not None:
            self._carry_out_due(decision)
            now = self.now()
            if now.steady_ms >= until_ms:
                break
        self._set_timer()

    def _carry_out_due(self, decision: Decided[F, R]) -> None:
        """A deadline's decision has no asker; that it was not stored has been logged, and it comes again."""
        self.carry_out_in_portions(decision.facts)

    def stop(self) -> None:
        """The partition is led elsewhere, or nowhere: whoever waits is sent to look for the coordinator again."""
        self.loaded = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._release(self._machine.given_up())


def read_clock(broker: "Broker") -> Now:
    clock = broker.clock
    return Now(int(clock.monotonic() * 1000), clock.now_ms())
