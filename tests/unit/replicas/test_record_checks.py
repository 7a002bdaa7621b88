"""Records that take long to check are looked into by a thread, one request after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.base.errors import ErrorCode
from ottla.records.check import BatchRefusal
from ottla.replicas.record_checks import RecordChecks, Verdict

FIRST = BatchRefusal(ErrorCode.INVALID_RECORD, "first")
SECOND = BatchRefusal(ErrorCode.INVALID_RECORD, "second")


class Threads:
    """Runs work when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []

    def __call__(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        self.waiting.append((work, done))

    def run_one(self) -> None:
        work, done = self.waiting.pop(0)
        problem: BaseException | None = None
        try:
            work()
        except Exception as raised:
            problem = raised
        done(problem)


def test_verdicts_come_in_order_and_one_request_after_the_other() -> None:
    threads = Threads()
    checks = RecordChecks(threads)
    found: list[Sequence[Verdict]] = []
    checks.run([lambda: FIRST, lambda: SECOND], found.append)
    checks.run([lambda: SECOND], found.append)
    assert len(threads.waiting) == 1
    threads.run_one()
    assert found == [[FIRST, SECOND]]
    threads.run_one()
    assert found == [[FIRST, SECOND], [SECOND]]
    assert not threads.waiting


def test_a_check_that_breaks_ends_with_no_verdict_and_the_next_goes_on() -> None:
    def broken() -> Verdict:
        raise RuntimeError

    threads = Threads()
    checks = RecordChecks(threads)
    found: list[Sequence[Verdict]] = []
    checks.run([broken], found.append)
    checks.run([lambda: FIRST], found.append)
    threads.run_one()
    threads.run_one()
    assert found == [[], [FIRST]]


def test_an_answer_that_cannot_be_given_does_not_stop_the_others() -> None:
    def fails(_: Sequence[Verdict]) -> None:
        raise RuntimeError

    threads = Threads()
    checks = RecordChecks(threads)
    found: list[Sequence[Verdict]] = []
    checks.run([lambda: FIRST], fails)
    checks.run([lambda: SECOND], found.append)
    work, done = threads.waiting.pop(0)
    work()
    try:
        done(None)
    except RuntimeError:
        threads.run_one()
    assert found == [[SECOND]]
