"""The answers of DescribeConfigs, and the settings a CreateTopics answer carries.

Owns: for each kind of resource which settings are listed, with value, source and synonyms, as Kafka lists them, odd
corners included. Never knows: requests, who may ask. Invariant: a sensitive value is never in an answer.
"""

from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from ottla.base.settings.broker import BROKER_SETTINGS, find_broker_setting, synonyms
from ottla.base.settings.group import BROKER_NAME_OF_GROUP, CLIENT_METRICS_SETTINGS, GROUP_SETTINGS
from ottla.base.settings.kinds import Scope, Setting, ValueKind, parse, text_of
from ottla.base.settings.topic import BROKER_NAME_OF_TOPIC, TOPIC_SETTINGS
from ottla.base.settings.values import BrokerValues


class ConfigSource(IntEnum):
    """Who has set a value, numbered as DescribeConfigs numbers it."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class Synonym(NamedTuple):
    """One place where a value was or could have been taken from."""

    name: str
    value: str | None
    source: ConfigSource


class Described(NamedTuple):
    """One setting of one resource."""

    name: str
    value: str | None
    source: ConfigSource
    is_default: bool
    read_only: bool
    sensitive: bool
    synonyms: tuple[Synonym, ...]
    kind: ValueKind
    documentation: str


def describe_broker(values: BrokerValues) -> list[Described]:
    """All settings of this broker."""
    shown = [setting.name for setting in BROKER_SETTINGS.values() if not setting.hidden]
    known = set(shown)
    shown += [name for name in values.own_names() if name not in known]
    return [_broker_setting(values, name) for name in shown]


def describe_broker_defaults(values: BrokerValues) -> list[Described]:
    """The dynamic defaults of all brokers: what the resource with the empty name holds."""
    return [
        _described(
            name,
            find_broker_setting(name),
            text,
            _cluster_synonyms(values, name),
            read_only=_is_read_only(name),
        )
        for name, text in values.dynamic_default.items()
    ]


def describe_topic(values: BrokerValues, overrides: Mapping[str, str]) -> list[Described]:
    """All settings of a topic with these overrides."""
    defaults = _topic_defaults(values)
    if not overrides:
        return list(defaults.values())
    described = dict(defaults)
    for name, text in overrides.items():
        setting = TOPIC_SETTINGS.get(name)
        shown = text if setting is None else text_of(setting, parse(setting, text))
        described[name] = _described(
            name,
            setting,
            shown,
            (Synonym(name, shown, ConfigSource.DYNAMIC_TOPIC_CONFIG), *_topic_synonyms(values, name)),
        )
    return list(described.values())


def describe_created_topic(values: BrokerValues, overrides: Mapping[str, str]) -> list[Described]:
    """The settings in a CreateTopics answer: texts as they were given, no synonyms, chains followed to their source."""
    return [
        _created(values, setting, overrides)
        for name, setting in TOPIC_SETTINGS.items()
        if not setting.hidden or name in overrides
    ]


def describe_group(values: BrokerValues, overrides: Mapping[str, str]) -> list[Described]:
    """All settings of a group with these overrides."""
    described = []
    for name, setting in GROUP_SETTINGS.items():
        broker_name = BROKER_NAME_OF_GROUP.get(name)
        if name in overrides:
            shown = text_of(setting, parse(setting, overrides[name]))
            places = (Synonym(name, shown, ConfigSource.GROUP_CONFIG), *_group_synonyms(values, setting))
        else:
            shown = setting.default if broker_name is None else text_of(setting, values.get(broker_name))
            places = _group_synonyms(values, setting)
        described.append(_described(name, setting, shown, places))
    return described


def describe_client_metrics(overrides: Mapping[str, str]) -> list[Described]:
    """All settings of a subscription to clients' metrics."""
    described = []
    for name, setting in CLIENT_METRICS_SETTINGS.items():
        shown = text_of(setting, parse(setting, overrides.get(name, setting.default)))
        places = (Synonym(name, shown, ConfigSource.CLIENT_METRICS_CONFIG),) if name in overrides else ()
        described.append(_described(name, setting, shown, places))
    return described


