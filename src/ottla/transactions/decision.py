"""What a decider of transactions answers, and what settings tell it.

Owns: the shapes. A decision is made without changing anything; it takes effect when its facts are stored
(`TransactionMachine.apply` for each of them).
"""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.machines import Token
from ottla.base.vocabulary import NO_PRODUCER_ID
from ottla.transactions.state import NO_EPOCH, TransactionFact


class Outcome(NamedTuple):
    """The answer to whoever asked."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH


class TransactionDecision(NamedTuple):
    """Facts to store, then the answer to give."""

    reply: Outcome | None
    facts: Sequence[TransactionFact] = ()
    needs_producer_id: bool = False
    """Nothing is decided: to be asked again with a producer id that nobody has."""
    released: Sequence[tuple[Token, Outcome]] = ()
    """Nobody waits in this machine."""


class ProducerIdentity(NamedTuple):
    """Who asks, by the credentials that the coordinator once gave."""

    transactional_id: str
    producer_id: int
    epoch: int


class TransactionLimits(NamedTuple):
    """What settings say about transactions."""

    max_timeout_ms: int = 900_000
    expiration_ms: int = 7 * 24 * 3_600_000
    abort_check_ms: int = 10_000
    expiration_check_ms: int = 3_600_000
