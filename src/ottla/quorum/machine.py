"""The machine of `raft` as a node's identity and settings make it.

Owns: the translation of what the node knows of itself. Never knows: when a machine is made, or made anew.
"""

from ottla.base.ports import Random
from ottla.quorum.log import QuorumLog
from ottla.quorum.settings import QuorumIdentity, QuorumSettings
from ottla.raft.core import ReplicaIdentity, Timing
from ottla.raft.log_view import LogView
from ottla.raft.machine import Raft
from ottla.raft.voters import NO_DIRECTORY, Election, ReplicaKey, VoterSet
from ottla.records.control import Endpoint

_FETCH_WAIT_SECONDS = 0.5
"""How long the leader may hold a fetch when there is nothing to send."""


def view_of(log: QuorumLog, identity: QuorumIdentity) -> LogView:
    """What a machine has to know of the log. Blocking."""
    dynamic = any(voter.directory_id != NO_DIRECTORY for voter in identity.voters)
    return log.view(VoterSet.of(identity.voters), 1 if dynamic else 0)


def new_machine(
    identity: QuorumIdentity, settings: QuorumSettings, view: LogView, election: Election, random: Random
) -> Raft:
    endpoints = identity.endpoints
    own = VoterSet.of(identity.voters).find(identity.node_id)
    if not endpoints and own is not None:
        endpoints = own.endpoints
    replica = ReplicaIdentity(
        identity.cluster_id,
        ReplicaKey(identity.node_id, identity.directory_id),
        identity.can_vote,
        endpoints,
        tuple(Endpoint("", host, port) for host, port in identity.bootstrap),
        settings.auto_join,
    )
    timing = Timing(
        settings.election_timeout,
        settings.election_backoff_max,
        settings.fetch_timeout,
        settings.request_timeout,
        settings.retry_backoff,
        min(_FETCH_WAIT_SECONDS, settings.fetch_timeout / 4),
    )
    return Raft(replica, timing, view, election, random)
