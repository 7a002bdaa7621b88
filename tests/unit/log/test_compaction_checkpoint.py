"""The checkpoint that says how far logs are compacted, and logs that were cut below it."""

from pathlib import Path

import pytest

from kit.disks.compacting import append, manual_world
from ottla.base.vocabulary import TopicId, TopicPartition
from ottla.log.checkpoints import Checkpoint
from ottla.log.files import StorageFailure
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.log.store import LogStore

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = TopicId(bytes(range(16)))
SETTINGS = LogSettings()


def open_store(path: Path) -> LogStore:
    world, _ = manual_world()
    store = LogStore([str(path)], world)
    store.open(1)
    store.load(lambda name: SETTINGS)
    return store


def compacted_and_cut(path: Path) -> tuple[LogStore, PartitionLog]:
    """A log of ten records, compacted and checkpointed up to the tenth, then cut to five."""
    store = open_store(path)
    log = store.create(ORDERS, TOPIC_ID, SETTINGS)
    for number in range(10):
        append(log, [(b"k%d" % number, b"1")])
    log.roll()
    log.cleaned_offset = 10
    write_checkpoints(store)
    assert not log.truncated_below_checkpoint
    log.truncate_to(5)
    assert log.truncated_below_checkpoint
    return store, log


def write_checkpoints(store: LogStore) -> None:
    work = store.begin_checkpoint(Checkpoint.RECOVERY_POINT, Checkpoint.CLEANED)
    work.run()
    store.finish_checkpoint(work)


def test_what_grew_in_the_place_of_compacted_records_is_not_taken_for_compacted_after_a_kill(tmp_path: Path) -> None:
    store, log = compacted_and_cut(tmp_path)
    for _ in range(10):
        append(log, [(b"k1", None)])
    store.release()  # what a killed process leaves: its lock is gone, nothing else was written
    again = open_store(tmp_path)
    log = again.logs[ORDERS]
    assert (log.end_offset, log.cleaned_offset) == (15, None)
    assert log.truncated_below_checkpoint
    with pytest.raises(StorageFailure):
        log.roll()
    write_checkpoints(again)
    log.roll()
    again.release()


def test_a_log_that_was_cut_below_what_is_compacted_rolls_when_that_is_written(tmp_path: Path) -> None:
    store, log = compacted_and_cut(tmp_path)
    for _ in range(10):
        append(log, [(b"k1", None)])
    with pytest.raises(StorageFailure):
        log.roll()
    write_checkpoints(store)
    assert log.roll().base_offset == 15
    store.release()  # what a killed process leaves: its lock is gone, nothing else was written
    again = open_store(tmp_path)
    assert again.logs[ORDERS].cleaned_offset == 5, "what follows is dirty"
    again.release()
