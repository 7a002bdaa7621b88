"""Log lines about groups: what a coordinator writes to its log when a group has a new generation.

Owns: the words. Never knows: who prints them. Invariant: there is a line for each new generation, and for nothing that
happens between two of them.
"""

from collections.abc import Collection

from ottla.groups.classic import ClassicGroup
from ottla.groups.decision import GroupDecision
from ottla.groups.facts import Fact, GroupFact
from ottla.groups.modern import ConsumerGroup
from ottla.groups.modern_facts import EpochFact, SubscriptionFact

NAMED = 5
"""How many members are named."""
Group = ClassicGroup | ConsumerGroup


def generation_of(group: Group | None) -> int:
    """How often its members shared their work anew."""
    if group is None:
        return 0
    return group.generation if isinstance(group, ClassicGroup) else group.epoch


def group_of(decision: GroupDecision) -> str | None:
    """The group that a decision may begin a new generation of."""
    if decision.group is not None:
        return decision.group.group_id
    if decision.aftermath is not None and any(
        isinstance(fact, EpochFact) and fact.epoch is not None for fact in decision.facts
    ):
        return decision.aftermath.group_id
    return None


def is_gone(fact: Fact) -> bool:
    """Whether it may be the last that is said of a group."""
    return (isinstance(fact, GroupFact) and fact.group is None) or (isinstance(fact, EpochFact) and fact.epoch is None)


def new_generation(decision: GroupDecision, members_before: Collection[str], after: Group) -> str:
    """`group billing: generation 5 with 2 members (a, b): member b joined`"""
    members = sorted(after.members)
    named = ", ".join(members[:NAMED]) + (f" and {len(members) - NAMED} more" if len(members) > NAMED else "")
    who = f"with {len(members)} member{'s' * (len(members) != 1)} ({named})" if members else "without members"
    why = after.why if isinstance(after, ClassicGroup) else _why(decision, members_before, after)
    return f"group {after.group_id}: generation {generation_of(after)} {who}{f': {why}' if why else ''}"


def _why(decision: GroupDecision, members_before: Collection[str], after: ConsumerGroup) -> str:
    """What the facts of the consumer protocol say of it."""
    for fact in decision.facts:
        if not isinstance(fact, SubscriptionFact) or fact.group_id != after.group_id:
            continue
        if fact.subscription is None:
            return f"member {fact.member_id} is gone"
        if fact.member_id not in members_before:
            return f"member {fact.member_id} joined"
        return f"member {fact.member_id} subscribes to something else"
    return "its topics changed"
