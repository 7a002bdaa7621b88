"""Proves that a store finds its logs again, guards its directories, and goes on when one of several fails."""

import errno
import fcntl
import json
import re
import shutil
from pathlib import Path

import pytest

from kit.disks.compacting import append, manual_world, read_from
from ottla.base.vocabulary import NO_TOPIC_ID, TopicId, TopicPartition
from ottla.log.checkpoints import Checkpoint
from ottla.log.data_directory import DirectoryInUse, aside_name, parse_name
from ottla.log.files import StorageFailure
from ottla.log.properties import InconsistentCluster, InconsistentNode, UnusableDirectory
from ottla.log.retention import sweep
from ottla.log.settings import LogSettings
from ottla.log.store import LogStore, NewLog, NoUsableDirectory
from ottla.runtime.disk import RealDisk, RealFile
from ottla.runtime.world import RealRandom

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = TopicId(bytes(range(16)))
SETTINGS = LogSettings()


def settings_of(_: TopicPartition) -> LogSettings:
    return SETTINGS


class FailingDisk(RealDisk):
    """Answers with an error below one path."""

    def __init__(self) -> None:
        self.failing: str | None = None
        self.number = errno.EIO

    def _check(self, path: str) -> None:
        if self.failing is not None and path.startswith(self.failing):
            raise OSError(self.number, "told by the disk", path)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> RealFile:
        self._check(path)
        return super().open(path, create=create, read_only=read_only)

    def make_directory(self, path: str) -> None:
        self._check(path)
        super().make_directory(path)

    def list(self, directory: str) -> list[str]:
        self._check(directory)
        return super().list(directory)

    def rename(self, old: str, new: str) -> None:
        self._check(old)
        super().rename(old, new)


def open_store(*paths: Path, disk: RealDisk | None = None, load: bool = True) -> LogStore:
    world, _ = manual_world(disk)
    store = LogStore([str(path) for path in paths], world)
    store.open(1)
    if load:
        store.load(settings_of)
    return store


def crash(store: LogStore) -> None:
    """What a killed process leaves: locks are gone, nothing else was written."""
    store.release()


def test_a_new_store_writes_who_owns_it_and_keeps_the_cluster_id(tmp_path: Path) -> None:
    world, _ = manual_world()
    store = LogStore([str(tmp_path / "data")], world)
    cluster = store.open(1)
    assert f"cluster.id={cluster}\n" in (tmp_path / "data" / "meta.properties").read_text()
    identity = store.directories[0].identity
    store.release()
    again = LogStore([str(tmp_path / "data")], world)
    assert again.open(1) == cluster
    assert again.directories[0].identity == identity
    again.release()


