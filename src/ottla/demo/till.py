"""The shop's till: sends the shop's events to the cluster and keeps count of what was acknowledged.

Owns: the pace, the producer, how long acknowledgements took, and a fingerprint of everything acknowledged. Never knows:
which node is down. Invariants: an event counts as acknowledged only when the cluster said so with acks=all; an event
whose time has not come is not sent, so that a shop that has caught up with the clock goes on in real time.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

import ottla
from ottla.base.ports import Clock
from ottla.demo.shop import Event
from ottla.errors import ClientError

_STEP_SECONDS = 0.02
_KEPT_LATENCIES = 2_000


class Waits(NamedTuple):
    """How long acknowledgements took, in seconds."""

    half: float
    nearly_all: float
    longest: float


def fingerprint(topic: str, key: bytes | None, value: bytes | None) -> bytes:
    """What a record is known by; two records that are equal have the same one."""
    content = blake2b(topic.encode(), digest_size=12)
    for part in (key or b"", value or b""):
        content.update(len(part).to_bytes(4, "big") + part)
    return content.digest()


class Till:
    """Sends events until it is closed; can be paused."""

    def __init__(self, events: Iterator[Event], bootstrap: str, rate: float, clock: Clock) -> None:
        self.sent = 0
        self.acknowledged: Counter[bytes] = Counter()
        self.by_topic: Counter[str] = Counter()
        self.failures: list[ClientError] = []
        self.longest_wait = 0.0
        self._events = events
        self._bootstrap = bootstrap
        self._rate = rate
        self._clock = clock
        self._open = asyncio.Event()
        self._putting = asyncio.Lock()
        self._under_way: dict[int, float] = {}
        self._latencies: deque[float] = deque(maxlen=_KEPT_LATENCIES)
        self._producer: ottla.Producer | None = None

    def overdue(self, before: float) -> int:
        """Events that were sent before a moment and of which nobody knows yet what became."""
        return sum(begun < before for begun in self._under_way.values())

    def open(self) -> None:
        self._open.set()

    async def pause(self) -> None:
        """Send nothing more; returns when everything that was sent is acknowledged, or has failed."""
        self._open.clear()
        async with self._putting:  # one that is being handed over is sent
            if self._producer is not None:
                await self._producer.flush()

    def begin_watch(self) -> None:
        """From here on `longest_wait` counts anew."""
        self.longest_wait = 0.0

    def waits(self) -> Waits:
        """Of the newest events."""
        ordered = sorted(self._latencies) or [0.0]
        return Waits(ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100], ordered[-1])

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        async with ottla.Producer(
            bootstrap_servers=self._bootstrap, acks="all", linger_ms=5, client_id="till"
        ) as self._producer:
            due = 0.0
            last = loop.time()
            while True:
                if not self._open.is_set():
                    await self._open.wait()
                    last = loop.time()
                now = loop.time()
                due, last = due + (now - last) * self._rate, now
                while due >= 1.0:
                    await self._send(next(self._events))
                    due -= 1.0
                await asyncio.sleep(_STEP_SECONDS)

    async def _send(self, event: Event) -> None:
        ahead = event.timestamp - self._clock.now_ms()
        if ahead > 0:
            await asyncio.sleep(ahead / 1000)
        while True:
            await self._open.wait()
            async with self._putting:
                if self._open.is_set():
                    await self._put(event)
                    return

    async def _put(self, event: Event) -> None:
        assert self._producer is not None
        loop = asyncio.get_running_loop()
        begun = loop.time()
        delivery = await self._producer.put(event.topic, event.value, key=event.key, timestamp=event.timestamp)
        self.sent += 1
        number = self.sent
        self._under_way[number] = begun

        def ended(placed: object, error: ClientError | None) -> None:
            del self._under_way[number]
            if error is not None:
                self.failures.append(error)
                return
            took = loop.time() - begun
            self._latencies.append(took)
            self.longest_wait = max(self.longest_wait, took)
            self.acknowledged[fingerprint(event.topic, event.key, event.value)] += 1
            self.by_topic[event.topic] += 1

        delivery.add_callback(ended)
