"""The numbers of the process, under the names that Prometheus' own clients use.

Owns: how the system tells them; where it does not, they are left out. Never knows: brokers.
"""

import os
import time

from ottla.node.metrics import families
from ottla.node.metrics.exposition import Page


def write_process(page: Page, turn_seconds: float) -> None:
    """On the event loop's own thread; `turn_seconds` is how long its last turn took."""
    page.number(families.LOOP_CPU, round(time.thread_time(), 6))
    page.number(families.LOOP_TURN, round(turn_seconds, 6))
    page.number(families.CPU, round(time.process_time(), 6))
    try:
        _write_linux(page)
    except OSError:
        return


def _write_linux(page: Page) -> None:
    with open("/proc/self/stat", "rb") as file:
        # The name of the program, in brackets, may hold anything.
        fields = file.read().rpartition(b")")[2].split()
    virtual, resident, started = int(fields[20]), int(fields[21]), int(fields[19])
    page.number(families.RESIDENT, resident * os.sysconf("SC_PAGE_SIZE"))
    page.number(families.VIRTUAL, virtual)
    with open("/proc/stat", "rb") as file:
        booted = next((int(line.split()[1]) for line in file if line.startswith(b"btime ")), None)
    if booted is not None:
        page.number(families.STARTED, booted + started / os.sysconf("SC_CLK_TCK"))
    page.number(families.DESCRIPTORS, len(os.listdir("/proc/self/fd")))
    import resource

    page.number(families.MOST_DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
