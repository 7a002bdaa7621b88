"""Regular expressions over names, matched in time that grows with the name only.

Owns: a compiler from RE2's syntax, which Kafka's clients write, to a lazily built automaton; no pattern of a client can
keep the broker busy, as one could with backtracking. Never knows: who asks, which topics there are.
Bounds: at most 1,000 characters, 100 levels of brackets, repeat counts up to 1,000 and 5,000 states; `\\b`, `\\B`,
Unicode classes and inline flags other than `i`, `s`, `m` and `U` are refused. Classes are sets of the characters that
names can have (65 in those of topics), and whatever else a pattern names matches nothing. A pattern must match the
whole name.
"""

from collections.abc import Iterable
from functools import lru_cache
from string import ascii_letters, digits
from typing import Any, TypeAlias

ALPHABET = frozenset(ascii_letters + digits + "._-")
LONGEST = 1_000
DEEPEST = 100
MOST_REPEATS = 1_000
MOST_STATES = 5_000
MOST_REMEMBERED = 2_000
"""States of the automaton that are kept at hand; beyond, it starts anew."""

_CLASSES = {
    "d": frozenset(digits),
    "w": frozenset(ascii_letters + digits + "_"),
    "s": frozenset("\t\n\f\r "),
}
_POSIX = {
    "alnum": frozenset(ascii_letters + digits),
    "alpha": frozenset(ascii_letters),
    "digit": frozenset(digits),
    "lower": frozenset(ascii_letters[:26]),
    "upper": frozenset(ascii_letters[26:]),
    "punct": frozenset("._-"),
    "word": _CLASSES["w"],
    "xdigit": frozenset(digits + "abcdefABCDEF"),
}

MATCH, SET, SPLIT, START, END = range(5)


_Node: TypeAlias = tuple[Any, ...]
"""("set", characters) | ("start",) | ("end",) | ("cat", nodes) | ("alt", nodes) | ("rep", node, least, most)"""


class BadPattern(Exception):
    """The text is no pattern, or none within the bounds; says why."""


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str, alphabet: frozenset[str] = ALPHABET) -> None:
        if len(text) > LONGEST:
            raise BadPattern(f"expressions are limited to {LONGEST} characters")
        # A state: what it is, the characters it takes, and where it leads (the second for a split).
        self._states: list[tuple[int, frozenset[str], int, int]] = [(MATCH, frozenset(), -1, -1)]
        self._first = self._build(_Parser(text, alphabet).parsed(), 0)
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, name: str) -> bool:
        steps = self._steps
        present = self._closure((self._first,), at_start=True)
        for character in name:
            key = (present, character)
            known = steps.get(key)
            if known is None:
                if len(steps) >= MOST_REMEMBERED:
                    steps.clear()
                known = steps[key] = self._closure(
                    [self._states[state][2] for state in present if character in self._states[state][1]]
                )
            if not known:
                return False
            present = known
        return 0 in self._closure(present, at_start=not name, at_end=True)

    def _closure(self, states: Iterable[int], at_start: bool = False, at_end: bool = False) -> frozenset[int]:
        """Everywhere one can be without taking a character."""
        found: set[int] = set()
        todo = list(states)
        while todo:
            state = todo.pop()
            if state in found:
                continue
            found.add(state)
            kind, _, first, second = self._states[state]
            if kind == SPLIT:
                todo += (first, second)
            elif (kind == START and at_start) or (kind == END and at_end):
                todo.append(first)
        return frozenset(found)

    # --- from tree to states, back to front ---

    def _state(self, kind: int, taken: frozenset[str], first: int, second: int = -1) -> int:
        if len(self._states) >= MOST_STATES:
            raise BadPattern("expression too large")
        self._states.append((kind, taken, first, second))
        return len(self._states) - 1

    def _build(self, node: _Node, then: int) -> int:
        kind = node[0]
        if kind == "set":
            return self._state(SET, node[1], then)
        if kind == "start":
            return self._state(START, frozenset(), then)
        if kind == "end":
            return self._state(END, frozenset(), then)
        if kind == "cat":
            for part in reversed(node[1]):
                then = self._build(part, then)
            return then
        if kind == "alt":
            first = self._build(node[1][0], then)
            for part in node[1][1:]:
                first = self._state(SPLIT, frozenset(), first, self._build(part, then))
            return first
        _, part, least, most = node
        if most is None:
            loop = self._state(SPLIT, frozenset(), then, -1)
            self._states[loop] = (SPLIT, frozenset(), self._build(part, loop), then)
            then = loop
        else:
            skip = then
            for _ in range(most - least):
                then = self._state(SPLIT, frozenset(), self._build(part, then), skip)
        for _ in range(least):
            then = self._build(part, then)
        return then


