"""Which transactional batches and markers compaction may drop.

Owns: the state of transactions while a cleaner walks a log from its start. Never knows: files, keys.
Invariants: data of an aborted transaction always goes; a marker stays while any batch of its transaction was met on the
walk, because readers need it to tell that data's fate; an aborted transaction whose marker stays is kept in the index.
"""

from collections.abc import Iterable
from struct import Struct
from typing import TYPE_CHECKING

from ottla.records.header import BatchHeader

if TYPE_CHECKING:
    from ottla.log.index import AbortedTransaction

ABORT = 0
COMMIT = 1

_CONTROL_KEY = Struct(">hh")


def control_type(key: bytes | None) -> int:
    """The kind of a control record by its key; -1 when the key is none of ours."""
    return int(_CONTROL_KEY.unpack_from(key)[1]) if key is not None and len(key) >= _CONTROL_KEY.size else -1


class TransactionSieve:
    """Fed with every batch in log order, says which of them may go."""

    __slots__ = ("_ahead", "_open_aborted", "_open_committed", "kept")

    def __init__(self, aborted: Iterable["AbortedTransaction"]) -> None:
        # Popped from the end, so the transaction that begins first stands last.
        self._ahead = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._open_aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._open_committed: set[int] = set()
        self.kept: list[AbortedTransaction] = []
        """Aborted transactions whose marker stays, in the order of their markers; the caller takes them away."""

    def drops_data(self, header: BatchHeader) -> bool:
        """Whether this data batch belongs to an aborted transaction."""
        self._meet(header.last_offset)
        if not header.transactional:
            return False
        entry = self._open_aborted.get(header.producer_id)
        if entry is None:
            self._open_committed.add(header.producer_id)
            return False
        self._open_aborted[header.producer_id] = (entry[0], True)
        return True

    def drops_marker(self, header: BatchHeader, kind: int | None) -> bool:
        """Whether this control batch is needed no more; `kind` None is a batch whose record went earlier."""
        self._meet(header.last_offset)
        if kind is None:
            return True
        if kind == ABORT:
            transaction, data_met = self._open_aborted.pop(header.producer_id, (None, False))
            if transaction is not None and data_met:
                self.kept.append(transaction)
                return False
            return True
        if kind == COMMIT:
            if header.producer_id in self._open_committed:
                self._open_committed.discard(header.producer_id)
                return False
            return True
        return False

    def _meet(self, offset: int) -> None:
        ahead = self._ahead
        while ahead and ahead[-1].first_offset <= offset:
            transaction = ahead.pop()
            self._open_aborted.setdefault(transaction.producer_id, (transaction, False))
