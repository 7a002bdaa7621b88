"""An idempotent producer that writes numbers for as long as a test likes, and remembers what was acknowledged."""

from __future__ import annotations

import threading
from collections import defaultdict
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Producer

from kit.wire.batches import Rec

FINISH_SECONDS = 120.0
IN_FLIGHT = 5000


class Writer:
    """Writes 0, 1, 2… to the partitions in turn. `acknowledged[partition]` maps each number to its offset."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.acknowledged: dict[int, dict[int, int]] = defaultdict(dict)
        self.count = 0
        self._topic = topic
        self._partitions = partitions
        self._failures: list[str] = []
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._moved = threading.Condition()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": 0,  # a record waits for the broker as long as it takes
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 10,
                "log_level": 0,
            }
        )

    def wait_for(self, count: int, seconds: float = 120.0) -> None:
        """Return when this many records are acknowledged in all."""
        with self._moved:
            moved = self._moved.wait_for(lambda: self.count >= count or self._failures, seconds)
        assert not self._failures, self._failures[0]
        assert moved, f"{self.count} records acknowledged after {seconds} seconds, not {count}"

    def _run(self) -> None:
        number = 0
        while not self._leave.is_set():
            if len(self._producer) >= IN_FLIGHT:
                self._producer.poll(0.05)
                continue
            partition = number % self._partitions
            value = b"%d %s" % (number, b"x" * (number % 400))
            self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
            number += 1
            if number % 100 == 0:
                self._producer.poll(0)

    def _delivered(self, error: Any, message: Any) -> None:
        with self._moved:
            if error is not None:
                self._failures.append(str(error))
            else:
                self.acknowledged[message.partition()][number_of(message.value())] = message.offset()
                self.count += 1
            self._moved.notify_all()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._leave.set()
        self._thread.join(FINISH_SECONDS)
        if kind is None:
            left = self._producer.flush(FINISH_SECONDS)
            assert left == 0, f"{left} records were never acknowledged"
            assert not self._failures, self._failures[0]
        else:
            self._producer.purge()


def number_of(value: bytes) -> int:
    return int(value.split(b" ", 1)[0])


def check_records(records: list[Rec], acknowledged: dict[int, int], partition: int) -> None:
    """Everything acknowledged is there at its offset, once, and the numbers rise."""
    stored = {record.offset: number_of(record.value or b"") for record in records}
    numbers = list(stored.values())
    assert len(stored) == len(records), f"partition {partition} gave an offset twice"
    falls = [pair for pair in pairwise(numbers) if pair[0] >= pair[1]]
    assert not falls, f"partition {partition}: {len(falls)} numbers out of order or twice, first {falls[:3]}"
    wrong = [(number, at) for number, at in acknowledged.items() if stored.get(at) != number]
    assert not wrong, f"partition {partition}: {len(wrong)} acknowledged records lost or moved, first {wrong[:3]}"
