"""The rules of the classic protocol, one by one, on virtual time."""

from __future__ import annotations

import pytest

from kit.machines.groups import GROUP, Coordinator
from ottla.base.errors import ErrorCode
from ottla.groups.classic import ClassicGroup
from ottla.groups.decision import GroupLimits
from ottla.groups.facts import GroupFact
from ottla.groups.rebalance import NEW_MEMBER_MS
from ottla.groups.records import read


def test_the_first_member_waits_for_others_that_come_during_the_initial_delay() -> None:
    at = Coordinator(GroupLimits(initial_delay_ms=3_000))
    first = at.join()
    at.pass_time(2_000)
    second = at.join()
    at.pass_time(1_500)
    assert not first.answered, "the delay begins again when somebody comes"
    at.pass_time(2_500)
    assert first.answer.generation_id == second.answer.generation_id == 1
    assert len(first.answer.members) == 2
    assert second.answer.members == ()
    assert first.answer.leader == second.answer.leader == first.answer.member_id


def test_the_initial_delay_is_never_longer_than_the_rebalance_time_out() -> None:
    at = Coordinator(GroupLimits(initial_delay_ms=3_000))
    first = at.join(rebalance_ms=7_000)
    for _ in range(4):
        at.pass_time(2_000)
        if not first.answered:
            at.join(rebalance_ms=7_000)
    at.pass_time(2_000)
    assert first.answered


def test_a_new_member_is_told_its_id_first() -> None:
    at = Coordinator()
    told = at.join(version=4).answer
    assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert at.group.pending == {told.member_id}
    joined = at.join(told.member_id, version=4).answer
    assert (joined.error_code, joined.member_id) == (0, told.member_id)
    assert not at.group.pending


def test_a_member_id_that_is_not_used_is_forgotten_after_a_session() -> None:
    at = Coordinator()
    told = at.join(version=4).answer
    at.pass_time(10_001)
    assert not at.group.pending
    assert at.join(told.member_id, version=4).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_a_member_that_was_told_its_id() -> None:
    at = Coordinator()
    (first,) = at.stable(1)
    told = at.join(version=4).answer
    again = at.join(first)
    assert not again.answered
    second = at.join(told.member_id, version=4)
    assert len(again.answer.members) == 2
    assert second.answer.generation_id == again.answer.generation_id


def test_an_unknown_member_cannot_join() -> None:
    at = Coordinator()
    assert at.join("nobody").answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    at.stable(1)
    assert at.join("nobody").answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_sessions_have_bounds(session_ms: int) -> None:
    assert Coordinator().join(session_ms=session_ms).answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_members_need_a_protocol_that_all_support() -> None:
    at = Coordinator()
    at.stable(1)
    assert at.join(protocols=("sticky",)).answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert at.join(protocol_type="connect").answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert at.join(protocols=()).answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_that_most_members_prefer_is_chosen() -> None:
    at = Coordinator(GroupLimits(initial_delay_ms=1_000))
    places = [at.join(protocols=names) for names in (("a", "b", "c"), ("b", "a"), ("b", "a", "d"))]
    at.pass_time(2_000)
    assert {place.answer.protocol_name for place in places} == {"b"}


def test_everybody_gets_the_part_that_the_leader_gives() -> None:
    at = Coordinator()
    leader, other = at.stable(2)
    assert at.sync(other, 2).answer.assignment == b"1"
    assert at.sync(leader, 2).answer.assignment == b"0"
    assert at.heartbeat(other, 2) == ErrorCode.NONE


def test_a_follower_waits_for_the_leader_and_a_member_without_a_part_gets_an_empty_one() -> None:
    at = Coordinator(GroupLimits(initial_delay_ms=100))
    first, second = at.join(), at.join()
    at.pass_time(200)
    waits = at.sync(second.answer.member_id, 1)
    assert not waits.answered
    at.sync(first.answer.member_id, 1, {first.answer.member_id: b"all"})
    assert (waits.answer.error_code, waits.answer.assignment) == (0, b"")


def test_synchronising_needs_the_right_member_generation_and_state() -> None:
    at = Coordinator()
    assert at.sync("nobody", 1).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    (leader,) = at.stable(1)
    assert at.sync("nobody", 1).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert at.sync(leader, 7).answer.error_code == ErrorCode.ILLEGAL_GENERATION
    at.join()
    assert at.sync(leader, 1).answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert at.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_follower_that_joins_again_unchanged_causes_no_rebalance() -> None:
    at = Coordinator()
    _, follower = at.stable(2)
    answer = at.join(follower).answer
    assert (answer.error_code, answer.generation_id) == (0, 2)
    assert at.state == "Stable"


