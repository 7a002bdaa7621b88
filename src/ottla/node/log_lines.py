"""How a node writes its log: lines that a person can read, or JSON for machines (`ottla.log.format`)."""

import json
import logging
import sys
from datetime import UTC, datetime


class _Readable(logging.Formatter):
    """`2026-01-31 12:00:00.123 INFO  broker  message`"""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).strftime("%Y-%m-%d %H:%M:%S")
        line = f"{when}.{int(record.msecs):03d} {record.levelname:<7} {_room(record):<10} {record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class _Json(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "room": _room(record),
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def _room(record: logging.LogRecord) -> str:
    return record.name.removeprefix("ottla.").partition(".")[0]


def set_up(form: str, level: str) -> None:
    """Send the log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Readable())
    root = logging.getLogger("ottla")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
