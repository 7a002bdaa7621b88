"""Batches that take long to check, such as large compressed ones, are looked into by a thread.

Owns: the queue of such work. Never knows: what is checked, or for whom. Invariants: one piece of work at a time, so
that what is decompressed at once is bounded; a connection that waits for its verdict sends nothing more, so the queue
is at most as long as there are connections.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ottla.records.check import BatchRefusal, Checked

logger = logging.getLogger("ottla.broker")

Verdict: TypeAlias = Checked | BatchRefusal
Work: TypeAlias = Sequence[Callable[[], Verdict]]
OnChecked: TypeAlias = Callable[[Sequence[Verdict]], None]


# Why looking inside costs others nothing: design/0003.
class RecordChecks:
    """The batches that wait for a look inside.

    `in_thread` runs its first argument in a thread, then its second on the loop with what went wrong.
    """

    def __init__(self, in_thread: Callable[[Callable[[], None], Callable[[BaseException | None], None]], Any]) -> None:
        self._in_thread = in_thread
        self._waiting: deque[tuple[Work, OnChecked]] = deque()
        self._busy = False

    def run(self, work: Work, done: OnChecked) -> None:
        """Have everything checked, then call `done` with the verdicts, in their order; with none if that failed."""
        self._waiting.append((work, done))
        if not self._busy:
            self._next()

    def _next(self) -> None:
        self._busy = bool(self._waiting)
        if not self._busy:
            return
        work, done = self._waiting.popleft()
        verdicts: list[Verdict] = []

        def check() -> None:
            verdicts.extend([each() for each in work])

        def checked(problem: BaseException | None) -> None:
            if problem is not None:
                logger.error("records could not be checked", exc_info=problem)
            try:
                done(verdicts)
            finally:
                self._next()

        self._in_thread(check, checked)
