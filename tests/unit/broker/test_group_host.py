"""Which partition holds a group."""

from __future__ import annotations

import pytest

from ottla.broker.machine_host import java_hash


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("a", 97),
        ("g-probe", 1_681_149_238),
        ("polygenelubricants", 0),  # its hash is Java's smallest number, which has no positive counterpart
        ("𝄞", 1_772_394),
        ("ünïcode", 609_351_766),
    ],
)
def test_group_ids_are_hashed_as_java_does(text: str, number: int) -> None:
    assert java_hash(text) == number
