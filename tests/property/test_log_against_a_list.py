"""A partition's log behaves as a list of records would, and what was flushed outlives a power cut."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kit.disks.workbench import Workbench
from ottla.base.errors import ErrorCode
from ottla.log.settings import LogSettings

SMALL = LogSettings(segment_bytes=700, index_interval_bytes=150, retention_bytes=1500, file_delete_delay_ms=0)


class LogAgainstAList(RuleBasedStateMachine):
    """The model: records by offset, batch boundaries, the offset up to which all was flushed, producers' sequences."""

    @initialize()
    def begin(self) -> None:
        self.home = tempfile.TemporaryDirectory(prefix="log-")
        self.bench = Workbench(Path(self.home.name) / "orders-3", SMALL)
        self.values: dict[int, bytes] = {}
        self.bases: list[int] = []
        self.flushed = 0
        self.written = 0
        self.sequences: dict[int, tuple[int, list[tuple[int, int, int]]]] = {}
        self.sent: set[tuple[int, int, int, int, int]] = set()

    def teardown(self) -> None:
        if hasattr(self, "home"):
            self.bench.log.abandon()
            self.home.cleanup()

    def _values(self, count: int, size: int) -> list[bytes]:
        self.written += count
        return [b"%d-" % (self.written - count + number) + b"x" * size for number in range(count)]

    def _added(self, base_offset: int, values: list[bytes]) -> None:
        self.bases.append(base_offset)
        self.values.update(enumerate(values, base_offset))

    @rule(count=st.integers(1, 4), size=st.integers(0, 120), later=st.integers(-5, 50))
    def append(self, count: int, size: int, later: int) -> None:
        values = self._values(count, size)
        expected = self.bench.log.end_offset
        self.bench.clock.now += max(later, 0)
        outcome = self.bench.append(*values, timestamp=self.bench.clock.now + later)
        assert outcome.error is ErrorCode.NONE
        assert outcome.base_offset == expected
        self._added(expected, values)

    @rule(producer_id=st.integers(1, 3), count=st.integers(1, 3), new_epoch=st.booleans())
    def append_idempotently(self, producer_id: int, count: int, new_epoch: bool) -> None:
        epoch, sent = self.sequences.get(producer_id, (0, []))
        if new_epoch:
            epoch, sent = epoch + 1, []
        sequence = sent[-1][0] + sent[-1][1] if sent else 0
        values = self._values(count, 10)
        outcome = self.bench.append(*values, producer=(producer_id, epoch, sequence))
        assert outcome.error is ErrorCode.NONE, outcome
        self._added(outcome.base_offset, values)
        self.sent.add((producer_id, epoch, sequence, count, outcome.base_offset))
        self.sequences[producer_id] = (epoch, [*sent, (sequence, count, outcome.base_offset)][-5:])

    @precondition(lambda self: self.sequences)
    @rule(data=st.data())
    def repeat_a_batch(self, data: Any) -> None:
        producer_id = data.draw(st.sampled_from(sorted(self.sequences)))
        epoch, sent = self.sequences[producer_id]
        sequence, count, base_offset = data.draw(st.sampled_from(sent))
        end = self.bench.log.end_offset
        outcome = self.bench.append(*[b"again"] * count, producer=(producer_id, epoch, sequence))
        assert (outcome.error, outcome.base_offset) == (ErrorCode.NONE, base_offset)
        assert self.bench.log.end_offset == end

    @precondition(lambda self: self.sequences)
    @rule(data=st.data())
    def leave_a_gap_in_the_sequence(self, data: Any) -> None:
        producer_id = data.draw(st.sampled_from(sorted(self.sequences)))
        epoch, sent = self.sequences[producer_id]
        sequence, count, _ = sent[-1]
        outcome = self.bench.append(b"lost", producer=(producer_id, epoch, sequence + count + 1))
        assert outcome.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @rule()
    def roll(self) -> None:
        self.bench.log.roll()

    @rule(data=st.data(), max_bytes=st.integers(1, 2000))
    def read_from_anywhere(self, data: Any, max_bytes: int) -> None:
        log = self.bench.log
        offset = data.draw(st.integers(log.start_offset, log.end_offset))
        expected = [(at, value) for at, value in sorted(self.values.items()) if at >= offset]
        assert self.bench.records(offset, max_bytes) == expected
        assert log.read(log.end_offset + 1, max_bytes, log.end_offset, True) is ErrorCode.OFFSET_OUT_OF_RANGE
        if log.start_offset:
            assert log.read(log.start_offset - 1, max_bytes, log.end_offset, True) is ErrorCode.OFFSET_OUT_OF_RANGE

    def _truncated(self, end_offset: int) -> None:
        self.values = {at: value for at, value in self.values.items() if at < end_offset}
        self.bases = [base for base in self.bases if base < end_offset]
        self.flushed = min(self.flushed, end_offset)
        self._forget_sequences()

    def _forget_sequences(self) -> None:
        """After a cut or a restart the log may know fewer batches of a producer, or some again that lie before its
        start and are read in recovery, but none that was not sent."""
        for producer_id in {sent[0] for sent in self.sent}:
            state = self.bench.log.producers.state(producer_id)
            if state is None or not state.batches:
                self.sequences.pop(producer_id, None)
                continue
            known = [(first, last - first + 1, base) for first, last, base, _, _ in state.batches]
            assert all((producer_id, state.epoch, *sent) in self.sent for sent in known)
            self.sequences[producer_id] = (state.epoch, known)

    @precondition(lambda self: self.bases)
    @rule(data=st.data())
    def truncate(self, data: Any) -> None:
        offset = data.draw(st.sampled_from(self.bases))
        if offset < self.bench.log.start_offset:
            return
        assert self.bench.log.truncate_to(offset)
        self._truncated(offset)

    @rule(data=st.data())
    def delete_records(self, data: Any) -> None:
        log = self.bench.log
        offset = data.draw(st.integers(log.start_offset, log.high_watermark))
        assert log.delete_records_before(offset) is ErrorCode.NONE
        self._started(offset)

    @rule()
    def retention(self) -> None:
        log = self.bench.log
        log.delete_segments(log.expired_segments(self.bench.clock.now))
        for removal in log.take_removals():
            removal.run()
        self._started(log.start_offset)

    def _started(self, offset: int) -> None:
        self.values = {at: value for at, value in self.values.items() if at >= offset}
        self.flushed = max(self.flushed, offset)

    @rule()
    def flush(self) -> None:
        self.bench.flush()
        self.flushed = self.bench.log.end_offset

    @rule()
    def stop_and_start(self) -> None:
        self.bench.restart()
        self.flushed = self.bench.log.end_offset
        self._forget_sequences()

    @rule(data=st.data())
    def crash(self, data: Any) -> None:
        end_before = self.bench.log.end_offset
        chance = data.draw(st.randoms(use_true_random=False))
        self.bench.crash(lambda _, synced, size: chance.choice((synced, size, chance.randint(synced, size))))
        log = self.bench.log
        assert self.flushed <= log.end_offset <= end_before
        assert log.end_offset in {*self.bases, end_before, log.start_offset}
        self._truncated(log.end_offset)
        self.flushed = min(self.flushed, log.end_offset)

    @invariant()
    def the_log_holds_what_the_list_holds(self) -> None:
        if not hasattr(self, "bench"):
            return
        log = self.bench.log
        assert log.start_offset <= log.high_watermark <= log.end_offset
        assert log.recovery_point <= log.end_offset
        assert self.bench.records() == sorted(self.values.items())


TestLogAgainstAList = LogAgainstAList.TestCase
TestLogAgainstAList.settings = hypothesis_settings(max_examples=80, stateful_step_count=40, deadline=None)
