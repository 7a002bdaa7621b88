"""A member of the consumer protocol, told its answers by hand."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.groups.modern import ModernMember, Stage
from ottla.client.groups.vocabulary import Change, MemberSettings
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)

SETTINGS = MemberSettings("group", rack="r1", poll_interval=60, retry=0.1)
T, U = b"t" * 16, b"u" * 16


def parts(*numbers: int, topic: str = "t") -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in numbers)


class Bench:
    """A member and its clock; it knows the name of topic T."""

    def __init__(self, instance: str | None = None) -> None:
        self.now = 100.0
        self.member = ModernMember(SETTINGS._replace(instance_id=instance), "me", "uniform", self.now)
        self.member.named({T: "t"})
        self.member.subscribe(frozenset("t"), self.now)

    def step(self) -> ConsumerGroupHeartbeatRequest:
        request = self.member.step(self.now)
        assert isinstance(request, ConsumerGroupHeartbeatRequest), request
        return request

    def beat(self, epoch: int, target: dict[bytes, list[int]] | None = None) -> ConsumerGroupHeartbeatRequest:
        request = self.step()
        rows = None if target is None else Assignment([ResponseTopicPartitions(*row) for row in target.items()])
        answer = ConsumerGroupHeartbeatResponse(0, 0, None, "me", epoch, 5_000, rows)
        self.member.answered(request, answer, self.now)
        return request

    def refuse(self, code: ErrorCode) -> None:
        self.member.answered(self.step(), ConsumerGroupHeartbeatResponse(error_code=code), self.now)

    def carry_out(self) -> Change:
        change = self.member.begin()
        self.member.done(self.now)
        return change

    def settle(self) -> None:
        self.beat(1, {T: [0, 1]})
        assert self.carry_out() == Change(frozenset(), parts(0, 1))
        self.beat(1)
        assert self.member.idle is None

    def held(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        rows = request.topic_partitions
        return None if rows is None else {row.topic_id: list(row.partitions) for row in rows}


def test_a_member_introduces_itself_in_full_and_then_says_only_what_is_new() -> None:
    bench = Bench()
    request = bench.beat(1, {T: [0, 1]})
    assert (request.member_epoch, request.subscribed_topic_names, request.server_assignor) == (0, ["t"], "uniform")
    assert (request.rebalance_timeout_ms, request.rack_id, bench.held(request)) == (60_000, "r1", {})
    bench.carry_out()
    request = bench.beat(1)
    assert bench.held(request) == {T: [0, 1]}, "what it has is reported at once"
    assert request.subscribed_topic_names is None
    assert bench.member.step(bench.now) is None
    assert bench.member.due(bench.now) == bench.now + 5
    bench.now += 5
    request = bench.beat(1)
    assert (bench.held(request), request.member_epoch, request.rebalance_timeout_ms) == (None, 1, -1)


def test_what_goes_is_reported_as_gone_together_with_what_comes() -> None:
    bench = Bench()
    bench.settle()
    bench.now += 5
    bench.beat(2, {T: [1, 2]})
    assert bench.carry_out() == Change(parts(0), parts(2))
    assert bench.held(bench.beat(2)) == {T: [1, 2]}


def test_an_assignment_waits_for_the_names_of_its_topics() -> None:
    bench = Bench()
    bench.beat(1, {T: [0], U: [0]})
    assert bench.member.unknown_ids == {U}
    assert bench.member.change is None
    bench.member.named({U: "u"})
    assert bench.carry_out() == Change(frozenset(), parts(0) | parts(0, topic="u"))


def test_an_assignment_that_comes_during_a_change_is_taken_after_it() -> None:
    bench = Bench()
    bench.beat(1, {T: [0]})
    bench.member.begin()
    bench.now += 5
    bench.beat(2, {T: [0, 1]})
    bench.member.done(bench.now)
    assert bench.carry_out() == Change(frozenset(), parts(1))


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_has_lost_all_and_starts_again_under_its_own_id(code: ErrorCode) -> None:
    bench = Bench()
    bench.settle()
    bench.now += 5
    bench.refuse(code)
    assert bench.member.step(bench.now) is None, "nobody joins with partitions in hand"
    assert bench.carry_out() == Change(parts(0, 1), lost=True)
    request = bench.step()
    assert (request.member_id, request.member_epoch, bench.held(request)) == ("me", 0, {})


def test_a_report_without_an_answer_is_repeated_in_full() -> None:
    bench = Bench()
    bench.settle()
    bench.now += 5
    bench.member.failed(bench.step(), bench.now)
    assert bench.member.moved
    bench.now += 0.1
    request = bench.step()
    assert request.subscribed_topic_names == ["t"]
    assert bench.held(request) == {T: [0, 1]}


def test_what_a_new_pattern_stands_for_is_asked_soon_and_once() -> None:
    bench = Bench()
    bench.member.subscribe(frozenset(), bench.now, "t.*")
    bench.beat(1, {})
    due = bench.member.due(bench.now)
    assert bench.now < due < bench.now + 1
    bench.now = due
    bench.beat(1)
    assert bench.member.due(bench.now) == bench.now + 5


def test_a_new_subscription_is_told_at_once_and_a_pattern_can_be_taken_back() -> None:
    bench = Bench()
    bench.settle()
    bench.member.subscribe(frozenset(), bench.now, "t.*")
    request = bench.beat(2)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ([], "t.*")
    bench.member.subscribe(frozenset("t"), bench.now)
    request = bench.beat(3)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == (["t"], "")
    assert bench.member.step(bench.now) is None


def test_a_topic_that_was_made_anew_is_reported_under_its_new_id() -> None:
    bench = Bench()
    bench.settle()
    bench.now += 5
    bench.member.named({U: "t"})
    bench.beat(2, {U: [0, 1]})
    assert bench.member.change is None
    assert bench.held(bench.beat(2)) == {U: [0, 1]}


@pytest.mark.parametrize("code", [ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.UNSUPPORTED_ASSIGNOR])
def test_some_errors_are_the_end(code: ErrorCode) -> None:
    bench = Bench()
    bench.refuse(code)
    assert bench.member.failure is not None
    assert bench.member.failure.code is code


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("lasting", -2)])
def test_a_member_says_whether_it_leaves_for_good(instance: str | None, epoch: int) -> None:
    bench = Bench(instance)
    assert bench.member.leave() is None, "nobody knows it yet"
    bench = Bench(instance)
    bench.settle()
    request = bench.member.leave()
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert request.member_epoch == epoch
    assert bench.member.stage is Stage.OUT


def test_a_member_whose_program_does_not_poll_leaves_and_joins_with_the_next_poll() -> None:
    bench = Bench()
    bench.settle()
    bench.now += SETTINGS.poll_interval
    request = bench.step()
    assert request.member_epoch == -1
    bench.member.answered(request, ConsumerGroupHeartbeatResponse(member_id="me", member_epoch=-1), bench.now)
    assert bench.member.step(bench.now) is None
    bench.member.polled(bench.now)
    assert bench.carry_out() == Change(parts(0, 1), lost=True)
    assert bench.step().member_epoch == 0
