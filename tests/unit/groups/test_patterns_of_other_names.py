"""Patterns over names that have more characters than topics' names can have, such as transactional ids."""

from __future__ import annotations

import pytest

from ottla.groups.patterns import ALPHABET, Pattern


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (".*", "Sink: 1/ü", True),
        (r"Sink:\s1/.", "Sink: 1/ü", True),
        (r"\S+", "Sink: 1/ü", False),
        ("[^:]*", "a:b", False),
        ("[ -~]+", "a:b c", True),
        ("(a+)+", "a" * 200 + "!", False),
    ],
)
def test_all_characters_of_the_names_count(text: str, name: str, expected: bool) -> None:
    assert Pattern(text, ALPHABET | frozenset(name)).matches(name) is expected