class _Parser:
    """From text to tree."""

    def __init__(self, text: str, alphabet: frozenset[str]) -> None:
        self._text = text
        self._alphabet = alphabet
        self._at = 0
        self._depth = 0
        self._any_case = False

    def parsed(self) -> _Node:
        tree = self._alternatives()
        if self._at < len(self._text):
            raise BadPattern("unexpected )")
        return tree

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, problem: str) -> str:
        if self._at >= len(self._text):
            raise BadPattern(problem)
        self._at += 1
        return self._text[self._at - 1]

    def _alternatives(self) -> _Node:
        parts = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else ("alt", parts)

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while (character := self._peek()) and character not in "|)":
            if character in "*+?":
                raise BadPattern(f"missing argument to repetition operator: `{character}`")
            parts.append(self._repeated(self._atom()))
        return ("cat", parts)

    def _repeated(self, node: _Node) -> _Node:
        repeated = False
        while (bounds := self._bounds()) is not None:
            if repeated:
                raise BadPattern("invalid nested repetition operator")
            repeated = True
            node = ("rep", node, *bounds)
            if self._peek() == "?":
                self._at += 1
        return node

    def _bounds(self) -> tuple[int, int | None] | None:
        character = self._peek()
        if character and character in "*+?":
            self._at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[character]
        if character != "{":
            return None
        inside, brace, _ = self._text[self._at + 1 :].partition("}")
        low, comma, high = inside.partition(",")
        if not brace or not low.isdecimal() or not (high.isdecimal() or not high):
            return None
        self._at += len(inside) + 2
        least = int(low)
        most = int(high) if high else (None if comma else least)
        if least > MOST_REPEATS or (most is not None and not least <= most <= MOST_REPEATS):
            raise BadPattern(f"invalid repeat count: `{{{inside}}}`")
        return least, most

    def _atom(self) -> _Node:
        character = self._take("")
        if character == "(":
            return self._group()
        if character == "[":
            return ("set", self._class())
        if character == ".":
            return ("set", self._alphabet)
        if character == "^":
            return ("start",)
        if character == "$":
            return ("end",)
        if character == "\\":
            return self._escape()
        return ("set", self._characters(character))

    def _characters(self, characters: str) -> frozenset[str]:
        if self._any_case:
            characters += characters.swapcase()
        return frozenset(characters) & self._alphabet

    def _group(self) -> _Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise BadPattern("expression nests too deeply")
        any_case = self._any_case
        if self._peek() == "?" and self._flags():
            self._depth -= 1
            return ("cat", [])
        tree = self._alternatives()
        if self._peek() != ")":
            raise BadPattern("missing closing )")
        self._at += 1
        self._any_case = any_case
        self._depth -= 1
        return tree

    def _flags(self) -> bool:
        """Behind `(?`: a name, or flags for the group; answers whether they are for the rest instead."""
        rest = self._text[self._at + 1 :]
        for start in ("P<", "<"):
            if rest.startswith(start):
                name, closing, _ = rest[len(start) :].partition(">")
                if not closing or not name.isidentifier():
                    raise BadPattern("invalid named capture")
                self._at += 2 + len(start) + len(name)
                return False
        self._at += 1
        on = True
        while True:
            flag = self._take("missing closing )")
            if flag in ":)":
                return flag == ")"
            if flag == "-" and on:
                on = False
            elif flag == "i":
                self._any_case = on
            elif flag not in "smU":
                raise BadPattern("invalid or unsupported Perl syntax")

    def _escape(self) -> _Node:
        character = self._take("trailing backslash at end of expression")
        if character in "Az":
            return ("start",) if character == "A" else ("end",)
        if character == "Q":
            literal, closing, _ = self._text[self._at :].partition("\\E")
            self._at += len(literal) + len(closing)
            return ("cat", [("set", self._characters(one)) for one in literal])
        return ("set", self._escaped(character))

    def _escaped(self, character: str) -> frozenset[str]:
        known = _CLASSES.get(character.lower())
        if known is not None:
            return known if character.islower() else self._alphabet - known
        if character == "x":
            return self._characters(self._hexadecimal())
        if character in "aftnrv0":
            return frozenset()
        if character.isalnum():
            raise BadPattern(f"invalid escape sequence: `\\{character}`")
        return self._characters(character)

    def _hexadecimal(self) -> str:
        if self._peek() == "{":
            number, closing, _ = self._text[self._at + 1 :].partition("}")
            self._at += len(number) + 2
        else:
            number, closing = self._text[self._at : self._at + 2], "}"
            self._at += 2
        try:
            return chr(int(number, 16)) if closing else chr(-1)
        except (ValueError, OverflowError):
            raise BadPattern("invalid escape sequence: `\\x`") from None

    def _class(self) -> frozenset[str]:
        negated = self._peek() == "^"
        self._at += negated
        found: set[str] = set()
        first = True
        while first or self._peek() != "]":
            first = False
            if self._text.startswith("[:", self._at) and ":]" in self._text[self._at :]:
                found |= self._posix()
                continue
            start = self._take("missing closing ]")
            if start == "\\":
                escaped = self._take("missing closing ]")
                if escaped.isalnum():
                    found |= self._escaped(escaped)
                    continue
                start = escaped
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                end = self._take("missing closing ]")
                if end == "\\":
                    end = self._take("missing closing ]")
                if end < start:
                    raise BadPattern(f"invalid character class range: `{start}-{end}`")
                found |= self._characters("".join(one for one in self._alphabet if start <= one <= end))
            else:
                found |= self._characters(start)
        self._at += 1
        return self._alphabet - found if negated else frozenset(found)

    def _posix(self) -> frozenset[str]:
        name, _, _ = self._text[self._at + 2 :].partition(":]")
        self._at += len(name) + 4
        known = _POSIX.get(name.removeprefix("^"))
        if known is None:
            raise BadPattern(f"invalid character class range: `[:{name}:]`")
        return self._alphabet - known if name.startswith("^") else known


@lru_cache(maxsize=256)
def compiled(text: str) -> Pattern:
    return Pattern(text)


def matching(text: str, names: Iterable[str]) -> frozenset[str]:
    """Those names that the pattern matches as a whole."""
    pattern = compiled(text)
    return frozenset(name for name in names if pattern.matches(name))
