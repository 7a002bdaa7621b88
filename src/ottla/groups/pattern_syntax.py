"""The syntax of patterns: from RE2's text, which Kafka's clients write, to a tree.

Owns: what a pattern may say, and the bounds that a reader of its text can hold: 1,000 characters, 100 levels of
brackets, repeat counts up to 1,000. `\\b`, `\\B`, Unicode classes and inline flags other than `i`, `s`, `m` and `U` are
refused. Never knows: how a tree is matched.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

LONGEST = 1_000
DEEPEST = 100
MOST_REPEATS = 1_000
LAST_CHARACTER = 0x10FFFF

Characters: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges of code points, first and last, in order and apart from each other."""

Node: TypeAlias = tuple[Any, ...]
"""("set", characters) | ("start",) | ("end",) | ("cat", nodes) | ("alt", nodes) | ("rep", node, least, most)"""


class BadPattern(Exception):
    """The text is no pattern, or none within the bounds; says why."""


def merged(ranges: Iterable[tuple[int, int]]) -> Characters:
    """The ranges in order, those that touch made one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def complement(characters: Characters) -> Characters:
    """All that the ranges leave out."""
    edges = [-1, *(edge for one in characters for edge in one), LAST_CHARACTER + 1]
    gaps = zip(edges[::2], edges[1::2], strict=True)
    return tuple((before + 1, after - 1) for before, after in gaps if before + 1 < after)


def _named(text: str) -> Characters:
    return merged((ord(first), ord(last)) for first, last in zip(text[::2], text[1::2], strict=True))


ANY: Characters = ((0, LAST_CHARACTER),)
_CLASSES = {"d": _named("09"), "w": _named("azAZ09__"), "s": _named("\t\n\f\f\r\r  ")}
_CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v", "0": "\0"}
_POSIX = {
    "alnum": _named("azAZ09"),
    "alpha": _named("azAZ"),
    "ascii": _named("\0\x7f"),
    "blank": _named("\t\t  "),
    "cntrl": _named("\0\x1f\x7f\x7f"),
    "digit": _CLASSES["d"],
    "graph": _named("!~"),
    "lower": _named("az"),
    "print": _named(" ~"),
    "punct": _named("!/:@[`{~"),
    "space": _named("\t\r  "),
    "upper": _named("AZ"),
    "word": _CLASSES["w"],
    "xdigit": _named("09afAF"),
}


class Parser:
    """From text to tree."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._any_case = False

    def parsed(self) -> Node:
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

    def _alternatives(self) -> Node:
        parts = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else ("alt", parts)

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while (character := self._peek()) and character not in "|)":
            if character in "*+?":
                raise BadPattern(f"missing argument to repetition operator: `{character}`")
            parts.append(self._repeated(self._atom()))
        return ("cat", parts)

    def _repeated(self, node: Node) -> Node:
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

    def _atom(self) -> Node:
        character = self._take("")
        if character == "(":
            return self._group()
        if character == "[":
            return ("set", self._class())
        if character == ".":
            return ("set", ANY)
        if character == "^":
            return ("start",)
        if character == "$":
            return ("end",)
        if character == "\\":
            return self._escape()
        return ("set", self._characters(character))

    def _characters(self, characters: str) -> Characters:
        if self._any_case and len(characters.swapcase()) == 1:  # else it is no letter of its own
            characters += characters.swapcase()
        return merged((ord(each), ord(each)) for each in characters)

    def _range(self, first: str, last: str) -> Characters:
        found = [(ord(first), ord(last))]
        if self._any_case:
            for start, end, other in ((65, 90, 32), (97, 122, -32)):
                low, high = max(ord(first), start), min(ord(last), end)
                if low <= high:
                    found.append((low + other, high + other))
        return merged(found)

    def _group(self) -> Node:
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

    def _escape(self) -> Node:
        character = self._take("trailing backslash at end of expression")
        if character in "Az":
            return ("start",) if character == "A" else ("end",)
        if character == "Q":
            literal, closing, _ = self._text[self._at :].partition("\\E")
            self._at += len(literal) + len(closing)
            return ("cat", [("set", self._characters(one)) for one in literal])
        return ("set", self._escaped(character))

    def _escaped(self, character: str) -> Characters:
        known = _CLASSES.get(character.lower())
        if known is not None:
            return known if character.islower() else complement(known)
        return self._characters(self._one(character))

    def _one(self, escaped: str) -> str:
        """The one character that stands behind a backslash."""
        if escaped == "x":
            return self._hexadecimal()
        if escaped in _CONTROLS:
            return _CONTROLS[escaped]
        if escaped.isalnum():
            raise BadPattern(f"invalid escape sequence: `\\{escaped}`")
        return escaped

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

    def _class(self) -> Characters:
        negated = self._peek() == "^"
        self._at += negated
        found: list[tuple[int, int]] = []
        first = True
        while first or self._peek() != "]":
            first = False
            if self._text.startswith("[:", self._at) and ":]" in self._text[self._at :]:
                found += self._posix()
                continue
            start = self._take("missing closing ]")
            if start == "\\":
                escaped = self._take("missing closing ]")
                if escaped.lower() in _CLASSES:
                    found += self._escaped(escaped)
                    continue
                start = self._one(escaped)
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                end = self._take("missing closing ]")
                if end == "\\":
                    end = self._one(self._take("missing closing ]"))
                if end < start:
                    raise BadPattern(f"invalid character class range: `{start}-{end}`")
                found += self._range(start, end)
            else:
                found += self._characters(start)
        self._at += 1
        return complement(merged(found)) if negated else merged(found)

    def _posix(self) -> Characters:
        name, _, _ = self._text[self._at + 2 :].partition(":]")
        self._at += len(name) + 4
        known = _POSIX.get(name.removeprefix("^"))
        if known is None:
            raise BadPattern(f"invalid character class range: `[:{name}:]`")
        if self._any_case:
            known = merged(each for first, last in known for each in self._range(chr(first), chr(last)))
        return complement(known) if name.startswith("^") else known
