"""The `quorum-state` file: which epoch the quorum is in, who leads it and who got this node's vote.

Owns: Kafka's two formats of it (one line of JSON; version 0 for a quorum with fixed voters, version 1 for one whose
voters stand in the log). Never knows: elections.
Invariant: the file is replaced as a whole, so an epoch once used is never forgotten and a vote never given twice.
"""

import json
from typing import NamedTuple

from ottla.base.ports import Disk
from ottla.base.vocabulary import identity_bytes, identity_text
from ottla.log.whole_file import read_whole, replace_whole
from ottla.raft.voters import NO_DIRECTORY, Election, ReplicaKey

FILE = "quorum-state"


class BadQuorumState(Exception):
    """The file cannot be understood; the message says what to do."""


class QuorumState(NamedTuple):
    """Who leads since when and who was voted for; -1 is nobody. The voters are known in version 0 only."""

    leader_id: int = -1
    leader_epoch: int = 0
    voters: tuple[int, ...] = ()
    voted: ReplicaKey | None = None

    @property
    def election(self) -> Election:
        return Election(self.leader_epoch, self.leader_id, self.voted)


def read_quorum_state(disk: Disk, directory: str) -> QuorumState:
    """What the file says; epoch 0 without a leader when there is none."""
    path = f"{directory}/{FILE}"
    content = read_whole(disk, path)
    if content is None:
        return QuorumState()
    try:
        fields = json.loads(content)
        voters = fields.get("currentVoters") or ()
        voted_id = int(fields.get("votedId", -1))
        directory_id = fields.get("votedDirectoryId")
        return QuorumState(
            int(fields["leaderId"]),
            int(fields["leaderEpoch"]),
            tuple(int(voter["voterId"]) for voter in voters),
            ReplicaKey(voted_id, identity_bytes(directory_id) if directory_id else NO_DIRECTORY)
            if voted_id >= 0
            else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise BadQuorumState(
            f"{path} cannot be read ({problem}); remove it to have the epoch worked out from the metadata log."
        ) from problem


def write_quorum_state(disk: Disk, directory: str, state: QuorumState, version: int = 0) -> None:
    """Replace the file, durably. Blocking."""
    voted_id = state.voted.node_id if state.voted is not None else -1
    fields: dict[str, object]
    if version == 0:
        fields = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in state.voters],
        }
    else:
        directory_id = state.voted.directory_id if state.voted is not None else NO_DIRECTORY
        fields = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": voted_id,
            "votedDirectoryId": identity_text(directory_id),
        }
    fields["data_version"] = version
    replace_whole(disk, f"{directory}/{FILE}", json.dumps(fields, separators=(",", ":")).encode())
