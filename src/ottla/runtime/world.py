"""The real clock and randomness behind the ports of `base.ports`, and what outlives a process: the machine's start, and
file systems as they are attached."""

import os
import random
import time


class RealClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)


class RealRandom:
    def identity(self) -> bytes:
        return os.urandom(16)

    def uniform(self, low: float, high: float) -> float:
        return random.uniform(low, high)


def boot_id() -> str:
    """Linux names every start of the machine; elsewhere nobody does."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def place_identity(path: str) -> str:
    """Names a file, as it was last changed, and the file system that holds it; empty where nobody can tell.

    Whoever copies a file can give it every name and time but that of its last change.
    """
    try:
        found = os.stat(path)
    except OSError:
        return ""
    return f"{found.st_ino} {found.st_ctime_ns} {_mount_identity(found.st_dev)}"


def _mount_identity(device: int) -> str:
    """Names a file system as it is attached now.

    The number of its device comes again when the device does, so Linux' own objects for the device, its queue and its
    file system are asked: each gets a number of its own when it is made. They are the same in every container.
    """
    number = f"{os.major(device)}:{os.minor(device)}"
    block = f"/sys/dev/block/{number}"
    name = os.path.basename(os.path.realpath(block))
    objects = [block, f"{block}/loop", f"/sys/class/bdi/{number}", f"/sys/class/bdi/{number}-fuse"]
    objects += [f"/sys/fs/{kind}/{name}" for kind in ("ext4", "xfs", "f2fs")]
    return " ".join([number, *map(_number_of, objects)])


def _number_of(path: str) -> str:
    try:
        return str(os.stat(path).st_ino)
    except OSError:
        return "-"
