"""One led partition of an internal topic and the machine whose facts it holds.

Owns: the way of a decision: its facts become one batch in the log, then hold, and when they are committed its answers
leave; and the timer of the machine's deadlines. Never knows: what is decided. Invariants: what is answered, and
whatever it was decided on, is committed (and, where the log flushes every message, on the disk); a decision that cannot
be stored changes nothing; a shard belongs to one epoch of its partition's leadership, and what it stored and could not
commit goes with it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.machines import Now, Token
from ottla.base.ports import Clock
from ottla.log.files import StorageFailure
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.replicas.commits import Commits
from ottla.replicas.context import BrokerContext
from ottla.replicas.partitions import Partition

logger = logging.getLogger("ottla.broker")

F = TypeVar("F")
R = TypeVar("R")
A = TypeVar("A")
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


class BatchWriter(NamedTuple):
    """In whose name a batch is written: a producer's, for facts that belong to its transaction."""

    producer_id: int
    epoch: int


class CoordinatorShard(Generic[F, R]):
    """One led partition and its machine."""

    def __init__(
        self,
        context: BrokerContext,
        commits: Commits,
        partition: Partition,
        machine: Machine,
        written: Callable[[F], tuple[bytes, bytes | None]],
        commit_seconds: float,
        compression: int = 0,
    ) -> None:
        self._context = context
        self._commits = commits
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.loaded = False
        self._machine = machine
        self._written = written
        self.commit_seconds = commit_seconds
        """How long an asker waits until it is told that the answer is not safe."""
        self._compression = compression
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    @property
    def leads(self) -> bool:
        """Whether the partition is led in the epoch that this belongs to, and its log can be used."""
        partition = self.partition
        return partition.leads and partition.leader_epoch == self.epoch and partition.log is not None

    def now(self) -> Now:
        return read_clock(self._context.clock)

    def begin(self) -> None:
        """The log has been read: the machine can be asked."""
        self._machine.loaded(self.now())
        self.loaded = True
        self._set_timer()

    # --- decisions ---

    def carry_out(
        self, decision: Decided[F, R], refused: Callable[[ErrorCode], R], writer: BatchWriter | None = None
    ) -> "R | asyncio.Future[R] | None":
        """Store and apply it; answers the asker's reply, now or as a future, or None when the asker waits."""
        if decision.facts:
            error = self._store(decision.facts, writer)
            if error != ErrorCode.NONE:
                return refused(_TOLD.get(error, error))
        self._machine.follow(decision)
        self._set_timer()
        log = self.partition.log
        if log is not None and (
            log.high_watermark < log.end_offset
            or (decision.facts and log.unflushed_messages >= log.settings.flush_messages)
        ):
            return self._when_safe(decision, refused)
        self._release(decision.released)
        return decision.reply

    def settled(self, answer: A, refused: Callable[[ErrorCode], A]) -> "A | asyncio.Future[A]":
        """The answer to a question that changes nothing: it waits until whatever it tells of is committed."""
        return settled(self._commits, (self,), answer, refused)

    def _store(self, facts: Sequence[F], writer: BatchWriter | None = None) -> ErrorCode:
        """Append them as one batch and apply them."""
        error = self._append(facts, writer)
        if error == ErrorCode.NONE:
            self._apply(facts, writer)
        return error

    def _apply(self, facts: Sequence[F], writer: BatchWriter | None) -> None:
        apply = self._machine.apply
        for fact in facts:
            apply(fact)

    def _append(self, facts: Sequence[F], writer: BatchWriter | None) -> ErrorCode:
        partition = self.partition
        log = partition.log
        if log is None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not self.leads:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not partition.enough_in_sync:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        now_ms = self._context.clock.now_ms()
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
            outcome = log.append_as_leader(memoryview(batch), self.epoch, now_ms, origin_client=False)
        except StorageFailure as failure:
            self._context.storage_failed(failure)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if outcome.error != ErrorCode.NONE:
            logger.error("a change in %s was not stored: %s", partition, outcome.message)
            return outcome.error
        partition.traffic.bytes_in += len(batch)
        partition.traffic.messages_in += len(facts)
        partition.appended()
        return ErrorCode.NONE

    # Decisions count when they are in the log, answers leave when they are committed: design/0009.
    def _when_safe(self, decision: Decided[F, R], refused: Callable[[ErrorCode], R]) -> "asyncio.Future[R] | None":
        """The answers wait until the facts, and those before them, are committed."""
        released = decision.released
        reply: asyncio.Future[R] | None = None if decision.reply is None else self._context.loop.create_future()
        if reply is None and not released:
            return None

        def safe(error: ErrorCode) -> None:
            told = _TOLD.get(error, error)
            if error != ErrorCode.NONE:
                for _, answer in released:
                    answer.error_code = told  # type: ignore[attr-defined]
            self._release(released)
            if reply is not None and not reply.done():
                assert decision.reply is not None
                reply.set_result(decision.reply if error == ErrorCode.NONE else refused(told))

        self._commits.when_safe([self.end_position()], safe, self.commit_seconds)
        return reply

    def end_position(self) -> tuple[Partition, int]:
        """How far the log is written."""
        log = self.partition.log
        return self.partition, 0 if log is None else log.end_offset

    def _release(self, released: Sequence[tuple[Token, R]]) -> None:
        for reply, answer in released:
            assert isinstance(reply, asyncio.Future)
            if not reply.done():
                reply.set_result(answer)

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
        delay_ms = deadline - int(self._context.clock.monotonic() * 1000)
        # A millisecond later, as a timer may come a little early.
        self._timer = self._context.loop.call_later(max(delay_ms + 1, 0) / 1000, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if not self.leads:
            # The directory that held the log has failed: whoever waits here waits in vain.
            self.stop()
            return
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


class LedPartition(Protocol):
    """A shard whose partition's facts an answer is made of."""

    partition: Partition
    commit_seconds: float


def settled(
    commits: Commits, shards: Sequence[LedPartition], answer: A, refused: Callable[[ErrorCode], A]
) -> "A | asyncio.Future[A]":
    """The answer to a question about several shards: it waits until whatever it tells of is committed."""
    waiting = [
        (shard.partition, log.end_offset)
        for shard in shards
        if (log := shard.partition.log) is not None and log.high_watermark < log.end_offset
    ]
    if not waiting:
        return answer
    reply: asyncio.Future[A] = commits.loop.create_future()

    def committed(error: ErrorCode) -> None:
        if not reply.done():
            reply.set_result(answer if error == ErrorCode.NONE else refused(_TOLD.get(error, error)))

    commits.when_committed(waiting, committed, max(shard.commit_seconds for shard in shards))
    return reply


def read_clock(clock: Clock) -> Now:
    return Now(int(clock.monotonic() * 1000), clock.now_ms())