def test_a_second_process_is_told_that_the_directory_is_in_use(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with pytest.raises(DirectoryInUse, match=f"{tmp_path} is in use by another ottla"):
        open_store(tmp_path)
    store.release()
    open_store(tmp_path).release()


def test_the_lock_is_a_real_one(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with (tmp_path / ".lock").open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    store.release()


def test_directories_of_another_cluster_or_node_are_refused_and_released(tmp_path: Path) -> None:
    open_store(tmp_path).release()
    world, _ = manual_world()
    with pytest.raises(InconsistentCluster):
        LogStore([str(tmp_path)], world).open(1, "another")
    with pytest.raises(InconsistentNode):
        LogStore([str(tmp_path)], world).open(2)
    open_store(tmp_path).release()


def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        world, _ = manual_world()
        store = LogStore([str(tmp_path / name)], world)
        store.open(1, name)
        store.release()
    with pytest.raises(InconsistentCluster, match=r"one: one; .*two: two"):
        open_store(tmp_path / "one", tmp_path / "two")


def test_logs_are_found_again_after_a_clean_stop(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log = store.create(ORDERS, TOPIC_ID, SETTINGS)
    append(log, [(b"k", b"v"), (b"k", b"w")])
    store.close(broker_epoch=7)
    assert json.loads((tmp_path / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": 7}
    # In the active segment, not at its end: that may be where the next one begins.
    assert "orders 0 1" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
    again = open_store(tmp_path)
    assert not (tmp_path / ".kafka_cleanshutdown").exists(), "a crash from here on is a crash"
    assert again.last_epoch == 7
    log = again.logs[ORDERS]
    assert (log.topic_id, log.end_offset, log.high_watermark, log.recovery_point) == (TOPIC_ID, 2, 2, 2)
    assert [record.value for record in read_from(log, 0)] == [b"v", b"w"]
    again.release()


def test_a_store_that_was_never_loaded_does_not_call_its_stop_clean(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    append(store.create(ORDERS, TOPIC_ID, SETTINGS), [(b"k", b"v")])
    crash(store)
    never_loaded = open_store(tmp_path, load=False)
    assert never_loaded.last_epoch == -1
    never_loaded.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert not (tmp_path / "recovery-point-offset-checkpoint").exists()


def test_a_log_that_cannot_be_closed_leaves_no_clean_stop(tmp_path: Path) -> None:
    disk = FailingDisk()
    store = open_store(tmp_path / "a", tmp_path / "b", disk=disk)
    for number in range(2):
        append(store.create(TopicPartition("t", number), TOPIC_ID, SETTINGS), [(b"k", b"v")])
    disk.failing = str(tmp_path / "a")
    store.close()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()
    open_store(tmp_path / "a", tmp_path / "b").close()
    assert (tmp_path / "a" / ".kafka_cleanshutdown").exists()


def test_logs_are_recovered_after_a_crash_and_a_torn_tail_is_cut(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log = store.create(ORDERS, TOPIC_ID, SETTINGS)
    append(log, [(b"k", b"v")])
    with Path(log.segments[0].path).open("ab") as file:
        file.write(b"half a batch")
    crash(store)
    again = open_store(tmp_path)
    assert again.logs[ORDERS].end_offset == 1
    again.logs[ORDERS].high_watermark = 1
    assert [record.value for record in read_from(again.logs[ORDERS], 0)] == [b"v"]
    again.release()


def test_a_new_log_has_its_directory_and_topic_id_and_nothing_more(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.create(ORDERS, TOPIC_ID, SETTINGS)
    assert [path.name for path in (tmp_path / "orders-0").iterdir()] == ["partition.metadata"]
    store.release()


def test_progress_is_told_from_none_to_all(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    creation = store.begin_creation([NewLog(TopicPartition("t", number), TOPIC_ID, SETTINGS) for number in range(150)])
    creation.run()
    assert len(store.finish_creation(creation)) == 150
    store.close()
    again = open_store(tmp_path, load=False)
    told: list[tuple[int, int]] = []
    again.load(settings_of, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (150, 150)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert len(again.logs) == 150
    again.release()


def test_new_logs_go_where_the_fewest_are_or_where_they_are_wanted(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a", tmp_path / "b")
    creation = store.begin_creation([NewLog(TopicPartition("t", number), TOPIC_ID, SETTINGS) for number in range(6)])
    creation.run()
    store.finish_creation(creation)
    assert len(list((tmp_path / "a").glob("t-*"))) == len(list((tmp_path / "b").glob("t-*"))) == 3
    creation = store.begin_creation([NewLog(ORDERS, TOPIC_ID, SETTINGS)], store.directories[1].identity)
    creation.run()
    store.finish_creation(creation)
    assert store.directory_of(ORDERS) is store.directories[1]
    assert (tmp_path / "b" / "orders-0").is_dir()
    store.release()


def test_a_deleted_log_is_renamed_at_once_and_removed_when_readers_are_done(tmp_path: Path) -> None:
    world, clock = manual_world()
    store = LogStore([str(tmp_path)], world)
    store.open(1)
    store.load(settings_of)
    log = store.create(ORDERS, TOPIC_ID, SETTINGS)
    append(log, [(b"k", b"v")])
    store.delete(ORDERS)
    assert store.get(ORDERS) is None
    (aside,) = tmp_path.glob("orders*")
    assert re.fullmatch(r"orders-0\.[0-9a-f]{32}-delete", aside.name)
    assert [record.value for record in read_from(log, 0)] == [b"v"], "ranges under way can still be sent"
    store.create(ORDERS, TopicId(bytes(16)), SETTINGS)
    clock.now += SETTINGS.file_delete_delay_ms - 1
    assert store.due_removals(clock.now) == []
    clock.now += 1
    (removal,) = store.due_removals(clock.now)
    removal.run()
    assert [path.name for path in tmp_path.glob("orders*")] == ["orders-0"]
    store.release()


def test_a_removal_interrupted_by_a_crash_is_finished_after_the_next_start(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    append(store.create(ORDERS, TOPIC_ID, SETTINGS), [(b"k", b"v")])
    store.delete(ORDERS)
    crash(store)
    again = open_store(tmp_path)
    assert again.logs == {}
    for removal in again.due_removals(1_000_000):
        removal.run()
    assert list(tmp_path.glob("orders*")) == []
    again.release()


def test_segments_given_up_by_retention_are_removed_after_their_delay(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log = store.create(ORDERS, TOPIC_ID, LogSettings(retention_ms=1000, file_delete_delay_ms=50))
    for number in range(3):
        append(log, [(b"k", b"%d" % number)], timestamp=number * 1000)
        log.roll()
    swept = sweep(store.logs.values(), 2500)
    assert (swept.segments, swept.failed) == (2, ())
    assert log.start_offset == 2
    assert store.due_removals(1_000_049) == []
    for removal in store.due_removals(1_000_050):
        removal.run()
    assert list((tmp_path / "orders-0").glob("*.deleted")) == []
    store.release()


def test_a_sweep_goes_on_when_one_log_cannot_be_swept(tmp_path: Path) -> None:
    disk = FailingDisk()
    store = open_store(tmp_path / "a", tmp_path / "b", disk=disk)
    for number in range(2):
        log = store.create(TopicPartition("t", number), TOPIC_ID, LogSettings(retention_ms=1000))
        append(log, [(b"k", b"v")])
        log.roll()
    bad = store.logs[TopicPartition("t", 0)]
    disk.failing = bad.directory
    swept = sweep(store.logs.values(), 10_000)
    assert [log for log, _ in swept.failed] == [bad]
    assert swept.segments == 1
    store.release()


def test_a_log_that_cannot_be_renamed_away_is_a_storage_failure(tmp_path: Path) -> None:
    disk = FailingDisk()
    store = open_store(tmp_path, disk=disk)
    store.create(ORDERS, TOPIC_ID, SETTINGS)
    disk.failing = str(tmp_path / "orders-0")
    with pytest.raises(StorageFailure, match="told by the disk"):
        store.delete(ORDERS)
    assert ORDERS in store.logs, "it goes when its directory is taken offline"
    store.release()


def test_strays_are_put_aside_and_stay_there(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.create(ORDERS, TOPIC_ID, SETTINGS)
    store.create(TopicPartition("kept", 0), TOPIC_ID, SETTINGS)
    store.close()
    again = open_store(tmp_path, load=False)
    asked = []

    def is_stray(name: TopicPartition, topic_id: TopicId | None) -> bool:
        asked.append((name, topic_id))
        return name == ORDERS

    again.load(settings_of, is_stray=is_stray)
    assert (ORDERS, TOPIC_ID) in asked
    assert list(again.logs) == [TopicPartition("kept", 0)]
    assert len(list(tmp_path.glob("orders-0.*-stray"))) == 1
    again.close()
    third = open_store(tmp_path)
    assert list(third.logs) == [TopicPartition("kept", 0)]
    assert third.due_removals(2_000_000) == []
    third.release()


def test_what_is_no_partition_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / "bootstrap.checkpoint").touch()
    (tmp_path / "notes-2024").touch()
    (tmp_path / "moving-0.0123456789abcdef0123456789abcdef-future").mkdir()
    store = open_store(tmp_path)
    assert store.logs == {}
    assert (tmp_path / "__cluster_metadata-0").is_dir()
    store.release()


def test_a_log_without_its_topic_id_is_loaded_without_one(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.create(ORDERS, TOPIC_ID, SETTINGS)
    store.close()
    (tmp_path / "orders-0" / "partition.metadata").unlink()
    again = open_store(tmp_path)
    assert again.logs[ORDERS].topic_id == NO_TOPIC_ID
    again.release()


def store_of_its_own(path: Path) -> LogStore:
    """A directory that was in use without others, so with an id that no other has."""
    world, _ = manual_world()
    store = LogStore([str(path)], world._replace(random=RealRandom()))
    store.open(1, "cluster")
    store.load(settings_of)
    return store


@pytest.mark.parametrize(
    ("epochs", "advice"),
    [((3, 7), "a was in use before .*b; move"), ((7, 3), "b was in use before .*a; move"), ((5, 5), "one of the two")],
)
@pytest.mark.parametrize("clean", [True, False])
def test_partitions_in_two_directories_are_refused_and_the_older_ones_named(
    tmp_path: Path, epochs: tuple[int, int], advice: str, clean: bool
) -> None:
    for name, epoch in zip(("a", "b"), epochs, strict=True):
        store = store_of_its_own(tmp_path / name)
        for number in range(3):
            store.create(TopicPartition("orders", number), TOPIC_ID, SETTINGS)
        store.create(TopicPartition(name, 0), TOPIC_ID, SETTINGS)
        store.mark_running(epoch)
        if clean:
            store.close(epoch)
        else:
            store.release()
    for _ in range(2):  # the marks that tell which is older are still there at the second attempt
        with pytest.raises(UnusableDirectory, match=rf"both hold orders-0 \(3 partitions in all\): .*{advice}"):
            open_store(tmp_path / "a", tmp_path / "b")


def test_what_an_older_topic_of_the_name_left_in_another_directory_is_put_aside(tmp_path: Path) -> None:
    old = TopicId(bytes(15) + b"x")
    for name, topic_id in (("a", TOPIC_ID), ("b", old)):
        store = store_of_its_own(tmp_path / name)
        store.create(ORDERS, topic_id, SETTINGS)
        store.close()
    world, _ = manual_world()
    store = LogStore([str(tmp_path / "a"), str(tmp_path / "b")], world)
    store.open(1)
    store.load(settings_of, is_stray=lambda name, topic_id: topic_id == old)
    assert store.logs[ORDERS].topic_id == TOPIC_ID
    assert len(list((tmp_path / "b").glob("orders-0.*-stray"))) == 1
    store.release()


def test_checkpoints_are_written_by_directory_and_only_when_they_changed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log = store.create(ORDERS, TOPIC_ID, SETTINGS)
    for number in range(5):
        append(log, [(b"k", b"%d" % number)])
    log.roll()
    log.delete_records_before(3)
    log.cleaned_offset = 4
    work = store.begin_checkpoint(*Checkpoint)
    append(log, [(b"k", b"later")])
    work.run()
    store.finish_checkpoint(work)
    texts = {kind: (tmp_path / kind.value).read_text().splitlines()[2:] for kind in Checkpoint}
    assert texts == {
        Checkpoint.RECOVERY_POINT: ["orders 0 0"],
        Checkpoint.START_OFFSET: ["orders 0 3"],
        Checkpoint.HIGH_WATERMARK: ["orders 0 5"],
        Checkpoint.CLEANED: ["orders 0 4"],
    }
    before = (tmp_path / Checkpoint.START_OFFSET.value).stat().st_ino
    store.begin_checkpoint(Checkpoint.START_OFFSET).run()
    assert (tmp_path / Checkpoint.START_OFFSET.value).stat().st_ino == before
    store.close()
    again = open_store(tmp_path)
    assert (again.logs[ORDERS].start_offset, again.logs[ORDERS].cleaned_offset) == (3, 4)
    again.release()


def test_a_damaged_checkpoint_costs_a_scan_and_no_data(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    append(store.create(ORDERS, TOPIC_ID, SETTINGS), [(b"k", b"v")])
    store.close()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    for kind in Checkpoint:
        (tmp_path / kind.value).write_bytes(b"0\nnonsense")
    again = open_store(tmp_path)
    assert again.logs[ORDERS].end_offset == 1
    again.release()


def test_a_directory_that_fails_at_the_start_is_offline_and_the_other_serves(tmp_path: Path) -> None:
    disk = FailingDisk()
    disk.failing = str(tmp_path / "bad")
    store = open_store(tmp_path / "bad", tmp_path / "good", disk=disk)
    assert [directory.path for directory in store.live] == [str(tmp_path / "good")]
    store.create(ORDERS, TOPIC_ID, SETTINGS)
    store.close()
    assert (tmp_path / "good" / ".kafka_cleanshutdown").exists()


def test_a_directory_that_fails_while_loading_is_offline_and_the_other_serves(tmp_path: Path) -> None:
    disk = FailingDisk()
    store = open_store(tmp_path / "a", tmp_path / "b", disk=disk)
    for number in range(4):
        append(store.create(TopicPartition("t", number), TOPIC_ID, SETTINGS), [(b"k", b"v")])
    bad = next((tmp_path / "a").glob("t-*"))
    store.close()
    disk.failing = str(bad)
    again = open_store(tmp_path / "a", tmp_path / "b", disk=disk)
    assert len(again.logs) == 2
    assert {str(Path(log.directory).parent) for log in again.logs.values()} == {str(tmp_path / "b")}
    again.close()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists(), "what was not loaded was not closed"


def test_a_directory_that_fails_takes_only_its_own_logs_and_the_last_one_is_fatal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path / "a", tmp_path / "b")
    for number in range(4):
        store.create(TopicPartition("t", number), TOPIC_ID, SETTINGS)
    bad, good = store.directories
    failure = StorageFailure(bad.path, errno.EIO, "told by the disk")
    lost = store.take_offline(bad, failure)
    assert len(lost) == 2
    assert len(store.logs) == 2
    assert store.take_offline(bad, failure) == []
    assert [record.message for record in caplog.records] == [f"data directory {bad.path} is offline: {failure}"]
    with pytest.raises(NoUsableDirectory, match="told by the disk"):
        store.take_offline(good, StorageFailure(good.path, errno.EIO, "told by the disk"))


def test_a_failed_directory_remembers_why_and_nothing_of_what_went_on(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a", tmp_path / "b")
    try:
        try:
            raise OSError(errno.EIO, "told by the disk")
        except OSError as error:
            raise StorageFailure.of(store.directories[0].path, error) from error
    except StorageFailure as failure:
        store.take_offline(store.directories[0], failure)
    kept = store.directories[0].failure
    assert kept is not None
    assert (kept.__traceback__, kept.__cause__, kept.__context__) == (None, None, None)
    store.close()


def test_a_store_says_whether_it_found_everything_whole(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log = store.create(ORDERS, TOPIC_ID, SETTINGS)
    append(log, [(b"k", b"v")])
    crash(store)
    again = open_store(tmp_path)
    assert again.intact
    crash(again)
    with Path(log.segments[0].path).open("ab") as file:
        file.write(b"debris")
    cut = open_store(tmp_path)
    assert (cut.intact, cut.logs[ORDERS].intact) == (False, False)
    cut.close()
    assert open_store(tmp_path).intact


def test_a_store_without_one_of_its_directories_did_not_find_everything(tmp_path: Path) -> None:
    disk = FailingDisk()
    open_store(tmp_path / "a", tmp_path / "b", disk=disk).close()
    disk.failing = str(tmp_path / "a")
    assert not open_store(tmp_path / "a", tmp_path / "b", disk=disk).intact


def test_a_log_is_made_in_another_directory_when_its_own_fails(tmp_path: Path) -> None:
    disk = FailingDisk()
    store = open_store(tmp_path / "a", tmp_path / "b", disk=disk)
    disk.failing = str(tmp_path / "a" / "orders-0")
    log = store.create(ORDERS, TOPIC_ID, SETTINGS)
    assert Path(log.directory).parent == tmp_path / "b"
    assert [directory.path for directory in store.live] == [str(tmp_path / "b")]
    store.release()


def test_a_full_disk_refuses_a_new_log_and_stays_online(tmp_path: Path) -> None:
    disk = FailingDisk()
    disk.number = errno.ENOSPC
    store = open_store(tmp_path, disk=disk)
    disk.failing = str(tmp_path / "orders-0")
    with pytest.raises(StorageFailure):
        store.create(ORDERS, TOPIC_ID, SETTINGS)
    disk.failing = None
    assert store.create(ORDERS, TOPIC_ID, SETTINGS).end_offset == 0
    store.release()


def test_a_checkpoint_that_cannot_be_written_takes_its_directory_offline(tmp_path: Path) -> None:
    disk = FailingDisk()
    store = open_store(tmp_path / "a", tmp_path / "b", disk=disk)
    disk.failing = str(tmp_path / "a")
    work = store.begin_checkpoint(Checkpoint.RECOVERY_POINT)
    work.run()
    store.finish_checkpoint(work)
    assert [directory.path for directory in store.live] == [str(tmp_path / "b")]
    store.release()


def test_an_unusable_path_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        NoUsableDirectory, match=r"^no data directory can be used \(.*file.*\); repair one or name another\.$"
    ):
        open_store(tmp_path / "file" / "data")


def test_a_directory_named_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableDirectory, match="named twice"):
        open_store(tmp_path, tmp_path / ".." / tmp_path.name)


def test_a_directory_that_is_a_copy_of_another_one_is_refused(tmp_path: Path) -> None:
    open_store(tmp_path / "a").close()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(UnusableDirectory, match=r"a and .*b have the same directory\.id in meta\.properties"):
        open_store(tmp_path / "a", tmp_path / "b")


def test_names_of_directories_are_understood_and_long_topics_cut() -> None:
    parsed = parse_name("a-b.c-12")
    assert parsed is not None
    assert (parsed.topic_partition, parsed.mark) == (TopicPartition("a-b.c", 12), None)
    aside = aside_name(TopicPartition("x" * 249, 3), bytes(16), "delete")
    assert len(aside) == 255
    again = parse_name(aside)
    assert again is not None
    assert (again.topic_partition.partition, again.mark) == (3, "delete")
    assert parse_name("no-number-here") is None
    assert parse_name("meta.properties") is None
    future = parse_name("t-1.0123456789abcdef-future")
    assert future is not None
    assert future.mark == "future"


def test_a_loading_that_is_given_up_returns_soon_and_vouches_for_nothing(tmp_path: Path) -> None:
    names = [TopicPartition("orders", number) for number in range(5)]
    store = open_store(tmp_path)
    for name in names:
        append(store.create(name, TOPIC_ID, SETTINGS), [(b"k", b"v")])
    store.close(7)
    again = open_store(tmp_path, load=False)
    looked: list[TopicPartition] = []

    def first_only(name: TopicPartition) -> LogSettings:
        looked.append(name)
        again.give_up_loading()
        return SETTINGS

    again.load(first_only)
    assert len(looked) == 1
    assert not again.logs
    again.close(8)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    last = open_store(tmp_path)
    assert {name: last.logs[name].end_offset for name in last.logs} == dict.fromkeys(names, 1)
