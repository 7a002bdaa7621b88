"""How requests and deadlines move a classic group: joining, assigning, leaving, timing out.

Owns: the rules of the classic protocol: member ids that are handed out first (KIP-394), static members (KIP-345), the
delay before a first rebalance (KIP-134), who leads, when a generation begins and when it is complete. Never knows:
where groups are kept; it works on a draft, and what it did takes effect with the decision that carries the draft.
Invariant: every token that a member of the draft loses gets an answer in `released`.
"""

from collections.abc import Mapping

from ottla.base.errors import ErrorCode
from ottla.groups.classic import ClassicGroup, ClassicMember, GroupState, InitialDelay
from ottla.groups.decision import Caller, GroupDecision, GroupLimits, Now, Token
from ottla.groups.facts import Fact, GroupFact
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.leave_group import MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.schema import Message

NEW_MEMBER_MS = 5 * 60 * 1000
"""How long a first join may wait; its client cannot be heard of meanwhile and may be gone."""
MEMBER_ID_REQUIRED_FROM = 4
SKIP_ASSIGNMENT_FROM = 9
NO_PROTOCOL_FROM = 7
"""Before, an answer without a protocol has an empty one."""
CAN_REBALANCE = (GroupState.EMPTY, GroupState.COMPLETING, GroupState.STABLE)


