"""Members of the consumer protocol join, share, give back, fall silent and leave."""

from __future__ import annotations

import pytest

from kit.machines.consumer_groups import ModernCoordinator, assigned, quick, topic_id
from kit.machines.groups import GROUP
from ottla.base.errors import ErrorCode
from ottla.groups.facts import OffsetFact
from ottla.groups.modern import GroupState
from ottla.groups.modern_facts import MemberProgress
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


def commit(coordinator: ModernCoordinator, member_id: str, epoch: int, *partitions: int, version: int = 9) -> ErrorCode:
    rows = [OffsetCommitRequestPartition(number, 7) for number in partitions]
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic("t", topic_id("t"), rows)],
    )
    reply = coordinator.carry_out(coordinator.machine.decide_commit(request, version, coordinator.now))
    (error,) = {row.error_code for row in reply.topics[0].partitions}
    return ErrorCode(error)


def test_the_first_member_gets_everything() -> None:
    coordinator = ModernCoordinator()
    answer = coordinator.beat("a")
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", 2)
    assert answer.heartbeat_interval_ms == 5_000
    assert assigned(answer) == {"t": [0, 1, 2, 3]}
    assert coordinator.modern.state is GroupState.STABLE


def test_an_old_client_is_given_a_member_id() -> None:
    coordinator = ModernCoordinator()
    answer = coordinator.beat("", version=0)
    assert answer.error_code == 0
    assert answer.member_id in coordinator.modern.members


def test_a_heartbeat_without_news_writes_nothing() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("a")
    written = len(coordinator.log)
    answer = coordinator.beat("a", 2)
    assert (answer.member_epoch, answer.assignment, len(coordinator.log)) == (2, None, written)


def test_a_partition_changes_hands_only_when_its_owner_has_given_it_back() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("a")
    joined = coordinator.beat("b")
    assert (joined.member_epoch, assigned(joined)) == (3, {})
    told = coordinator.beat("a", 2)
    assert (told.member_epoch, assigned(told)) == (2, {"t": [0, 1]})
    assert coordinator.modern.members["a"].current.progress is MemberProgress.UNREVOKED
    assert assigned(coordinator.beat("b", 3)) is None
    # Still busy with all of them: nothing moves.
    assert coordinator.beat("a", 2, owned={"t": [0, 1, 2, 3]}).member_epoch == 2
    assert assigned(coordinator.beat("b", 3)) is None
    assert coordinator.beat("a", 2, owned={"t": [0, 1]}).member_epoch == 3
    assert assigned(coordinator.beat("b", 3)) == {"t": [2, 3]}
    assert coordinator.modern.state is GroupState.STABLE


