"""Producers, zombies and a coordinator that is replaced at any time, on virtual time, drawn from a seed.

The machine is the real one, and so is the table of producers in each partition; the network loses, delays and reorders.
What must hold: readers see all of a transaction or nothing; a write of a fenced producer is refused; every transaction
ends, and readers get past it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

import pytest

from kit.machines.transactions import NEWER, OLDER, Coordinator
from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.log.producers import EndMarker, ProducerRefusal, ProducerTable
from ottla.records.header import TRANSACTIONAL, BatchHeader
from ottla.transactions.decision import Outcome, ProducerIdentity, TransactionDecision, TransactionLimits
from ottla.transactions.state import TransactionState

SEEDS = 400
PARTITIONS = 4
IDS = 3
FAULTS_END_MS = 60_000
HEALED_MS = 120_000
LIMITS = TransactionLimits(abort_check_ms=2_000, expiration_check_ms=1_000_000)
TIMEOUT_MS = 6_000


class Partition:
    """A log that keeps who wrote what: (producer id, transaction it was meant for) or (producer id, committed)."""

    def __init__(self, name: TopicPartition) -> None:
        self.name = name
        self.producers = ProducerTable(name)
        self.entries: list[tuple[int, int | bool]] = []

    def append(self, who: tuple[int, int], sequence: int, transaction: int) -> ErrorCode:
        header = BatchHeader(0, 100, 0, 2, 0, TRANSACTIONAL, 0, 0, 0, *who, sequence, 1)
        offset = len(self.entries)
        verdict = self.producers.examine(header, offset, sequenced=True)
        if isinstance(verdict, ProducerRefusal):
            return verdict.error
        if verdict is None:
            self.producers.note(header, offset, 0)
            self.entries.append((who[0], transaction))
        return ErrorCode.NONE

    def mark(self, marker: EndMarker) -> None:
        offset = len(self.entries)
        if self.producers.examine_marker(marker, offset) is None:
            self.producers.note_marker(marker, offset, 0, 0)
            self.producers.release_below(offset + 1)
            self.entries.append((marker.producer_id, marker.commit))

    def is_open(self, who: tuple[int, int]) -> bool:
        state = self.producers.state(who[0])
        return state is not None and state.transaction_first_offset >= 0 and state.epoch == who[1]

    def visible(self) -> dict[int, int]:
        """How many records of each transaction a reader of committed records sees."""
        waiting: dict[int, list[int]] = {}
        seen: dict[int, int] = {}
        for producer_id, said in self.entries:
            if not isinstance(said, bool):
                waiting.setdefault(producer_id, []).append(said)
                continue
            for transaction in waiting.pop(producer_id, ()):
                if said:
                    seen[transaction] = seen.get(transaction, 0) + 1
        return seen


class Attempt:
    """One transaction as its producer saw it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.acknowledged = [0] * PARTITIONS
        self.committed: bool | None = None
        """What the answer to EndTxn said; None: there was none."""
        self.asked: bool | None = None


