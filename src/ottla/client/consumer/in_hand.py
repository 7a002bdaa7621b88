"""What a program got last and may still be at work on.

Owns: where each partition stood before the records of the last poll, or before the record that an iteration handed over
last. Pure. Never knows: commits, how records come. Invariants: a record costs nothing, only a partition's part of a
poll does; a position that was sought since then is the program's own word and is left alone.
"""

from collections.abc import Mapping

from ottla.base.vocabulary import TopicPartition
from ottla.client.consumer.positions import Held
from ottla.client.groups.vocabulary import OffsetAndMetadata


class InHand:
    """One consumer's; a poll that begins means that the program has finished what it had."""

    __slots__ = ("_done", "_looped", "_starts", "polls")

    def __init__(self) -> None:
        self.polls = 0
        """How many there were: an iteration goes on only if none came between."""
        self._starts: dict[Held, tuple[int, int, int]] = {}
        """The turn, and position and epoch before what was handed over all at once."""
        self._looped: tuple[Held, int, int] | None = None
        """What an iteration hands over, its turn and epoch: the last record is in hand."""
        self._done = 0
        """Up to this position the program says that it has finished what the iteration handed over."""

    def begin_poll(self) -> None:
        """All of it is finished."""
        self.polls += 1
        self._starts.clear()
        self._looped = None

    def part(self, held: Held) -> None:
        """Records from the position on are about to be handed over, all at once."""
        if held not in self._starts:
            self._starts[held] = held.turn, held.position, held.epoch

    def one_by_one(self, held: Held) -> None:
        """Records are about to be handed over one by one: the next is asked for when the last one is finished."""
        self._looped = held, held.turn, held.epoch
        self._done = 0

    def finished_all(self) -> None:
        """The program says so of everything it got; an iteration may hand over more."""
        self._starts.clear()
        if self._looped is not None:
            self._done = self._looped[0].position

    def finished(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """The program says of some how far it is."""
        for held, (turn, start, _) in list(self._starts.items()):
            said = offsets.get(held.partition)
            if said is not None and said.offset >= held.position:
                del self._starts[held]
            elif said is not None and said.offset > start:
                self._starts[held] = turn, said.offset, said.leader_epoch
        if self._looped is not None:
            held = self._looped[0]
            said = offsets.get(held.partition)
            if said is not None and said.offset >= held.position:
                self._done = held.position

    def give_back(self) -> None:
        """Positions before whatever is not finished."""
        unfinished = [(held, turn, start, epoch) for held, (turn, start, epoch) in self._starts.items()]
        if self._looped is not None and self._looped[0].position > self._done:
            held, turn, epoch = self._looped
            unfinished.append((held, turn, held.position - 1, epoch))
        for held, turn, start, epoch in unfinished:
            if held.turn == turn and start < held.position:
                held.jump(start, epoch)
        self._starts.clear()
        self._looped = None
