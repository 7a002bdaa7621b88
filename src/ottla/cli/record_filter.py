"""Which records are shown: by key, by header, by a Python expression.

Owns: the names an expression sees and what happens when it fails on a record. Never knows: where records come from.
Invariants: an expression that can never work (a syntax error, an unknown name) ends the command; one that fails on a
record (no such field, another type) leaves this record out and the failure is counted, never silently.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from types import CodeType
from typing import Any, TypeAlias

from ottla.base.vocabulary import TopicPartition
from ottla.cli.record_json import Shown

Keep: TypeAlias = Callable[[TopicPartition, Shown], bool]

_NAMES: dict[str, Callable[[TopicPartition, Shown], Any]] = {
    "topic": lambda place, _: place.topic,
    "partition": lambda place, _: place.partition,
    "offset": lambda _, record: record.offset,
    "timestamp": lambda _, record: record.timestamp,
    "time": lambda _, record: datetime.fromtimestamp(record.timestamp / 1000, UTC),
    "key": lambda _, record: _text(record.key),
    "value": lambda _, record: _content(record.value),
    "text": lambda _, record: _text(record.value),
    "raw_key": lambda _, record: record.key,
    "raw_value": lambda _, record: record.value,
    "headers": lambda _, record: {name: _text(value) for name, value in record.headers},
}
NAMES = tuple(_NAMES)
"""What an expression can ask for, beside Python's own and `re`, `json`, `datetime`, `timedelta`, `UTC`."""


class Expression:
    """A Python expression that is true for the records to keep."""

    def __init__(self, text: str) -> None:
        """ValueError when it is none, or asks for a name that is not there."""
        try:
            code = compile(text.strip(), "--where", "eval")
        except (SyntaxError, ValueError) as problem:
            raise ValueError(f"{text!r} is not a Python expression: {problem}") from None
        self._code = code
        self._tools = _tools()
        used = set(_names_in(code))
        self._used = [(name, _NAMES[name]) for name in _NAMES if name in used]
        self.failures = 0
        self.first_failure = ""

    def __call__(self, place: TopicPartition, record: Shown) -> bool:
        names = dict(self._tools)
        try:
            for name, find in self._used:
                names[name] = find(place, record)
            return bool(eval(self._code, names))
        except NameError as problem:
            from ottla.cli.failures import Failure

            raise Failure(
                f"--where: {problem}; it sees {', '.join(NAMES)}, re, json, datetime, timedelta, UTC"
            ) from None
        except Exception as problem:  # whatever a user's expression may raise on a record it was not made for
            self.failures += 1
            if self.failures == 1:
                what = f"{type(problem).__name__}: {problem}"
                self.first_failure = f"{what} at {place.topic}-{place.partition} offset {record.offset}"
            return False

    def complaint(self) -> str | None:
        """A sentence about the records it failed on."""
        if not self.failures:
            return None
        records = "1 record" if self.failures == 1 else f"{self.failures:,} records"
        return f"left out {records} on which --where failed, the first with {self.first_failure}"


def chosen(
    key: bytes | None, headers: Sequence[tuple[str, bytes | None]], expression: Expression | None
) -> Keep | None:
    """All conditions at once, the cheap ones first; None when there is none. A header's value of None: any will do."""
    tests: list[Keep] = []
    if key is not None:
        tests.append(lambda _, record: record.key == key)
    for name, value in headers:
        tests.append(_has_header(name, value))
    if expression is not None:
        tests.append(expression)
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else lambda place, record: all(test(place, record) for test in tests)


def _has_header(name: str, value: bytes | None) -> Keep:
    if value is None:
        return lambda _, record: any(header[0] == name for header in record.headers)
    return lambda _, record: (name, value) in record.headers


def _tools() -> dict[str, Any]:
    import re
    from datetime import timedelta

    return {"re": re, "json": json, "datetime": datetime, "timedelta": timedelta, "UTC": UTC}


def _names_in(code: CodeType) -> Iterable[str]:
    """Also those in comprehensions and lambdas."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _text(data: bytes | None) -> str | bytes | None:
    """Text where it is text."""
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return data


def _content(data: bytes | None) -> Any:
    """What the JSON says where it is JSON, else text where it is text."""
    try:
        return None if data is None else json.loads(data)
    except ValueError:
        return _text(data)
