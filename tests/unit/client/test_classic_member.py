"""A member of the classic protocol, told its answers by hand."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.groups.assignors import Assignor, RangeAssignor
from ottla.client.groups.classic import ClassicMember, Stage
from ottla.client.groups.sticky import CooperativeStickyAssignor
from ottla.client.groups.vocabulary import Change, GroupMetadata, MemberSettings
from ottla.groups.embedded import Embedded, read_assignment, read_subscription, write_assignment, write_subscription
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

SETTINGS = MemberSettings("group", session=10, heartbeat=3, poll_interval=60, retry=0.1)
HELD = frozenset({TopicPartition("t", 0), TopicPartition("t", 1)})


class Bench:
    """A member and its clock."""

    def __init__(self, assignor: Assignor | None = None, instance: str | None = None) -> None:
        self.now = 100.0
        self.member = ClassicMember(SETTINGS._replace(instance_id=instance), [assignor or RangeAssignor()], self.now)
        self.member.subscribe(frozenset("t"), self.now)

    def step(self, kind: type[Any]) -> Any:
        request = self.member.step(self.now)
        assert isinstance(request, kind), request
        return request

    def answer(self, request: Any, answer: Any) -> None:
        self.member.answered(request, answer, self.now)

    def join(self, generation: int = 1, leader: str = "other", **more: Any) -> JoinGroupRequest:
        request = self.step(JoinGroupRequest)
        name = self.member._assignors.keys().__iter__().__next__()
        self.answer(request, JoinGroupResponse(0, 0, generation, "consumer", name, leader, False, "me", **more))
        found: JoinGroupRequest = request
        return found

    def sync(self, **assigned: list[int]) -> SyncGroupRequest:
        request: SyncGroupRequest = self.step(SyncGroupRequest)
        self.answer(request, SyncGroupResponse(assignment=write_assignment(assigned, 3)))
        return request

    def carry_out(self) -> Change:
        change = self.member.begin()
        self.member.done(self.now)
        return change

    def beat(self, code: ErrorCode = ErrorCode.NONE) -> None:
        self.now += SETTINGS.heartbeat
        request = self.step(HeartbeatRequest)
        self.answer(request, HeartbeatResponse(0, code))

    def settle(self) -> None:
        self.join()
        self.sync(t=[0, 1])
        assert self.carry_out() == Change(frozenset(), HELD)
        assert self.member.idle is None


def test_a_member_joins_again_with_the_id_it_is_given() -> None:
    bench = Bench()
    request = bench.step(JoinGroupRequest)
    assert request.member_id == ""
    bench.answer(request, JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me"))
    assert bench.step(JoinGroupRequest).member_id == "me"


def test_a_member_reports_at_intervals_also_while_a_change_waits() -> None:
    bench = Bench()
    bench.join()
    bench.sync(t=[0])
    assert bench.member.step(bench.now) is None
    assert bench.member.due(bench.now) == bench.now + 3
    bench.beat()
    assert bench.member.change is not None
    bench.carry_out()
    bench.beat()


def test_an_eager_member_gives_up_all_before_it_joins_again() -> None:
    bench = Bench()
    bench.settle()
    bench.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert bench.member.step(bench.now) is None
    assert bench.carry_out() == Change(HELD)
    subscription = read_subscription(bytes(bench.step(JoinGroupRequest).protocols[0].metadata))
    assert subscription.owned == {}


def test_a_cooperative_member_keeps_all_and_gives_up_only_what_goes_then_joins_again() -> None:
    bench = Bench(CooperativeStickyAssignor())
    bench.settle()
    bench.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    request = bench.join(2)
    subscription = read_subscription(bytes(request.protocols[0].metadata))
    assert subscription.owned == {"t": [0, 1]}
    assert subscription.generation == 1
    bench.sync(t=[0])
    assert bench.carry_out() == Change(frozenset({TopicPartition("t", 1)}), frozenset())
    assert bench.member.owned == {TopicPartition("t", 0)}
    bench.step(JoinGroupRequest)


def test_the_leader_decides_for_all_once_it_knows_the_topics() -> None:
    bench = Bench()
    words = write_subscription(Embedded(3, ("t", "u")))
    bench.join(
        leader="me", members=[JoinGroupResponseMember("me", None, words), JoinGroupResponseMember("o", None, words)]
    )
    assert bench.member.wanted == {"t", "u"}
    assert bench.member.step(bench.now) is None
    bench.member.known({"t": 2, "u": 1, "elsewhere": 5}, bench.now)
    request = bench.sync(t=[0])
    decided = {each.member_id: read_assignment(bytes(each.assignment)) for each in request.assignments}
    assert decided == {"me": {"t": [0], "u": [0]}, "o": {"t": [1]}}
    bench.carry_out()
    bench.member.known({"t": 2, "u": 1}, bench.now)
    assert bench.member.idle is None
    bench.member.known({"t": 3, "u": 1}, bench.now)
    assert bench.member.idle is not None


@pytest.mark.parametrize("rack", ["x", None])
def test_the_leader_decides_by_racks_and_decides_anew_when_they_change_if_it_has_one(rack: str | None) -> None:
    bench = Bench()
    bench.member.settings = bench.member.settings._replace(rack=rack)
    mine, other = (write_subscription(Embedded(3, ("t",), rack_id=one)) for one in (rack, "y"))
    bench.join(
        leader="me", members=[JoinGroupResponseMember("me", None, mine), JoinGroupResponseMember("o", None, other)]
    )
    near = {"t": (frozenset("y"), frozenset("x"))}
    bench.member.known({"t": 2}, bench.now, near)
    request = bench.sync(t=[1])
    decided = {each.member_id: read_assignment(bytes(each.assignment)) for each in request.assignments}
    assert decided == ({"me": {"t": [1]}, "o": {"t": [0]}} if rack else {"me": {"t": [0]}, "o": {"t": [1]}})
    bench.carry_out()
    bench.member.known({"t": 2}, bench.now, near)
    assert bench.member.idle is None
    bench.member.known({"t": 2}, bench.now, {"t": (frozenset("z"), frozenset("x"))})
    assert (bench.member.idle is not None) == bool(rack)


@pytest.mark.parametrize(
    ("code", "identity"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "me")]
)
def test_a_member_that_is_not_known_any_more_has_lost_all_and_joins_anew(code: ErrorCode, identity: str) -> None:
    bench = Bench(CooperativeStickyAssignor())
    bench.settle()
    bench.beat(code)
    assert bench.carry_out() == Change(HELD, lost=True)
    request = bench.step(JoinGroupRequest)
    assert request.member_id == identity
    assert bench.member.metadata.generation_id == -1


def test_what_is_lost_while_a_change_is_carried_out_is_lost_right_after_it() -> None:
    bench = Bench()
    bench.join()
    bench.sync(t=[0])
    bench.member.begin()
    bench.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    bench.member.done(bench.now)
    assert bench.carry_out() == Change(frozenset({TopicPartition("t", 0)}), lost=True)
    bench.step(JoinGroupRequest)


def test_an_assignment_that_nobody_took_yet_is_void_when_the_member_is_forgotten() -> None:
    bench = Bench()
    bench.join()
    bench.sync(t=[0])
    bench.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert bench.member.change is None
    bench.step(JoinGroupRequest)


@pytest.mark.parametrize("code", [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_some_errors_are_the_end(code: ErrorCode) -> None:
    bench = Bench()
    bench.settle()
    bench.beat(code)
    assert bench.member.failure is not None
    assert bench.member.failure.code is code
    assert bench.member.step(bench.now + 100) is None


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moved_is_looked_for_and_asked_again_after_a_pause(code: ErrorCode) -> None:
    bench = Bench()
    bench.settle()
    bench.beat(code)
    assert bench.member.moved
    assert bench.member.step(bench.now) is None
    bench.now += 0.1
    bench.step(HeartbeatRequest)


def test_a_question_without_an_answer_is_asked_again() -> None:
    bench = Bench()
    bench.join()
    request = bench.step(SyncGroupRequest)
    bench.member.failed(request, bench.now)
    assert bench.member.moved
    bench.now += 0.1
    bench.step(SyncGroupRequest)


def test_a_subscription_that_changes_during_a_join_is_told_in_the_next() -> None:
    bench = Bench()
    request = bench.step(JoinGroupRequest)
    bench.member.subscribe(frozenset("tu"), bench.now)
    bench.answer(request, JoinGroupResponse(0, 0, 1, "consumer", "range", "other", False, "me"))
    bench.sync(t=[0])
    request = bench.step(JoinGroupRequest)
    assert read_subscription(bytes(request.protocols[0].metadata)).topics == ("t", "u")


def test_a_member_whose_program_does_not_poll_leaves_and_joins_with_the_next_poll() -> None:
    bench = Bench()
    bench.settle()
    bench.now += SETTINGS.poll_interval
    request = bench.step(LeaveGroupRequest)
    assert bench.member.stage is Stage.IDLE
    assert [one.member_id for one in request.members] == ["me"]
    assert bench.member.change == Change(HELD, lost=True)
    bench.member.failed(request, bench.now)
    bench.now += 1
    assert bench.member.step(bench.now) is None
    bench.member.polled(bench.now)
    bench.carry_out()
    assert bench.step(JoinGroupRequest).member_id == ""


def test_a_static_member_leaves_without_a_word() -> None:
    bench = Bench(instance="lasting")
    bench.settle()
    assert bench.member.leave() is None
    other = Bench()
    other.settle()
    assert isinstance(other.member.leave(), LeaveGroupRequest)


def test_a_refused_commit_tells_the_member_only_what_is_about_its_present_self() -> None:
    bench = Bench()
    bench.settle()
    bench.member.refused(ErrorCode.ILLEGAL_GENERATION, GroupMetadata("group", 0, "me"), bench.now)
    assert bench.member.idle is None
    bench.member.refused(ErrorCode.ILLEGAL_GENERATION, bench.member.metadata, bench.now)
    assert bench.member.change == Change(HELD, lost=True)
