"""What data directories say of the broker that uses them, and what the next one may believe of it."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.base.vocabulary import TopicId, TopicPartition
from ottla.log.checkpoints import Checkpoint, format_offsets
from ottla.log.files import World
from ottla.log.settings import LogSettings
from ottla.log.store import LogStore
from ottla.runtime.disk import RealDisk
from ottla.runtime.world import RealClock, RealRandom, place_identity


class Marked:
    """A store whose machine starts and whose disks are attached as often as a test wants."""

    def __init__(self, *paths: Path) -> None:
        self._paths = [str(path) for path in paths]
        self.boot, self.place = "monday", "first"

    def open(self) -> LogStore:
        world = World(RealDisk(), RealClock(), RealRandom(), self.boot, lambda path: self.place or place_identity(path))
        store = LogStore(self._paths, world)
        store.open(1)
        return store

    def found(self) -> int:
        """What the next process would vouch for; it is killed before it reads anything."""
        store = self.open()
        store.release()
        return store.last_epoch

    def run(self, epoch: int) -> LogStore:
        """A broker at work."""
        store = self.open()
        store.load(lambda name: LogSettings())
        assert store.mark_running(epoch) == []
        return store


def test_a_killed_broker_has_lost_nothing_as_long_as_machine_and_disk_stay_as_they_are(tmp_path: Path) -> None:
    marked = Marked(tmp_path)
    assert marked.found() == -1
    marked.run(7).release()  # as good as kill -9: nothing is written any more
    assert marked.found() == 7
    marked.place = "second"
    assert marked.found() == -1, "its disk was attached anew, without what was not synced"
    marked.place, marked.boot = "first", "tuesday"
    assert marked.found() == -1, "the machine went down with what was not synced"


@pytest.mark.parametrize("clean", [True, False])
def test_nobody_vouches_for_logs_that_were_being_read(tmp_path: Path, clean: bool) -> None:
    """A recovery that is killed may have cut something, and the next one finds nothing more to cut."""
    marked = Marked(tmp_path)
    store = marked.run(7)
    if clean:
        store.close(7)
    else:
        store.release()
    store = marked.open()
    assert store.last_epoch == 7
    store.load(lambda name: LogSettings())
    store.release()
    assert marked.found() == -1


@pytest.mark.parametrize("clean", [True, False])
def test_a_broker_that_lost_a_directory_vouches_for_none(tmp_path: Path, clean: bool) -> None:
    """The one that failed may be back at the next start, with the mark that it had."""
    marked = Marked(tmp_path / "one", tmp_path / "two")
    store = marked.run(7)
    heard: list[Sequence[TopicPartition]] = []
    store.when_offline = lambda directory, lost: heard.append(lost)
    store.take_offline(store.directories[1], OSError("it failed"))
    assert heard == [[]]
    if clean:
        store.close(7)
    else:
        store.mark_running(7)
        store.release()
    assert marked.found() == -1


def test_a_log_that_ends_before_what_was_committed_is_not_whole(tmp_path: Path) -> None:
    committed = format_offsets({TopicPartition("t", 0): 5})
    (tmp_path / Checkpoint.HIGH_WATERMARK.value).write_bytes(committed)
    (tmp_path / "t-0").mkdir()
    store = Marked(tmp_path).run(7)
    assert not store.intact
    store.release()


def test_a_log_that_does_not_say_whose_it_is_is_adopted(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    store = Marked(tmp_path).run(7)
    store.adopt(TopicPartition("t", 0), TopicId(b"i" * 16))
    store.release()
    again = Marked(tmp_path).run(7)
    assert again.logs[TopicPartition("t", 0)].topic_id == b"i" * 16
    again.release()


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_a_copy_of_a_directory_at_work_is_not_vouched_for(tmp_path: Path, end: str) -> None:
    """It has the mark, and lacks what was written after it was made."""
    data, backup, broken = tmp_path / "data", tmp_path / "backup", tmp_path / "broken"
    marked = Marked(data)
    marked.place = ""
    store = marked.run(7)
    shutil.copytree(data, backup)
    if end == "stopped":
        store.close(7)
    else:
        store.release()
    assert marked.found() == 7
    data.rename(broken)
    backup.rename(data)
    assert marked.found() == -1
    data.rename(backup)
    broken.rename(data)
    assert marked.found() == 7, "what was written to last is still what it was"


def test_files_put_back_over_those_of_a_clean_stop_are_not_vouched_for(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    marked = Marked(data)
    marked.place = ""
    store = marked.run(7)
    shutil.copytree(data, backup)
    store.close(7)
    for left in data.iterdir():
        if left.name != ".lock":  # a program that copies only differences finds none in an empty file
            left.unlink()
    for kept in backup.iterdir():
        if kept.name != ".lock":
            shutil.copy2(kept, data)
    assert marked.found() == -1
