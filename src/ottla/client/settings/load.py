"""From what a user wrote to settings that hold.

Owns: names in either form, the conversion of Python values and of text, and the sentence for what is wrong. Never
knows: what a setting does. Invariant: whatever is wrong is an `InvalidSetting` that names the setting, what is allowed
or which name was probably meant.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.base.settings.bounds import OneOf
from ottla.base.settings.kinds import InvalidSetting as Refused
from ottla.base.settings.kinds import Setting, ValueKind, parse
from ottla.base.settings.security import NEITHER, asks_for_security
from ottla.client.errors import InvalidSetting
from ottla.client.settings.agreement import agree
from ottla.client.settings.nearest import nearest
from ottla.client.settings.tables import KINDS, ClientKind
from ottla.client.settings.values import Settings

_MEANING = {
    ValueKind.BOOLEAN: "true or false",
    ValueKind.STRING: "text",
    ValueKind.PASSWORD: "text",
    ValueKind.INT: "a whole number",
    ValueKind.SHORT: "a whole number",
    ValueKind.LONG: "a whole number",
    ValueKind.DOUBLE: "a number",
    ValueKind.LIST: "a list, or text with commas",
    ValueKind.CLASS: "an object, a class or a word",
}
_OBJECTS = frozenset(
    {
        "key.serializer",
        "value.serializer",
        "key.deserializer",
        "value.deserializer",
        "interceptor.classes",
        "partitioner.class",
        "partition.assignment.strategy",
    }
)
"""Settings whose values are what the user's program made; who uses them looks at them."""


def load(kind: ClientKind, mapping: Mapping[str, object] | None, keywords: Mapping[str, Any]) -> Settings:
    """The settings of a client from Kafka's names, keyword arguments or both; a keyword wins over the same name."""
    given: dict[str, object] = {}
    for source, is_keyword in ((mapping or {}, False), (keywords, True)):
        for written, value in source.items():
            setting = _find(kind, written, is_keyword)
            if value is not None:  # None is how programs say that they leave a setting alone
                given[setting.name] = _value(setting, value)
    values = {name: given[name] if name in given else _default(kind, each) for name, each in kind.settings.items()}
    if not values["bootstrap.servers"]:
        raise InvalidSetting("bootstrap.servers", "bootstrap.servers is missing: name a broker to ask, as host:port")
    return Settings(kind, agree(kind, values, frozenset(given)), frozenset(given))


def _find(kind: ClientKind, written: object, is_keyword: bool) -> Setting:
    name = str(written).replace("_", ".")
    if name in kind.settings:
        return kind.settings[name]
    close = nearest(name, kind.settings)
    others = [other.name for other in KINDS if name in other.settings]
    if others:
        hint = f"; it is one of {' and '.join(others)}"
    elif close:
        hint = f"; did you mean {close.replace('.', '_') if is_keyword else close}?"
    else:
        hint = ""
    raise InvalidSetting(name, f"{written} is no setting of {kind.name}{hint}", close)


def _default(kind: ClientKind, setting: Setting) -> object:
    text = kind.default(setting)
    return text if setting.kind is ValueKind.CLASS else _settled(setting, parse(setting, text))


def _value(setting: Setting, value: object) -> object:
    if setting.name in _OBJECTS:
        return _objects(value) if setting.kind is ValueKind.LIST else value
    text = _text(setting.kind, value)
    try:
        if text is None:
            raise Refused("not of this kind")
        if asks_for_security(setting, text):
            raise InvalidSetting(setting.name, f"{setting.name} cannot be set: {NEITHER[0].lower()}{NEITHER[1:]}")
        return _settled(setting, parse(setting, text))
    except Refused:
        shown = "this value" if setting.sensitive else repr(value)
        raise InvalidSetting(setting.name, f"{setting.name} cannot be {shown}: allowed is {allowed(setting)}") from None


def allowed(setting: Setting) -> str:
    """What a setting may be, for people."""
    meaning = _MEANING[setting.kind]
    if setting.check is None:
        return meaning
    return setting.check.valid if setting.kind is ValueKind.STRING else f"{meaning}, {setting.check.valid}"


def _text(kind: ValueKind, value: object) -> str | None:
    """The text for a Python value; None when a value of this type is certainly not meant."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower() if kind is ValueKind.BOOLEAN else None
    if isinstance(value, int):
        return str(value) if kind not in (ValueKind.BOOLEAN, ValueKind.LIST, ValueKind.CLASS) else None
    if isinstance(value, float):
        return repr(value) if kind is ValueKind.DOUBLE else None
    if kind is ValueKind.LIST and isinstance(value, Iterable):
        items = list(value)
        return ",".join(items) if all(isinstance(item, str) for item in items) else None
    return None


def _objects(value: object) -> tuple[object, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, Iterable) else (value,)


def _settled(setting: Setting, value: object) -> object:
    """Words for which case does not matter are upper case from here on."""
    if isinstance(setting.check, OneOf) and setting.check.any_case and isinstance(value, str):
        return value.upper()
    return value
