"""What a new generation of a group is called in the log, and why it began."""

from typing import Any

import pytest

from kit.machines.groups import GROUP, Coordinator
from ottla.groups.classic import ClassicGroup
from ottla.groups.decision import Aftermath, GroupDecision
from ottla.groups.log_lines import generation_of, group_of, new_generation
from ottla.groups.modern import ConsumerGroup
from ottla.groups.modern_facts import EpochFact, Subscription, SubscriptionFact


class Told(Coordinator):
    """A coordinator that notes what its log would say."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def carry_out(self, decision: GroupDecision) -> Any:
        group_id = group_of(decision)
        before = self.machine.groups.get(group_id or "")
        generation, members = generation_of(before), tuple(before.members) if before is not None else ()
        reply = super().carry_out(decision)
        after = self.machine.groups.get(group_id or "")
        if after is not None and generation_of(after) > generation:
            self.lines.append(new_generation(decision, members, after))
        return reply


def stable(told: Told) -> str:
    """One member with its assignment; the answer is its id."""
    member = str(told.join().answer.member_id)
    told.sync(member, 1, {member: b"all"})
    return member


def test_a_member_that_joins() -> None:
    told = Told()
    member = stable(told)
    assert told.lines == [f"group {GROUP}: generation 1 with 1 member ({member}): member {member} joined"]


def test_a_member_that_leaves() -> None:
    told = Told()
    member = stable(told)
    told.leave((member, None))
    assert told.lines[1:] == [f"group {GROUP}: generation 2 without members: member {member} left"]


def test_a_member_whose_session_ends() -> None:
    told = Told()
    member = stable(told)
    told.pass_time(20_000)
    assert told.lines[1:] == [f"group {GROUP}: generation 2 without members: the session of member {member} ended"]


def test_a_request_that_begins_no_generation_is_not_told_of() -> None:
    told = Told()
    member = stable(told)
    told.lines.clear()
    told.sync(member, 1)
    told.pass_time(100)
    assert told.lines == []


def test_many_members_are_counted_and_the_first_named() -> None:
    group = ClassicGroup(GROUP, 0)
    group.generation = 7
    group.members = dict.fromkeys("hgfedcba", None)  # type: ignore[assignment]
    assert new_generation(GroupDecision(None, group=group), (), group) == (
        f"group {GROUP}: generation 7 with 8 members (a, b, c, d, e and 3 more)"
    )


@pytest.mark.parametrize(
    ("fact", "why"),
    [
        (SubscriptionFact(GROUP, "b", Subscription()), "member b joined"),
        (SubscriptionFact(GROUP, "a", Subscription()), "member a subscribes to something else"),
        (SubscriptionFact(GROUP, "a", None), "member a is gone"),
        (EpochFact(GROUP, 3), "its topics changed"),
    ],
)
def test_why_a_group_of_the_consumer_protocol_has_a_new_epoch(fact: Any, why: str) -> None:
    group = ConsumerGroup(GROUP)
    group.apply(EpochFact(GROUP, 3))
    decision = GroupDecision(None, [fact, EpochFact(GROUP, 3)], aftermath=Aftermath(GROUP, (), 0))
    assert group_of(decision) == GROUP
    assert new_generation(decision, ("a",), group) == f"group {GROUP}: generation 3 without members: {why}"
