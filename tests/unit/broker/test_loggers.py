"""Levels of loggers, as clients see and change them."""

import logging
from collections.abc import Iterator

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.settings.changes import Operation
from ottla.broker import loggers

NAME = "ottla.test_loggers"


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    root = logging.getLogger("ottla")
    level = root.level
    root.setLevel(logging.WARNING)
    made = logging.getLogger(NAME)
    yield made
    made.setLevel(logging.NOTSET)
    root.setLevel(level)


def test_a_logger_without_a_level_shows_that_of_the_one_above() -> None:
    assert loggers.levels()[NAME] == "WARN"
    assert loggers.levels()["ottla"] == "WARN"


def test_a_level_is_set_and_taken_back() -> None:
    assert loggers.refusal(NAME, Operation.SET, "DEBUG") is None
    loggers.change(NAME, Operation.SET, "DEBUG")
    assert loggers.levels()[NAME] == "DEBUG"

    loggers.change(NAME, Operation.DELETE, None)
    assert loggers.levels()[NAME] == "WARN"


@pytest.mark.parametrize(
    ("name", "operation", "level", "error", "reason"),
    [
        ("nope", Operation.SET, "INFO", ErrorCode.INVALID_CONFIG, "Logger nope does not exist!"),
        (
            NAME,
            Operation.SET,
            "LOUD",
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {NAME} to LOUD as it is not a supported log level. "
            "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        (
            NAME,
            Operation.APPEND,
            "INFO",
            ErrorCode.INVALID_REQUEST,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            "ottla",
            Operation.DELETE,
            None,
            ErrorCode.INVALID_REQUEST,
            "Removing the log level of the root logger is not allowed",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    name: str, operation: Operation, level: str | None, error: ErrorCode, reason: str
) -> None:
    assert loggers.refusal(name, operation, level) == (error, reason)
