"""The last stable offset and the aborted transactions of a log are those of the list of its batches and markers."""

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kit.disks.workbench import Workbench
from ottla.base.errors import ErrorCode
from ottla.log.index import AbortedTransaction
from ottla.log.producers import EndMarker
from ottla.log.settings import LogSettings

SMALL = LogSettings(segment_bytes=700, index_interval_bytes=150)
PRODUCERS = (11, 12, 13)


class Event(NamedTuple):
    """One batch of the log: of a transaction, its end, or (producer -1) of neither."""

    offset: int
    producer: int
    end: bool | None = None


class TransactionsAgainstAList(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.home = tempfile.TemporaryDirectory(prefix="log-")
        self.bench = Workbench(Path(self.home.name) / "orders-3", SMALL)
        self.events: list[Event] = []
        self.flushed = 0

    def teardown(self) -> None:
        if hasattr(self, "home"):
            self.bench.log.abandon()
            self.home.cleanup()

    def _next_sequence(self, producer: int) -> int:
        state = self.bench.log.producers.state(producer)
        return 0 if state is None else state.last_sequence + 1

    @rule(producer=st.sampled_from(PRODUCERS), size=st.integers(0, 100))
    def write_in_a_transaction(self, producer: int, size: int) -> None:
        outcome = self.bench.append(
            b"t" * size, producer=(producer, 0, self._next_sequence(producer)), transactional=True
        )
        assert outcome.error is ErrorCode.NONE, outcome
        self.events.append(Event(outcome.base_offset, producer))

    @rule(size=st.integers(0, 100))
    def write_plainly(self, size: int) -> None:
        self.events.append(Event(self.bench.append(b"p" * size).base_offset, -1))

    @rule(producer=st.sampled_from(PRODUCERS), commit=st.booleans())
    def end_a_transaction(self, producer: int, commit: bool) -> None:
        log = self.bench.log
        outcome = log.append_control(EndMarker(producer, 0, 1, commit), 0, self.bench.clock.now)
        assert outcome.error is ErrorCode.NONE
        log.high_watermark = log.end_offset
        self.events.append(Event(outcome.base_offset, producer, commit))

    @precondition(lambda self: self.events)
    @rule(data=st.data())
    def truncate(self, data: Any) -> None:
        offset = data.draw(st.sampled_from(self.events)).offset
        self.bench.log.truncate_to(offset)
        self._cut()

    @rule()
    def flush(self) -> None:
        self.bench.flush()
        self.flushed = self.bench.log.end_offset

    @rule()
    def stop_and_start(self) -> None:
        self.bench.restart()
        self.flushed = self.bench.log.end_offset

    @rule(data=st.data())
    def crash(self, data: Any) -> None:
        chance = data.draw(st.randoms(use_true_random=False))
        self.bench.crash(lambda _, synced, size: chance.choice((synced, size, chance.randint(synced, size))))
        assert self.bench.log.end_offset >= self.flushed
        self._cut()

    def _cut(self) -> None:
        end = self.bench.log.end_offset
        self.events = [event for event in self.events if event.offset < end]
        self.flushed = min(self.flushed, end)

    @invariant()
    def the_log_knows_what_is_decided(self) -> None:
        if not hasattr(self, "bench"):
            return
        opened: dict[int, int] = {}
        aborted = []
        for offset, producer, end in self.events:
            if end is None:
                if producer >= 0:
                    opened.setdefault(producer, offset)
                continue
            first = opened.pop(producer, None)
            if first is not None and not end:
                stable = min(opened.values(), default=offset + 1)
                aborted.append(AbortedTransaction(producer, first, offset, stable))
        log = self.bench.log
        assert log.last_stable_offset == min(opened.values(), default=log.end_offset)
        # Readers are told of them in the order in which they began.
        aborted.sort(key=lambda each: each.first_offset)
        assert log.aborted_transactions(0, log.end_offset) == aborted
        middle = log.end_offset // 2
        reached = log.aborted_transactions(middle, log.end_offset)
        assert reached == [transaction for transaction in aborted if transaction.last_offset >= middle]


TestTransactionsAgainstAList = TransactionsAgainstAList.TestCase
TestTransactionsAgainstAList.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)