def test_a_leader_that_joins_again_causes_a_rebalance() -> None:
    at = Coordinator()
    leader, _ = at.stable(2)
    assert not at.join(leader).answered
    assert at.state == "PreparingRebalance"


def test_a_follower_with_new_metadata_causes_a_rebalance() -> None:
    at = Coordinator()
    _, follower = at.stable(2)
    assert not at.join(follower, metadata=b"\0\1\0\0\0\0").answered
    assert at.state == "PreparingRebalance"


def test_a_join_during_the_assignment_sends_the_waiting_back_to_join() -> None:
    at = Coordinator(GroupLimits(initial_delay_ms=100))
    first, second = at.join(), at.join()
    at.pass_time(200)
    waits = at.sync(second.answer.member_id, 1)
    at.join()
    assert waits.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert at.sync(first.answer.member_id, 1).answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_whoever_does_not_join_again_in_time_is_out() -> None:
    at = Coordinator()
    leader, follower = at.stable(2)
    again = at.join(leader, rebalance_ms=30_000)
    for _ in range(6):
        at.pass_time(4_900)
        at.heartbeat(follower, 2)
    assert not again.answered
    at.pass_time(4_900)
    assert again.answer.generation_id == 3
    assert [member.member_id for member in again.answer.members] == [leader]


def test_another_leads_when_the_leader_does_not_join_again() -> None:
    at = Coordinator()
    leader, follower = at.stable(2)
    again = at.join(follower, metadata=b"\0\1\0\0\0\0")
    at.leave((leader, None))
    assert again.answer.leader == follower
    assert len(again.answer.members) == 1


