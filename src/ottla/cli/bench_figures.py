"""The figures of `ottla bench`: counted as records go by, told in the words of Kafka's own performance tools.

Owns: latencies and their percentiles, rates, windows between two reports, the lines and JSON documents. Never knows:
clients, clocks (moments are handed in, in seconds), printing. Invariant: memory is bounded however many records there
are: beyond `SAMPLES` latencies every second one is dropped, and from then on half as many are kept.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

SAMPLES = 500_000
PERCENTILES = (0.5, 0.95, 0.99, 0.999)
_MEGABYTE = 1024 * 1024
CONSUMER_HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
DETAILED_HEADER = CONSUMER_HEADER.replace("start.time, end.time", "time, threadId")


def percentiles(latencies: Sequence[float], wanted: Sequence[float] = PERCENTILES) -> list[float]:
    """The latencies below which these shares of all lie, picked as Kafka's tools pick them."""
    ordered = sorted(latencies)
    return [ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0 for share in wanted]


class Window:
    """What happened since a moment."""

    __slots__ = ("bytes", "longest", "records", "started", "waited")

    def __init__(self, started: float) -> None:
        self.started = started
        self.records = 0
        self.bytes = 0
        self.waited = 0.0
        self.longest = 0.0

    def record(self, latency: float, size: int) -> None:
        self.records += 1
        self.bytes += size
        self.waited += latency
        if latency > self.longest:
            self.longest = latency

    def line(self, now: float) -> str:
        """What the producer's tool prints every few seconds."""
        rate, volume = self.rates(now)
        average = 1000 * self.waited / self.records if self.records else 0.0
        return (
            f"{self.records} records sent, {rate:.1f} records/sec ({volume:.2f} MB/sec), "
            f"{average:.1f} ms avg latency, {1000 * self.longest:.1f} ms max latency."
        )

    def rates(self, now: float) -> tuple[float, float]:
        """Records and megabytes a second."""
        elapsed = max(now - self.started, 1e-9)
        return self.records / elapsed, self.bytes / elapsed / _MEGABYTE


class Sent:
    """Everything a producer sent: the whole, and the window since the last report."""

    def __init__(self, started: float) -> None:
        self.whole = Window(started)
        self.window = Window(started)
        self.failed = 0
        self._latencies: list[float] = []
        self._every = 1

    def record(self, latency: float, size: int) -> None:
        self.window.record(latency, size)
        self.whole.record(latency, size)
        if self.whole.records % self._every == 0:
            self._latencies.append(latency)
            if len(self._latencies) >= SAMPLES:
                del self._latencies[::2]
                self._every *= 2

    def turn(self, now: float) -> str:
        """The line of the window that ends now; another begins."""
        line = self.window.line(now)
        self.window = Window(now)
        return line

    def line(self, now: float) -> str:
        """What the producer's tool prints at the end; Kafka's words, with the fractions of milliseconds left in."""
        whole = self.whole
        rate, volume = whole.rates(now)
        average = 1000 * whole.waited / whole.records if whole.records else 0.0
        shares = [1000 * each for each in percentiles(self._latencies)]
        return (
            f"{whole.records} records sent, {rate:.1f} records/sec ({volume:.2f} MB/sec), "
            f"{average:.2f} ms avg latency, {1000 * whole.longest:.2f} ms max latency, "
            f"{shares[0]:.2f} ms 50th, {shares[1]:.2f} ms 95th, {shares[2]:.2f} ms 99th, {shares[3]:.2f} ms 99.9th."
        )

    def document(self, now: float) -> dict[str, Any]:
        rate, volume = self.whole.rates(now)
        return {
            "records": self.whole.records,
            "failed": self.failed,
            "bytes": self.whole.bytes,
            "seconds": now - self.whole.started,
            "records_per_second": rate,
            "megabytes_per_second": volume,
            **latency_document(self.whole, self._latencies),
        }


def latency_document(whole: Window, latencies: Sequence[float]) -> dict[str, float]:
    shares = [1000 * each for each in percentiles(latencies)]
    return {
        "latency_avg_ms": 1000 * whole.waited / whole.records if whole.records else 0.0,
        "latency_max_ms": 1000 * whole.longest,
        **dict(zip(("p50_ms", "p95_ms", "p99_ms", "p99_9_ms"), shares, strict=True)),
    }


class Consumed(NamedTuple):
    """What a consumer read between two moments (of the wall clock), and how long it waited for its group meanwhile."""

    started: float
    ended: float
    records: int
    bytes: int
    joining: float = 0.0

    @property
    def _elapsed(self) -> float:
        return max(self.ended - self.started, 1e-9)

    @property
    def _fetching(self) -> float:
        return max(self._elapsed - self.joining, 1e-9)

    def since(self, before: "Consumed") -> "Consumed":
        """What came after an earlier moment of the same run."""
        return Consumed(
            before.ended,
            self.ended,
            self.records - before.records,
            self.bytes - before.bytes,
            self.joining - before.joining,
        )

    def line(self) -> str:
        """The row under `CONSUMER_HEADER`."""
        return f"{_moment(self.started)}, {_moment(self.ended)}, {self._figures(self.bytes, self.records)}"

    def detailed_line(self, records: int, size: int) -> str:
        """The row under `DETAILED_HEADER`: sums since the start beside the rates of this stretch."""
        return f"{_moment(self.ended)}, 0, {self._figures(size, records)}"

    def _figures(self, size: int, records: int) -> str:
        megabytes = self.bytes / _MEGABYTE
        return (
            f"{size / _MEGABYTE:.4f}, {megabytes / self._elapsed:.4f}, {records}, {self.records / self._elapsed:.4f}, "
            f"{1000 * self.joining:.0f}, {1000 * self._fetching:.0f}, "
            f"{megabytes / self._fetching:.4f}, {self.records / self._fetching:.4f}"
        )

    def document(self) -> dict[str, Any]:
        return {
            "records": self.records,
            "bytes": self.bytes,
            "seconds": self._elapsed,
            "records_per_second": self.records / self._elapsed,
            "megabytes_per_second": self.bytes / _MEGABYTE / self._elapsed,
            "rebalance_seconds": self.joining,
            "fetch_records_per_second": self.records / self._fetching,
            "fetch_megabytes_per_second": self.bytes / _MEGABYTE / self._fetching,
        }


class Travelled:
    """How long records took from a producer's hand into a consumer's."""

    def __init__(self) -> None:
        self._whole = Window(0.0)
        self._latencies: list[float] = []

    def record(self, latency: float, size: int) -> None:
        self._whole.record(latency, size)
        self._latencies.append(latency)

    @property
    def records(self) -> int:
        return self._whole.records

    def lines(self) -> str:
        """What Kafka's tool prints at the end, with the fractions of milliseconds left in, and the longest."""
        average = 1000 * self._whole.waited / max(1, self._whole.records)
        p50, p95, p99, p999 = (1000 * each for each in percentiles(self._latencies))
        return (
            f"Avg latency: {average:.4f} ms\n"
            f"Percentiles: 50th = {p50:.3f}, 95th = {p95:.3f}, 99th = {p99:.3f}, 99.9th = {p999:.3f}\n"
            f"Max latency: {1000 * self._whole.longest:.3f} ms\n"
        )

    def document(self) -> dict[str, Any]:
        return {"records": self._whole.records, **latency_document(self._whole, self._latencies)}


def _moment(seconds: float) -> str:
    """A time as Kafka's tools write it: 2026-01-31 12:00:00:250."""
    moment = datetime.fromtimestamp(seconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}:{moment.microsecond // 1000:03d}"
