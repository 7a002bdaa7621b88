"""All settings of a broker in one table, and what Kafka says about names beside it.

Owns: the union of the `broker_*` tables and the rules for names with a listener's prefix. Never knows: who has set
what. Invariant: names are unique.
"""

from ottla.base.settings.broker_cluster import CLUSTER_SETTINGS
from ottla.base.settings.broker_groups import GROUPS_SETTINGS
from ottla.base.settings.broker_log import LOG_SETTINGS
from ottla.base.settings.broker_node import NODE_SETTINGS
from ottla.base.settings.broker_security import SECURITY_SETTINGS
from ottla.base.settings.broker_tiered import TIERED_SETTINGS
from ottla.base.settings.broker_zookeeper import ZOOKEEPER_SETTINGS
from ottla.base.settings.kinds import Setting

BROKER_TABLES: dict[str, tuple[Setting, ...]] = {
    "The node": NODE_SETTINGS,
    "The log": LOG_SETTINGS,
    "Groups": GROUPS_SETTINGS,
    "The cluster": CLUSTER_SETTINGS,
    "ZooKeeper": ZOOKEEPER_SETTINGS,
    "Security": SECURITY_SETTINGS,
    "Tiered storage": TIERED_SETTINGS,
}
"""The tables under the headings of the reference."""

BROKER_SETTINGS: dict[str, Setting] = {setting.name: setting for table in BROKER_TABLES.values() for setting in table}

LISTENER_ONLY = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Settings that may change while the broker runs only under a listener's prefix."""

CLUSTER_WIDE_BY_LISTENER = frozenset({"max.connection.creation.rate", "max.connections", "num.network.threads"})
"""Settings that may be given for one listener of every broker; others with a prefix belong to one broker."""

_BY_MECHANISM = (
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)

_CHAINS: tuple[tuple[str, ...], ...] = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_SYNONYMS: dict[str, tuple[str, ...]] = {name: chain for chain in _CHAINS for name in chain} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}


def listener_base(name: str) -> str | None:
    """`ssl.protocol` for `listener.name.internal.ssl.protocol`, None for a name without a listener's prefix."""
    if not name.startswith("listener.name."):
        return None
    _, dot, base = name.removeprefix("listener.name.").partition(".")
    return base if dot else None


def replaced_by(name: str) -> tuple[str, ...]:
    """The names whose weaker values a dynamic change of this one puts out of force."""
    return _SYNONYMS.get(name, (name,))


def synonyms(name: str) -> tuple[str, ...]:
    """The names under which a broker setting may be given, the strongest first."""
    base = listener_base(name)
    if base is None:
        return replaced_by(name)
    # Some are given for one mechanism of a listener, as in listener.name.internal.plain.sasl.jaas.config.
    return (name, next((setting for setting in _BY_MECHANISM if base.endswith(setting)), base))


def find_broker_setting(name: str) -> Setting | None:
    """The declaration behind a name, with or without a listener's prefix; None for a name that is not ours."""
    setting = BROKER_SETTINGS.get(name)
    if setting is None and listener_base(name) is not None:
        setting = BROKER_SETTINGS.get(synonyms(name)[-1])
    return setting