def test_a_silent_member_is_removed_after_its_session() -> None:
    at = Coordinator()
    leader, _follower = at.stable(2)
    at.pass_time(6_000)
    assert at.heartbeat(leader, 2) == ErrorCode.NONE
    at.pass_time(4_001)
    assert at.heartbeat(leader, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert at.join(leader).answer.generation_id == 3


def test_a_commit_keeps_a_member_alive_as_a_heartbeat_does() -> None:
    at = Coordinator()
    (member,) = at.stable(1)
    for _ in range(4):
        at.pass_time(6_000)
        assert at.commit(1, member_id=member, generation=1) == ErrorCode.NONE
    assert at.state == "Stable"


def test_a_member_that_waits_for_the_others_does_not_time_out() -> None:
    at = Coordinator()
    leader, follower = at.stable(2)
    again = at.join(leader, session_ms=6_000, rebalance_ms=60_000)
    for _ in range(10):
        at.pass_time(5_000)
        assert at.heartbeat(follower, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    at.join(follower)
    assert len(again.answer.members) == 2


def test_a_first_join_does_not_wait_for_ever() -> None:
    at = Coordinator()
    (first,) = at.stable(1)
    newcomer = at.join(rebalance_ms=2 * NEW_MEMBER_MS)
    for _ in range(NEW_MEMBER_MS // 5_000 - 1):
        at.pass_time(5_000)
        assert at.heartbeat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert not newcomer.answered
    at.pass_time(5_000)
    assert newcomer.answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_report_but_never_ask_for_their_part_are_removed() -> None:
    at = Coordinator(GroupLimits(initial_delay_ms=100))
    first, second = at.join(), at.join()
    at.pass_time(200)
    waits = at.sync(second.answer.member_id, 1)
    for _ in range(6):
        at.pass_time(5_000)
        at.heartbeat(first.answer.member_id, 1)
    assert waits.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert list(at.group.members) == [second.answer.member_id]


def test_the_last_member_to_leave_leaves_an_empty_group() -> None:
    at = Coordinator()
    leader, follower = at.stable(2)
    assert at.leave((leader, None), (follower, None), ("nobody", None)) == [0, 0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert (at.state, at.group.generation) == ("Empty", 3)
    fact = read(*at.log[-1])
    assert isinstance(fact, GroupFact)
    assert fact.group is not None
    assert (fact.group.members, fact.group.protocol, fact.group.leader) == ((), None, None)
    assert fact.group.protocol_type == "consumer"


def test_leaving_answers_a_join_that_waits() -> None:
    at = Coordinator()
    leader, _ = at.stable(2)
    waits = at.join(leader)
    at.leave((leader, None))
    assert waits.answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_nobody() -> None:
    at = Coordinator(GroupLimits(initial_delay_ms=0, max_size=2))
    at.stable(2)
    assert at.join().answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert at.state == "Stable"


# --- static members ---


def test_a_static_member_comes_back_with_a_new_id_and_its_old_part() -> None:
    at = Coordinator()
    _, follower = at.stable(2, instances=True)
    instance = at.group.members[follower].instance_id
    stored = len(at.log)
    answer = at.join(instance=instance, version=9).answer
    assert (answer.error_code, answer.generation_id, answer.skip_assignment) == (0, 2, False)
    assert answer.member_id != follower
    assert at.state == "Stable"
    assert len(at.log) == stored + 1, "the log knows the new id"
    assert at.sync(answer.member_id, 2, instance=instance).answer.assignment == b"1"
    assert at.heartbeat(follower, 2, instance) == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_leader_that_comes_back_is_told_to_leave_the_assignment_alone() -> None:
    at = Coordinator()
    leader, _ = at.stable(2, instances=True)
    instance = at.group.members[leader].instance_id
    answer = at.join(instance=instance, version=9).answer
    assert (answer.skip_assignment, answer.leader) == (True, answer.member_id)
    assert len(answer.members) == 2
    old = at.join(instance=instance, version=8).answer
    assert old.leader == answer.member_id, "an old client must not think that it leads"
    assert old.members == ()
    assert at.state == "Stable"


def test_the_request_of_a_fenced_static_member_is_answered() -> None:
    at = Coordinator(GroupLimits(initial_delay_ms=1_000))
    first = at.join(instance="a")
    second = at.join(instance="a")
    assert first.answer.error_code == ErrorCode.FENCED_INSTANCE_ID
    at.pass_time(3_000)
    assert second.answer.error_code == 0


def test_a_static_member_may_miss_a_rebalance() -> None:
    at = Coordinator()
    leader, follower = at.stable(2, instances=True)
    instance = at.group.members[leader].instance_id
    again = at.join(leader, instance=instance)
    for _ in range(6):
        at.pass_time(5_000)
        at.heartbeat(follower, 2, at.group.members[follower].instance_id)
    assert again.answer.generation_id == 3
    assert len(again.answer.members) == 2, "it is still a member, and has its part"


def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    at = Coordinator()
    leader, follower = at.stable(2, instances=True)
    assert at.leave(("", at.group.members[follower].instance_id)) == [ErrorCode.NONE]
    assert list(at.group.members) == [leader]
    assert at.leave(("", "nobody"), ("", None)) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


def test_a_static_member_with_another_protocol_causes_a_rebalance_when_the_choice_changes() -> None:
    at = Coordinator()
    (only,) = at.stable(1, instances=True)
    instance = at.group.members[only].instance_id
    answer = at.join(instance=instance, protocols=("sticky", "range"), version=9).answer
    assert answer.generation_id == 2
    assert answer.protocol_name == "sticky"


# --- storing ---


def test_a_decision_that_is_not_stored_changes_nothing() -> None:
    at = Coordinator(GroupLimits(initial_delay_ms=0))
    member = at.join().answer
    at.disk_full = True
    assert not at.sync(member.member_id, 1, {member.member_id: b"x"}).answered
    assert at.state == "CompletingRebalance"
    at.disk_full = False
    assert at.sync(member.member_id, 1, {member.member_id: b"x"}).answer.assignment == b"x"


def test_a_time_out_that_is_not_stored_comes_again() -> None:
    at = Coordinator()
    at.stable(1)
    at.disk_full = True
    at.pass_time(10_500)
    assert at.state == "Stable"
    at.disk_full = False
    at.pass_time(2_000)
    assert at.state == "Empty"


def test_a_stored_group_is_the_same_when_it_is_read_again() -> None:
    at = Coordinator()
    at.stable(3, instances=True)
    fact = read(*at.log[-1])
    assert isinstance(fact, GroupFact)
    assert fact.group is not None
    again = ClassicGroup.restored(GROUP, fact.group)
    assert again.stored() == at.group.stored()
    assert again.static == at.group.static
    assert again.state is at.group.state


def test_members_of_a_group_that_was_loaded_have_a_session_to_be_heard_of() -> None:
    old = Coordinator()
    leader, _ = old.stable(2)
    at = Coordinator()
    for key, value in old.log:
        at.machine.apply(read(key, value))
    at.machine.loaded(at.now)
    at.pass_time(9_000)
    assert at.heartbeat(leader, 2) == ErrorCode.NONE
    at.pass_time(2_000)
    assert at.heartbeat(leader, 2) == ErrorCode.REBALANCE_IN_PROGRESS


def test_whoever_waits_is_sent_away_when_the_coordinator_changes() -> None:
    at = Coordinator()
    leader, _ = at.stable(2)
    waits = at.join(leader)
    ((place, answer),) = at.machine.given_up()
    assert place is waits
    assert answer.error_code == ErrorCode.NOT_COORDINATOR  # type: ignore[attr-defined]
