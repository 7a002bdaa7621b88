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
# The first loads the code of a broker, which `import ottla.testing` leaves for later; the second only starts one.
_PROGRAM = """
import time, ottla.testing
for _ in range(2):
    begun = time.perf_counter()
    with ottla.testing.{what}:
        print(time.perf_counter() - begun)
"""


class Goal(NamedTuple):
    """One line: what is timed, and the most it may take in seconds where there is such a bound."""

    label: str
    key: str
    most: float | None = None


GOALS = (
    Goal("ottla.testing.broker(): the first of a process, its code loaded on the way", "broker_first"),
    Goal("ottla.testing.broker(): ready after that", "broker", 0.05),
    Goal("ottla.testing.cluster(3): the first of a process, its code loaded on the way", "cluster_first", 1.0),
    Goal("ottla.testing.cluster(3): ready after that", "cluster", 1.0),
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
            for key, what in (("broker", "broker()"), ("cluster", "cluster(3)")):
                first, second = _inside(what)
                own[f"{key}_first"].append(first)
                own[key].append(second)
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


def _inside(what: str) -> list[float]:
    """Of a new process each time, as a run of tests is one."""
    command = [sys.executable, "-c", _PROGRAM.format(what=what)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(seconds) for seconds in told.split()]


def _outside(command: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begun


def table(found: Found) -> str:
    lines = ["| first answers | Kafka | ottla | at most | |", "| --- | ---: | ---: | ---: | --- |"]
    for goal in GOALS:
        seconds, kafka = found["ottla"][goal.key], found["kafka"].get(goal.key)
        most, verdict = "", ""
        if goal.most is not None:
            most, verdict = f"{goal.most:g} s", "reached" if seconds <= goal.most else "MISSED"
        other = "" if kafka is None else f"{kafka:.2f} s"
        lines.append(f"| {goal.label} | {other} | {seconds:.3f} s | {most} | {verdict} |")
    return "\n".join(lines)
