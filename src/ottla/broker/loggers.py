"""The levels of this process's log, seen and changed by clients as configs of a broker's loggers.

Owns: Kafka's names of levels and what may be done to a logger. Never knows: where log lines go. Nothing here is stored:
after a restart the settings file counts again.
"""

import logging

from ottla.base.errors import ErrorCode
from ottla.base.settings.changes import Operation
from ottla.metadata.decision import Refusal

ROOT = "ottla"
LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_NAMES = {number: name for name, number in LEVELS.items() if name != "TRACE"}


def levels() -> dict[str, str]:
    """The effective level of every logger, by name."""
    names = [ROOT, *sorted(name for name in logging.root.manager.loggerDict if name.startswith(f"{ROOT}."))]
    return {name: _NAMES.get(logging.getLogger(name).getEffectiveLevel(), "INFO") for name in names}


def refusal(name: str, operation: Operation, level: str | None) -> Refusal | None:
    """Why a logger cannot be changed like this."""
    if operation in (Operation.APPEND, Operation.SUBTRACT):
        message = f"{operation.name} operation is not allowed for the BROKER_LOGGER resource"
        return Refusal(ErrorCode.INVALID_REQUEST, message)
    if name not in levels():
        return Refusal(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation is Operation.DELETE and name == ROOT:
        return Refusal(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
    if operation is Operation.SET and level not in LEVELS:
        return Refusal(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}",
        )
    return None


def change(name: str, operation: Operation, level: str | None) -> None:
    """Do what `refusal` found nothing against; without a level of its own a logger follows the one above it."""
    logging.getLogger(name).setLevel(logging.NOTSET if operation is Operation.DELETE else LEVELS[level or ""])
