"""Patterns of topics: they mean what Python's own expressions mean, without its worst case."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.pattern_syntax import BadPattern
from ottla.groups.patterns import Pattern, matching

NAMES = st.text("abcxyABC01._-", max_size=8)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> str:
    kinds = ["literal", "any", "class"] if depth == 0 else ["literal", "any", "class", "cat", "alt", "rep", "rep"]
    kind = draw(st.sampled_from(kinds))
    if kind == "literal":
        return re.escape(draw(st.text("abc01._-", min_size=1, max_size=2)))
    if kind == "any":
        return draw(st.sampled_from([".", r"\d", r"\w", r"\D", "[a-c]", "[^a]", "[0-9_.]"]))
    if kind == "class":
        return draw(st.sampled_from(["[abc]", "[^a-y]", "[A-Z]", "[-.]", r"[\w.]"]))
    inner = expressions(depth - 1)
    if kind == "cat":
        return draw(inner) + draw(inner)
    if kind == "alt":
        return f"({draw(inner)}|{draw(inner)})"
    return f"(?:{draw(inner)})" + draw(st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "*?"]))


@given(expressions(), st.lists(NAMES, max_size=20))
def test_a_pattern_matches_what_python_matches(text: str, names: list[str]) -> None:
    assert matching(text, names) == {name for name in names if re.fullmatch(text, name)}


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("^abc$", ["abc"]),
        ("a|^b$", ["a", "b"]),
        ("(?i)AB", ["ab", "AB", "aB"]),
        ("(?i:a)B", ["aB", "AB"]),
        ("(?P<name>a)(?<other>b)", ["ab"]),
        (r"\Qa.b\E.", ["a.bc"]),
        ("[[:digit:]]+", ["01"]),
        ("(?i)[[:upper:]]+", ["a", "b", "ab", "AB", "aB", "abc", "xaby"]),
        ("(?i)[[:^lower:]]+", ["01"]),
        ("[[:graph:]]{4}", ["a.bc", "a-bc", "xaby"]),
        (r"\x61\x{62}", ["ab"]),
        ("é|a", ["a"]),
        ("a{,2}", []),
        ("[]a]", ["a"]),
        ("", [""]),
    ],
)
def test_forms_of_re2(text: str, matched: list[str]) -> None:
    names = ["", "a", "b", "ab", "AB", "aB", "abc", "a.bc", "a-bc", "01", "xaby"]
    assert sorted(matching(text, names)) == sorted(matched)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("(((", "missing closing )"),
        ("a)", "unexpected )"),
        ("[a", "missing closing ]"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator"),
        ("a\\", "trailing backslash at end of expression"),
        ("[b-a]", "invalid character class range: `b-a`"),
        (r"\ba", r"invalid escape sequence: `\b`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?P<", "invalid named capture"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(" * 101, "expression nests too deeply"),
        ("a" * 1001, "expressions are limited to 1000 characters"),
        ("(a{1000}){1000}", "expression too large"),
        ("(((((){1000}){1000}){1000}){1000}){1000}", "expression too large"),
        ("(.?){1000}(.?){1000}x", "expression too large"),
        (".*a.{500}", "expression too large"),
    ],
)
def test_what_is_no_pattern_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadPattern) as refused:
        Pattern(text)
    assert str(refused.value) == problem


def test_ranges_may_be_written_by_their_numbers() -> None:
    assert matching(r"[\x61-\x{63}\-]+", ["abc", "a-c", "abd"]) == {"abc", "a-c"}


def test_no_pattern_takes_long() -> None:
    """Python's own expressions would not be done within a lifetime."""
    assert not Pattern("(a+)+b").matches("a" * 249)
    assert not Pattern("(a|aa)+c(.*.*.*)*b").matches("a" * 249)


@given(st.text("ab()[]{}*+?|^$\\.-,0123456789:PQEdx<>", max_size=12))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    with contextlib.suppress(BadPattern):
        matching(text, ["ab", ""])
