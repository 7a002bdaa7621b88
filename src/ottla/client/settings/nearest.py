"""The word somebody may have meant."""

from collections.abc import Iterable

_ALIKE = 0.6


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like this one, None when none is like it."""
    from difflib import get_close_matches  # loaded when somebody has erred

    found = get_close_matches(word, list(known), 1, _ALIKE)
    return found[0] if found else None
