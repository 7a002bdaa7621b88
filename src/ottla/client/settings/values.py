"""What a client's settings are, once the user has spoken.

Owns: reading values by Kafka's names in the type a caller needs. Never knows: how they were given, what they are for.
Invariant: a `Settings` never changes; every name of its kind has a value, which has passed its check.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar

from ottla.client.address import Address, parse_addresses
from ottla.client.errors import InvalidSetting
from ottla.client.settings.nearest import nearest
from ottla.client.settings.tables import ClientKind

T = TypeVar("T")


class Settings:
    """The settings of one client. Words for which case does not matter are upper case."""

    __slots__ = ("_values", "given", "kind")

    kind: ClientKind
    given: frozenset[str]

    def __init__(self, kind: ClientKind, values: Mapping[str, object], given: frozenset[str]) -> None:
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "given", given)
        object.__setattr__(self, "_values", MappingProxyType(dict(values)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("settings do not change")

    def __iter__(self) -> Iterator[tuple[str, object]]:
        return iter(self._all().items())

    def get(self, name: str) -> object:
        """The value to work with; KeyError for a name that is not in the table."""
        return self._all()[name]

    def integer(self, name: str) -> int:
        value = self.get(name)
        assert type(value) is int, name
        return value

    def seconds(self, name: str) -> float:
        """A setting in milliseconds, as seconds."""
        assert name.endswith(".ms"), name
        return self.integer(name) / 1000

    def boolean(self, name: str) -> bool:
        value = self.get(name)
        assert isinstance(value, bool), name
        return value

    def text(self, name: str) -> str:
        value = self.get(name)
        assert isinstance(value, str), name
        return value

    def text_or_none(self, name: str) -> str | None:
        value = self.get(name)
        assert value is None or isinstance(value, str), name
        return value

    def things(self, name: str) -> tuple[object, ...]:
        """A list whose items the user may have given as objects, classes or words."""
        value = self.get(name)
        assert isinstance(value, tuple), name
        return value

    def addresses(self) -> tuple[Address, ...]:
        """The brokers to ask first."""
        return parse_addresses(",".join(str(each) for each in self.things("bootstrap.servers")))

    def known(self, name: str, given: object, words: Mapping[str, T]) -> T | object:
        """What a word stands for; anything but a word is its own meaning. InvalidSetting for a word nobody knows."""
        if not isinstance(given, str):
            return given
        if given in words:
            return words[given]
        close = nearest(given, words)
        hint = f"; did you mean {close!r}?" if close else ""
        allowed = ", ".join(sorted(words))
        raise InvalidSetting(name, f"{name} cannot be {given!r}: allowed is an object, or one of {allowed}{hint}")

    def _all(self) -> Mapping[str, object]:
        values: Mapping[str, object] = object.__getattribute__(self, "_values")
        return values
