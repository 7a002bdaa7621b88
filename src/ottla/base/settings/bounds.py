"""The conditions that values of settings are held to.

Owns: ranges, choices and the few shapes (voters, servers, throttled replicas, offset resets), each with Kafka's words
for a value outside of it. Never knows: which setting uses which.
"""

from ottla.base.settings.kinds import InvalidSetting, Value, invalid, value_text


class Range:
    """A number between two bounds, either of which may be open."""

    __slots__ = ("high", "low")

    def __init__(self, low: float | None, high: float | None = None) -> None:
        self.low = low
        self.high = high

    @property
    def valid(self) -> str:
        low = "…" if self.low is None else value_text(self.low)
        return f"at least {low}" if self.high is None else f"{low} to {value_text(self.high)}"

    def refuse(self, name: str, value: Value) -> None:
        assert isinstance(value, int | float), name
        if self.low is not None and value < self.low:
            raise invalid(name, value, f"Value must be at least {value_text(self.low)}")
        if self.high is not None and value > self.high:
            raise invalid(name, value, f"Value must be no more than {value_text(self.high)}")


class GzipLevel:
    """One of gzip's levels, or -1 for the library's choice."""

    __slots__ = ()
    valid = "1 to 9, or -1"

    def refuse(self, name: str, value: Value) -> None:
        assert isinstance(value, int), name
        if value != -1 and not 1 <= value <= 9:
            raise invalid(name, value, "Value must be between 1 and 9 or equal to -1")


class OneOf:
    """One word of a few."""

    __slots__ = ("any_case", "words")

    def __init__(self, *words: str, any_case: bool = False) -> None:
        self.words = words
        self.any_case = any_case

    @property
    def valid(self) -> str:
        return ", ".join(f"`{word}`" for word in self.words)

    def refuse(self, name: str, value: Value) -> None:
        assert isinstance(value, str), name
        if self.any_case:
            if value.upper() not in self.words:
                raise invalid(name, value, f"String must be one of (case insensitive): {', '.join(self.words)}")
        elif value not in self.words:
            raise invalid(name, value, f"String must be one of: {', '.join(self.words)}")


class NonEmpty:
    """Some text."""

    __slots__ = ()
    valid = "not empty"

    def refuse(self, name: str, value: Value) -> None:
        if not value:
            raise invalid(name, value, "String must be non-empty")


class ListOf:
    """A list without empty items, of given words when there are any; itself empty only when that is allowed."""

    __slots__ = ("may_be_empty", "words")

    def __init__(self, *words: str, may_be_empty: bool = True) -> None:
        self.words = words
        self.may_be_empty = may_be_empty

    @property
    def valid(self) -> str:
        words = "any of " + ", ".join(f"`{word}`" for word in self.words) if self.words else ""
        return words if self.may_be_empty else f"{words}, not empty" if words else "not empty"

    def refuse(self, name: str, value: Value) -> None:
        assert isinstance(value, tuple), name
        if not value and not self.may_be_empty:
            choice = value_text(self.words) if self.words else "any non-empty value"
            raise InvalidSetting(f"Configuration '{name}' must not be empty. Valid values include: {choice}")
        for item in value:
            if not item:
                raise InvalidSetting(f"Configuration '{name}' values must not be empty.")
            if self.words and item not in self.words:
                raise invalid(name, item, f"String must be one of: {', '.join(self.words)}")


class Voters:
    """Voters of the quorum, as `id@host:port`."""

    __slots__ = ()
    valid = "`id@host:port`, …"

    def refuse(self, name: str, value: Value) -> None:
        assert isinstance(value, tuple), name
        form = "Each entry should be in the form `{id}@{host}:{port}`."
        for item in value:
            number, at, address = item.partition("@")
            if not at or not number.removeprefix("-").isdecimal():
                raise InvalidSetting(f"Invalid configuration value for {name}. {form}")
            if not _is_address(address):
                entry = f"Failed to parse host name from entry {item} for the configuration {name}."
                raise InvalidSetting(f"{entry} {form}")


class Servers:
    """Addresses to connect to, as `host:port`."""

    __slots__ = ()
    valid = "`host:port`, …"

    def refuse(self, name: str, value: Value) -> None:
        assert isinstance(value, tuple), name
        for item in value:
            if not _is_address(item):
                raise InvalidSetting(
                    f"Failed to parse host name from {item} for the configuration {name}. "
                    'Each entry should be in the form "{host}:{port}"'
                )


class CountByAddress:
    """Limits for single addresses, as `host:count`."""

    __slots__ = ()
    valid = "`host:count`, …"

    def refuse(self, name: str, value: Value) -> None:
        assert isinstance(value, str), name
        for item in value.split(",") if value else ():
            host, _, count = item.strip().rpartition(":")
            if not (host and _is_ascii_number(count)):
                raise InvalidSetting(
                    f"Error parsing configuration property '{name}': {item.strip()!r} is not host:count"
                )


class ThrottledReplicas:
    """Replicas as `partition:broker`, or `*` alone."""

    __slots__ = ()
    valid = "`*` or `partition:broker`, …"

    def refuse(self, name: str, value: Value) -> None:
        assert isinstance(value, tuple), name
        if value == ("*",):
            return
        for item in value:
            partition, colon, broker = item.partition(":")
            if not (colon and _is_ascii_number(partition) and _is_ascii_number(broker)):
                form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
                raise invalid(
                    name, value, f"{name} must be the literal '*' or a list of replicas in the following format: {form}"
                )


class OffsetReset:
    """Where a share group starts to read."""

    __slots__ = ()
    valid = "`earliest`, `latest` or `by_duration:` and an ISO 8601 duration"

    def refuse(self, name: str, value: Value) -> None:
        assert isinstance(value, str), name
        word, colon, duration = value.partition(":")
        if value in ("earliest", "latest") or (word == "by_duration" and colon and _is_duration(duration)):
            return
        raise invalid(
            name,
            value,
            f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest', 'latest' or of "
            "the format 'by_duration:<PnDTnHnMn.nS>'.",
        )


def _is_ascii_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _is_address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    return bool(colon and host and _is_ascii_number(port)) and ("[" in host or ":" not in host)


def _is_duration(text: str) -> bool:
    """Java's Duration.parse for what is not negative: PnDTnHnMn.nS, at least one part, none after its turn."""
    body = text.upper()
    if not body.startswith("P"):
        return False
    days, t, rest = body[1:].partition("T")
    if (days and not (days.endswith("D") and _is_ascii_number(days[:-1]))) or (t and not rest) or not (days or rest):
        return False
    for unit in "HMS":
        number, found, after = rest.partition(unit)
        if not found:
            continue
        whole, point, fraction = number.partition(".")
        if not _is_ascii_number(whole) or (point and (unit != "S" or (fraction and not _is_ascii_number(fraction)))):
            return False
        rest = after
    return not rest
