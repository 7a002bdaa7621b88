"""How long until the first answer: the test kit's broker and cluster, and a command of the command line.

Owns: the programs that are timed, from inside (a broker of a test is ready when its block begins) or from outside (a
command is done when its process has ended), and the table. Never knows: who is faster. A command is timed on the same
broker for both systems: what differs is the tool, not what it talks to. `bench/starts.py` times `ottla serve`.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from bench.brokers import Ottla, java

TOPICS = 20
# Names of ottla.testing load their code at the first use of the name, which is part of the import.
_PROGRAM = """
import time
from ottla.testing import {name}
begun = time.perf_counter()
with {name}({arguments}):
    print(time.perf_counter() - begun)
"""


class Goal(NamedTuple):
    """One line: what is timed, and the most it may take in seconds."""

    label: str
    key: str
    most: float


GOALS = (
    Goal("ottla.testing.broker(): ready after import", "broker", 0.05),
    Goal("ottla.testing.cluster(3): ready after import", "cluster", 1.0),
    Goal("`ottla topic list`, `kafka-topics --list`: all told", "topic_list", 0.4),
)
Found = dict[str, dict[str, float]]


def measure(rounds: int) -> Found:
    """Medians of seconds, by system and what was timed."""
    own: dict[str, list[float]] = {goal.key: [] for goal in GOALS}
    kafkas: list[float] = []
    broker = Ottla("testing")
    broker.format()
    broker.start()
    program = str(Path(sys.executable).parent / "ottla")
    try:
        names = [f"topic-{number}" for number in range(TOPICS)]
        subprocess.run([program, "topic", "create", *names, "-b", broker.address], check=True, capture_output=True)
        for number in range(rounds):
            print(f"testing: {number + 1} of {rounds}", flush=True)
            own["broker"].append(_inside("broker"))
            own["cluster"].append(_inside("cluster", "3"))
            own["topic_list"].append(_outside([program, "topic", "list", "-b", broker.address]))
            tool = [*java("256m"), "org.apache.kafka.tools.TopicCommand", "--list"]
            kafkas.append(_outside([*tool, "--bootstrap-server", broker.address]))
    finally:
        broker.stop()
        broker.remove()
    return {
        "ottla": {key: statistics.median(seconds) for key, seconds in own.items()},
        "kafka": {"topic_list": statistics.median(kafkas)},
    }


def _inside(name: str, arguments: str = "") -> float:
    """Of a new process each time, as a run of tests is one."""
    command = [sys.executable, "-c", _PROGRAM.format(name=name, arguments=arguments)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _outside(command: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begun


def table(found: Found) -> str:
    lines = ["| first answers | Kafka | ottla | at most | |", "| --- | ---: | ---: | ---: | --- |"]
    for goal in GOALS:
        seconds, kafka = found["ottla"][goal.key], found["kafka"].get(goal.key)
        verdict = "reached" if seconds <= goal.most else "MISSED"
        other = "" if kafka is None else f"{kafka:.2f} s"
        lines.append(f"| {goal.label} | {other} | {seconds:.3f} s | {goal.most:g} s | {verdict} |")
    return "\n".join(lines)
