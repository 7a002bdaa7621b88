"""What the clients of a universe did and saw, and what that proves.

Owns: the record of acknowledgements, reads and transactions, and the judgement of it after Jepsen's rules for logs:
lost write, duplicate, gap, inconsistent offset, aborted read, a transaction seen in part. Never knows: nodes, how
anything was asked. Invariant: only what a client could know is noted here.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from ottla.base.vocabulary import TopicPartition
from ottla.records.record import Record

Contents = Mapping[TopicPartition, Sequence[tuple[int, bytes]]]
"""Everything in each partition, as (offset, value) in order."""


class Fate(Enum):
    """How a transaction ended, as far as its producer knows."""

    UNKNOWN = "unknown"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Attempt:
    """One transaction: which values it wrote."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: list[bytes] = []
        self.fate = Fate.UNKNOWN


class History:
    """Everything the clients noted."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self.violations: list[str] = []
        self.acknowledged: dict[TopicPartition, dict[int, bytes]] = {}
        self.acknowledged_end: dict[TopicPartition, int] = {}
        """Behind the last record of each partition that was acknowledged."""
        self.seen: dict[TopicPartition, dict[int, bytes]] = {}
        self.seen_committed: set[bytes] = set()
        self.attempts: dict[str, Attempt] = {}
        self.acknowledgements = 0
        self.committed_attempts = 0
        self.commits: dict[tuple[str, TopicPartition], int] = {}
        """The furthest offset of each group that was acknowledged as committed."""
        self.doubtful: dict[tuple[str, TopicPartition], set[int]] = {}
        """Commits that were not answered: they may take effect at any time."""
        self.owners: dict[tuple[str, TopicPartition], str] = {}
        """Which member was given a partition and has not let it go."""
        self.group_commits = 0

    def violation(self, text: str) -> None:
        self.violations.append(text)
        self._tell(f"VIOLATION {text}")

    def note(self, text: str) -> None:
        self._tell(text)

    # --- what clients note --------------------------------------------------------------------------------------------

    def acknowledge(self, partition: TopicPartition, base_offset: int, values: Sequence[bytes]) -> None:
        known = self.acknowledged.setdefault(partition, {})
        self.acknowledgements += 1
        self.acknowledged_end[partition] = max(base_offset + len(values), self.acknowledged_end.get(partition, 0))
        for place, value in enumerate(values):
            offset = base_offset + place
            if known.setdefault(offset, value) != value:
                self.violation(
                    f"inconsistent offset: {partition} {offset} was acknowledged for {value!r} and {known[offset]!r}"
                )

    def see(self, who: str, partition: TopicPartition, records: Sequence[Record], *, committed: bool) -> None:
        known = self.seen.setdefault(partition, {})
        last = -1
        for record in records:
            value = record.value or b""
            if record.offset <= last:
                self.violation(f"non-monotonic poll: {who} saw {partition} {record.offset} after {last}")
            last = record.offset
            if known.setdefault(record.offset, value) != value:
                self.violation(
                    f"inconsistent offset: {who} saw {value!r} at {partition} {record.offset}, "
                    f"where {known[record.offset]!r} was seen before"
                )
            if committed:
                self.seen_committed.add(value)

    def commit(self, group: str, partition: TopicPartition, offset: int) -> None:
        self.group_commits += 1
        self.commits[group, partition] = max(offset, self.commits.get((group, partition), -1))

    def doubt_commit(self, group: str, partition: TopicPartition, offset: int) -> None:
        self.doubtful.setdefault((group, partition), set()).add(offset)

    def expect_committed(self, who: str, group: str, partition: TopicPartition, offset: int, least: int) -> None:
        """`offset` was read; `least` was acknowledged before the question was asked."""
        if offset < least and offset not in self.doubtful.get((group, partition), ()):
            self.violation(f"committed offset went back: {who} read {offset} of {group} {partition}, after {least}")

    def own(self, group: str, partition: TopicPartition, member: str) -> None:
        holder = self.owners.setdefault((group, partition), member)
        if holder != member:
            self.violation(f"two owners of {partition} in {group}: {holder} and {member}")

    def disown(self, group: str, partition: TopicPartition, member: str) -> None:
        if self.owners.get((group, partition)) == member:
            del self.owners[group, partition]

    # --- what it proves -----------------------------------------------------------------------------------------------

    def judge_writes(self, contents: Contents) -> None:
        """Every acknowledged write is there, once and in order; so is everything anybody saw."""
        for partition, entries in contents.items():
            found = dict(entries)
            for offset, value in self.acknowledged.get(partition, {}).items():
                if found.get(offset) != value:
                    self.violation(
                        f"lost write: {partition} {offset} {value!r} was acknowledged, {found.get(offset)!r}"
                    )
            for offset, value in self.seen.get(partition, {}).items():
                if found.get(offset) != value:
                    self.violation(
                        f"lost read: {partition} {offset} {value!r} was seen, {found.get(offset)!r} is there"
                    )
            for value, times in Counter(value for _, value in entries).items():
                if times > 1:
                    self.violation(f"duplicate: {value!r} is {times} times in {partition}")
            self._judge_order(partition, entries)

    def _judge_order(self, partition: TopicPartition, entries: Sequence[tuple[int, bytes]]) -> None:
        following: dict[bytes, int] = {}
        for offset, value in entries:
            writer, _, number = value.rpartition(b"/")
            expected = following.get(writer, 0)
            if int(number) > expected:
                self.violation(f"gap: {value!r} at {partition} {offset}, where {expected} was to come")
            elif int(number) < expected:
                self.violation(f"disorder: {value!r} at {partition} {offset}, where {expected} was to come")
            following[writer] = int(number) + 1

    def judge_transactions(self, visible: Contents) -> None:
        """Readers of committed records see all of a transaction or nothing, and each source record copied once."""
        there = Counter(value for entries in visible.values() for _, value in entries)
        for value, times in there.items():
            if times > 1:
                self.violation(f"duplicate: {value!r} is visible {times} times")
        for attempt in self.attempts.values():
            count = sum(value in there for value in attempt.values)
            if count not in (0, len(attempt.values)):
                self.violation(f"{attempt.name} ({attempt.fate.value}) is visible in part: {count} of {attempt.values}")
            elif count == 0 and attempt.fate is Fate.COMMITTED and attempt.values:
                self.violation(f"lost write: {attempt.name} was committed and is not visible")
            elif count and attempt.fate is Fate.ABORTED:
                self.violation(f"aborted read: {attempt.name} was aborted and is visible")
        for value in sorted(self.seen_committed):
            if value not in there and value.startswith(b"copy:"):
                self.violation(f"aborted read: {value!r} was seen by a reader of committed records and is not there")
        copies = Counter(value.rpartition(b"#")[0] for value in there)
        for source, times in copies.items():
            if times > 1:
                self.violation(f"duplicate: {source!r} was copied {times} times")

    def judge_copies(self, visible: Contents, partition: TopicPartition, upto: int, entries: Sequence[int]) -> None:
        """Exactly the records below the committed offset were copied."""
        copied = {
            int(value.rpartition(b"#")[0].rpartition(b"@")[2])
            for found in visible.values()
            for _, value in found
            if value.startswith(b"copy:%s-%d@" % (partition.topic.encode(), partition.partition))
        }
        wanted = {offset for offset in entries if offset < upto}
        if copied != wanted:
            missing, extra = sorted(wanted - copied), sorted(copied - wanted)
            self.violation(f"copies of {partition} up to {upto}: missing {missing}, too many {extra}")
