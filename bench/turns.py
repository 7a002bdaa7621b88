"""Both systems measured in turn, several starts each: the shape that most parts of the bench have.

Owns: whose turn it is, and the medians. Never knows: what is measured.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Numbers = dict[str, float]


class Measured(Protocol):
    """A broker or a cluster, not yet started."""

    name: str

    def __init__(self, directory: str) -> None: ...


M = TypeVar("M", bound=Measured)


def in_turn(
    part: str, kinds: Sequence[type[M]], starts: int, numbers_of: Callable[[M], tuple[Numbers, Numbers]]
) -> dict[str, dict[str, Numbers]]:
    """Medians over the starts: system → "cold" and "warm" → numbers."""
    seen: dict[str, dict[str, list[Numbers]]] = {kind.name: {"cold": [], "warm": []} for kind in kinds}
    for start in range(starts):
        for kind in kinds if start % 2 == 0 else reversed(kinds):
            print(f"{part}: start {start + 1} of {starts}, {kind.name}", flush=True)
            for when, numbers in zip(("cold", "warm"), numbers_of(kind(f"{part}-{start}")), strict=True):
                seen[kind.name][when].append(numbers)
    return {name: {when: medians(found) for when, found in by.items()} for name, by in seen.items()}


def medians(found: list[Numbers]) -> Numbers:
    return {key: statistics.median(numbers[key] for numbers in found) for key in found[0]}
