"""The transactions this broker coordinates: a shard for each partition of `__transaction_state` that it leads."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ottla.coordinator.groups.group_coordinator import GroupCoordinator
from ottla.coordinator.runtime import CoordinatorRuntime, TopicCreator, TopicPlan
from ottla.coordinator.transactions.guards import Guards
from ottla.replicas.commits import Commits
from ottla.replicas.context import BrokerContext
from ottla.replicas.partitions import Partition, PartitionTable

if TYPE_CHECKING:
    from ottla.base.settings.values import BrokerValues
    from ottla.coordinator.transactions.remote_markers import RemoteMarkers
    from ottla.coordinator.transactions.shard import TransactionShard
    from ottla.coordinator.transactions.verification import RemoteCoordinators
    from ottla.metadata.delta import ClusterDelta
    from ottla.metadata.image import ClusterImage
    from ottla.transactions.decision import TransactionLimits

STATE_TOPIC = "__transaction_state"


class CoordinatorController(TopicCreator, Protocol):
    """Who makes the topic, and tells which brokers went."""

    def subscribe(self, subscriber: "Callable[[ClusterDelta, ClusterImage], None]") -> None: ...


class TransactionCoordinator(CoordinatorRuntime["TransactionShard"]):
    """The transactional ids that this broker coordinates."""

    plan = TopicPlan(
        STATE_TOPIC,
        partitions="transaction.state.log.num.partitions",
        replicas="transaction.state.log.replication.factor",
        segment_bytes="transaction.state.log.segment.bytes",
        configs={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
        },
        in_sync="transaction.state.log.min.isr",
    )

    def __init__(
        self,
        context: BrokerContext,
        commits: Commits,
        controller: CoordinatorController,
        partitions: PartitionTable,
        groups: GroupCoordinator,
    ) -> None:
        super().__init__(context, commits, controller)
        self.partitions = partitions
        self.groups = groups
        """Their offsets may be part of a transaction."""
        self.guards = Guards()
        self._remote_coordinators: RemoteCoordinators | None = None
        self._remote_markers: RemoteMarkers | None = None
        controller.subscribe(self._published)

    def _published(self, delta: "ClusterDelta", image: "ClusterImage") -> None:
        """Brokers that are fenced are not waited for: others lead their partitions."""
        for broker_id in delta.changed_brokers:
            broker = image.brokers.get(broker_id)
            if broker is None or broker.fenced:
                for peers in (self._remote_coordinators, self._remote_markers):
                    if peers is not None:
                        peers.gone(broker_id)

    @property
    def remote_coordinators(self) -> "RemoteCoordinators":
        """To coordinators on other brokers."""
        if self._remote_coordinators is None:
            from ottla.coordinator.transactions.verification import RemoteCoordinators

            self._remote_coordinators = RemoteCoordinators(self.context)
        return self._remote_coordinators

    @property
    def remote_markers(self) -> "RemoteMarkers":
        """To partitions that other brokers lead."""
        if self._remote_markers is None:
            from ottla.coordinator.transactions.remote_markers import RemoteMarkers

            self._remote_markers = RemoteMarkers(self.context)
        return self._remote_markers

    async def stop(self) -> None:
        await super().stop()
        if self._remote_coordinators is not None:
            await self._remote_coordinators.stop()
        if self._remote_markers is not None:
            await self._remote_markers.stop()

    def _make(self, partition: Partition) -> "TransactionShard":
        from ottla.coordinator.transactions.shard import TransactionShard

        return TransactionShard(self, partition, limits(self.context.values))

    async def _load(self, shard: "TransactionShard") -> bool:
        from ottla.coordinator.transactions.loading import load

        return await load(self.context, shard.partition, shard.machine)


def limits(values: "BrokerValues") -> "TransactionLimits":
    """What the broker's settings say about transactions."""
    from ottla.transactions.decision import TransactionLimits

    return TransactionLimits(
        max_timeout_ms=values.integer("transaction.max.timeout.ms"),
        expiration_ms=values.integer("transactional.id.expiration.ms"),
        abort_check_ms=values.integer("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        expiration_check_ms=values.integer("transaction.remove.expired.transaction.cleanup.interval.ms"),
    )
