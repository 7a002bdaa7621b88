"""Users' code that sees records before a program does, and offsets after they were committed.

Owns: calling it in order. Never knows: what it does. Invariant: an interceptor that fails is logged and skipped; the
records go on as the one before left them.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.base.vocabulary import TopicPartition
from ottla.client.errors import InvalidSetting
from ottla.client.groups.vocabulary import OffsetAndMetadata
from ottla.client.settings import Settings
from ottla.records.record import ConsumedRecord

logger = logging.getLogger("ottla.client")


class ConsumerInterceptor:
    """What an interceptor may have; any of it may be left out, and none needs this class."""

    def configure(self, settings: Mapping[str, object]) -> None:
        """Called once with the consumer's settings."""

    def on_consume(self, records: list[ConsumedRecord]) -> list[ConsumedRecord]:
        """The records that the program gets."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These offsets were committed."""

    def close(self) -> None:
        """The consumer is closed."""


class Interceptors:
    """Several, in the order in which they were given."""

    __slots__ = ("_made",)

    def __init__(self, given: Sequence[object], settings: Settings) -> None:
        for each in given:
            if isinstance(each, str):
                raise InvalidSetting(
                    "interceptor.classes", f"interceptor.classes: {each!r} is neither object nor class"
                )
        self._made = [each() if isinstance(each, type) else each for each in given]
        self._each("configure", dict(settings))

    def __bool__(self) -> bool:
        return bool(self._made)

    def on_consume(self, records: list[ConsumedRecord]) -> list[ConsumedRecord]:
        for interceptor in self._made:
            method = getattr(interceptor, "on_consume", None)
            if method is None:
                continue
            try:
                records = list(method(records))
            except Exception:
                logger.exception("interceptor %s failed in on_consume and is skipped", type(interceptor).__name__)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._each("on_commit", offsets)

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
                logger.exception("interceptor %s failed in %s and is skipped", type(interceptor).__name__, name)
