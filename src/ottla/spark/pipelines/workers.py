"""Spark's Python workers on a machine that is busy.

Owns: what is tried again. Never knows: what is asked of Spark. Spark gives a new Python process ten seconds to report,
whatever else the machine does, and fails the query when it is late; nothing has happened then, so it is asked again.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from pyspark.errors import PySparkException

T = TypeVar("T")

ATTEMPTS = 12
_LATE_WORKER = "failed to connect back"
_log = logging.getLogger(__name__)


def is_late_worker(problem: BaseException | None) -> bool:
    """Nothing was wrong but the time."""
    return problem is not None and _LATE_WORKER in str(problem)


def patiently(work: Callable[[], T]) -> T:
    """What `work` returns, asked again while workers are late."""
    for _ in range(ATTEMPTS - 1):
        try:
            return work()
        except PySparkException as problem:
            if not is_late_worker(problem):
                raise
            _log.warning("a Python worker of Spark was late: asking again")
    return work()
