"""Where a follower truncates its log."""

from pathlib import Path

import pytest

from kit.disks.workbench import Workbench
from ottla.log.partition_log import PartitionLog
from ottla.replication.follower import (
    follow_watermark,
    start_within,
    truncate_before_following,
    truncate_where_histories_part,
)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    """Ten records: four of epoch 1, three of epoch 3, three of epoch 5; committed are the first four."""
    bench = Workbench(tmp_path)
    for epoch, count in ((1, 4), (3, 3), (5, 3)):
        for number in range(count):
            bench.append(b"%d" % number, epoch=epoch)
    bench.log.truncate_to(10)
    found = bench.load(recovery_point=0)
    found.high_watermark = 4
    return found


def test_a_longer_tail_of_the_same_epoch_is_cut_to_the_leaders(log: PartitionLog) -> None:
    truncate_where_histories_part(log, 5, 8)
    assert log.end_offset == 8


def test_an_epoch_the_leader_does_not_know_goes_whole(log: PartitionLog) -> None:
    truncate_where_histories_part(log, 3, 7)
    assert log.end_offset == 7
    assert log.epochs.latest_epoch == 3


def test_an_epoch_only_the_leader_knows_sends_the_follower_to_the_end_of_the_one_before(log: PartitionLog) -> None:
    truncate_where_histories_part(log, 4, 9)
    assert log.end_offset == 7


def test_a_leader_whose_history_begins_later_is_followed_to_its_end(log: PartitionLog) -> None:
    log.epochs.clear()
    truncate_where_histories_part(log, 2, 6)
    assert log.end_offset == 6


def test_without_epochs_only_what_is_committed_is_kept(log: PartitionLog) -> None:
    truncate_before_following(log, log.epochs.latest_epoch)
    assert log.end_offset == 10
    truncate_before_following(log, -1)
    assert log.end_offset == 4


def test_a_log_beyond_its_leaders_end_goes_back_to_it(log: PartitionLog) -> None:
    start_within(log, 0, 6)
    assert log.end_offset == 6


def test_a_log_before_its_leaders_start_begins_anew(log: PartitionLog) -> None:
    start_within(log, 20, 30)
    assert (log.start_offset, log.end_offset) == (20, 20)


def test_a_log_within_its_leaders_is_left_as_it_is(log: PartitionLog) -> None:
    start_within(log, 5, 30)
    assert (log.start_offset, log.end_offset) == (0, 10)


def test_the_watermark_follows_as_far_as_the_log_reaches_and_never_back(log: PartitionLog) -> None:
    assert follow_watermark(log, 7)
    assert not follow_watermark(log, 5)
    assert log.high_watermark == 7
    assert follow_watermark(log, 100)
    assert log.high_watermark == 10
