"""A request that is not served closes its connection, and the log says which it was."""

from struct import pack
from typing import Any, cast

import pytest

from kit.worlds.idle_brokers import idle_broker
from kit.worlds.unasked import UnaskedController
from ottla.metadata.image import ClusterImage


class Connection:
    """One that keeps why it was closed."""

    peer = "somewhere"
    listener = "PLAINTEXT"

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.deferred = None
        self.client_id: str | None = None

    def drop(self, reason: str) -> None:
        self.reasons.append(reason)


@pytest.mark.parametrize(
    ("key", "version", "reason"),
    [
        (0, 2, "Produce in version 2, which is not served"),
        (0, 99, "Produce in version 99, which is not served"),
        (1, 3, "Fetch in version 3, which is not served"),
        (1, 99, "Fetch in version 99, which is not served"),
        (22, 6, "InitProducerId in version 6, which is not served"),
        (3, 99, "Metadata in version 99, which is not served"),
        (999, 0, "a request of the unknown API 999"),
    ],
)
async def test_what_is_not_served_is_named(key: int, version: int, reason: str) -> None:
    dispatcher = idle_broker(UnaskedController(ClusterImage("a-cluster"))).dispatcher
    connection = Connection()
    dispatcher.receive(cast(Any, connection), memoryview(pack(">hhih2s", key, version, 7, 2, b"me") + b"\0" * 8))
    assert connection.reasons == [reason]
