"""Patterns over names that have more characters than topics' names can have, such as transactional ids."""

from __future__ import annotations

import pytest

from ottla.groups.patterns import Pattern


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (".*", "Sink: 1/ü", True),
        (r"Sink:\s1/.", "Sink: 1/ü", True),
        (r"\S+", "Sink: 1/ü", False),
        (r"[^\x{7f}-\x{10ffff}]+", "Sink: 1/ü", False),
        ("(?i)[k-n]+[^k-n]", "kLmNo", True),
        ("(?i)[^k-n]+", "abM", False),
        ("[^:]*", "a:b", False),
        ("[ -~]+", "a:b c", True),
        ("(a+)+", "a" * 200 + "!", False),
        ("(?i)ß", "S", False),
        ("(?i)ß", "ß", True),
        (r"Sink:[[:blank:]][[:^space:]]+", "Sink: 1/ü", True),
        ("[[:print:]]+", "Sink: 1/ü", False),
        ("[[:ascii:]]+[[:^cntrl:]]", "Sink: 1/ü", True),
    ],
)
def test_all_characters_of_the_names_count(text: str, name: str, expected: bool) -> None:
    assert Pattern(text).matches(name) is expected
