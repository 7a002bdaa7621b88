"""This replica's own entry among the voters, where voters may change (KIP-853).

Owns: telling the leader when the entry is wrong, or missing where it should be made by itself. Never knows: how the
leader changes voters (`raft.voter_changes`). Invariant: one request at a time, and not more often than the leader is
expected to answer.
"""

from ottla.raft.core import Core
from ottla.raft.messages import AddVoter, RemoveVoter, Request, UpdateVoter
from ottla.raft.voters import ReplicaKey
from ottla.records.control import Voter


class Membership:
    """Looked after whenever the leader has answered a fetch."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._asked: int | None = None
        self._not_before = 0.0

    def mind(self, now: float) -> None:
        """Send what the leader has to be told, if anything."""
        core, identity = self._core, self._core.identity
        if core.log.kraft_version < 1 or not identity.can_vote or not identity.endpoints or now < self._not_before:
            return
        if self._asked is not None or core.leader_endpoint is None:
            return
        request = self._needed()
        if request is not None:
            self._not_before = now + core.timing.fetch_timeout
            self._asked = core.send(core.leader_id, core.leader_endpoint, request)

    def _needed(self) -> Request | None:
        core, identity = self._core, self._core.identity
        entry = core.voters.find(core.key.node_id)
        own = Voter(core.key.node_id, core.key.directory_id, identity.endpoints, 0, 1)
        if entry is not None and entry.directory_id == core.key.directory_id:
            if entry.endpoints == identity.endpoints:
                return None
            return UpdateVoter(identity.cluster_id, core.epoch, own)
        if not identity.auto_join:
            return None
        if entry is not None:
            # The one with our id is a replica on a disk that we do not have any more.
            return RemoveVoter(identity.cluster_id, ReplicaKey(entry.voter_id, entry.directory_id))
        return AddVoter(identity.cluster_id, own, core.timing.request_timeout, when_committed=False)

    def settled(self, number: int) -> None:
        """A request was answered, or will not be."""
        if number == self._asked:
            self._asked = None
