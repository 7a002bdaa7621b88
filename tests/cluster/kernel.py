"""What the kernel knows of a process: its memory and its descriptors."""

from __future__ import annotations

import os
from pathlib import Path


def resident_megabytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"process {pid} has no resident memory: it is gone")


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def sockets(pid: int) -> int:
    """Descriptors that are sockets: connections, the listener, and what the event loop keeps for itself."""
    found = 0
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found += os.readlink(each).startswith("socket:")
        except FileNotFoundError:  # closed since the listing
            continue
    return found