class World:
    """Everything that happens, in the order of its time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.protocol = self.random.choice((OLDER, NEWER))
        self.coordinator = Coordinator(LIMITS, self.protocol)
        self.partitions = [Partition(TopicPartition("topic", index)) for index in range(PARTITIONS)]
        self.attempts: list[Attempt] = []
        self.fenced: dict[str, tuple[int, int]] = {}
        """The newest credentials that each id was given."""
        self._queue: list[tuple[int, int, Callable[[], object]]] = []
        self._order = count()
        self._generation = 0

    # --- time and chance ---

    @property
    def faulty(self) -> bool:
        return self.coordinator.steady_ms < FAULTS_END_MS

    def later(self, low: int, high: int, what: Callable[[], object]) -> None:
        when = self.coordinator.steady_ms + self.random.randint(low, high)
        heappush(self._queue, (when, next(self._order), what))

    def lost(self) -> bool:
        return self.faulty and self.random.random() < 0.05

    def run(self) -> None:
        for number in range(IDS):
            self.start(f"id-{number}")
        self.later(500, 8_000, self.replace_coordinator)
        self.later(500, 500, self.tick)
        while self._queue and self.coordinator.steady_ms < HEALED_MS:
            when, _, what = heappop(self._queue)
            self.coordinator.steady_ms = max(self.coordinator.steady_ms, when)
            what()

    def tick(self) -> None:
        """Deadlines of the machine."""
        while (decision := self.coordinator.machine.expire(self.coordinator.now)) is not None:
            self.carry_out(decision)
        self.later(500, 500, self.tick)

    # --- the coordinator ---

    def carry_out(self, decision: TransactionDecision) -> Outcome:
        outcome = self.coordinator.carry_out(decision)
        for name, transaction in decision.facts:
            if transaction is not None and transaction.state.ending:
                self.end(name)
        return outcome

    def end(self, name: str) -> None:
        """Markers reach the partitions in any order; then the transaction is complete. A crash cuts that short."""
        held = self.coordinator.held(name)
        marker = EndMarker(
            held.producer_id,
            held.epoch,
            self._generation,
            held.state is TransactionState.PREPARE_COMMIT,
            held.marker_version,
        )
        left = sorted(held.partitions)
        self.random.shuffle(left)
        generation = self._generation

        def step() -> None:
            if generation != self._generation:
                return
            if left:
                self.partitions[left.pop().partition].mark(marker)
                self.later(0, 30, step)
            else:
                self.coordinator.complete(name)

        self.later(0, 30, step)

    def replace_coordinator(self) -> None:
        self._generation += 1
        self.coordinator.reload()
        for name in self.coordinator.machine.ending():
            self.end(name)
        if self.faulty:
            self.later(500, 8_000, self.replace_coordinator)

    # --- requests; the answer may be lost on the way ---

    def init(self, name: str, expected: ProducerIdentity | None = None) -> Outcome:
        machine, now = self.coordinator.machine, self.coordinator.now
        decision = machine.decide_init(name, TIMEOUT_MS, expected, None, now)
        if decision.needs_producer_id:
            decision = machine.decide_init(name, TIMEOUT_MS, expected, next(self.coordinator.fresh), now)
        outcome = self.carry_out(decision)
        if outcome.error == ErrorCode.NONE:
            self.fenced[name] = outcome.producer_id, outcome.epoch
        return outcome

    def write(self, producer: ProducerIdentity, sequence: int, index: int, transaction: int) -> ErrorCode:
        """What Produce does: the coordinator is asked where the transaction begins in a partition."""
        partition = self.partitions[index]
        who = producer.producer_id, producer.epoch
        machine = self.coordinator.machine
        error = ErrorCode.NONE
        if not partition.is_open(who):
            if self.protocol == NEWER:
                names = frozenset((partition.name,))
                error = self.carry_out(machine.decide_add(producer, names, NEWER, self.coordinator.now)).error
            else:
                error = machine.verify(producer, partition.name)
        if error == ErrorCode.NONE:
            error = partition.append(who, sequence, transaction)
        if who < self.fenced.get(producer.transactional_id, who):
            assert error != ErrorCode.NONE, f"a write of {producer} was accepted"
        return error

    def start(self, name: str) -> None:
        Instance(self, name).begin()


class Instance:
    """A producer from its start to its crash; whatever it has sent may arrive later."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._who = ProducerIdentity(name, -1, -1)
        self._sequences = [0] * PARTITIONS
        self._attempt = Attempt(-1)
        self._left = 0
        self._in_doubt = False

    def begin(self) -> None:
        outcome = self._world.init(self._name)
        if outcome.error != ErrorCode.NONE:
            self._world.later(10, 200, self.begin)
        elif self._world.lost():
            self.crash()
        else:
            self._who = ProducerIdentity(self._name, outcome.producer_id, outcome.epoch)
            self._next()

    def _next(self) -> None:
        world = self._world
        if not world.faulty:
            return
        self._attempt = Attempt(len(world.attempts))
        world.attempts.append(self._attempt)
        self._left = world.random.randint(0, 6)
        world.later(0, 100, self._write)

    def _write(self) -> None:
        world = self._world
        if world.random.random() < 0.03:
            self.crash()
            return
        if not self._left:
            world.later(0, 50, self._end)
            return
        self._left -= 1
        index = world.random.randrange(PARTITIONS)
        who, number = self._who, self._attempt.number
        if world.protocol == OLDER:
            names = frozenset((world.partitions[index].name,))
            error = world.carry_out(
                world.coordinator.machine.decide_add(who, names, OLDER, world.coordinator.now)
            ).error
            if error != ErrorCode.NONE:
                self._refused(error, self._write_again)
                return
        sequence = self._sequences[index]
        if world.random.random() < 0.08:
            # It gives up before the write arrives, or crashes: nobody may count on it.
            world.later(50, 9_000, lambda: world.write(who, sequence, index, number))
            if world.random.random() < 0.5:
                self.crash()
            else:
                self._attempt.asked, self._in_doubt = False, True
                self._end()
            return
        error = world.write(who, sequence, index, number)
        if error != ErrorCode.NONE:
            self._refused(error, self._write_again)
            return
        self._attempt.acknowledged[index] += 1
        self._sequences[index] += 1
        # A pause may outlast the transaction.
        world.later(0, 9_000 if world.random.random() < 0.03 else 40, self._write)

    def _write_again(self) -> None:
        self._left += 1
        self._write()

    def _end(self) -> None:
        world = self._world
        attempt = self._attempt
        if attempt.asked is None:
            attempt.asked = world.random.random() < 0.7
        machine, now = world.coordinator.machine, world.coordinator.now
        outcome = world.carry_out(machine.decide_end(self._who, attempt.asked, world.protocol, None, now))
        if world.lost():
            # It does not hear the answer and asks again, perhaps of another coordinator.
            world.later(10, 500, self._end)
            return
        if outcome.error != ErrorCode.NONE:
            self._refused(outcome.error, self._end)
            return
        attempt.committed = attempt.asked
        if world.protocol == NEWER:
            self._who = ProducerIdentity(self._name, outcome.producer_id, outcome.epoch)
            world.fenced[self._name] = max(world.fenced[self._name], (outcome.producer_id, outcome.epoch))
            self._sequences = [0] * PARTITIONS
        elif self._in_doubt:
            # What may still be on its way must not become part of a later transaction.
            world.later(0, 300, self._go_on)
            return
        self._next()

    def _go_on(self) -> None:
        outcome = self._world.init(self._name, self._who)
        if outcome.error != ErrorCode.NONE:
            self._refused(outcome.error, self._go_on)
            return
        self._in_doubt = False
        self._who = ProducerIdentity(self._name, outcome.producer_id, outcome.epoch)
        self._sequences = [0] * PARTITIONS
        self._next()

    def _refused(self, error: ErrorCode, again: Callable[[], None]) -> None:
        if error == ErrorCode.CONCURRENT_TRANSACTIONS:
            self._world.later(5, 100, again)
        else:
            self.crash()

    def crash(self) -> None:
        world, name = self._world, self._name
        if world.faulty:
            world.later(10, 9_000, lambda: world.start(name))


