"""All transactional ids of one partition of `__transaction_state`.

Owns: who may take a step of a transaction, and when one is due by itself. Never knows: logs, sockets, loops, clocks,
how partitions are told of an end. Deciders (`decide_…`, and `expire` for deadlines) change nothing; a decision takes
effect when its facts are stored: `apply` for each of them, which alone also rebuilds the machine from the log.
Invariants: an epoch that was fenced takes no step again; a transaction whose end is decided changes only by completing.
"""

from collections.abc import Callable

from ottla.base.errors import ErrorCode
from ottla.base.machines import Now, Token
from ottla.base.vocabulary import TopicPartition
from ottla.transactions.decision import Outcome, ProducerIdentity, TransactionDecision, TransactionLimits
from ottla.transactions.ending import decide_newer_end, decide_older_end
from ottla.transactions.state import (
    EPOCH_PER_TRANSACTION,
    LAST_EPOCH,
    NO_EPOCH,
    NO_TIMEOUT_MS,
    Transaction,
    TransactionFact,
    TransactionState,
)

ABORTED_AT_ONCE = 20
"""Transactions past their time-out that are aborted in one go."""
LOOKED_AT_ONCE = 1_000
"""Ids that are looked through for old ones in one go."""
_NEEDS_PRODUCER_ID = TransactionDecision(None, needs_producer_id=True)


