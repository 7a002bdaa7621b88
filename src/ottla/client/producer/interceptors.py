"""Users' code that sees every record on its way out and every acknowledgement on its way back.

Owns: calling it in order. Never knows: what it does. Invariant: an interceptor that fails is logged and skipped; the
record goes on as the one before left it.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from ottla.client.errors import ClientError, InvalidSetting
from ottla.client.producer.record import Placed, Record

_LOG = logging.getLogger("ottla.producer")


class ProducerInterceptor:
    """What an interceptor may have; any of it may be left out, and none needs this class."""

    def configure(self, settings: Any) -> None:
        """Called once with the producer's settings."""

    def on_send(self, record: Record) -> Record:
        """The record that goes on, before keys and values are serialized."""
        return record

    def on_acknowledgement(self, placed: Placed | None, error: ClientError | None) -> None:
        """What became of a record."""

    def close(self) -> None:
        """The producer is closed."""


class Interceptors:
    """Several, in the order in which they were given."""

    def __init__(self, given: Sequence[object], settings: Any) -> None:
        made = [each() if isinstance(each, type) else each for each in given]
        for each in made:
            if isinstance(each, str):
                raise InvalidSetting("interceptor.classes", f"interceptor.classes: {each!r} is no object")
        self._made = made
        self._each("configure", settings)

    def __bool__(self) -> bool:
        return bool(self._made)

    def on_send(self, record: Record) -> Record:
        for interceptor in self._made:
            method: Callable[[Record], Record] | None = getattr(interceptor, "on_send", None)
            if method is None:
                continue
            try:
                changed = method(record)
                record = changed if isinstance(changed, Record) else record
            except Exception:
                _LOG.exception("interceptor %s failed in on_send and is skipped", type(interceptor).__name__)
        return record

    def on_acknowledgement(self, placed: Placed | None, error: ClientError | None) -> None:
        self._each("on_acknowledgement", placed, error)

    def close(self) -> None:
        self._each("close")

    def _each(self, name: str, *arguments: Any) -> None:
        for interceptor in self._made:
            method = getattr(interceptor, name, None)
            if method is None:
                continue
            try:
                method(*arguments)
            except Exception:
                _LOG.exception("interceptor %s failed in %s and is skipped", type(interceptor).__name__, name)
