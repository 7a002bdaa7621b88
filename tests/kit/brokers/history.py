"""What clients of a log saw, and whether a log could have shown it: the rules that Jepsen's tests of logs judge by.

Owns the record of what was sent, acknowledged, aborted and read, and the verdict. Knows nothing of clients or brokers.
Every value is sent once in a history, to one partition. What became of a value nobody acknowledged is unknown: it may
be in the log, or not. The faults:

- lost write: it was acknowledged (and not aborted), and a reader that read everything did not meet it;
- duplicate: one value lies at two offsets;
- inconsistent offset: two values were seen at one offset, by anybody at any time;
- aborted read: a value that was refused, or whose transaction was aborted, was read;
- torn transaction: of a transaction one part was met and another was not, by a reader that read everything;
- non-monotonic poll: a reader went back without having been moved;
- skipped poll: a reader passed over an offset at which somebody else met a record;
- reordered: two values of one producer lie in the other order than they were sent in.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

Place = tuple[int, int]
"""Partition and offset."""


class Fault(NamedTuple):
    """One thing no log may show."""

    kind: str
    partition: int
    what: str


class _Sent(NamedTuple):
    producer: str
    partition: int
    order: int
    transaction: str | None


class Reader:
    """What one consumer saw, in its order."""

    def __init__(self) -> None:
        self.polls: dict[int, list[list[tuple[int, bytes]]]] = defaultdict(list)

    def moved(self, partition: int) -> None:
        """It was given the partition, or told to go elsewhere in it: what follows is a new run."""
        self.polls[partition].append([])

    def polled(self, partition: int, offset: int, value: bytes) -> None:
        if not self.polls[partition]:
            self.moved(partition)
        self.polls[partition][-1].append((offset, value))

    def met(self, partition: int) -> list[tuple[int, bytes]]:
        return [each for run in self.polls[partition] for each in run]


class History:
    """Filled by the clients of a test while it runs, judged at its end."""

    def __init__(self) -> None:
        self._sent: dict[bytes, _Sent] = {}
        self._acknowledged: dict[bytes, int] = {}
        self._refused: set[bytes] = set()
        self._transactions: dict[str, bool] = {}
        self._readers: dict[str, Reader] = {}

    # --- what happened ------------------------------------------------------------------------------------------------

    def sent(self, producer: str, partition: int, value: bytes, transaction: str | None = None) -> None:
        assert value not in self._sent, f"{value!r} is sent a second time"
        self._sent[value] = _Sent(producer, partition, len(self._sent), transaction)

    def acknowledged(self, value: bytes, offset: int) -> None:
        self._acknowledged[value] = offset

    def refused(self, value: bytes) -> None:
        """The broker said for certain that it was not written."""
        self._refused.add(value)

    def ended(self, transaction: str, *, committed: bool) -> None:
        """The producer knows how its transaction ended; one of which nobody knows is not told."""
        self._transactions[transaction] = committed

    def reader(self, name: str) -> Reader:
        return self._readers.setdefault(name, Reader())

    @property
    def acknowledgements(self) -> int:
        return len(self._acknowledged)

    # --- the verdict --------------------------------------------------------------------------------------------------

    def judge(self, complete: str) -> list[Fault]:
        """Everything wrong, given that the reader of this name read all partitions from their beginning to the end."""
        places = self._places()
        return [
            *self._inconsistent(places),
            *self._duplicates(places),
            *self._lost(complete),
            *self._aborted(),
            *self._torn(complete),
            *self._polls(places),
            *self._reordered(complete),
        ]

    def _places(self) -> dict[Place, set[bytes]]:
        """Which values anybody saw where."""
        places: dict[Place, set[bytes]] = defaultdict(set)
        for value, offset in self._acknowledged.items():
            if offset >= 0:
                places[self._sent[value].partition, offset].add(value)
        for reader in self._readers.values():
            for partition in reader.polls:
                for offset, value in reader.met(partition):
                    places[partition, offset].add(value)
        return places

    def _inconsistent(self, places: dict[Place, set[bytes]]) -> list[Fault]:
        return [
            Fault("inconsistent offset", partition, f"offset {offset} holds {sorted(values)}")
            for (partition, offset), values in sorted(places.items())
            if len(values) > 1
        ]

    def _duplicates(self, places: dict[Place, set[bytes]]) -> list[Fault]:
        offsets: dict[tuple[int, bytes], set[int]] = defaultdict(set)
        for (partition, offset), values in places.items():
            for value in values:
                offsets[partition, value].add(offset)
        return [
            Fault("duplicate", partition, f"{value!r} lies at {sorted(found)}")
            for (partition, value), found in sorted(offsets.items())
            if len(found) > 1
        ]

    def _lost(self, complete: str) -> list[Fault]:
        reader = self._readers.get(complete, Reader())
        met = {value for partition in list(reader.polls) for _, value in reader.met(partition)}
        return [
            Fault("lost write", self._sent[value].partition, f"{value!r} was acknowledged at {offset}")
            for value, offset in self._acknowledged.items()
            if value not in met and self._must_be_there(self._sent[value])
        ]

    def _must_be_there(self, sent: _Sent) -> bool:
        return sent.transaction is None or self._transactions.get(sent.transaction, False)

    def _aborted(self) -> list[Fault]:
        read = {
            (partition, offset, value)
            for reader in self._readers.values()
            for partition in list(reader.polls)
            for offset, value in reader.met(partition)
        }
        faults = []
        for partition, offset, value in sorted(read):
            sent = self._sent.get(value)
            if sent is None:
                faults.append(Fault("aborted read", partition, f"{value!r} at {offset} was never sent"))
            elif value in self._refused or (sent.transaction and self._transactions.get(sent.transaction) is False):
                faults.append(Fault("aborted read", partition, f"{value!r} at {offset} was not to be there"))
        return faults

    def _torn(self, complete: str) -> list[Fault]:
        reader = self._readers.get(complete, Reader())
        met = {value for partition in list(reader.polls) for _, value in reader.met(partition)}
        parts: dict[str, list[bytes]] = defaultdict(list)
        for value, sent in self._sent.items():
            if sent.transaction is not None and value in self._acknowledged:
                parts[sent.transaction].append(value)
        return [
            Fault("torn transaction", self._sent[values[0]].partition, f"{name}: {len(met & set(values))} of {values}")
            for name, values in parts.items()
            if 0 < len(met & set(values)) < len(values)
        ]

    def _polls(self, places: dict[Place, set[bytes]]) -> list[Fault]:
        known: dict[int, list[int]] = defaultdict(list)
        for partition, offset in sorted(places):
            if any(self._visible(value) for value in places[partition, offset]):
                known[partition].append(offset)
        faults = []
        for name, reader in self._readers.items():
            for partition, runs in reader.polls.items():
                for run in runs:
                    faults += _run_faults(name, partition, [offset for offset, _ in run], known[partition])
        return faults

    def _visible(self, value: bytes) -> bool:
        """Whether every reader must meet it, whatever its isolation."""
        sent = self._sent.get(value)
        return sent is not None and self._must_be_there(sent)

    def _reordered(self, complete: str) -> list[Fault]:
        faults = []
        reader = self._readers.get(complete, Reader())
        for partition in list(reader.polls):
            last: dict[str, tuple[int, bytes]] = {}
            for _, value in sorted(reader.met(partition)):
                sent = self._sent.get(value)
                if sent is None:
                    continue
                before = last.get(sent.producer)
                if before is not None and before[0] > sent.order:
                    faults.append(Fault("reordered", partition, f"{value!r} lies after {before[1]!r}"))
                last[sent.producer] = (sent.order, value)
        return faults


def _run_faults(name: str, partition: int, offsets: list[int], known: list[int]) -> list[Fault]:
    faults = [
        Fault("non-monotonic poll", partition, f"{name} went from {before} to {after}")
        for before, after in pairwise(offsets)
        if after <= before
    ]
    if faults or not offsets:
        return faults
    met = set(offsets)
    passed = [offset for offset in known if offsets[0] < offset < offsets[-1] and offset not in met]
    if passed:
        faults.append(Fault("skipped poll", partition, f"{name} passed over {passed[:5]} ({len(passed)} in all)"))
    return faults
