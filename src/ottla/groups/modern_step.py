"""How requests and deadlines move a group of the consumer protocol.

Owns: what a changed member does to its group: the group's epoch, the targets of everybody, the member's own next step;
and how members go. Works on the group until something changes and then on a draft; what it did is its facts, which
take effect when they are stored. Never knows: the shape of requests (`modern_heartbeat`, `modern_migration` do).
"""

from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b

from ottla.base.errors import ErrorCode
from ottla.groups.assignors import ASSIGNORS, Candidate
from ottla.groups.cluster import GroupCluster
from ottla.groups.decision import GroupLimits, Now, Timer, Wait
from ottla.groups.modern import LEFT_FOR_NOW, ConsumerGroup, ConsumerMember
from ottla.groups.modern_facts import (
    CurrentFact,
    EpochFact,
    MemberProgress,
    ModernFact,
    PatternFact,
    Resolved,
    Subscription,
    SubscriptionFact,
    TargetEpochFact,
    TargetFact,
)
from ottla.groups.pattern_syntax import BadPattern
from ottla.groups.reconciliation import Goal, reconciled

Reported = Mapping[bytes, Collection[int]]


class StepRefusal(Exception):
    """Why a request is not granted; turned into its answer where the request is taken apart."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class GroupStep:
    """One request, or one deadline, on its way through a group."""

    __slots__ = ("_changed", "cluster", "facts", "group", "limits", "now", "seen_version", "timers")

    def __init__(self, group: ConsumerGroup, cluster: GroupCluster, limits: GroupLimits, now: Now) -> None:
        self.group = group
        self.cluster = cluster
        self.limits = limits
        self.now = now
        self.facts: list[ModernFact] = []
        self.timers: list[Timer] = []
        self.seen_version = group.seen_version
        self._changed = False

    def add(self, fact: ModernFact) -> None:
        """Decide on a fact; what follows is decided on the group as it is with it."""
        if not self._changed:
            self.group = self.group.copy()
            self._changed = True
        self.facts.append(fact)
        self.group.apply(fact)

    def wait(self, member_id: str, wait: Wait, span_ms: int | None, if_absent: bool = False) -> None:
        until_ms = None if span_ms is None else self.now.steady_ms + span_ms
        self.timers.append(Timer(member_id, wait, until_ms, if_absent))

    def setting(self, name: str) -> int:
        """A setting of this group, its own or the broker's."""
        own = self.cluster.group_settings(self.group.group_id).get(f"consumer.{name}.ms")
        if own is None:
            return self.limits.consumer[name]
        # The broker's limits may have changed since it was set.
        least, most = self.limits.consumer[f"min.{name}"], self.limits.consumer[f"max.{name}"]
        return min(max(int(own), least), most)

    # --- a member subscribes, or is only heard of ---

    def subscribe(
        self, member: ConsumerMember, subscription: Subscription, reported: Reported | None
    ) -> ConsumerMember:
        """The member wants this now: let the group follow, and the member take its next step."""
        group_id, member_id = self.group.group_id, member.member_id
        known = self.group.members.get(member_id)
        bump = other_pattern = False
        unresolved = ""
        if known is None or known.subscription != subscription:
            before = Subscription() if known is None else known.subscription
            other_pattern = before.pattern != subscription.pattern
            if other_pattern and subscription.pattern not in self.group.patterns:
                unresolved = subscription.pattern
            found = self._matching(unresolved)
            self.add(SubscriptionFact(group_id, member_id, subscription))
            bump = before.topics != subscription.topics or (other_pattern and not unresolved)
            if before.pattern and not self.group.users_of(before.pattern):
                self.add(PatternFact(group_id, before.pattern, None))
        if bump or self.seen_version != self.cluster.version:
            self._look_at_topics(bump, unresolved)
        self._assign()
        member = self._reconcile(member_id, reported, bump or other_pattern)
        if unresolved:
            # As in Kafka, where it takes a while: what a new pattern stands for counts from the next heartbeat on.
            self._resolve(unresolved, found)
        return member

    def _matching(self, pattern: str) -> frozenset[str]:
        """The topics that a new pattern stands for."""
        try:
            return self.cluster.matching(pattern) if pattern else frozenset()
        except BadPattern as problem:
            raise StepRefusal(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {problem}.",
            ) from None

    def _resolve(self, pattern: str, topics: frozenset[str]) -> None:
        resolved = Resolved(topics, self.cluster.version, self.now.wall_ms)
        self.add(PatternFact(self.group.group_id, pattern, resolved))
        if topics:
            self.add(EpochFact(self.group.group_id, self.group.epoch + 1, self.digest()))

    def _look_at_topics(self, bump: bool, unresolved: str = "") -> None:
        """A new epoch begins when the topics that members ask for are others than before."""
        group = self.group
        for pattern in sorted({member.subscription.pattern for member in group.members.values()} - {"", unresolved}):
            topics = self.cluster.matching(pattern)
            known = group.patterns.get(pattern)
            if known is None or known.topics != topics:
                bump = True
                resolved = Resolved(topics, self.cluster.version, self.now.wall_ms)
                self.add(PatternFact(group.group_id, pattern, resolved))
        digest = self.digest()
        if bump or digest != self.group.digest:
            self.add(EpochFact(group.group_id, self.group.epoch + 1, digest))
        self.seen_version = self.cluster.version

    def digest(self) -> int:
        """Of what assignments depend on: another value means another epoch. Kafka's numbers differ, with its hash."""
        digest = blake2b(digest_size=8)
        found = False
        for name in sorted(self.group.topics()):
            topic = self.cluster.topic(name)
            if topic is not None:
                found = True
                racks = [sorted(racks) for racks in topic.racks]
                digest.update(f"{name}\0{topic.topic_id.hex()}\0{topic.partitions}\0{racks}\0".encode())
        return int.from_bytes(digest.digest(), signed=True) if found else 0

    # --- targets ---

    def _assign(self) -> None:
        """Say anew what everybody shall get, unless that was done a moment ago: then a later heartbeat does it."""
        group = self.group
        if group.epoch <= group.target_epoch:
            return
        since_ms = self.now.wall_ms - group.target_ms
        if group.target_ms and 0 <= since_ms < self.setting("assignment.interval"):
            return
        counts: dict[bytes, int] = {}
        ids: dict[str, bytes] = {}
        for name in group.topics():
            topic = self.cluster.topic(name)
            if topic is not None:
                ids[name] = topic.topic_id
                counts[topic.topic_id] = topic.partitions
        candidates = [
            Candidate(
                member_id,
                member.subscription.instance_id,
                frozenset(ids[name] for name in group.topics_of(member.subscription) if name in ids),
                group.target_of(member_id),
            )
            for member_id, member in sorted(group.members.items())
        ]
        for member_id, partitions in ASSIGNORS[self.assignor()](candidates, counts).items():
            if group.targets.get(member_id) != partitions:
                self.add(TargetFact(group.group_id, member_id, partitions))
        self.add(TargetEpochFact(group.group_id, group.epoch, self.now.wall_ms))

    def assignor(self) -> str:
        """The one most members ask for; names that the settings no longer have count for nothing."""
        wanted = self.group.preferred_assignor()
        return wanted if wanted in self.limits.assignors else self.limits.assignors[0]

    # --- the member's next step ---

    def _reconcile(self, member_id: str, reported: Reported | None, subscription_changed: bool) -> ConsumerMember:
        """The member as it is afterwards. Only the answer follows from this, so the draft is left without it: most
        heartbeats of a rebalance change nothing else, and need no draft."""
        group = self.group
        member = group.members[member_id]
        if member.reconciled_to(group.target_epoch) and not subscription_changed:
            return member
        if member.current.progress is MemberProgress.UNKNOWN and (reported is None or any(reported.values())):
            raise StepRefusal(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )
        owners = group.owners
        goal = Goal(
            group.target_epoch,
            group.target_of(member_id),
            self._topic_ids(group.topics_of(member.subscription)),
            lambda topic_id, partition: owners.get((topic_id, partition), member_id) != member_id,
        )
        current = reconciled(member.current, goal, reported, subscription_changed)
        if current == member.current:
            return member
        self.facts.append(CurrentFact(group.group_id, member_id, current))
        if not member.is_classic:
            unrevoked = current.progress is MemberProgress.UNREVOKED
            self.wait(member_id, Wait.REVOKE, member.subscription.rebalance_timeout_ms if unrevoked else None)
        return member._replace(current=current)

    def _topic_ids(self, names: Iterable[str]) -> set[bytes]:
        return {topic.topic_id for name in names if (topic := self.cluster.topic(name)) is not None}

    # --- members go ---

    def replace(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member is back under another member id: it takes everything over, and fences the old id."""
        group_id = self.group.group_id
        target = self.group.target_of(old.member_id)
        self._forget(old.member_id)
        self.add(SubscriptionFact(group_id, member_id, old.subscription))
        self.add(TargetFact(group_id, member_id, target))
        self.add(CurrentFact(group_id, member_id, old.current._replace(epoch=0, previous_epoch=0)))
        return self.group.members[member_id]

    def remove(self, member_ids: Collection[str]) -> None:
        """Members are gone: what they had is free at once, and the next epoch begins without them."""
        for member_id in member_ids:
            self._forget(member_id)
        for pattern in tuple(self.group.patterns):
            if not self.group.users_of(pattern):
                self.add(PatternFact(self.group.group_id, pattern, None))
        self.add(EpochFact(self.group.group_id, self.group.epoch + 1, self.digest()))

    def _forget(self, member_id: str) -> None:
        group_id = self.group.group_id
        self.add(CurrentFact(group_id, member_id, None))
        self.add(TargetFact(group_id, member_id, None))
        self.add(SubscriptionFact(group_id, member_id, None))
        for wait in Wait:
            self.wait(member_id, wait, None)

    def leave_for_now(self, member: ConsumerMember) -> None:
        """A static member will be back: it keeps what it has until its session ends."""
        current = member.current._replace(epoch=LEFT_FOR_NOW, revoking={})
        self.add(CurrentFact(self.group.group_id, member.member_id, current))

    def overdue(self) -> list[str]:
        """Members that were not heard of, or did not do what they were told, in time."""
        now_ms = self.now.steady_ms
        due = {member_id for (member_id, _), until in self.group.deadlines.items() if until <= now_ms}
        return sorted(due & self.group.members.keys())
