"""A real broker, or a cluster of them, inside a test's own process.

    with ottla.testing.broker() as b:
        producer = confluent_kafka.Producer({"bootstrap.servers": b.bootstrap})

Owns: the names a test writer uses. Each is loaded at its first use: pytest loads this package in every run, for its
plugin, and most runs need no broker.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.testing.embedded import Broker, Cluster, broker, cluster
    from ottla.testing.faults import Failing

__all__ = ["Broker", "Cluster", "Failing", "broker", "cluster"]

_HOMES = {
    "Broker": "ottla.testing.embedded",
    "Cluster": "ottla.testing.embedded",
    "Failing": "ottla.testing.faults",
    "broker": "ottla.testing.embedded",
    "cluster": "ottla.testing.embedded",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _HOMES:
        found = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return found
    raise AttributeError(f"module 'ottla.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
