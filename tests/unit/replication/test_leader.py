"""What a leader concludes from the fetches of its followers."""

from ottla.replication.leader import Leading, Proposal

LAG = 10.0
ALL = (1, 2, 3)


def leading(in_sync: tuple[int, ...] = ALL, epoch_start: int = 0, now: float = 0.0) -> Leading:
    found = Leading(1, epoch_start)
    found.assign(ALL, in_sync, 7, now)
    return found


def anybody(broker: int) -> bool:
    return True


def watermark(leader: Leading, end: int, now: float = 0.0) -> int:
    return leader.watermark(end, anybody, now, LAG)


def fetch(leader: Leading, follower: int, offset: int, end: int, now: float = 0.0, epoch: int = 5) -> bool:
    return leader.fetched(follower, offset, 0, epoch, end, now)


def test_the_watermark_is_where_the_slowest_in_sync_replica_is() -> None:
    leader = leading()
    fetch(leader, 2, 8, 10)
    fetch(leader, 3, 5, 10)
    assert watermark(leader, 10) == 5


def test_nothing_is_committed_before_every_in_sync_replica_has_been_heard() -> None:
    leader = leading()
    fetch(leader, 2, 10, 10)
    assert watermark(leader, 10) < 0


def test_a_replica_out_of_sync_does_not_hold_the_watermark() -> None:
    leader = leading((1, 2))
    fetch(leader, 2, 8, 10)
    fetch(leader, 3, 1, 10)
    assert watermark(leader, 10, now=20) == 8


def test_a_replica_that_is_about_to_join_holds_the_watermark() -> None:
    leader = leading((1, 2))
    fetch(leader, 3, 10, 10, now=1)
    fetch(leader, 2, 12, 12, now=2)
    assert watermark(leader, 12, now=2) == 10
    assert leader.watermark(12, lambda broker: False, 2, LAG) == 12


def test_a_pending_shrink_still_counts_the_replica_that_is_to_go() -> None:
    leader = leading(now=0)
    fetch(leader, 2, 10, 10, now=20)
    proposal = leader.leaving(10, 20, LAG)
    assert proposal == Proposal((1, 2), 7, (-1, 5))
    assert watermark(leader, 10, now=20) < 0
    leader.assign(ALL, (1, 2), 8, 20)
    assert watermark(leader, 10, now=20) == 10


def test_a_pending_growth_counts_the_replica_that_is_to_come() -> None:
    leader = leading((1, 2))
    fetch(leader, 2, 10, 10)
    fetch(leader, 3, 10, 10)
    assert leader.joining(3, 10) == Proposal(ALL, 7, (-1, 5, 5), 10)
    fetch(leader, 2, 12, 12, now=50)
    assert watermark(leader, 12, now=50) == 10


def test_one_change_is_under_way_at_a_time() -> None:
    leader = leading((1,))
    fetch(leader, 2, 10, 10)
    fetch(leader, 3, 10, 10)
    assert leader.joining(2, 10) is not None
    assert leader.joining(3, 10) is None
    assert leader.leaving(10, 100, LAG) is None


def test_a_refused_change_is_forgotten_and_a_late_refusal_of_another_is_not_heard() -> None:
    leader = leading((1, 2))
    fetch(leader, 3, 10, 10)
    first = leader.joining(3, 10)
    assert first is not None
    leader.refused(first)
    assert leader.maximal == {1, 2}
    second = leader.joining(3, 10)
    leader.refused(first)
    assert leader.pending is second


def test_who_lacks_what_may_have_been_committed_before_this_leader_does_not_join() -> None:
    leader = leading((1, 2), epoch_start=10)
    fetch(leader, 3, 9, 10)
    assert leader.joining(3, 5) is None
    fetch(leader, 3, 10, 10)
    assert leader.joining(3, 5) is not None


def test_a_follower_that_keeps_up_with_what_was_there_at_its_last_fetch_is_not_lagging() -> None:
    leader = leading(now=0)
    fetch(leader, 3, 100, 100, now=29)
    end = 0
    for second in range(30):
        fetch(leader, 2, end, end + 5, now=second)
        end += 5
    assert leader.leaving(end + 5, 30, LAG) is None


def test_a_follower_that_fetches_and_falls_behind_is_lagging() -> None:
    leader = leading(now=0)
    for second in range(30):
        fetch(leader, 2, second, 1000 + 100 * second, now=second)
        fetch(leader, 3, 1000 + 100 * second, 1000 + 100 * second, now=second)
    proposal = leader.leaving(5000, 30, LAG)
    assert proposal is not None
    assert proposal.in_sync == (1, 3)


def test_a_follower_that_had_all_until_the_log_grew_is_not_lagging_then() -> None:
    leader = leading(now=0)
    fetch(leader, 2, 10, 10)
    fetch(leader, 3, 9, 10)
    leader.grew(10, 0)
    leader.grew(11, 1000)
    proposal = leader.leaving(11, 1001, LAG)
    assert proposal is not None
    assert proposal.in_sync == (1, 2)


def test_an_idle_partition_loses_nobody() -> None:
    leader = leading(now=0)
    fetch(leader, 2, 10, 10)
    fetch(leader, 3, 10, 10)
    assert leader.leaving(10, 1000, LAG) is None


def test_a_fetch_of_a_brokers_former_life_is_not_heard() -> None:
    leader = leading()
    assert fetch(leader, 2, 4, 10, epoch=6)
    assert not fetch(leader, 2, 10, 10, epoch=5)
    assert leader.followers[2].end_offset == 4


def test_a_stranger_is_not_heard() -> None:
    assert not fetch(leading(), 9, 10, 10)


def test_an_older_state_changes_nothing() -> None:
    leader = leading((1, 2))
    leader.assign(ALL, ALL, 6, 0)
    assert leader.in_sync == (1, 2)


def test_replicas_come_and_go_with_the_assignment() -> None:
    leader = leading()
    fetch(leader, 2, 10, 10)
    leader.assign((1, 2, 4), (1, 2), 8, 0)
    assert set(leader.followers) == {2, 4}
    assert leader.followers[2].end_offset == 10


def test_the_low_watermark_is_the_lowest_start_of_those_who_live() -> None:
    leader = leading()
    leader.fetched(2, 10, 4, 5, 10, 0)
    leader.fetched(3, 10, 2, 5, 10, 0)
    assert leader.low_watermark(6, anybody) == 2
    assert leader.low_watermark(6, lambda broker: broker != 3) == 4


def test_a_proposal_is_no_longer_true_when_who_is_to_join_begins_another_life_or_has_less() -> None:
    leader = leading((1, 2))
    fetch(leader, 3, 10, 10, epoch=5)
    proposal = leader.joining(3, 10)
    assert proposal is not None
    assert leader.holds(proposal)
    fetch(leader, 2, 4, 10, epoch=9)
    assert leader.holds(proposal), "who is in sync anyway is the controller's to judge"
    fetch(leader, 3, 9, 10, epoch=5)
    assert not leader.holds(proposal)
    fetch(leader, 3, 10, 10, epoch=5)
    assert leader.holds(proposal)
    fetch(leader, 3, 10, 10, epoch=6)
    assert not leader.holds(proposal)
    assert proposal.broker_epochs == (-1, -1, 5), "the lives that were seen when it was made"
