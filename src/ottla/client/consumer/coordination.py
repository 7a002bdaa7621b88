"""A consumer's part in its group: joining, reporting, listeners, committing, leaving.

Owns: the member (`client.groups`), the task that speaks for it with the coordinator while the program's own code runs,
and the carrying out of changes while the program polls. Never knows: records and where they come from.

Invariants: partitions come and go, and listeners are called, only while the program polls, unsubscribes or closes, and
never twice at a time; a change that was begun is carried out to its end even if the poll is cancelled; reports go on
while a change waits. See `seam.Coordination` for the face.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from inspect import isawaitable
from re import Pattern

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition, identity_text
from ottla.client.cluster import Cluster
from ottla.client.consumer.commits import Commits
from ottla.client.consumer.coordinator_link import CoordinatorLink, Lane
from ottla.client.consumer.group_offsets import GroupOffsets
from ottla.client.consumer.group_settings import GroupSettings
from ottla.client.consumer.seam import Committed, ConsumerSeam, RebalanceListener
from ottla.client.consumer.topic_watch import TopicWatch
from ottla.client.errors import BrokerError, ClientError, MemberFenced
from ottla.client.groups.classic import ClassicMember
from ottla.client.groups.member import Failed, Member
from ottla.client.groups.modern import ModernMember
from ottla.client.groups.vocabulary import BrokerPattern, GroupMetadata, OffsetAndMetadata
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.schema import Root

logger = logging.getLogger("ottla.client")

_ANSWERS: Mapping[type[Root], type[Root]] = {
    JoinGroupRequest: JoinGroupResponse,
    SyncGroupRequest: SyncGroupResponse,
    HeartbeatRequest: HeartbeatResponse,
    LeaveGroupRequest: LeaveGroupResponse,
    ConsumerGroupHeartbeatRequest: ConsumerGroupHeartbeatResponse,
}
LAST_ANSWER_SECONDS = 5.0
"""How long a member that leaves waits for the answer to what it asked before: it may be its own name."""
REBALANCE_SECONDS = 10.0
"""How long a member that leaves waits for the end of a rebalance, so that the group takes its last commit."""
JOIN_GRACE = 5.0
"""How much longer than the slowest member may take the answer to a join is waited for."""

SHORTEST_REMINDER = 0.1

Subscribed = Collection[str] | Pattern[str] | BrokerPattern
Listen = Callable[[Collection[TopicPartition]], Awaitable[None] | None]


class GroupCoordination:
    """One consumer's; made on the event loop it is used on."""

    def __init__(self, cluster: Cluster, settings: GroupSettings, holder: ConsumerSeam) -> None:
        self._cluster = cluster
        self._settings = settings
        self._holder = holder
        self._loop = asyncio.get_running_loop()
        self._link = CoordinatorLink(cluster, settings.member.group_id)
        self._offsets = GroupOffsets(cluster, self._link, self.group_metadata, self._refused)
        self._commits = Commits(self._offsets, holder, settings.auto_commit, cluster.settings.request_seconds)
        self._member: Member | None = None
        self._watch: TopicWatch | None = None
        self._listener: RebalanceListener | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._nudged = asyncio.Event()
        self._changing: asyncio.Task[None] | None = None
        self._trouble: str | None = None
        self._asked: Root | None = None
        self._leaving = False
        self._at_rest = asyncio.Event()
        """Set unless the group is between two generations."""
        self._broken: Exception | None = None
        poll_interval, commit_interval = settings.member.poll_interval, settings.auto_commit
        self._reminder = max(SHORTEST_REMINDER, min(poll_interval / 3, commit_interval or poll_interval))
        self._reminding: asyncio.TimerHandle | None = None

    # --- subscribing --------------------------------------------------------------------------------------------------

    def subscribe(self, topics: Subscribed, listener: RebalanceListener | None) -> None:
        """Takes effect at once; a change of pattern or names keeps the membership."""
        self._listener = listener
        pattern = topics if isinstance(topics, Pattern) else None
        if self._member is None:
            self._member = self._new_member()
            self._tasks = [self._loop.create_task(self._guarded(self._run(self._member)))]
            self._remind()
        if isinstance(topics, BrokerPattern):
            self._subscribe(self._member, frozenset(), topics.text)
        elif not isinstance(topics, Pattern):
            self._subscribe(self._member, frozenset(topics), None)
        if len(self._tasks) > 1:
            self._tasks.pop().cancel()
        self._watch = TopicWatch(self._cluster, self._settings, self._member, pattern, self._nudge)
        self._tasks.append(self._loop.create_task(self._guarded(self._watch.run())))
        self._nudge()

    def _subscribe(self, member: Member, topics: frozenset[str], pattern: str | None) -> None:
        try:
            member.subscribe(topics, self._loop.time(), pattern)
        except Failed as failure:
            member.failure = failure

    def _new_member(self) -> Member:
        settings, now = self._settings, self._loop.time()
        if settings.modern:
            identity = identity_text(self._cluster.random.identity())
            return ModernMember(settings.member, identity, settings.remote_assignor, now)
        return ClassicMember(settings.member, settings.assignors, now)

    async def unsubscribe(self, deadline: float) -> None:
        member = self._member
        if member is None:
            return
        await self._finish_change()
        if member.owned and self._commits.automatic and self._holder.positions():
            await self._rest(deadline)
        await self._fall_silent(deadline)
        try:
            await self._give_up_all(member, deadline)
        finally:
            self._member = self._watch = self._listener = self._broken = None
            await self._leave(member, deadline)

    async def close(self, deadline: float) -> None:
        try:
            if self._member is None:
                await self._commits.commit_at_last(None, deadline)
            await self.unsubscribe(deadline)
            await self._commits.settle(deadline)
        finally:
            await self._commits.stop()
            self._link.close()

    # --- polling ------------------------------------------------------------------------------------------------------

    def _remind(self) -> None:
        """A poll that waits for records is to come by now and then: the program is alive, and has to commit."""
        self._holder.wake()
        self._reminding = self._loop.call_later(self._reminder, self._remind)

    def polled(self, now: float) -> None:
        member = self._member
        if member is not None:
            was_joined = member.joined
            member.polled(now)
            if not was_joined:
                self._nudge()

    async def poll(self, deadline: float) -> None:
        now = self._loop.time()
        self._commits.polled(now)
        member = self._member
        if member is None:
            return
        self.polled(now)
        await self._finish_change()
        while member.change is not None and member is self._member:
            self._changing = self._loop.create_task(self._carry_out(member))
            await self._finish_change()
        if self._broken is not None:
            raise self._broken
        if member.failure is not None:
            raise self._fatal(member.failure)

    # A change that has begun ends, even if the poll around it is cancelled: design/0014.
    async def _finish_change(self) -> None:
        """Wait for the change that is being carried out; a listener that comes here itself does not wait."""
        changing = self._changing
        if changing is None or changing is asyncio.current_task():
            return
        await asyncio.wait([changing])
        if self._changing is changing:
            self._changing = None
            changing.result()

    async def _carry_out(self, member: Member) -> None:
        change = member.begin()
        problem: Exception | None = None
        try:
            if change.revoked and change.lost:
                problem = await self._tell("on_partitions_lost", change.revoked)
                self._holder.lost(change.revoked)
            elif change.revoked:
                await self._commits.commit_at_last(change.revoked, self._soon())
                problem = await self._tell("on_partitions_revoked", change.revoked)
                self._holder.revoked(change.revoked)
            if change.assigned is not None:
                self._holder.assigned(change.assigned)
                problem = await self._tell("on_partitions_assigned", change.assigned) or problem
        finally:
            member.done(self._loop.time())
            self._nudge()
        if problem is not None:
            raise problem

    async def _tell(self, name: str, partitions: frozenset[TopicPartition]) -> Exception | None:
        """Call the listener; what it raises is told to the program after the change, which happens all the same."""
        listen: Listen | None = getattr(self._listener, name, None)
        if listen is None:
            return None
        try:
            waiting = listen(partitions)
            if isawaitable(waiting):
                await waiting
        except Exception as problem:
            return problem
        return None

    # --- offsets ------------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: float) -> None:
        await self._commits.commit(offsets, deadline)

    def commit_async(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], done: Committed | None) -> None:
        self._commits.start(offsets, done)

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return await self._offsets.committed(partitions, deadline, stable=self._settings.stable_offsets)

    def group_metadata(self) -> GroupMetadata:
        if self._member is not None:
            return self._member.metadata
        return GroupMetadata(self._settings.member.group_id)

    def _refused(self, code: ErrorCode, identity: GroupMetadata) -> None:
        if self._member is not None:
            self._member.refused(code, identity, self._loop.time())
            self._nudge()

    # --- what keeps records away --------------------------------------------------------------------------------------

    def why_idle(self) -> str | None:
        member = self._member
        if member is None:
            return None
        if member.failure is not None:
            return str(self._fatal(member.failure))
        group = self._settings.member.group_id
        if self._trouble is not None:
            return f"the coordinator of group {group!r} does not answer: {self._trouble}"
        if self._watch is not None and self._watch.trouble is not None:
            return self._watch.trouble
        return None if member.idle is None else f"group {group!r}: {member.idle}"

    def _fatal(self, failure: Failed) -> ClientError:
        group = self._settings.member.group_id
        if failure.code in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID):
            name = self._settings.member.instance_id
            return MemberFenced(f"group {group!r} has another member {name!r} ({failure.code.name})")
        return BrokerError(failure.code, f"group {group!r}", failure.message)

    # --- the task -----------------------------------------------------------------------------------------------------

    def _nudge(self) -> None:
        self._nudged.set()

    def _soon(self) -> float:
        return self._cluster.deadline(self._cluster.settings.request_seconds)

    async def _guarded(self, work: Coroutine[None, None, None]) -> None:
        """What goes wrong in the program's own assignor is for the program to hear."""
        try:
            await work
        except Exception as problem:
            self._broken = problem
            self._at_rest.set()
            self._holder.wake()

    async def _run(self, member: Member) -> None:
        """Speak for the member until it is out."""
        told: object = None
        while not self._leaving:
            self._nudged.clear()
            request = member.step(self._loop.time())
            if member.between_generations and member.failure is None:
                self._at_rest.clear()
            else:
                self._at_rest.set()
            news = member.failure or member.change
            if news is not told:
                told = news
                if news is not None:
                    self._holder.wake()
            if self._watch is not None and (member.wanted or (isinstance(member, ModernMember) and member.unknown_ids)):
                self._watch.look()
            if request is None:
                await self._wait_until(member.due(self._loop.time()))
            else:
                await self._exchange(member, request)

    async def _wait_until(self, due: float) -> None:
        try:
            async with asyncio.timeout_at(None if due == float("inf") else due):
                await self._nudged.wait()
        except TimeoutError:
            pass

    async def _exchange(self, member: Member, request: Root) -> None:
        settings = self._settings.member
        if isinstance(request, JoinGroupRequest):
            seconds = max(settings.poll_interval, self._cluster.settings.request_seconds) + JOIN_GRACE
        else:
            seconds = min(settings.session, self._cluster.settings.request_seconds)
        deadline = self._loop.time() + seconds
        self._asked = request
        try:
            answer = await self._link.ask(Lane.MEMBERSHIP, request, _ANSWERS[type(request)], deadline)
        except ClientError as failure:
            self._trouble = str(failure)
            member.failed(request, self._loop.time())
            if not failure.retriable:
                code = failure.code if isinstance(failure, BrokerError) else ErrorCode.UNSUPPORTED_VERSION
                member.failure = Failed(code, str(failure))
        else:
            self._trouble = None
            member.answered(request, answer, self._loop.time())
        finally:
            self._asked = None
        if member.moved:
            member.moved = False
            self._link.lost()

    # --- leaving ------------------------------------------------------------------------------------------------------

    async def _rest(self, deadline: float) -> None:
        """A cooperative member holds partitions while it joins; commits under its old generation are turned away."""
        try:
            async with asyncio.timeout_at(min(deadline, self._loop.time() + REBALANCE_SECONDS)):
                await self._at_rest.wait()
        except TimeoutError:
            pass

    async def _fall_silent(self, deadline: float) -> None:
        """End the tasks. An answer that soon comes is waited for, lest the member be in the group without knowing."""
        tasks, self._tasks = self._tasks, []
        if self._reminding is not None:
            self._reminding.cancel()
        asked = self._asked
        self._leaving = True
        waits_for_others = isinstance(asked, JoinGroupRequest) and (asked.member_id or asked.group_instance_id)
        if asked is not None and not waits_for_others:
            await asyncio.wait(tasks[:1], timeout=min(LAST_ANSWER_SECONDS, max(0.0, deadline - self._loop.time())))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._leaving = False

    async def _give_up_all(self, member: Member, deadline: float) -> None:
        owned = member.owned
        if not owned:
            return
        if member.change is not None and member.change.lost:
            problem = await self._tell("on_partitions_lost", owned)
            self._holder.lost(owned)
        else:
            await self._commits.commit_at_last(owned, deadline)
            problem = await self._tell("on_partitions_revoked", owned)
            self._holder.revoked(owned)
        if problem is not None:
            raise problem

    async def _leave(self, member: Member, deadline: float) -> None:
        request = member.leave()
        self._link.hang_up(Lane.MEMBERSHIP)  # a join may be waiting there
        if request is None:
            return
        try:
            await self._link.ask(Lane.MEMBERSHIP, request, _ANSWERS[type(request)], min(deadline, self._soon()))
        except ClientError as failure:
            logger.info("leaving group %r was not heard: %s", self._settings.member.group_id, failure)
