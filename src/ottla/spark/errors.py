"""What the data source says in one sentence; Spark shows it where the query was written."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from ottla.client.errors import ClientError, ConnectionFailed

P = ParamSpec("P")
T = TypeVar("T")


class BadOption(ValueError):
    """An option that does not exist, cannot have its value or does not go with another."""


class DataLoss(Exception):
    """Records that should have been read are gone."""

    def __str__(self) -> str:
        return f"{self.args[0]}. Set failOnDataLoss=false to go on without those records."


class CheckpointMismatch(Exception):
    """What a checkpoint says of a query is not what the topic has of it."""


class Unreachable(ConnectionFailed):
    """The cluster does not answer."""

    def __str__(self) -> str:
        return f"no broker can be reached ({self.address}: {self.reason}). Check bootstrap.servers, and that it runs."


class BadRows(ValueError):
    """Rows that cannot be written."""


class NoJava(Exception):
    """Spark cannot run here."""


class Undecodable(ValueError):
    """A record whose value is not what its format and schema say."""

    def __str__(self) -> str:
        return (
            f"{self.args[0]}. Set mode=PERMISSIVE to get such values in the column _corrupt_record, "
            "or mode=DROPMALFORMED to go on without them."
        )


_PLAIN = (BadOption, CheckpointMismatch, DataLoss, BadRows, Undecodable, ClientError)
"""What says all there is to say."""


def in_one_sentence(step: Callable[P, T]) -> Callable[P, T]:
    """A step that Spark calls.

    Spark shows how an exception came about, line by line, before it says what is wrong. Of what says enough by itself
    only this step is left to show.
    """

    @wraps(step)
    def stepping(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return step(*arguments, **named)
        except _PLAIN as problem:
            failure = problem
        raise failure.with_traceback(None)

    return stepping


def each_in_one_sentence(batches: Iterator[T]) -> Iterator[T]:
    """The same for what Spark takes one by one."""
    try:
        yield from batches
        return
    except _PLAIN as problem:
        failure = problem
    raise failure.with_traceback(None)