class TransactionMachine:
    """The transactional ids of one partition."""

    def __init__(self, limits: TransactionLimits, server_version: Callable[[], int], now: Now) -> None:
        self.limits = limits
        """Replaceable at any time."""
        self._server_version = server_version
        """Of the protocol, for steps that no client asked for."""
        self.transactions: dict[str, Transaction] = {}
        self._ongoing: set[str] = set()
        self._next_abort_ms = now.steady_ms + limits.abort_check_ms
        self._next_expiration_ms = now.steady_ms + limits.expiration_check_ms
        self._timed_out: list[str] = []
        self._to_look_at: list[str] = []

    # --- facts ---

    def apply(self, fact: TransactionFact) -> None:
        """What the log says, now or when it is read again."""
        transactional_id, transaction = fact
        if transaction is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction
        if transaction is not None and transaction.state is TransactionState.ONGOING:
            self._ongoing.add(transactional_id)
        else:
            self._ongoing.discard(transactional_id)

    def follow(self, decision: TransactionDecision) -> None:
        """The facts of a decision are stored and applied; there is nothing beside them."""

    def loaded(self, now: Now) -> None:
        """Everything in the log has been applied."""

    def given_up(self) -> list[tuple[Token, Outcome]]:
        """Another coordinator takes over: nobody waits here."""
        return []

    def ending(self) -> list[str]:
        """Ids whose transactions are decided and not complete."""
        return [name for name, transaction in self.transactions.items() if transaction.state.ending]

    # --- steps that clients ask for ---

    def decide_init(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdentity | None,
        fresh: int | None,
        now: Now,
        *,
        two_phases: bool = False,
    ) -> TransactionDecision:
        """A producer begins with the id, or goes on with it after an error (`expected` says who it was).

        With `two_phases` its transactions stay open until it ends them, or somebody else begins with the id (KIP-939).
        """
        # What Kafka serves of two-phase commit, and what is served here: design/0026.
        if two_phases:
            timeout_ms = NO_TIMEOUT_MS
        elif not 0 < timeout_ms <= self.limits.max_timeout_ms:
            return _refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        held = self.transactions.get(transactional_id)
        if held is None:
            if fresh is None:
                return _NEEDS_PRODUCER_ID
            held = Transaction(fresh, NO_EPOCH, timeout_ms)
        if expected is not None and not _may_go_on(held, expected):
            return _refused(ErrorCode.PRODUCER_FENCED)
        if held.state.ending:
            return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
        if held.state is TransactionState.ONGOING:
            # Its transaction is aborted first; who asks again when that is done gets a higher epoch.
            fact = TransactionFact(transactional_id, held.fenced(self._server_version(), now.wall_ms))
            return TransactionDecision(Outcome(ErrorCode.CONCURRENT_TRANSACTIONS), [fact])
        if held.exhausted and (expected is None or expected.epoch == held.epoch):
            if fresh is None:
                return _NEEDS_PRODUCER_ID
            last_epoch = NO_EPOCH if expected is None else held.epoch
            begun = held.with_producer_id(fresh, last_epoch, timeout_ms, now.wall_ms)
        else:
            epochs = _next_epochs(held, expected)
            if epochs is None:
                return _refused(ErrorCode.PRODUCER_FENCED)
            begun = held.initialised(*epochs, timeout_ms, now.wall_ms)
        return TransactionDecision(
            Outcome(ErrorCode.NONE, begun.producer_id, begun.epoch), [TransactionFact(transactional_id, begun)]
        )

    def decide_add(
        self, producer: ProducerIdentity, partitions: frozenset[TopicPartition], version: int, now: Now
    ) -> TransactionDecision:
        """Partitions come into the transaction, which begins if none is open."""
        held = self.transactions.get(producer.transactional_id)
        error = _credentials_error(held, producer)
        if held is None or error != ErrorCode.NONE:
            return _refused(error)
        if held.state is TransactionState.ONGOING and partitions <= held.partitions:
            return _refused(ErrorCode.NONE)
        grown = held.with_partitions(partitions, version, now.wall_ms)
        return TransactionDecision(Outcome(ErrorCode.NONE), [TransactionFact(producer.transactional_id, grown)])

    def verify(self, producer: ProducerIdentity, partition: TopicPartition) -> ErrorCode:
        """Whether a partition belongs to the transaction of a producer."""
        held = self.transactions.get(producer.transactional_id)
        error = _credentials_error(held, producer)
        if held is None or error != ErrorCode.NONE:
            return error
        return ErrorCode.NONE if partition in held.partitions else ErrorCode.TRANSACTION_ABORTABLE

    def decide_end(
        self, producer: ProducerIdentity, commit: bool, version: int, fresh: int | None, now: Now
    ) -> TransactionDecision:
        """The producer, or somebody it told its credentials, ends the transaction."""
        held = self.transactions.get(producer.transactional_id)
        if held is None:
            return _refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if version < EPOCH_PER_TRANSACTION:
            return decide_older_end(held, producer, commit, now.wall_ms)
        return decide_newer_end(held, producer, commit, fresh, now.wall_ms)

    # --- steps of the coordinator ---

    def decide_complete(self, transactional_id: str, now: Now) -> TransactionDecision:
        """Every partition has been told how the transaction ends."""
        held = self.transactions[transactional_id]
        assert held.state.ending, transactional_id
        return TransactionDecision(None, [TransactionFact(transactional_id, held.completed(now.wall_ms))])

    def next_deadline(self) -> int:
        """When to call `expire`, in steady milliseconds."""
        if self._timed_out or self._to_look_at:
            return 0
        if self._ongoing:
            return min(self._next_abort_ms, self._next_expiration_ms)
        return self._next_expiration_ms

    def expire(self, now: Now) -> TransactionDecision | None:
        """The next thing that is due; to be called until it answers None. What cannot be stored comes again later."""
        if self._ongoing and now.steady_ms >= self._next_abort_ms:
            self._next_abort_ms = now.steady_ms + self.limits.abort_check_ms
            self._timed_out = [name for name in sorted(self._ongoing) if self._is_timed_out(name, now.wall_ms)]
        if self._timed_out:
            return TransactionDecision(None, self._aborted(now.wall_ms))
        if now.steady_ms >= self._next_expiration_ms:
            self._next_expiration_ms = now.steady_ms + self.limits.expiration_check_ms
            self._to_look_at = list(self.transactions)
        if self._to_look_at:
            return TransactionDecision(None, self._forgotten(now.wall_ms))
        return None

    def _is_timed_out(self, name: str, wall_ms: int) -> bool:
        held = self.transactions.get(name)
        if held is None or held.state is not TransactionState.ONGOING or held.timeout_ms == NO_TIMEOUT_MS:
            return False
        return held.start_ms + held.timeout_ms < wall_ms

    def _aborted(self, wall_ms: int) -> list[TransactionFact]:
        names, self._timed_out = self._timed_out[:ABORTED_AT_ONCE], self._timed_out[ABORTED_AT_ONCE:]
        version = self._server_version()
        return [
            TransactionFact(name, self.transactions[name].fenced(version, wall_ms))
            for name in names
            if self._is_timed_out(name, wall_ms)
        ]

    def _forgotten(self, wall_ms: int) -> list[TransactionFact]:
        before_ms = wall_ms - self.limits.expiration_ms
        names = self._to_look_at[-LOOKED_AT_ONCE:]
        del self._to_look_at[-LOOKED_AT_ONCE:]
        held = ((name, self.transactions.get(name)) for name in names)
        return [
            TransactionFact(name, None)
            for name, transaction in held
            if transaction is not None and transaction.state.at_rest and transaction.update_ms <= before_ms
        ]


def _refused(error: ErrorCode) -> TransactionDecision:
    return TransactionDecision(Outcome(error))


def _credentials_error(held: Transaction | None, producer: ProducerIdentity) -> ErrorCode:
    """Whether a producer may take part in a transaction now."""
    if held is None or held.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if held.epoch != producer.epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if held.state.ending else ErrorCode.NONE


def _may_go_on(held: Transaction, expected: ProducerIdentity) -> bool:
    """Whether a producer that says who it was held the id last, or may not have heard of its new producer id."""
    if held.epoch == NO_EPOCH or expected.producer_id == held.producer_id:
        return True
    return expected.producer_id == held.previous_producer_id and expected.epoch >= LAST_EPOCH


def _next_epochs(held: Transaction, expected: ProducerIdentity | None) -> tuple[int, int] | None:
    """The epoch and the one before it for a producer that begins; None: it has been fenced."""
    if expected is None:
        return held.epoch + 1, NO_EPOCH
    if held.epoch in (NO_EPOCH, expected.epoch):
        return held.epoch + 1, held.epoch
    if expected.epoch == held.last_epoch:
        # It did not hear the answer to the same question.
        return held.epoch, held.last_epoch
    return None
