"""One step of a member from what it has towards what it shall have.

Owns: the rule by which a partition changes hands: its owner is told to give it up, says that it has, and only then the
next one gets it. Never knows: groups, requests. Pure. Invariant: what comes out holds nothing that another member owns.
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from ottla.groups.modern_facts import Current, MemberProgress, Owned, Partitions


class Goal(NamedTuple):
    """Where a member shall get, and what is in its way."""

    epoch: int
    target: Partitions
    subscribed: Collection[bytes]
    """Ids of the topics it subscribes to now, which the target may not know yet."""
    taken: Callable[[bytes, int], bool]
    """Whether another member owns a partition."""


# At most one member has a partition, whatever order things come in: design/0006.
def reconciled(
    current: Current, goal: Goal, reported: Mapping[bytes, Collection[int]] | None, subscription_changed: bool
) -> Current:
    """What the member has next; `reported` is what it says it is working on, None when it says nothing."""
    if current.progress is MemberProgress.STABLE and current.epoch == goal.epoch:
        return _without_unsubscribed(current, goal, reported) if subscription_changed else current
    if current.progress is MemberProgress.UNREVOKED and _still_holds(reported, current.revoking):
        return _without_unsubscribed(current, goal, reported) if subscription_changed else current
    return _next(current, goal, reported)


def _next(current: Current, goal: Goal, reported: Mapping[bytes, Collection[int]] | None) -> Current:
    kept: dict[bytes, Mapping[int, int]] = {}
    revoking: dict[bytes, Mapping[int, int]] = {}
    new: dict[bytes, dict[int, int]] = {}
    waiting = False
    for topic_id in {**goal.target, **current.assigned}:
        target = goal.target.get(topic_id, frozenset()) if topic_id in goal.subscribed else frozenset()
        has = current.assigned.get(topic_id, {})
        if target and has.keys() == target:
            # Most members of most rebalances: they only learn the new epoch.
            kept[topic_id] = has
            continue
        stays = {partition: epoch for partition, epoch in has.items() if partition in target}
        goes = {partition: epoch for partition, epoch in has.items() if partition not in target}
        missing = [partition for partition in sorted(target) if partition not in has]
        free = {partition: goal.epoch for partition in missing if not goal.taken(topic_id, partition)}
        waiting = waiting or len(free) < len(missing)
        if stays:
            kept[topic_id] = stays
        if goes:
            revoking[topic_id] = goes
        if free:
            new[topic_id] = free
    if revoking and _still_holds(reported, revoking):
        return _moved(current, current.epoch, MemberProgress.UNREVOKED, kept, revoking)
    for topic_id, given in new.items():
        kept[topic_id] = {**kept.get(topic_id, {}), **given}
    return _moved(current, goal.epoch, MemberProgress.UNRELEASED if waiting else MemberProgress.STABLE, kept, {})


def _without_unsubscribed(current: Current, goal: Goal, reported: Mapping[bytes, Collection[int]] | None) -> Current:
    """The target still has topics that the member has just turned away from: it gives them back at once."""
    going = {topic_id: owned for topic_id, owned in current.assigned.items() if topic_id not in goal.subscribed}
    if not going:
        return current
    kept = {topic_id: owned for topic_id, owned in current.assigned.items() if topic_id in goal.subscribed}
    revoking: dict[bytes, Mapping[int, int]] = dict(current.revoking)
    for topic_id, owned in going.items():
        revoking[topic_id] = {**revoking.get(topic_id, {}), **owned}
    if _still_holds(reported, revoking):
        return _moved(current, current.epoch, MemberProgress.UNREVOKED, kept, revoking)
    return current._replace(assigned=kept)


def _moved(current: Current, epoch: int, progress: MemberProgress, assigned: Owned, revoking: Owned) -> Current:
    return Current(epoch, current.epoch, progress, assigned, revoking)


def _still_holds(reported: Mapping[bytes, Collection[int]] | None, revoking: Owned) -> bool:
    """A member that does not say what it works on is believed to work on everything."""
    if reported is None:
        return True
    return any(
        partition in revoking.get(topic_id, ()) for topic_id, partitions in reported.items() for partition in partitions
    )
