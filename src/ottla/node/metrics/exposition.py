"""The text form of metrics that Prometheus reads (version 0.0.4).

Owns: the form. Never knows: what is measured. Invariants: a metric is announced once, before its series, which stand
together; a series has a value for each label that its metric declares, or none at all.
"""

from collections.abc import Iterable, Sequence

from ottla.net.request_times import BOUNDS
from ottla.node.metrics.families import Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
AT_ONCE = 500
"""Lines that are kept before they are written."""
_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_BOUNDS_MS = tuple(f"{bound * 1000:g}" for bound in BOUNDS)

Number = int | float


def labels_of(family: Family, values: Sequence[object]) -> str:
    """`topic="orders",partition="3"`"""
    assert len(values) == len(family.labels), family.name
    return ",".join(
        f'{name}="{str(value).translate(_ESCAPED)}"' for name, value in zip(family.labels, values, strict=True)
    )


class Page:
    """The lines of one answer."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._written: list[bytes] = []
        """The lines before those, a metric or a few at a time: all of them at once would take too long."""
        self._announced: set[str] = set()

    def begin(self, family: Family) -> None:
        assert family.name not in self._announced, family.name
        if len(self._lines) > AT_ONCE:
            self._write()
        self._announced.add(family.name)
        self._lines.append(f"# HELP {family.name} {family.help}")
        self._lines.append(f"# TYPE {family.name} {family.kind}")

    def number(self, family: Family, value: Number) -> None:
        """A metric with one series, which has no labels."""
        self.begin(family)
        self._lines.append(f"{family.name} {value}")

    def series(self, family: Family, labels: str, value: Number) -> None:
        """One series of a metric that was begun; `labels` as `labels_of` writes them, or empty."""
        self._lines.append(f"{family.name}{{{labels}}} {value}" if labels else f"{family.name} {value}")

    def all_series(self, family: Family, found: Iterable[tuple[Sequence[object], Number]]) -> None:
        """A metric with all its series, given by the values of their labels."""
        self.begin(family)
        for values, value in found:
            self.series(family, labels_of(family, values) if values else "", value)

    def histogram(self, family: Family, labels: str, counts: Sequence[int], seconds: float) -> None:
        """How many there were, by the bounds of requests' times; told in milliseconds."""
        name, below = family.name, 0
        before, alone = (f"{labels},", f"{{{labels}}}") if labels else ("", "")
        for bound, count in zip((*_BOUNDS_MS, "+Inf"), counts, strict=True):
            below += count
            self._lines.append(f'{name}_bucket{{{before}le="{bound}"}} {below}')
        self._lines.append(f"{name}_sum{alone} {seconds * 1000:.3f}")
        self._lines.append(f"{name}_count{alone} {below}")

    def _write(self) -> None:
        self._written.append(("\n".join(self._lines) + "\n").encode())
        self._lines = []

    def text(self) -> bytes:
        """All of it."""
        self._write()
        return b"".join(self._written)