class Rebalance:
    """One request, or one deadline, on its way through a group."""

    __slots__ = ("_left", "_limits", "_now", "facts", "group", "released")

    def __init__(self, draft: ClassicGroup, limits: GroupLimits, now: Now) -> None:
        self.group = draft
        self._limits = limits
        self._now = now
        self._left = ""
        self.facts: list[Fact] = []
        self.released: list[tuple[Token, Message]] = []

    def decision(self, reply: Message | None) -> GroupDecision:
        return GroupDecision(reply, self.facts, self.released, self.group)

    # --- JoinGroup ---

    def join(self, request: JoinGroupRequest, caller: Caller, identity: str) -> JoinGroupResponse | None:
        """The answer, or None when it is released now or later; `identity` makes a new member id unique."""
        group = self.group
        member_id = request.member_id
        if not self._has_room_for(member_id):
            self._forget(member_id, ErrorCode.GROUP_MAX_SIZE_REACHED)
            return join_refused("", ErrorCode.GROUP_MAX_SIZE_REACHED, caller.version)
        if not group.supports(request.protocol_type, (protocol.name for protocol in request.protocols)):
            return join_refused(member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, caller.version)
        if not member_id:
            return self._join_as_new(request, caller, identity)
        if member_id in group.pending:
            if request.group_instance_id is not None:
                # A member id was asked for without an instance id; to come back with one is nothing a client does.
                return join_refused(member_id, ErrorCode.UNKNOWN_SERVER_ERROR, caller.version)
            self._add(request, caller, member_id)
            return None
        error = group.member_error(member_id, request.group_instance_id)
        if error != ErrorCode.NONE:
            return join_refused(member_id, error, caller.version)
        return self._join_again(request, caller, group.members[member_id])

    def _has_room_for(self, member_id: str) -> bool:
        group = self.group
        if group.state is GroupState.EMPTY:
            return True
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING:
            # Who waits already is counted rather than who is a member, so that a smaller limit sheds the last to come.
            present = member is not None and member.joining is not None
            return present or group.waiting_to_join() < self._limits.max_size
        return member is not None or len(group.members) < self._limits.max_size

    def _join_as_new(self, request: JoinGroupRequest, caller: Caller, identity: str) -> JoinGroupResponse | None:
        group = self.group
        instance_id = request.group_instance_id
        if instance_id is not None:
            member_id = f"{instance_id}-{identity}"
            present = group.static.get(instance_id)
            if present is not None:
                return self._take_over(request, caller, group.members[present], member_id)
        else:
            member_id = f"{caller.client_id}-{identity}"
            if caller.version >= MEMBER_ID_REQUIRED_FROM:
                group.pending.add(member_id)
                group.sessions[member_id] = self._now.steady_ms + request.session_timeout_ms
                return join_refused(member_id, ErrorCode.MEMBER_ID_REQUIRED, caller.version)
        self._add(request, caller, member_id)
        return None

    def _add(self, request: JoinGroupRequest, caller: Caller, member_id: str) -> None:
        group = self.group
        if group.state is GroupState.PREPARING and group.previous is GroupState.EMPTY:
            group.newcomers = True
        if not group.members:
            group.protocol_type = request.protocol_type
        group.add(
            ClassicMember(
                member_id,
                request.group_instance_id,
                caller.client_id,
                caller.host,
                request.rebalance_timeout_ms,
                request.session_timeout_ms,
                _protocols(request),
                joining=caller,
                new=True,
            )
        )
        group.sessions[member_id] = self._now.steady_ms + NEW_MEMBER_MS
        self._rebalance_or_complete(_reason(f"member {member_id} joined", request.reason))

    def _join_again(self, request: JoinGroupRequest, caller: Caller, member: ClassicMember) -> JoinGroupResponse | None:
        group = self.group
        unchanged = member.protocols == _protocols(request)
        if group.state is GroupState.COMPLETING and unchanged:
            # It missed the answer to its first request: here it is again.
            return self._joined(member, with_members=member.member_id == group.leader)
        if group.state is GroupState.STABLE and unchanged and member.member_id != group.leader:
            return self._joined(member, with_members=False)
        # New metadata, or a leader that wants a rebalance because topics changed.
        self._update(request, caller, member)
        self._rebalance_or_complete(_reason(f"member {member.member_id} joined again", request.reason))
        return None

    def _update(self, request: JoinGroupRequest, caller: Caller, member: ClassicMember) -> None:
        if member.joining is not None:
            # The same member asks again; whoever still listens to the first request is told to do the same.
            self._refuse_join(member.joining, member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        self.group.members[member.member_id] = member._replace(
            protocols=_protocols(request),
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            joining=caller,
        )

    def _take_over(
        self, request: JoinGroupRequest, caller: Caller, old: ClassicMember, member_id: str
    ) -> JoinGroupResponse | None:
        """A static member came back without its member id: it gets a new one and fences whoever has the old one."""
        group = self.group
        leader = group.leader
        led = leader == old.member_id
        self._fence(old)
        group.members = {
            (member_id if key == old.member_id else key): (
                member._replace(member_id=member_id, joining=None, syncing=None, new=False) if member is old else member
            )
            for key, member in group.members.items()
        }
        group.static[request.group_instance_id or ""] = member_id
        if led:
            group.leader = member_id
        group.unsynced.discard(old.member_id)
        group.sessions.pop(old.member_id, None)
        group.sessions[member_id] = self._now.steady_ms + old.session_timeout_ms
        self._update(request, caller, group.members[member_id])
        if group.state is GroupState.STABLE:
            if group.choose_protocol() == group.protocol:
                return self._taken_over(caller.version, member_id, leader or "")
            self._prepare(f"static member {request.group_instance_id} came back with other protocols")
        elif group.state is GroupState.COMPLETING:
            # The leader may be assigning to the old id at this moment.
            self._prepare(f"static member {request.group_instance_id} came back")
        else:
            self._complete_if_all_joined()
        return None

    def _taken_over(self, version: int, member_id: str, leader: str) -> JoinGroupResponse:
        """No rebalance: the member keeps its assignment, and the log learns its new id."""
        group = self.group
        member = group.members[member_id] = group.members[member_id]._replace(joining=None)
        self.facts.append(GroupFact(group.group_id, group.stored()))
        leads = member_id == group.leader
        if version >= SKIP_ASSIGNMENT_FROM:
            answer = self._joined(member, with_members=leads)
            answer.skip_assignment = leads
            return answer
        # An old client that finds itself the leader would assign anew: it is told of the leader before it.
        answer = self._joined(member, with_members=False)
        answer.leader = leader
        return answer

    def _fence(self, member: ClassicMember) -> None:
        error = ErrorCode.FENCED_INSTANCE_ID
        if member.joining is not None:
            self._refuse_join(member.joining, member.member_id, error)
        if member.syncing is not None:
            self._refuse_sync(member.syncing, error)

    def _joined(self, member: ClassicMember, with_members: bool) -> JoinGroupResponse:
        group = self.group
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=group.leader or "",
            member_id=member.member_id,
            members=[
                JoinGroupResponseMember(other.member_id, other.instance_id, other.metadata(group.protocol))
                for other in group.members.values()
            ]
            if with_members
            else (),
        )

    # --- the rebalance ---

    def _enter(self, state: GroupState) -> None:
        group = self.group
        group.previous, group.state = group.state, state
        group.since_ms = self._now.wall_ms

    def _rebalance_or_complete(self, why: str) -> None:
        if self.group.state in CAN_REBALANCE:
            self._prepare(why)
        else:
            self._complete_if_all_joined()

    def _complete_if_all_joined(self) -> None:
        """In a rebalance that is no first one, the last member that was missed completes it."""
        group = self.group
        if group.state is GroupState.PREPARING and group.previous is not GroupState.EMPTY and group.all_joined():
            self._complete_join()

    def _prepare(self, why: str) -> None:
        """Have everybody join again."""
        group = self.group
        group.why = why
        if group.state is GroupState.COMPLETING:
            self._assign({}, ErrorCode.REBALANCE_IN_PROGRESS)
        group.unsynced.clear()
        group.sync_until = None
        if group.state is GroupState.EMPTY:
            # More members usually follow; waiting for them saves each a rebalance.
            delay_ms = self._limits.initial_delay_ms
            group.initial = InitialDelay(delay_ms, max(group.rebalance_timeout_ms() - delay_ms, 0))
            group.newcomers = False
            group.join_until = self._now.steady_ms + delay_ms
            self._enter(GroupState.PREPARING)
            return
        self._enter(GroupState.PREPARING)
        if group.all_joined():
            self._complete_join()
        else:
            group.join_until = self._now.steady_ms + group.rebalance_timeout_ms()

    def _complete_join(self) -> None:
        """Begin the next generation with those who have joined; static members may be late."""
        group = self.group
        group.join_until = group.initial = None
        for member in tuple(group.members.values()):
            if member.joining is None and member.instance_id is None:
                group.remove(member.member_id)
        if group.members and not self._has_joined_leader():
            # Only static members are left and none is back: they have until their sessions end.
            group.join_until = self._now.steady_ms + group.rebalance_timeout_ms()
            return
        group.generation += 1
        group.unsynced.clear()
        if not group.members:
            group.protocol = None
            group.note_subscriptions()
            self._enter(GroupState.EMPTY)
            self.facts.append(GroupFact(group.group_id, group.stored()))
            return
        group.protocol = group.choose_protocol()
        group.note_subscriptions()
        self._enter(GroupState.COMPLETING)
        for member in tuple(group.members.values()):
            if member.joining is not None:
                answer = self._joined(member, with_members=member.member_id == group.leader)
                self.released.append((member.joining.token, answer))
            group.members[member.member_id] = member._replace(joining=None, new=False)
            self._renew(member)
            group.unsynced.add(member.member_id)
        group.sync_until = self._now.steady_ms + group.rebalance_timeout_ms()

    def _has_joined_leader(self) -> bool:
        """Whether the leader is back; if not, somebody who is becomes the leader."""
        group = self.group
        if group.members[group.leader or ""].joining is not None:
            return True
        for member in group.members.values():
            if member.joining is not None:
                group.leader = member.member_id
                return True
        return False

    def _renew(self, member: ClassicMember) -> None:
        self.group.sessions[member.member_id] = self._now.steady_ms + member.session_timeout_ms

    # --- SyncGroup ---

    def sync(self, request: SyncGroupRequest, caller: Caller) -> SyncGroupResponse | None:
        """The answer, or None when it is released now or later."""
        group = self.group
        error = self._sync_error(request)
        if error != ErrorCode.NONE:
            return SyncGroupResponse(error_code=error)
        member = group.members[request.member_id]
        group.unsynced.discard(request.member_id)
        if not group.unsynced:
            group.sync_until = None
        if group.state is GroupState.STABLE:
            return self._assigned(member)
        if member.syncing is not None:
            self._refuse_sync(member.syncing, ErrorCode.REBALANCE_IN_PROGRESS)
        group.members[request.member_id] = member._replace(syncing=caller)
        if request.member_id == group.leader:
            self._assign({given.member_id: bytes(given.assignment) for given in request.assignments}, ErrorCode.NONE)
            self._enter(GroupState.STABLE)
            self.facts.append(GroupFact(group.group_id, group.stored()))
        return None

    def _sync_error(self, request: SyncGroupRequest) -> ErrorCode:
        group = self.group
        if group.state is GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.member_error(request.member_id, request.group_instance_id)
        if error != ErrorCode.NONE:
            return error
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if _contradicts(request.protocol_type, group.protocol_type) or _contradicts(
            request.protocol_name, group.protocol
        ):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else ErrorCode.NONE

    def _assigned(self, member: ClassicMember) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=self.group.protocol_type, protocol_name=self.group.protocol, assignment=member.assignment
        )

    def _assign(self, assignments: Mapping[str, bytes], error: ErrorCode) -> None:
        """Give every member its part, or with an error none, and answer those who wait for it."""
        group = self.group
        for member in tuple(group.members.values()):
            assigned = member._replace(assignment=assignments.get(member.member_id, b""), syncing=None)
            group.members[member.member_id] = assigned
            if member.syncing is not None:
                answer = SyncGroupResponse(error_code=error) if error != ErrorCode.NONE else self._assigned(assigned)
                self.released.append((member.syncing.token, answer))
                self._renew(assigned)

    # --- LeaveGroup ---

    def leave(self, leaving: MemberIdentity) -> ErrorCode:
        """One member goes; `left` follows when all that leave together are gone."""
        group = self.group
        if not leaving.member_id:
            # An administrator removes a static member by its instance id alone.
            instance_id = leaving.group_instance_id
            present = None if instance_id is None else group.static.get(instance_id)
            if present is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            self._forget(present, ErrorCode.UNKNOWN_MEMBER_ID)
            self._left = _reason(f"static member {instance_id} was removed", leaving.reason)
            return ErrorCode.NONE
        if leaving.member_id not in group.pending:
            error = group.member_error(leaving.member_id, leaving.group_instance_id)
            if error != ErrorCode.NONE:
                return error
        self._forget(leaving.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        self._left = _reason(f"member {leaving.member_id} left", leaving.reason)
        return ErrorCode.NONE

    def left(self) -> None:
        """Somebody has gone: the others share the work anew."""
        if self.group.state in (GroupState.STABLE, GroupState.COMPLETING):
            self._prepare(self._left)
        else:
            self._complete_if_all_joined()

    def _forget(self, member_id: str, error: ErrorCode) -> None:
        member = self.group.remove(member_id)
        if member is None:
            return
        if member.joining is not None:
            self._refuse_join(member.joining, "", error)
        if member.syncing is not None:
            self._refuse_sync(member.syncing, error)

    def _refuse_join(self, waiting: Caller, member_id: str, error: ErrorCode) -> None:
        self.released.append((waiting.token, join_refused(member_id, error, waiting.version)))

    def _refuse_sync(self, waiting: Caller, error: ErrorCode) -> None:
        self.released.append((waiting.token, SyncGroupResponse(error_code=error)))

    # --- deadlines ---

    def expire(self) -> None:
        """Do what is due."""
        group = self.group
        now_ms = self._now.steady_ms
        for member_id in [member_id for member_id, until in group.sessions.items() if until <= now_ms]:
            if group.sessions.get(member_id, now_ms + 1) <= now_ms:
                self._session_ended(member_id)
        if group.sync_until is not None and group.sync_until <= now_ms:
            self._sync_overdue()
        if group.join_until is not None and group.join_until <= now_ms:
            self._join_overdue()

    def _session_ended(self, member_id: str) -> None:
        group = self.group
        member = group.members.get(member_id)
        if member is not None and not member.new and (member.joining is not None or member.syncing is not None):
            # It waits for us, not we for it; the answer begins a new session.
            del group.sessions[member_id]
            return
        self._forget(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        if member is not None and group.state in (GroupState.STABLE, GroupState.COMPLETING):
            self._prepare(f"the session of member {member_id} ended")
        elif group.state is GroupState.PREPARING and group.all_joined():
            self._complete_join()

    def _sync_overdue(self) -> None:
        """Those who never asked for their assignment are gone."""
        group = self.group
        group.sync_until = None
        if group.unsynced:
            missing = sorted(group.unsynced)
            for member_id in missing:
                self._forget(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            self._prepare(f"{', '.join(missing)} did not ask for an assignment in time")

    def _join_overdue(self) -> None:
        group = self.group
        initial = group.initial
        if initial is not None and group.newcomers and initial.remaining_ms:
            group.newcomers = False
            delay_ms = min(self._limits.initial_delay_ms, initial.remaining_ms)
            group.initial = InitialDelay(delay_ms, max(initial.remaining_ms - initial.delay_ms, 0))
            group.join_until = self._now.steady_ms + delay_ms
            return
        self._complete_join()

    def begin_sessions(self) -> None:
        """The group was loaded: its members have a session's time to be heard of."""
        group = self.group
        for member in group.members.values():
            self._renew(member)
        if len(group.members) > self._limits.max_size:
            self._prepare("it has more members than group.max.size allows")


def join_refused(member_id: str, error: ErrorCode, version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error, member_id=member_id, protocol_name=None if version >= NO_PROTOCOL_FROM else ""
    )


def _reason(what: str, clients: str | None) -> str:
    """What happened, and what the client says of it."""
    return f"{what} ({clients})" if clients else what


def _protocols(request: JoinGroupRequest) -> tuple[tuple[str, bytes], ...]:
    """Kept beyond the request's buffer."""
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)


def _contradicts(claimed: str | None, actual: str | None) -> bool:
    return claimed is not None and actual is not None and claimed != actual
