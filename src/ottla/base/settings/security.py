"""Settings that ask for protection which this version does not have.

Owns: the refusal. Never knows: listeners as addresses, who asks. Invariant: nobody who asked for TLS or SASL gets
anything else; settings that say no more than their defaults, and protocols of names that no listener has, ask for
nothing.
"""

from collections.abc import Iterable, Mapping

from ottla.base.settings.broker import find_broker_setting, listener_base
from ottla.base.settings.kinds import InvalidSetting, Setting, parse

PLAINTEXT = "PLAINTEXT"
GUARDED = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
NEITHER = "This version speaks neither TLS nor SASL"
OF_SECURITY = ("ssl.", "sasl.", "security.inter.broker.protocol")
_LISTENERS = ("listeners", "advertised.listeners")
_NAMES = (
    "inter.broker.listener.name",
    "control.plane.listener.name",
    "controller.listener.names",
    "early.start.listeners",
)


def asks_for_security(setting: Setting, text: str) -> bool:
    """Whether a setting is of TLS or SASL and says something else than its default."""
    return setting.name.startswith(OF_SECURITY) and parse(setting, text) != parse(setting, setting.default)


def check_unguarded(texts: Mapping[str, str]) -> None:
    """InvalidSetting where a broker with these settings would be open although they say that it is guarded."""
    between = texts.get("security.inter.broker.protocol", PLAINTEXT).strip()
    if between.upper() != PLAINTEXT:
        raise InvalidSetting(
            f"{NEITHER}, so brokers cannot speak {between} to each other: remove security.inter.broker.protocol."
        )
    protocols = dict(_protocols(texts.get("listener.security.protocol.map", "")))
    for name, setting in _listeners(texts):
        protocol = protocols.get(name, name if name in GUARDED else PLAINTEXT)
        if protocol != PLAINTEXT:
            raise InvalidSetting(
                f"{NEITHER}, and the listener {name} ({setting}) would be served in the clear although it is to speak "
                f"{protocol}: make it {PLAINTEXT}, or take it out."
            )
    for name, text in texts.items():
        declared = find_broker_setting(name)
        if declared is not None and asks_for_security(declared, text):
            raise InvalidSetting(f"{NEITHER}: remove {name}.")
        if declared is None and (listener_base(name) or "").startswith(OF_SECURITY):
            raise InvalidSetting(f"{NEITHER}: remove {name}.")


def _protocols(text: str) -> Iterable[tuple[str, str]]:
    for pair in text.split(","):
        name, colon, protocol = pair.partition(":")
        if colon:
            yield name.strip().upper(), protocol.strip().upper()


def _listeners(texts: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """The names of listeners that this node has or reaches others by, each with the setting that says so."""
    for setting in _LISTENERS:
        for address in texts.get(setting, "").split(","):
            name, scheme, _ = address.partition("://")
            if scheme:
                yield name.strip().upper(), setting
    for setting in _NAMES:
        for name in texts.get(setting, "").split(","):
            if name.strip():
                yield name.strip().upper(), setting