def _described(
    name: str,
    setting: Setting | None,
    value: str | None,
    places: tuple[Synonym, ...],
    *,
    source: ConfigSource | None = None,
    read_only: bool = False,
) -> Described:
    if source is None:
        source = places[0].source if places else ConfigSource.DEFAULT_CONFIG
    # Nobody knows whether a setting without a declaration is a secret, so it is treated as one.
    sensitive = setting is None or setting.sensitive
    return Described(
        name,
        None if sensitive else value,
        source,
        source == ConfigSource.DEFAULT_CONFIG,
        read_only,
        sensitive,
        tuple(Synonym(place.name, None, place.source) for place in places) if sensitive else places,
        ValueKind.UNKNOWN if setting is None else setting.kind,
        "" if setting is None else setting.documentation,
    )


def _broker_setting(values: BrokerValues, name: str) -> Described:
    setting = BROKER_SETTINGS.get(name)
    if setting is None or setting.hidden:
        return _described(
            name,
            find_broker_setting(name),
            values.own_text(name),
            _broker_synonyms(values, name),
            read_only=_is_read_only(name),
        )
    text = text_of(setting, values.own(name))
    return _described(name, setting, text, _broker_synonyms(values, name), read_only=_is_read_only(name))


def _is_read_only(name: str) -> bool:
    setting = BROKER_SETTINGS.get(name)
    return setting is None or setting.scope is Scope.READ_ONLY


def _layers(values: BrokerValues) -> tuple[tuple[Mapping[str, str], ConfigSource], ...]:
    return (
        (values.dynamic, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (values.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (values.static, ConfigSource.STATIC_BROKER_CONFIG),
    )


def _broker_synonyms(values: BrokerValues, name: str) -> tuple[Synonym, ...]:
    names = synonyms(name)
    places: list[Synonym] = []
    for texts, source in _layers(values):
        if texts:
            places += [Synonym(each, texts[each], source) for each in names if each in texts]
    for each in names:
        setting = BROKER_SETTINGS.get(each)
        if setting is not None and setting.default is not None:
            places.append(Synonym(each, setting.default, ConfigSource.DEFAULT_CONFIG))
    # Kafka lists nothing stronger than the first place that bears the name asked for.
    first = next((index for index, place in enumerate(places) if place.name == name), len(places))
    return tuple(places[first:])


def _cluster_synonyms(values: BrokerValues, name: str) -> tuple[Synonym, ...]:
    places = _broker_synonyms(values, name)
    return tuple(place for place in places if place.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)


def _topic_synonyms(values: BrokerValues, name: str) -> tuple[Synonym, ...]:
    broker_name = BROKER_NAME_OF_TOPIC.get(name)
    return () if broker_name is None else _broker_synonyms(values, broker_name)


def _group_synonyms(values: BrokerValues, setting: Setting) -> tuple[Synonym, ...]:
    broker_name = BROKER_NAME_OF_GROUP.get(setting.name)
    if broker_name is None:
        return (Synonym(setting.name, setting.default, ConfigSource.DEFAULT_CONFIG),)
    return _broker_synonyms(values, broker_name)


@lru_cache(maxsize=2)
def _topic_defaults(values: BrokerValues) -> dict[str, Described]:
    """A client may ask for thousands of topics at once; most of their answer is the same."""
    return {
        name: _described(name, setting, text_of(setting, values.topic_default(name)), _topic_synonyms(values, name))
        for name, setting in TOPIC_SETTINGS.items()
        if not setting.hidden
    }


def _created(values: BrokerValues, setting: Setting, overrides: Mapping[str, str]) -> Described:
    name = setting.name
    if name in overrides:
        return _described(name, setting, overrides[name], (), source=ConfigSource.DYNAMIC_TOPIC_CONFIG)
    broker_name = BROKER_NAME_OF_TOPIC.get(name)
    if broker_name is not None:
        names = synonyms(broker_name)
        for texts, source in _layers(values):
            if any(each in texts for each in names):
                return _described(name, setting, text_of(setting, values.get(broker_name)), (), source=source)
    return _described(name, setting, setting.default, (), source=ConfigSource.DEFAULT_CONFIG)
