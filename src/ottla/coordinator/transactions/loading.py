"""Reading a partition of `__transaction_state` back into a machine."""

import logging

from ottla.coordinator.loading import Latest, apply_all, read_back
from ottla.replicas.context import BrokerContext
from ottla.replicas.partitions import Partition
from ottla.transactions.machine import TransactionMachine
from ottla.transactions.records import BadTransactionRecord, is_known, read
from ottla.transactions.state import TransactionFact

logger = logging.getLogger("ottla.transactions")


def _facts(latest: Latest) -> list[TransactionFact]:
    facts = []
    for key, value in latest.records():
        try:
            facts.append(read(key, value))
        except BadTransactionRecord as problem:
            logger.error("a record of __transaction_state is passed over: %s (key %s)", problem, key.hex())
    return facts


async def load(context: BrokerContext, partition: Partition, machine: TransactionMachine) -> bool:
    """Apply to the machine what the log says; answers whether that worked."""
    latest = Latest(is_known)
    slice_bytes = context.values.integer("transaction.state.log.load.buffer.size")
    if not await read_back(context, partition, latest, slice_bytes):
        return False
    await apply_all(machine.apply, await context.run_blocking(lambda: _facts(latest)))
    return partition.log is not None
