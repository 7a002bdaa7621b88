"""What the settings of a broker and of its topics are, once everybody has had a say.

Owns: precedence (this broker's dynamic value, the cluster's dynamic default, the file and command line, the built-in
default) and the chains from milliseconds to coarser units. Never knows: how the values arrived.
Invariant: a `BrokerValues` never changes; a change of settings makes a new one.
"""

from collections.abc import Mapping
from types import MappingProxyType

from ottla.base.settings.broker import BROKER_SETTINGS, replaced_by
from ottla.base.settings.kinds import Value, parse
from ottla.base.settings.topic import BROKER_NAME_OF_TOPIC, TOPIC_SETTINGS

NO_ID = "-1"
INTER_BROKER_LISTENER = "inter.broker.listener.name"
_NOTHING: Mapping[str, str] = MappingProxyType({})

_MINUTE = 60_000
_HOUR = 3_600_000
_TIME_CHAINS: dict[str, tuple[tuple[str, int], ...]] = {
    "log.retention.ms": (("log.retention.ms", 1), ("log.retention.minutes", _MINUTE), ("log.retention.hours", _HOUR)),
    "log.roll.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR)),
    "log.roll.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR)),
    "log.flush.interval.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
}


class BrokerValues:
    """The settings of one broker."""

    __slots__ = ("_cache", "_texts", "_topic_defaults", "dynamic", "dynamic_default", "static")

    def __init__(
        self,
        static: Mapping[str, str] = _NOTHING,
        dynamic: Mapping[str, str] = _NOTHING,
        dynamic_default: Mapping[str, str] = _NOTHING,
    ) -> None:
        self.static: Mapping[str, str] = _with_both_ids(static)
        self.dynamic = dynamic
        self.dynamic_default = dynamic_default
        self._texts = _laid_over(_laid_over(self.static, dynamic_default), dynamic)
        self._cache: dict[str, Value] = {}
        self._topic_defaults: Mapping[str, Value] | None = None

    def with_dynamic(self, dynamic: Mapping[str, str], dynamic_default: Mapping[str, str]) -> "BrokerValues":
        """The same broker after a change of its dynamic settings."""
        return BrokerValues(self.static, dynamic, dynamic_default)

    def numbered(self, node_id: int) -> "BrokerValues":
        """The same broker once it has a number."""
        both = {"node.id": str(node_id), "broker.id": str(node_id)}
        return BrokerValues({**self.static, **both}, self.dynamic, self.dynamic_default)

    @property
    def is_numbered(self) -> bool:
        """Whether somebody has given this broker its number."""
        return any(self.static.get(name, NO_ID).strip() != NO_ID for name in ("node.id", "broker.id"))

    def own_text(self, name: str) -> str | None:
        """What somebody has set under exactly this name."""
        return self._texts.get(name)

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener that brokers use among themselves."""
        return self.own_text(INTER_BROKER_LISTENER) or "PLAINTEXT"

    def own_names(self) -> list[str]:
        """The names somebody has set."""
        return list(self._texts)

    def own(self, name: str) -> Value:
        """The value under exactly this name, or its built-in default: no chain, no fallback."""
        setting = BROKER_SETTINGS[name]
        text = self._texts.get(name)
        return parse(setting, setting.default if text is None else text)

    def get(self, name: str) -> Value:
        """The value to work with; KeyError for a name that is not in the table."""
        if name not in self._cache:
            self._cache[name] = self._resolve(name)
        return self._cache[name]

    def integer(self, name: str) -> int:
        value = self.get(name)
        assert type(value) is int, name
        return value

    def real(self, name: str) -> float:
        value = self.get(name)
        assert isinstance(value, float), name
        return value

    def boolean(self, name: str) -> bool:
        value = self.get(name)
        assert isinstance(value, bool), name
        return value

    def text(self, name: str) -> str:
        value = self.get(name)
        assert isinstance(value, str), name
        return value

    def listing(self, name: str) -> tuple[str, ...]:
        value = self.get(name)
        assert isinstance(value, tuple), name
        return value

    def _resolve(self, name: str) -> Value:
        if name in _TIME_CHAINS:
            return self._time(name)
        value = self.own(name)
        if name == "broker.id" and value == -1:
            return self.own("node.id")
        if value is not None:
            return value
        if name == "log.dirs":
            return self.own("log.dir")
        if name == "metadata.log.dir":
            return self.listing("log.dirs")[0]
        if name == "num.replica.alter.log.dirs.threads":
            return len(self.listing("log.dirs"))
        if name == "advertised.listeners":
            controller = self.listing("controller.listener.names")
            return tuple(item for item in self.listing("listeners") if item.partition("://")[0] not in controller)
        return None

    def _time(self, name: str) -> int:
        for link, factor in _TIME_CHAINS[name]:
            value = self.own(link)
            if value is not None:
                assert isinstance(value, int), link
                # Kafka knows one way to keep records for ever, however negative the number given.
                return -1 if value < 0 and name == "log.retention.ms" else value * factor
        raise AssertionError(f"the last of the chain of {name} has a default")

    def topic_default(self, name: str) -> Value:
        """What a topic gets for a setting that it does not override."""
        broker_name = BROKER_NAME_OF_TOPIC.get(name)
        if broker_name is not None:
            return self.get(broker_name)
        setting = TOPIC_SETTINGS[name]
        return parse(setting, setting.default)

    def topic_values(self, overrides: Mapping[str, str] = _NOTHING) -> Mapping[str, Value]:
        """Every topic setting by its topic name; topics without overrides share one mapping."""
        if self._topic_defaults is None:
            self._topic_defaults = MappingProxyType({name: self.topic_default(name) for name in TOPIC_SETTINGS})
        if not overrides:
            return self._topic_defaults
        values = dict(self._topic_defaults)
        for name, text in overrides.items():
            # A metadata log written by another version may hold names that this one does not know.
            if name in TOPIC_SETTINGS:
                values[name] = parse(TOPIC_SETTINGS[name], text)
        if values["internal.segment.bytes"] is not None:
            values["segment.bytes"] = values["internal.segment.bytes"]
        return values


def _laid_over(weaker: Mapping[str, str], stronger: Mapping[str, str]) -> dict[str, str]:
    texts = dict(weaker)
    for name in stronger:
        for replaced in replaced_by(name):
            texts.pop(replaced, None)
    return texts | dict(stronger)


def _with_both_ids(static: Mapping[str, str]) -> Mapping[str, str]:
    """Each of the two names of the node's number stands for the other where only one is given; -1 is none."""
    if "node.id" in static and "broker.id" not in static:
        return {**static, "broker.id": static["node.id"]}
    if static.get("broker.id", NO_ID).strip() != NO_ID and "node.id" not in static:
        return {**static, "node.id": static["broker.id"]}
    return dict(static)
