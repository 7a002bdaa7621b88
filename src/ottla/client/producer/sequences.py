"""Once and in order: producer id, epoch and sequence numbers.

Owns: which number a batch carries, whether it may leave before others came back, and when numbers begin anew. Never
knows: requests, time, transactions. Invariants: a batch that is repeated carries the number it had; of those that were
sent before only the oldest is repeated; numbers begin anew only under a new epoch and only when nothing of their
partition is on its way.
"""

from ottla.client.producer.accumulator import NO_IDENTITY, PartitionQueue
from ottla.client.producer.delivery import NO_SEQUENCE, ProducerBatch
from ottla.records.header import next_sequence

_LAST_EPOCH = 32766


class Sequences:
    """The identity of one producer and the rules for its queues; nothing to do for one without identity."""

    def __init__(self, *, idempotent: bool, transactional: bool) -> None:
        self.idempotent = idempotent
        self.transactional = transactional
        self.identity = NO_IDENTITY

    def may_leave(self, queue: PartitionQueue) -> bool:
        """Whether the first waiting batch of a queue may be sent now."""
        if not self.idempotent:
            return True
        if queue.restart:
            if queue.flying:
                return False
            self._restart(queue)
        first = queue.waiting[0]
        if first.base_sequence != NO_SEQUENCE:
            return all(other.order > first.order for other in queue.flying)
        if queue.identity != self.identity or queue.unresolved:
            if queue.flying:
                return False
            self._settle_numbers(queue)
        return self.identity != NO_IDENTITY

    def number(self, batch: ProducerBatch) -> bool:
        """Give a batch its number; False when it has one already."""
        if not self.idempotent or batch.base_sequence != NO_SEQUENCE:
            return False
        queue = batch.queue
        batch.identity = queue.identity
        batch.base_sequence = queue.next_sequence
        queue.next_sequence = next_sequence(queue.next_sequence, batch.count)
        return True

    def acknowledged(self, batch: ProducerBatch) -> None:
        queue = batch.queue
        if self.idempotent and batch.identity == queue.identity:
            queue.last_acked = next_sequence(batch.base_sequence, batch.count - 1)

    def refused(self, batch: ProducerBatch) -> None:
        """A batch that was sent is certainly not written: the numbers behind it have a gap before them."""
        if self.idempotent and batch.base_sequence != NO_SEQUENCE:
            batch.queue.restart = True

    def lost(self, batch: ProducerBatch) -> None:
        """A batch that was sent is given up, and nobody knows whether it was written."""
        if self.idempotent and batch.base_sequence != NO_SEQUENCE:
            batch.queue.unresolved = True

    def out_of_order(self, batch: ProducerBatch) -> bool:
        """What to do about a gap the broker sees: True, try again; else nobody can tell what became of the batch.

        A broker that restarted may have forgotten all but the last batch of a producer: one that was written before
        looks like a gap then. Numbered anew it could be written twice.
        """
        queue = batch.queue
        expected = next_sequence(queue.last_acked, 1)
        if queue.restart or (batch.base_sequence != expected and not queue.unresolved):
            return True
        if self.transactional or batch.doubtful:
            return False
        queue.restart = True
        return True

    def _restart(self, queue: PartitionQueue) -> None:
        """Everything that waits is numbered anew, under the next epoch; a transaction's epoch is its coordinator's."""
        if queue.identity == self.identity and not self.transactional:
            self.bump()
        for batch in queue.waiting:
            batch.base_sequence = NO_SEQUENCE
        self._begin(queue)

    def _settle_numbers(self, queue: PartitionQueue) -> None:
        gap = queue.unresolved and next_sequence(queue.last_acked, 1) != queue.next_sequence
        if gap and queue.identity == self.identity and not self.transactional:
            self.bump()
        if queue.identity != self.identity:
            self._begin(queue)
        queue.unresolved = False

    def bump(self) -> None:
        """The next epoch; after the last one a new producer id has to be asked for."""
        producer_id, epoch = self.identity
        if producer_id >= 0:
            self.identity = (producer_id, epoch + 1) if epoch < _LAST_EPOCH else NO_IDENTITY

    def _begin(self, queue: PartitionQueue) -> None:
        queue.identity = self.identity
        queue.next_sequence = 0
        queue.last_acked = NO_SEQUENCE
        queue.restart = queue.unresolved = False
