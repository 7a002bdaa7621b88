"""Building and running the load generator `load.c`.

Owns: its command line and its printed numbers. Never knows: which broker answers.
"""

import json
import subprocess
from typing import Protocol

from bench.brokers import HERE, WORK

PROGRAM = WORK / "load"
SOURCE = HERE / "load.c"

Numbers = dict[str, float]


class Driven(Protocol):
    """A broker or a cluster."""

    @property
    def address(self) -> str: ...

    def cpu_seconds(self) -> float: ...


def build() -> None:
    WORK.mkdir(parents=True, exist_ok=True)
    if not PROGRAM.exists() or PROGRAM.stat().st_mtime < SOURCE.stat().st_mtime:
        subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-o", str(PROGRAM), str(SOURCE), "-lrdkafka"], check=True)


def run(broker: Driven, mode: str, topic: str, count: int, size: int, *settings: str) -> Numbers:
    """Run one load; its numbers, and the broker's CPU seconds meanwhile as `broker_cpu`."""
    before = broker.cpu_seconds()
    done = subprocess.run(
        [str(PROGRAM), mode, broker.address, topic, str(count), str(size), *settings],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
    )
    numbers: Numbers = {key: value for key, value in json.loads(done.stdout).items() if key != "mode"}
    numbers["broker_cpu"] = broker.cpu_seconds() - before
    return numbers
