"""What can go wrong between a client and a cluster, as exceptions.

Owns: the kinds and whether trying again may help. Never knows: how a failure is shown to a person.
Invariant: every exception of this room is a `ClientError`; `retriable` says whether the same call may succeed later.
"""

from ottla.base.errors import RETRIABLE, ErrorCode


class ClientError(Exception):
    """Base of everything a call on this room can raise for reasons outside the program."""

    retriable = False


class InvalidSetting(ClientError, ValueError):
    """A setting that does not exist or cannot have its value; `nearest` is the name that was probably meant."""

    def __init__(self, name: str, message: str, nearest: str | None = None) -> None:
        super().__init__(name, message, nearest)
        self.name = name
        self.message = message
        self.nearest = nearest

    def __str__(self) -> str:
        return self.message


class ConnectionFailed(ClientError):
    """A broker could not be reached."""

    retriable = True

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.address}: {self.reason}"


class ConnectionLost(ConnectionFailed):
    """A connection that stood ended before everything on it was answered."""


class DeadlineExceeded(ClientError):
    """Nothing failed, but what was asked for did not happen in time."""

    retriable = True

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"no answer in time: {self.what}"


class UnsupportedRequest(ClientError):
    """The broker does not speak any version of a request that this client speaks."""

    def __init__(self, address: str, request: str, offered: str) -> None:
        super().__init__(address, request, offered)
        self.address = address
        self.request = request
        self.offered = offered

    def __str__(self) -> str:
        return f"{self.address} does not support {self.request} ({self.offered})"


class ProtocolViolation(ClientError):
    """A broker sent bytes that are no answer to what it was asked."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.address}: {self.reason}"


class BrokerError(ClientError):
    """A broker answered with an error code about `subject` (a topic, a partition, a setting …)."""

    def __init__(self, code: int, subject: str, message: str | None = None) -> None:
        super().__init__(code, subject, message)
        self.code = known_code(code)
        self.subject = subject
        self.message = message
        self.retriable = self.code in RETRIABLE

    def __str__(self) -> str:
        return f"{self.subject}: {self.code.name}" + (f" ({self.message})" if self.message else "")


class BadRecord(ClientError):
    """What was handed to a producer cannot be written as a record; the rest of its batch failed with it."""


class ProducerFailed(ClientError):
    """An idempotent producer that can no longer promise 'once and in order'; only a new one can go on."""

    def __init__(self, cause: ClientError) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return f"the producer stopped to avoid duplicates or gaps after: {self.cause}"


def known_code(code: int) -> ErrorCode:
    """The code, or UNKNOWN_SERVER_ERROR for a number newer than this client."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
