"""What a setting is: its kind, its bounds, and how its text becomes a value.

Owns: Kafka's kinds with their wire numbers, the `Setting` declaration, parsing, and the error for a wrong value, whose
message is Kafka's for the same mistake. Never knows: which settings exist, who has set them, files.
Invariant: a value is immutable, and `text_of(setting, parse(setting, text))` is what Kafka shows for `text`.
"""

from enum import IntEnum
from typing import Protocol, TypeAlias

from ottla.base.errors import ErrorCode

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None


class ValueKind(IntEnum):
    """The kinds of values, numbered as DescribeConfigs numbers them."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Scope(IntEnum):
    """Where a setting may be given, and for broker settings whether it may change while the broker runs."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2
    TOPIC = 3
    GROUP = 4
    CLIENT_METRICS = 5


class InvalidSetting(Exception):
    """A setting that cannot be: one sentence for the person who wrote it, and the code for the client that sent it."""

    def __init__(self, message: str, error: ErrorCode = ErrorCode.INVALID_CONFIG) -> None:
        super().__init__(message)
        self.error = error


class Check(Protocol):
    """A condition on a parsed value."""

    @property
    def valid(self) -> str:
        """What is allowed, for people."""
        ...

    def refuse(self, name: str, value: Value) -> None:
        """Raise InvalidSetting when the value is not allowed; `value` is never None."""
        ...


class Setting:
    """One declaration. A name that is `hidden` is described only where somebody has set it."""

    __slots__ = ("check", "default", "documentation", "hidden", "kind", "name", "no_effect", "scope")

    def __init__(
        self,
        name: str,
        kind: ValueKind,
        default: str | None,
        documentation: str,
        scope: Scope = Scope.READ_ONLY,
        check: Check | None = None,
        *,
        hidden: bool = False,
        no_effect: str = "",
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.documentation = documentation
        self.scope = scope
        self.check = check
        self.hidden = hidden
        self.no_effect = no_effect
        """Why Kafka's setting changes nothing here; empty for a setting that works."""

    @property
    def sensitive(self) -> bool:
        return self.kind is ValueKind.PASSWORD

    def __repr__(self) -> str:
        return f"Setting({self.name!r}, {self.kind.name})"


_INTEGER_BITS = {ValueKind.SHORT: 16, ValueKind.INT: 32, ValueKind.LONG: 64}
_JAVA_TRIM = "".join(map(chr, range(33)))
_JAVA_BLANK = " \t\n\x0b\f\r"


def parse(setting: Setting, text: str | None) -> Value:
    """The value behind a text; InvalidSetting when it is not one of this setting's."""
    if text is None:
        return None
    value = _convert(setting, text)
    if setting.check is not None:
        setting.check.refuse(setting.name, value)
    return value


def _convert(setting: Setting, text: str) -> Value:
    kind = setting.kind
    trimmed = text.strip(_JAVA_TRIM)
    if kind in _INTEGER_BITS:
        return _integer(setting.name, kind, text, trimmed)
    if kind is ValueKind.BOOLEAN:
        lowered = trimmed.lower()
        if lowered not in ("true", "false"):
            raise invalid(setting.name, text, "Expected value to be either true or false")
        return lowered == "true"
    if kind is ValueKind.DOUBLE:
        return _double(setting.name, text, trimmed)
    if kind is ValueKind.LIST:
        if not trimmed:
            return ()
        # Kafka drops what is listed twice; dict keeps the order of first mention.
        return tuple(dict.fromkeys(part.strip(_JAVA_BLANK) for part in trimmed.split(",")))
    if kind is ValueKind.CLASS and not trimmed.startswith("org.apache.kafka."):
        # Kafka's own classes have no effect here; anybody else's would be missed, so it is refused as not there.
        raise invalid(setting.name, text, f"Class {text} could not be found.")
    return trimmed


def _integer(name: str, kind: ValueKind, text: str, trimmed: str) -> int:
    digits = trimmed[1:] if trimmed[:1] in ("+", "-") else trimmed
    if digits.isdecimal():
        number = int(trimmed)
        limit = 1 << (_INTEGER_BITS[kind] - 1)
        if -limit <= number < limit:
            return number
    raise invalid(name, text, f"Not a number of type {kind.name}")


def _double(name: str, text: str, trimmed: str) -> float:
    # Java takes a type suffix and its own two words; Python takes underscores and more words.
    unsigned = trimmed.lstrip("+-")
    plain = trimmed[:-1] if trimmed[-1:] in ("f", "F", "d", "D") else trimmed
    if unsigned in ("NaN", "Infinity") or (unsigned[:1] in tuple(".0123456789") and "_" not in trimmed):
        try:
            return float(trimmed if unsigned in ("NaN", "Infinity") else plain)
        except ValueError:
            pass
    raise invalid(name, text, "Not a number of type DOUBLE")


def text_of(setting: Setting, value: Value) -> str | None:
    """The text Kafka shows for a value."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return ",".join(value)
    return value_text(value)


def value_text(value: Value) -> str:
    """A value inside a message: Java's way to write numbers, truth and lists."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _double_text(value)
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return str(value)


def _double_text(value: float) -> str:
    if value != value:
        return "NaN"
    sign = "-" if value < 0 else ""
    if abs(value) == float("inf"):
        return f"{sign}Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    # Java writes one digit before the point and a bare exponent; Python's repr has the same shortest digits.
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(whole) - 1 - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def invalid(name: str, value: Value, reason: str) -> InvalidSetting:
    """Kafka's sentence for a value it refuses."""
    return InvalidSetting(f"Invalid value {value_text(value)} for configuration {name}: {reason}")
