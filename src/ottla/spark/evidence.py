"""What became of a transaction, by what lies in the log.

Owns: telling a transaction that was committed from one that was not, where its coordinator no longer can: somebody took
the transactional id over since, or it expired. Never knows: decisions, Spark. Invariants: True is proven by a batch of
the very transaction and the marker behind it; what cannot be found any more is not proven; of what has no end yet
nothing is said. What others have open in the same partition does not matter.
"""

from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.ports import ByteView
from ottla.base.vocabulary import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerError
from ottla.records.batch import read_records
from ottla.records.control import ControlType, control_type
from ottla.records.header import iterate_headers
from ottla.spark.leaders import fetch
from ottla.spark.transactions import TransactionIdentity

_GONE = frozenset({ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Landed(NamedTuple):
    """Where a batch of a transaction lies: one for all, as a transaction is committed everywhere or nowhere."""

    topic: str
    partition: int
    offset: int


async def is_committed(cluster: Cluster, identity: TransactionIdentity, landed: Landed, deadline: float) -> bool:
    """Whether the transaction was committed; CONCURRENT_TRANSACTIONS when it does not end before the deadline."""
    partition = TopicPartition(landed.topic, landed.partition)
    search = _Search(identity, landed.offset)

    async def look() -> bool:
        while True:
            part = await fetch(cluster, partition, search.position, deadline)
            if not part.records:
                said = f"the transaction that wrote offset {landed.offset} has not ended yet"
                raise BrokerError(ErrorCode.CONCURRENT_TRANSACTIONS, f"partition {partition}", said)
            found = search.go_on(part.records)
            if found is not None:
                return found

    try:
        return await cluster.retry(look, deadline)
    except BrokerError as problem:
        if problem.code in _GONE:  # and not only for a broker that has just begun
            return False
        raise


class _Search:
    """From a batch of a transaction to its marker: the first one of its producer."""

    def __init__(self, identity: TransactionIdentity, offset: int) -> None:
        self._identity = identity
        self._offset = offset
        self.position = offset

    def go_on(self, data: ByteView) -> bool | None:
        """What the marker says, or that the batch is not there; None when neither has been seen yet."""
        writer = self._identity.producer_id, self._identity.producer_epoch
        for start, header in iterate_headers(data):
            if header.last_offset < self.position:
                continue
            begins = self.position == self._offset
            if begins and (header.base_offset > self._offset or (header.producer_id, header.producer_epoch) != writer):
                return False
            self.position = header.next_offset
            if header.control and header.producer_id == self._identity.producer_id:
                return control_type(read_records(data, header, start)[0].key) == ControlType.COMMIT
        return None
