"""What a program got last and may still be at work on.

Owns: where each partition stood before the records of the last poll, or before the record that an iteration handed over
last. Pure. Never knows: commits, how records come. Invariants: a record costs nothing, only a partition's part of a
poll does; a position that was sought since then is the program's own word and is left alone.
"""

from collections.abc import Mapping

from ottla.base.vocabulary import TopicPartition
from ottla.client.consumer.positions import Held
from ottla.client.groups.vocabulary import OffsetAndMetadata

_LAST_ONE = -1


class InHand:
    """One consumer's; a poll that begins means that the program has finished what it had."""

    __slots__ = ("_starts",)

    def __init__(self) -> None:
        self._starts: dict[Held, tuple[int, int, int]] = {}
        """The turn, and position and epoch before what was handed over."""

    def clear(self) -> None:
        """All of it is finished."""
        self._starts.clear()

    def part(self, held: Held) -> None:
        """Records from the position on are about to be handed over, all at once."""
        if held not in self._starts:
            self._starts[held] = held.turn, held.position, held.epoch

    def one_by_one(self, held: Held) -> None:
        """Records are about to be handed over one by one: the next is asked for when the last one is finished."""
        self._starts[held] = held.turn, _LAST_ONE, held.epoch

    def finished(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """The program says of some how far it is."""
        for held, (turn, _, _) in list(self._starts.items()):
            said = offsets.get(held.partition)
            if said is not None and said.offset >= held.position:
                del self._starts[held]
            elif said is not None and said.offset > self._start(held):
                self._starts[held] = turn, said.offset, said.leader_epoch

    def give_back(self) -> None:
        """Positions before whatever is not finished."""
        for held, (turn, _, epoch) in self._starts.items():
            start = self._start(held)
            if held.turn == turn and start < held.position:
                held.jump(start, epoch)
        self._starts.clear()

    def _start(self, held: Held) -> int:
        start = self._starts[held][1]
        return held.position - 1 if start == _LAST_ONE else start
