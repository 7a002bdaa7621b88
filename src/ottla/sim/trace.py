"""What happened in a universe, in order.

Owns: the history that is printed for a failing seed and the fingerprint of every single event. Never knows: what the
events mean. Invariant: the same seed gives the same fingerprint.
"""

import logging
from asyncio import _get_running_loop
from collections.abc import Callable
from zlib import crc32


class Trace:
    """`tick` for the many small events, `tell` for those a reader wants to see."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._sum = 0
        self.events = 0
        self.lines: list[str] = []

    def tick(self, event: str) -> None:
        self.events += 1
        self._sum = crc32(f"{self._time():.9f} {event}".encode(), self._sum)

    def tell(self, event: str) -> None:
        self.tick(event)
        self.lines.append(f"{self._time():11.6f}  {event}")

    @property
    def fingerprint(self) -> str:
        return f"{self._sum:08x}-{self.events}"


class LogLines(logging.Handler):
    """The nodes' own log lines as part of the history; errors are kept for the checkers."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(logging.INFO)
        self._trace = trace
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        loop = _get_running_loop()
        name = getattr(loop, "name", "?")
        text = f"{name} {record.levelname.lower()} {record.name}: {record.getMessage()}"
        if record.exc_info and record.exc_info[0] is not None:
            trouble = logging.Formatter().formatException(record.exc_info)
            self.errors.append(f"{text}\n{trouble}")
            text = f"{text} ({record.exc_info[0].__name__})"
            self._trace.lines.append(trouble)
        self._trace.tell(text)