def check(world: World) -> None:
    seen = [partition.visible() for partition in world.partitions]
    for attempt in world.attempts:
        got = [visible.get(attempt.number, 0) for visible in seen]
        if attempt.committed:
            assert got == attempt.acknowledged, f"transaction {attempt.number}, committed: {got}"
        elif attempt.committed is False or attempt.asked is None:
            assert got == [0] * PARTITIONS, f"transaction {attempt.number}, not committed: {got}"
        else:
            assert got in ([0] * PARTITIONS, attempt.acknowledged), f"transaction {attempt.number}, in doubt: {got}"
    for partition in world.partitions:
        assert partition.producers.stable, f"{partition.name} has an open transaction"
    for name, held in world.coordinator.machine.transactions.items():
        assert held.state.at_rest, f"{name} is {held.state.title}"


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_transactions_are_seen_whole_or_not_at_all_and_all_of_them_end(first: int) -> None:
    for seed in range(first, first + 50):
        world = World(seed)
        try:
            world.run()
            check(world)
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}: {failure}") from failure


def test_the_stories_have_everything_in_them() -> None:
    """The draws are worth something: transactions of all fates, in both protocols."""
    fates = set()
    for seed in range(20):
        world = World(seed)
        world.run()
        for attempt in world.attempts:
            kind = None if attempt.asked is None else attempt.committed
            fates.add((world.protocol, kind, any(attempt.acknowledged)))
    for protocol in (OLDER, NEWER):
        assert {(protocol, True, True), (protocol, False, True), (protocol, None, True)} <= fates
