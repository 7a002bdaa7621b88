"""What the simulated disk keeps and forgets."""

import errno
from random import Random

import pytest

from ottla.sim.disk import SimDisk


def disk(seed: int = 1) -> SimDisk:
    made = SimDisk(Random(seed), lambda: 0)
    made.make_directory("/data/a")
    made.sync_directory("/data/a")
    return made


def content(made: SimDisk, path: str) -> bytes:
    file = made.open(path, read_only=True)
    return file.read_at(0, file.size())


def test_a_killed_process_loses_nothing_and_can_do_nothing_more() -> None:
    made = disk()
    file = made.open("/data/a/f", create=True)
    file.append(b"written")
    made.kill()
    with pytest.raises(OSError, match="gone"):
        file.append(b"more")
    assert content(made, "/data/a/f") == b"written"


def test_a_power_cut_keeps_what_was_synced_and_any_prefix_of_the_rest() -> None:
    lengths = set()
    for seed in range(60):
        made = disk(seed)
        file = made.open("/data/a/f", create=True)
        file.append(b"safe")
        file.sync()
        file.append(b"unsafe")
        made.cut_power()
        left = content(made, "/data/a/f")
        assert b"safeunsafe".startswith(left)
        assert left.startswith(b"safe")
        lengths.add(len(left))
    assert lengths == set(range(4, 11))


def test_an_unsynced_truncation_happened_or_did_not() -> None:
    outcomes = set()
    for seed in range(40):
        made = disk(seed)
        file = made.open("/data/a/f", create=True)
        file.append(b"0123456789")
        file.sync()
        file.truncate(4)
        file.append(b"x")
        made.cut_power()
        outcomes.add(content(made, "/data/a/f"))
    assert outcomes == {b"0123456789", b"0123", b"0123x"}


def test_a_synced_truncation_stays() -> None:
    for seed in range(20):
        made = disk(seed)
        file = made.open("/data/a/f", create=True)
        file.append(b"0123456789")
        file.sync()
        file.truncate(4)
        file.sync()
        made.cut_power()
        assert content(made, "/data/a/f") == b"0123"


def test_a_rename_without_a_sync_of_its_directory_may_be_lost() -> None:
    outcomes = set()
    for seed in range(30):
        made = disk(seed)
        for name in ("new", "old"):
            file = made.open(f"/data/a/{name}", create=True)
            file.append(name.encode())
            file.sync()
        made.rename("/data/a/new", "/data/a/old")
        made.cut_power()
        outcomes.add((content(made, "/data/a/old"), tuple(made.list("/data/a"))))
    assert outcomes == {(b"new", ("old",)), (b"old", ("new", "old"))}


def test_a_rename_with_a_sync_of_its_directory_stays() -> None:
    for seed in range(20):
        made = disk(seed)
        file = made.open("/data/a/new", create=True)
        file.append(b"new")
        file.sync()
        made.rename("/data/a/new", "/data/a/old")
        made.sync_directory("/data/a")
        made.cut_power()
        assert content(made, "/data/a/old") == b"new"


def test_a_full_disk_takes_a_part_and_says_so() -> None:
    made = disk()
    file = made.open("/data/a/f", create=True)
    made.fault = lambda operation, path: errno.ENOSPC if operation == "append" else 0
    with pytest.raises(OSError, match="ENOSPC") as caught:
        file.append(b"0123456789")
    assert caught.value.errno == errno.ENOSPC
    assert b"0123456789".startswith(content(made, "/data/a/f"))


def test_a_removed_file_stays_readable_to_who_has_it_open() -> None:
    made = disk()
    file = made.open("/data/a/f", create=True)
    file.append(b"still")
    made.remove("/data/a/f")
    assert file.read_at(0, 5) == b"still"
    assert not made.exists("/data/a/f")
