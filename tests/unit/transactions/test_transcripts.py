"""Transactional ids as transcripts: producers begin, write, end, time out, are fenced; the story has the clock.

What is printed: the state that is stored, then what is answered. A producer is called by name, and asks with the
producer id and epoch that it was told last; `1000@2` is the producer id 1000 in epoch 2. All of them share one
transactional id. Stories are of the newer protocol (KIP-890); `protocol older` goes back.
"""

from pathlib import Path

import pytest

from kit.machines.transactions import NAME, NEWER, OLDER, Coordinator, partitions
from kit.machines.transcripts import Printer, Stage, check_transcript, transcript_name, transcripts_beside
from ottla.base.errors import ErrorCode
from ottla.transactions.decision import Outcome, ProducerIdentity, TransactionDecision, TransactionLimits
from ottla.transactions.state import NO_EPOCH, NO_TIMEOUT_MS, Transaction, TransactionFact

LIMITS = TransactionLimits(expiration_ms=100_000, abort_check_ms=10_000, expiration_check_ms=20_000)


def state_word(held: Transaction) -> str:
    parts = [f"{held.state.title} {held.producer_id}@{held.epoch}"]
    if held.partitions:
        parts.append("of " + ",".join(f"{topic}-{index}" for topic, index in sorted(held.partitions)))
    if held.last_epoch != NO_EPOCH:
        parts.append(f"after @{held.last_epoch}")
    if held.next_producer_id >= 0:
        parts.append(f"before {held.next_producer_id}")
    if held.timeout_ms == NO_TIMEOUT_MS:
        parts.append("without a time-out")
    return " ".join(parts)


def outcome_word(outcome: Outcome) -> str:
    if outcome.error != ErrorCode.NONE:
        return outcome.error.name
    return "yes" if outcome.producer_id < 0 else f"{outcome.producer_id}@{outcome.epoch}"


shown = Printer(
    {
        TransactionFact: lambda fact: "nothing of it any more" if fact[1] is None else state_word(fact[1]),
        Outcome: outcome_word,
    }
)


class Recorded(Coordinator):
    """A coordinator that keeps what it stored, as text."""

    def __init__(self) -> None:
        super().__init__(LIMITS)
        self.stored: list[str] = []

    def carry_out(self, decision: TransactionDecision) -> Outcome:
        self.stored += map(shown, decision.facts)
        return super().carry_out(decision)


class TransactionStage(Stage):
    """One transactional id and its coordinator; the commands are the methods without a leading underscore."""

    def __init__(self) -> None:
        super().__init__()
        self._coordinator = Recorded()
        self._known: dict[str, tuple[int, int]] = {}
        self._version = NEWER

    def _done(self, who: str, outcome: Outcome) -> None:
        self._stored()
        self.say(f"answers {who}: {shown(outcome)}")
        if outcome.error == ErrorCode.NONE and outcome.producer_id >= 0:
            self._known[who] = outcome.producer_id, outcome.epoch

    def _stored(self) -> None:
        for line in self._coordinator.stored:
            self.say(f"stores {line}")
        self._coordinator.stored = []

    # --- the world ---------------------------------------------------------------------------------------------------

    def protocol(self, age: str) -> None:
        """`older`: an epoch stays with a producer; `newer`: every end of a transaction takes one (KIP-890)."""
        self._version = {"older": OLDER, "newer": NEWER}[age]
        self._coordinator.server_version = self._version

    def epoch(self, who: str, epoch: str) -> None:
        """So many transactions later: the id and its producer are at this epoch."""
        held = self._coordinator.held()._replace(epoch=int(epoch), last_epoch=NO_EPOCH)
        self._coordinator.carry_out(TransactionDecision(None, [TransactionFact(NAME, held)]))
        self._known[who] = held.producer_id, held.epoch
        self._stored()

    def wait(self, seconds: str) -> None:
        """Time passes, with whatever comes due."""
        self._coordinator.advance(round(float(seconds) * 1000))
        self._stored()

    def move(self) -> None:
        """Another coordinator takes over: it knows what was stored, and which ends are not complete."""
        self._coordinator.reload()
        ending = self._coordinator.machine.ending()
        self.say("markers are to be written again" if ending else "nothing is half done")

    def markers(self) -> None:
        """Every partition has been told how the transaction ends."""
        self._coordinator.complete()
        self._stored()

    # --- what producers ask for --------------------------------------------------------------------------------------

    def init(self, who: str, *, again: str = "", timeout: str = "60", two_phases: str = "") -> None:
        """InitProducerId; `again`: it says who it was, to go on after an error."""
        expected = self._known[who] if again else None
        self._done(who, self._coordinator.init(expected, int(timeout) * 1000, two_phases=bool(two_phases)))

    def add(self, who: str, *indexes: str) -> None:
        """AddPartitionsToTxn, or the first write to a partition in the newer protocol."""
        error = self._coordinator.add(self._known[who], *map(int, indexes), version=self._version)
        self._done(who, Outcome(error))

    def verify(self, who: str, index: str) -> None:
        """A partition's leader asks whether a write belongs to the transaction."""
        (partition,) = partitions(int(index))
        error = self._coordinator.machine.verify(ProducerIdentity(NAME, *self._known[who]), partition)
        self._done("the leader", Outcome(error))

    def commit(self, who: str) -> None:
        self._end(who, commit=True)

    def abort(self, who: str) -> None:
        self._end(who, commit=False)

    def _end(self, who: str, commit: bool) -> None:
        """EndTxn. In the newer protocol the answer is what the next transaction is begun with."""
        self._done(who, self._coordinator.end(self._known[who], commit, self._version))

    def lose(self, command: str, who: str) -> None:
        """The same, but the answer gets lost: the producer knows no more than before."""
        known = self._known[who]
        self._end(who, commit={"commit": True, "abort": False}[command])
        self._known[who] = known


@pytest.mark.parametrize("transcript", transcripts_beside(__file__), ids=transcript_name)
def test_a_transcript_is_what_the_transactions_say(transcript: Path) -> None:
    check_transcript(transcript, TransactionStage())
