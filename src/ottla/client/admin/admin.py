"""`ottla.Admin`: everything an operator asks a cluster for, in one object.

Owns: the life of the connection behind it. Never knows: any request; those are in the parts it is made of.
Invariant: it connects at its first use inside an event loop and belongs to that loop; several clusters are several
objects.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Self, Unpack

from ottla.client.admin.brokers import BrokerAdmin
from ottla.client.admin.groups import GroupAdmin
from ottla.client.admin.nodes import NodeAdmin
from ottla.client.admin.quotas import QuotaAdmin
from ottla.client.admin.topics import TopicAdmin
from ottla.client.admin.transactions import TransactionAdmin
from ottla.client.cluster import Cluster, ClusterSettings
from ottla.client.errors import ClientClosed
from ottla.client.settings import ADMIN, AdminKeywords, load


class Admin(TopicAdmin, BrokerAdmin, GroupAdmin, TransactionAdmin, NodeAdmin, QuotaAdmin):
    """Use it as an async context manager. Settings are those of Kafka's admin client.

    Every call takes the `seconds` it may last in all; `default.api.timeout.ms` where none are given. A call about
    several things answers for each of them and raises only when the cluster could not be asked at all.
    """

    def __init__(self, settings: Mapping[str, object] | None = None, /, **keywords: Unpack[AdminKeywords]) -> None:
        self.settings = load(ADMIN, settings, keywords)
        self._default_seconds = self.settings.seconds("default.api.timeout.ms")
        self._opened: Cluster | None = None
        self._closed = False

    @property
    def _cluster(self) -> Cluster:
        if self._closed:
            raise ClientClosed("the admin client is closed")
        if self._opened is None:
            self._opened = Cluster(self.settings.addresses(), ClusterSettings.of(self.settings))
        return self._opened

    async def close(self) -> None:
        """End the connections; a call under way fails. Does nothing the second time."""
        self._closed = True
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    async def __aenter__(self) -> Self:
        await self._cluster.retry(lambda: self._cluster.connect(self._deadline(None)), self._deadline(None))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()