def test_a_member_that_does_not_give_back_in_time_is_out() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("a", rebalance_ms=10_000)
    coordinator.beat("b")
    coordinator.beat("a", 2)
    for _ in range(5):
        coordinator.pass_time(2_500)
        coordinator.beat("b", 3)
        coordinator.beat("a", 2)
    assert coordinator.beat("a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert assigned(coordinator.beat("b", coordinator.modern.members["b"].current.epoch, owned={})) is None
    assert sorted(coordinator.modern.owners.values()) == ["b"] * 4


def test_a_silent_member_is_out_after_its_session() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("a")
    coordinator.pass_time(44_999)
    assert "a" in coordinator.modern.members
    coordinator.pass_time(1)
    assert coordinator.modern.empty
    assert coordinator.modern.state is GroupState.EMPTY
    assert coordinator.beat("a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_may_have_a_session_time_of_its_own() -> None:
    coordinator = ModernCoordinator()
    coordinator.topics.settings = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"}
    assert coordinator.beat("a").heartbeat_interval_ms == 7_000
    coordinator.pass_time(49_999)
    assert "a" in coordinator.modern.members
    coordinator.pass_time(1)
    assert coordinator.modern.empty


def test_who_leaves_leaves_no_trace_but_the_groups_epoch() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("a")
    answer = coordinator.beat("a", -1)
    assert (answer.error_code, answer.member_epoch) == (0, -1)
    left = {key[:2]: value for key, value in dict(coordinator.log).items() if value is not None}
    assert set(left) == {b"\x00\x03", b"\x00\x06"}
    assert (coordinator.modern.owners, coordinator.modern.targets) == ({}, {})


def test_what_a_leaving_member_had_is_free_at_once() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("a")
    coordinator.beat("b")
    coordinator.beat("a", -1)
    assert assigned(coordinator.beat("b", 3)) == {"t": [0, 1, 2, 3]}


def test_a_lost_answer_is_given_again() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("a")
    coordinator.topics.grow(t=5)
    assert coordinator.beat("a", 2).member_epoch == 3
    again = coordinator.beat("a", 2, owned={"t": [0, 1]}, topics=["t"], rebalance_ms=60_000)
    assert (again.member_epoch, assigned(again)) == (3, {"t": [0, 1, 2, 3, 4]})
    refused = coordinator.beat("a", 2)
    assert refused.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert coordinator.beat("a", 9).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    # It gives everything up and joins again under the same id.
    assert assigned(coordinator.beat("a")) == {"t": [0, 1, 2, 3, 4]}


def test_a_member_that_turns_away_from_a_topic_gives_it_back_at_once() -> None:
    coordinator = ModernCoordinator(quick(), t=2, u=2)
    coordinator.machine.limits = coordinator.machine.limits._replace(
        consumer={**coordinator.machine.limits.consumer, "assignment.interval": 1_000}
    )
    coordinator.beat("a", topics=["t", "u"])
    assert assigned(coordinator.beat("a", 2, topics=["u"])) == {"u": [0, 1]}
    assert coordinator.modern.members["a"].current.progress is MemberProgress.UNREVOKED


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_the_assignor_most_members_ask_for_decides(assignor: str) -> None:
    coordinator = ModernCoordinator(quick(), t=3, u=3)
    coordinator.beat("a", topics=["t", "u"], assignor=assignor)
    coordinator.beat("b", topics=["t", "u"], assignor=assignor)
    targets = coordinator.modern.targets
    sizes = sorted(sum(map(len, target.values())) for target in targets.values())
    assert sizes == ([3, 3] if assignor == "uniform" else [2, 4])


def test_targets_are_computed_once_in_an_interval() -> None:
    times = {**quick().consumer, "assignment.interval": 1_000}
    coordinator = ModernCoordinator(quick(consumer=times), t=4)
    coordinator.beat("a")
    joined = coordinator.beat("b")
    assert (joined.member_epoch, assigned(joined)) == (2, {})
    assert coordinator.modern.state.value == "Assigning"
    coordinator.pass_time(999)
    assert coordinator.beat("b", 2).member_epoch == 2
    coordinator.pass_time(1)
    assert coordinator.beat("b", 2).member_epoch == 3
    assert coordinator.modern.state.value == "Reconciling"


def test_a_full_group_takes_nobody_else() -> None:
    coordinator = ModernCoordinator(quick(consumer_max_size=1))
    coordinator.beat("a")
    assert coordinator.beat("b").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert coordinator.beat("a").error_code == ErrorCode.NONE


# --- topics ---


def test_new_partitions_are_shared_out_with_the_next_heartbeat() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("a")
    coordinator.topics.grow(t=6)
    assert assigned(coordinator.beat("a", 2)) == {"t": [0, 1, 2, 3, 4, 5]}


def test_a_topic_that_appears_is_shared_out_and_one_that_goes_is_taken_back() -> None:
    coordinator = ModernCoordinator(quick(), t=1)
    assert assigned(coordinator.beat("a", topics=["t", "later"])) == {"t": [0]}
    coordinator.topics.grow(later=2)
    assert assigned(coordinator.beat("a", 2)) == {"t": [0], "later": [0, 1]}
    coordinator.topics.remove("t")
    assert assigned(coordinator.beat("a", 3)) == {"later": [0, 1]}


def test_other_topics_begin_no_epoch() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("a")
    coordinator.topics.grow(other=3)
    assert coordinator.beat("a", 2).member_epoch == 2


def test_a_pattern_stands_for_the_topics_it_matches_now() -> None:
    coordinator = ModernCoordinator(quick(), log1=1, log2=1, other=1)
    coordinator.beat("a", pattern="log[0-9]+")
    assert assigned(coordinator.beat("a", 1)) == {"log1": [0], "log2": [0]}
    assert coordinator.modern.subscribes_to("log1")
    coordinator.topics.grow(log3=1, logs=1)
    assert assigned(coordinator.beat("a", 2)) == {"log1": [0], "log2": [0], "log3": [0]}
    coordinator.beat("a", 3, pattern="", topics=["other"], owned={})
    assert coordinator.modern.patterns == {}


def test_a_new_pattern_counts_from_the_next_heartbeat_on() -> None:
    coordinator = ModernCoordinator(quick(), log1=1, log2=1, other=1)
    joined = coordinator.beat("a", pattern="log[0-9]+")
    assert (joined.member_epoch, assigned(joined)) == (1, {})
    assert (coordinator.modern.epoch, coordinator.modern.target_epoch) == (2, 1)
    then = coordinator.beat("a", 1)
    assert (then.member_epoch, assigned(then)) == (2, {"log1": [0], "log2": [0]})


def test_a_pattern_that_others_have_counts_at_once() -> None:
    coordinator = ModernCoordinator(quick(), log1=1, log2=1, other=1)
    coordinator.beat("a", pattern="log[0-9]+")
    coordinator.beat("a", 1)
    assert coordinator.beat("b", pattern="log[0-9]+").member_epoch == 3


def test_names_beside_a_new_pattern_count_at_once() -> None:
    coordinator = ModernCoordinator(quick(), log1=1, log2=1, other=1)
    joined = coordinator.beat("a", pattern="log[0-9]+", topics=["other"])
    assert (joined.member_epoch, assigned(joined)) == (2, {"other": [0]})
    assert assigned(coordinator.beat("a", 2)) == {"log1": [0], "log2": [0], "other": [0]}


def test_a_pattern_that_matches_nothing_begins_no_epoch() -> None:
    coordinator = ModernCoordinator(quick(), other=1)
    assert coordinator.beat("a", pattern="log[0-9]+").member_epoch == 1
    assert coordinator.beat("a", 1).member_epoch == 1
    coordinator.topics.grow(log1=1)
    assert assigned(coordinator.beat("a", 1)) == {"log1": [0]}


def test_a_bad_pattern_is_refused() -> None:
    coordinator = ModernCoordinator()
    answer = coordinator.beat("a", pattern="(((")
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    expected = "SubscribedTopicRegex `(((` is not a valid regular expression: missing closing )."
    assert answer.error_message == expected
    assert GROUP not in coordinator.machine.groups


# --- static members ---


def test_a_static_member_that_comes_back_takes_its_place() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("a", instance="i")
    coordinator.beat("b")
    coordinator.beat("a", 2, instance="i")
    coordinator.beat("a", 2, instance="i", owned={"t": [0, 1]})
    coordinator.beat("b", 3)
    epoch = coordinator.modern.epoch
    assert coordinator.beat("a", -2, instance="i").member_epoch == -2
    back = coordinator.beat("c", instance="i")
    assert (back.member_epoch, assigned(back)) == (3, {"t": [0, 1]})
    assert coordinator.modern.epoch == epoch
    assert set(coordinator.modern.members) == {"b", "c"}
    assert coordinator.beat("a", 3, instance="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert coordinator.beat("a", -1, instance="i").error_code == ErrorCode.FENCED_INSTANCE_ID


def test_an_instance_id_in_use_is_not_released() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("a", instance="i")
    assert coordinator.beat("b", instance="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert coordinator.beat("b", 2, instance="nobody").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_stays_away_loses_its_place() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("a", instance="i")
    coordinator.beat("a", -2, instance="i")
    coordinator.pass_time(45_000)
    assert coordinator.modern.empty


# --- offsets ---


def test_members_commit_what_they_have_had_since_the_epoch_they_name() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("a")
    assert commit(coordinator, "a", 2, 0, 3) == ErrorCode.NONE
    coordinator.beat("b")
    coordinator.beat("a", 2)
    assert commit(coordinator, "a", 2, 2, 3) == ErrorCode.NONE
    coordinator.beat("a", 2, owned={"t": [0, 1]})
    assert commit(coordinator, "a", 2, 0, 1) == ErrorCode.NONE
    assert commit(coordinator, "a", 2, 0, 3) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(coordinator, "a", 4, 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(coordinator, "a", 3, 0, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert commit(coordinator, "x", 3, 0) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(coordinator, "", -1, 0) == ErrorCode.UNKNOWN_MEMBER_ID
    coordinator.beat("a", -1)
    coordinator.beat("b", -1)
    assert commit(coordinator, "", -1, 0) == ErrorCode.NONE


def test_offsets_are_told_to_members_of_the_present_epoch() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("a")
    group = coordinator.modern
    assert group.fetch_error(None, -1) == ErrorCode.NONE
    assert group.fetch_error("a", 2) == ErrorCode.NONE
    assert group.fetch_error("a", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.fetch_error("", -1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_deleted_group_is_gone_with_its_offsets() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("a")
    commit(coordinator, "a", 2, 0)
    assert coordinator.carry_out(coordinator.machine.decide_delete(GROUP)).error_code == ErrorCode.NON_EMPTY_GROUP
    coordinator.beat("a", -1)
    assert coordinator.carry_out(coordinator.machine.decide_delete(GROUP)).error_code == ErrorCode.NONE
    assert not [value for value in dict(coordinator.log).values() if value is not None]
    assert GROUP not in coordinator.machine.groups
    coordinator.reload()
    assert GROUP not in coordinator.machine.groups


def test_offsets_of_a_topic_nobody_wants_expire() -> None:
    coordinator = ModernCoordinator(quick(retention_ms=1_000, retention_check_ms=100), t=1, u=1)
    coordinator.beat("a")
    commit(coordinator, "a", 2, 0)
    coordinator.pass_time(5_000)
    coordinator.beat("a", 2)
    assert coordinator.machine.offsets.get(GROUP, "t", 0) is not None
    coordinator.beat("a", 2, topics=["u"], owned={})
    coordinator.pass_time(5_000)
    assert coordinator.machine.offsets.get(GROUP, "t", 0) is None


# --- what the log says ---


def test_the_next_coordinator_knows_the_group_as_it_was() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("a", instance="i", pattern="t.*")
    coordinator.beat("a", 1, instance="i")
    coordinator.beat("b", assignor="range")
    coordinator.beat("a", 2, instance="i")
    before = coordinator.modern
    coordinator.reload()
    after = coordinator.modern
    assert after is not before
    assert after.members == before.members
    assert (after.epoch, after.digest, after.target_epoch) == (before.epoch, before.digest, before.target_epoch)
    assert (after.targets, after.owners, after.patterns) == (before.targets, before.owners, before.patterns)
    assert coordinator.beat("a", 2, instance="i", owned={"t": [0, 1]}).member_epoch == 3
    coordinator.pass_time(45_000)
    assert coordinator.modern.empty


def test_a_decision_that_cannot_be_stored_changes_nothing() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("a")
    coordinator.disk_full = True
    members = dict(coordinator.modern.members)
    coordinator.beat("b")
    coordinator.beat("a", -1)
    coordinator.pass_time(50_000)
    assert coordinator.modern.members == members
    coordinator.disk_full = False
    coordinator.pass_time(2_000)
    assert coordinator.modern.empty


def test_an_empty_simple_group_becomes_a_consumer_group_and_keeps_its_offsets() -> None:
    coordinator = ModernCoordinator()
    assert commit(coordinator, "", -1, 1) == ErrorCode.NONE
    assert coordinator.beat("a").error_code == ErrorCode.NONE
    assert coordinator.machine.offsets.get(GROUP, "t", 1) is not None
    coordinator.reload()
    assert set(coordinator.modern.members) == {"a"}
    assert [fact for fact in coordinator.machine.offsets if isinstance(fact, OffsetFact)]
