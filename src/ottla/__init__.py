"""ottla: a Kafka-compatible event streaming platform in Python.

Owns: the names a program uses: `Producer`, `Consumer`, `Admin` for asyncio, the same names in `ottla.blocking` for
threads and scripts, what an admin takes and answers in `ottla.admin`, and `ottla.errors`. Each is loaded at its first
use, so that `import ottla` costs next to nothing.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla import admin, blocking, errors, testing
    from ottla.base.vocabulary import TopicPartition
    from ottla.client.admin.admin import Admin
    from ottla.client.consumer import ConsumedRecord, Consumer
    from ottla.client.producer import Producer, Record

__version__ = "0.2.0.dev0"

__all__ = [
    "Admin",
    "ConsumedRecord",
    "Consumer",
    "Producer",
    "Record",
    "TopicPartition",
    "__version__",
    "admin",
    "blocking",
    "errors",
    "testing",
]

_HOMES = {
    "Admin": "ottla.client.admin.admin",
    "ConsumedRecord": "ottla.client.consumer",
    "Consumer": "ottla.client.consumer",
    "Producer": "ottla.client.producer",
    "Record": "ottla.client.producer",
    "TopicPartition": "ottla.base.vocabulary",
}
_MODULES = ("admin", "blocking", "errors", "testing")


if not TYPE_CHECKING:  # else checkers would take any name for one of ours

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _MODULES:
            return import_module(f"ottla.{name}")
        if name in _HOMES:
            found = globals()[name] = getattr(import_module(_HOMES[name]), name)
            return found
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
