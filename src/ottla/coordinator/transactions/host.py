"""The transactions this broker coordinates: a shard for each partition of `__transaction_state` that it leads."""

from typing import TYPE_CHECKING

from ottla.coordinator.runtime import MachineHost, TopicPlan
from ottla.coordinator.transactions.guards import Guards
from ottla.replicas.partitions import Partition

if TYPE_CHECKING:
    from ottla.base.settings.values import BrokerValues
    from ottla.broker.broker import Broker
    from ottla.coordinator.transactions.remote_markers import RemoteMarkers
    from ottla.coordinator.transactions.shard import TransactionShard
    from ottla.coordinator.transactions.verification import Questions
    from ottla.metadata.delta import ClusterDelta
    from ottla.metadata.image import ClusterImage
    from ottla.transactions.decision import Limits

STATE_TOPIC = "__transaction_state"


class TransactionHost(MachineHost["TransactionShard"]):
    """See the module."""

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

    def __init__(self, broker: "Broker") -> None:
        super().__init__(broker)
        self.guards = Guards()
        self._questions: Questions | None = None
        self._remote_markers: RemoteMarkers | None = None
        broker.controller.subscribe(self._published)

    def _published(self, delta: "ClusterDelta", image: "ClusterImage") -> None:
        """Brokers that are fenced are not waited for: others lead their partitions."""
        for broker_id in delta.changed_brokers:
            broker = image.brokers.get(broker_id)
            if broker is None or broker.fenced:
                for peers in (self._questions, self._remote_markers):
                    if peers is not None:
                        peers.gone(broker_id)

    @property
    def questions(self) -> "Questions":
        """To coordinators on other brokers."""
        if self._questions is None:
            from ottla.coordinator.transactions.verification import Questions

            self._questions = Questions(self._broker.context)
        return self._questions

    @property
    def remote_markers(self) -> "RemoteMarkers":
        """To partitions that other brokers lead."""
        if self._remote_markers is None:
            from ottla.coordinator.transactions.remote_markers import RemoteMarkers

            self._remote_markers = RemoteMarkers(self._broker.context)
        return self._remote_markers

    async def stop(self) -> None:
        await super().stop()
        if self._questions is not None:
            await self._questions.stop()
        if self._remote_markers is not None:
            await self._remote_markers.stop()

    def _make(self, partition: Partition) -> "TransactionShard":
        from ottla.coordinator.transactions.shard import TransactionShard

        return TransactionShard(self._broker, partition, limits(self._broker.values))

    async def _load(self, shard: "TransactionShard") -> bool:
        from ottla.coordinator.transactions.loading import load

        return await load(self._broker, shard.partition, shard.machine)


def limits(values: "BrokerValues") -> "Limits":
    """What the broker's settings say about transactions."""
    from ottla.transactions.decision import Limits

    return Limits(
        max_timeout_ms=values.integer("transaction.max.timeout.ms"),
        expiration_ms=values.integer("transactional.id.expiration.ms"),
        abort_check_ms=values.integer("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        expiration_check_ms=values.integer("transaction.remove.expired.transaction.cleanup.interval.ms"),
    )
