"""Conditions on clients' settings that brokers' settings have no use for.

Owns: addresses, offset resets and words that stand for objects. Never knows: which setting uses which.
"""

from ottla.base.settings.bounds import OffsetReset
from ottla.base.settings.kinds import InvalidSetting, Value
from ottla.client.address import parse_addresses


class Addresses:
    """Brokers to ask first; a port left out is Kafka's."""

    __slots__ = ()
    valid = "`host:port`, …"

    def refuse(self, name: str, value: Value) -> None:
        assert isinstance(value, tuple), name
        try:
            parse_addresses(",".join(value))
        except ValueError as problem:
            raise InvalidSetting(str(problem)) from None


class ConsumerReset(OffsetReset):
    """Where a consumer starts that has no valid position; unlike a share group it may also refuse to guess."""

    __slots__ = ()
    valid = "`earliest`, `latest`, `none` or `by_duration:` and an ISO 8601 duration"

    def refuse(self, name: str, value: Value) -> None:
        if value != "none":
            super().refuse(name, value)


class PlainOnly:
    """The one security protocol this version speaks."""

    __slots__ = ()
    valid = "`PLAINTEXT`; TLS and SASL are not in this version"

    def refuse(self, name: str, value: Value) -> None:
        assert isinstance(value, str), name
        if value.upper() != "PLAINTEXT":
            raise InvalidSetting(f"{name} cannot be {value}")
