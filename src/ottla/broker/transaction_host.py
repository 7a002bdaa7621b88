"""The transactions this broker coordinates: a shard for each partition of `__transaction_state` that it leads."""

from typing import TYPE_CHECKING

from ottla.broker.machine_host import MachineHost, TopicPlan
from ottla.broker.partitions import Partition

if TYPE_CHECKING:
    from ottla.base.settings.values import BrokerValues
    from ottla.broker.transaction_shard import TransactionShard
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

    def _make(self, partition: Partition) -> "TransactionShard":
        from ottla.broker.transaction_shard import TransactionShard

        return TransactionShard(self._broker, partition, limits(self._broker.values))

    async def _load(self, shard: "TransactionShard") -> bool:
        from ottla.broker.transaction_loading import load

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
