"""The `quorum-state` file: which epoch the quorum is in, who leads it and who got this node's vote.

Owns: Kafka's two formats of it (one line of JSON; version 0 for a quorum with fixed voters, version 1 for one whose
voters stand in the log), and whether it can be gone on with. Never knows: elections.
Invariants: the file is replaced as a whole, so an epoch once used is never forgotten and a vote never given twice; it
is written before the log gets a record of its epoch, so one that knows less than the log is not the one that was there.
"""

import json
from typing import NamedTuple

from ottla.base.ports import Disk
from ottla.base.vocabulary import identity_bytes, identity_text
from ottla.log.files import StorageFailure
from ottla.log.whole_file import read_whole, replace_whole
from ottla.raft.voters import NO_DIRECTORY, Election, ReplicaKey

FILE = "quorum-state"


_SAFE = (
    "this node may have voted in epochs that it has forgotten, and must not vote in them again. Restore the file that "
    "was there last, no older one. If it is lost: where voters can change, take this node out of them with 'ottla "
    "cluster remove-voter', give it an empty directory with 'ottla format' and let it join again; where they are "
    'fixed, write {"leaderId":-1,"leaderEpoch":N,"votedId":-1,"data_version":0} into it, where N is greater than the '
    "leaderEpoch in the quorum-state file of every other voter."
)


class BadQuorumState(Exception):
    """The file cannot be understood, or cannot be the one that was there last; the message says what to do."""


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
        raise BadQuorumState(f"{path} cannot be read ({problem})") from problem


def remembered_election(disk: Disk, directory: str, log_epoch: int, others: bool) -> Election:
    """What this node goes on with, beside a log whose last record is of `log_epoch`; `others`: it does not vote alone.

    Raises BadQuorumState and StorageFailure.
    """
    path = f"{directory}/{FILE}"
    try:
        election = read_quorum_state(disk, directory).election
        missing = not disk.exists(path)
    except OSError as error:
        raise StorageFailure.of(path, error) from error
    except BadQuorumState as problem:
        if others:
            raise BadQuorumState(f"{problem}: {_SAFE}") from problem
        raise BadQuorumState(f"{problem}; remove it: a sole voter finds its epoch in the metadata log.") from problem
    if others and election.epoch < log_epoch:
        known = "is missing" if missing else f"ends with epoch {election.epoch}"
        raise BadQuorumState(f"{path} {known}, and the metadata log beside it with epoch {log_epoch}: {_SAFE}")
    return election


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
