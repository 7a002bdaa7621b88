"""Which topics a consumer's metadata names."""

from __future__ import annotations

import pytest

from ottla.groups.subscription import subscribed_topics


def metadata(*topics: str) -> bytes:
    names = b"".join(len(name.encode()).to_bytes(2, "big") + name.encode() for name in topics)
    return b"\0\1" + len(topics).to_bytes(4, "big") + names + b"\0\0\0\0rest"


def test_the_topics_of_all_members_are_found() -> None:
    assert subscribed_topics([metadata("a", "b"), metadata("b", "ü"), metadata()]) == frozenset({"a", "b", "ü"})
    assert subscribed_topics([]) == frozenset()


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\0\0\0\0\1", b"\0\0\0\0\0\1\0\5ab", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\1\0\1\xff"]
)
def test_metadata_in_another_format_says_nothing(data: bytes) -> None:
    assert subscribed_topics([metadata("a"), data]) is None
