"""Regular expressions over names, matched in time that grows with the name only.

Owns: a compiler from patterns to a deterministic automaton, built whole before the first name is matched, within a
bound of steps: whatever a client asks for is either refused at once, or costs one look in a table for each character
of a name, today and when there are more topics. Never knows: who asks, which topics there are.
A pattern must match the whole name.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from ottla.groups.pattern_syntax import LAST_CHARACTER, LONGEST, BadPattern, Characters, Node, Parser

# Why patterns have bounds, and an automaton that is built whole: design/0005.
MOST_STEPS = 100_000
"""Of compiling one pattern: nodes visited, states followed, transitions drawn. Some ten milliseconds."""

MATCH, SET, SPLIT, START, END = range(5)
_MOST_STATES = (1 << 15) - 1  # what a row's numbers can tell apart
_DEAD: Final = -1
_UNIVERSAL: Final = 0
"""The state from which every name matches, whatever follows."""


class _Budget:
    """The steps that are left to a pattern."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_STEPS

    def spend(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left < 0:
            raise BadPattern("expression too large")


class _Branches:
    """A pattern as states between which one may choose; made back to front, the match being state 0."""

    def __init__(self, tree: Node, budget: _Budget) -> None:
        self._budget = budget
        # A state: what it is, the characters it takes, and where it leads (the second for a split).
        self.states: list[tuple[int, Characters, int, int]] = [(MATCH, (), -1, -1)]
        self.first = self._build(tree, 0)

    def reach(self, state: int, at_start: bool = False) -> int:
        """What can come next without taking a character: a bit for each state that takes one, bit 0 for the end.

        Bit 0: a name may end here. `$` holds only there, and what lies behind it counts for nothing else.
        """
        taking = ending = 0
        seen: set[tuple[int, bool]] = set()
        todo = [(state, False)]
        while todo:
            each = todo.pop()
            if each in seen:
                continue
            seen.add(each)
            state, at_end = each
            kind, _, first, second = self.states[state]
            if kind == SPLIT:
                todo += ((first, at_end), (second, at_end))
            elif kind == MATCH:
                ending = 1
            elif kind == SET:
                if not at_end:
                    taking |= 1 << state
            elif kind == END:
                todo.append((first, True))
            elif at_start:
                todo.append((first, at_end))
        self._budget.spend(len(seen))
        return taking | ending

    def _state(self, kind: int, taken: Characters, first: int, second: int = -1) -> int:
        self.states.append((kind, taken, first, second))
        return len(self.states) - 1

    def _build(self, node: Node, then: int) -> int:
        self._budget.spend()  # also for what makes no state: repeats of nothing cost time as well
        kind = node[0]
        if kind == "set":
            return self._state(SET, node[1], then)
        if kind == "start":
            return self._state(START, (), then)
        if kind == "end":
            return self._state(END, (), then)
        if kind == "cat":
            for part in reversed(node[1]):
                then = self._build(part, then)
            return then
        if kind == "alt":
            first = self._build(node[1][0], then)
            for part in node[1][1:]:
                first = self._state(SPLIT, (), first, self._build(part, then))
            return first
        _, part, least, most = node
        if most is None:
            loop = self._state(SPLIT, (), then, -1)
            self.states[loop] = (SPLIT, (), self._build(part, loop), then)
            then = loop
        else:
            skip = then
            for _ in range(most - least):
                then = self._state(SPLIT, (), self._build(part, then), skip)
        for _ in range(least):
            then = self._build(part, then)
        return then


class _Alphabet:
    """Which characters a pattern tells apart: those that every set of it takes or leaves alike are one class."""

    def __init__(self, sets: set[Characters], budget: _Budget) -> None:
        edges = sorted({edge for one in sets for first, last in one for edge in (first, last + 1)} | {0})
        if edges[-1] > LAST_CHARACTER:
            edges.pop()
        members: list[list[int]] = [[] for _ in edges]
        for number, one in enumerate(sorted(sets)):
            for first, last in one:
                low, high = bisect_right(edges, first) - 1, bisect_right(edges, last) - 1
                budget.spend(high - low + 1)
                for slot in range(low, high + 1):
                    members[slot].append(number)
        classes: dict[tuple[int, ...], int] = {}
        self._edges = edges
        self._classes = [classes.setdefault(tuple(each), len(classes)) for each in members]
        self.size = len(classes)
        # The classes that each set takes.
        self.taken: dict[Characters, list[int]] = {one: [] for one in sets}
        ordered = sorted(sets)
        for numbers, found in classes.items():
            for number in numbers:
                self.taken[ordered[number]].append(found)

    def class_of(self, character: str) -> int:
        return self._classes[bisect_right(self._edges, ord(character)) - 1]


class _KnownClasses(dict[str, int]):
    """The class of each character that names had so far."""

    def __init__(self, alphabet: _Alphabet) -> None:
        super().__init__()
        self._alphabet = alphabet

    def __missing__(self, character: str) -> int:
        found = self[character] = self._alphabet.class_of(character)
        return found


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise BadPattern(f"expressions are limited to {LONGEST} characters")
        budget = _Budget()
        branches = _Branches(Parser(text).parsed(), budget)
        alphabet = _Alphabet({taken for kind, taken, _, _ in branches.states if kind == SET}, budget)
        self._classes = _KnownClasses(alphabet)
        # For each state the next one by class of character, and whether a name may end there.
        self._rows = [array("h", [_UNIVERSAL] * alphabet.size)]
        self._accepting = [True]
        self._first = 1
        self._determine(branches, alphabet, budget)
        self._note_universal()

    def matches(self, name: str) -> bool:
        rows, classes = self._rows, self._classes
        state = self._first
        for character in name:
            if state <= _UNIVERSAL:
                break
            state = rows[state][classes[character]]
        return state >= 0 and self._accepting[state]

    def _determine(self, branches: _Branches, alphabet: _Alphabet, budget: _Budget) -> None:
        """Draw every transition between sets of branches, each set a whole number with a bit for each branch."""
        follow = {then: branches.reach(then) for kind, _, then, _ in branches.states if kind == SET}
        takers = [0] * alphabet.size
        for number, (kind, taken, _, _) in enumerate(branches.states):
            if kind == SET:
                for each in alphabet.taken[taken]:
                    takers[each] |= 1 << number
        # The beginning is a state of its own: `^` holds nowhere else.
        drawn = [branches.reach(branches.first, at_start=True)]
        known: dict[int, int] = {}
        followed: dict[int, int] = {0: _DEAD}
        for present in drawn:
            self._accepting.append(present & 1 == 1)
            budget.spend(alphabet.size)
            row = array("h")
            for taker in takers:
                moving = present & taker
                found = followed.get(moving)
                if found is None:
                    reached = self._reached(branches, follow, moving, budget)
                    found = known.get(reached)
                    if found is None:
                        drawn.append(reached)
                        found = known[reached] = len(drawn)
                        if found > _MOST_STATES:
                            raise BadPattern("expression too large")
                    followed[moving] = found
                row.append(found)
            self._rows.append(row)

    @staticmethod
    def _reached(branches: _Branches, follow: dict[int, int], moving: int, budget: _Budget) -> int:
        reached = steps = 0
        while moving:
            lowest = moving & -moving
            reached |= follow[branches.states[lowest.bit_length() - 1][2]]
            moving ^= lowest
            steps += 1
        budget.spend(steps)
        return reached

    def _note_universal(self) -> None:
        """Names need not be read further once all that can follow is accepted."""
        same = {state for state in range(1, len(self._rows)) if self._accepting[state]}
        same = {state for state in same if all(following == state for following in self._rows[state])}
        if not same:
            return
        for row in self._rows:
            for each, following in enumerate(row):
                if following in same:
                    row[each] = _UNIVERSAL
        if self._first in same:
            self._first = _UNIVERSAL


@lru_cache(maxsize=256)
def compiled(text: str) -> Pattern:
    return Pattern(text)


def matching(text: str, names: Iterable[str]) -> frozenset[str]:
    """Those names that the pattern matches as a whole."""
    matches = compiled(text).matches
    return frozenset(name for name in names if matches(name))
