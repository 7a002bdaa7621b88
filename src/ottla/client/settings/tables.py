"""All settings of each kind of client, and the few defaults in which the kinds differ.

Owns: the union of the tables. Never knows: who has set what. Invariant: names are unique within a kind, and a keyword
is a name with underscores.
"""

from typing import NamedTuple

from ottla.base.settings.kinds import Setting
from ottla.client.settings import admin, consumer, producer
from ottla.client.settings.every_client import COMMON_SETTINGS, SECURITY_SETTINGS


class ClientKind(NamedTuple):
    """One kind of client and what can be set for it."""

    name: str
    settings: dict[str, Setting]
    defaults: dict[str, str]
    """Where this kind's default is another than the one declared for all."""

    def default(self, setting: Setting) -> str | None:
        return self.defaults.get(setting.name, setting.default)


def _kind(name: str, own: tuple[Setting, ...], **defaults: str) -> ClientKind:
    settings = {setting.name: setting for setting in (*COMMON_SETTINGS, *own, *SECURITY_SETTINGS)}
    assert len(settings) == len(COMMON_SETTINGS) + len(own) + len(SECURITY_SETTINGS), name
    return ClientKind(name, settings, {key.replace("_", "."): default for key, default in defaults.items()})


PRODUCER = _kind("producer", producer.OWN_SETTINGS, receive_buffer_bytes="32768")
CONSUMER = _kind("consumer", consumer.OWN_SETTINGS)
ADMIN = _kind("admin", admin.OWN_SETTINGS, connections_max_idle_ms="300000", enable_metrics_push="false")
KINDS = (PRODUCER, CONSUMER, ADMIN)
