"""The `quorum-state` file: which epoch the quorum is in and who leads it.

Owns: Kafka's format of it (one line of JSON, version 0: a quorum with fixed voters). Never knows: elections.
Invariant: the file is replaced as a whole, so an epoch once used is never forgotten and never used by another leader.
"""

import json
from typing import NamedTuple

from ottla.base.ports import Disk
from ottla.log.whole_file import read_whole, replace_whole

FILE = "quorum-state"
VERSION = 0


class BadQuorumState(Exception):
    """The file cannot be understood; the message says what to do."""


class QuorumState(NamedTuple):
    """Who leads since when; -1 is nobody."""

    leader_id: int = -1
    leader_epoch: int = 0
    voters: tuple[int, ...] = ()


def read_quorum_state(disk: Disk, directory: str) -> QuorumState:
    """What the file says; epoch 0 without a leader when there is none."""
    path = f"{directory}/{FILE}"
    content = read_whole(disk, path)
    if content is None:
        return QuorumState()
    try:
        fields = json.loads(content)
        voters = fields.get("currentVoters") or ()
        return QuorumState(
            int(fields["leaderId"]), int(fields["leaderEpoch"]), tuple(int(voter["voterId"]) for voter in voters)
        )
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise BadQuorumState(
            f"{path} cannot be read ({problem}); remove it to have the epoch worked out from the metadata log."
        ) from problem


def write_quorum_state(disk: Disk, directory: str, state: QuorumState) -> None:
    """Replace the file, durably. Blocking."""
    fields = {
        "clusterId": "",
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": voter} for voter in state.voters],
        "data_version": VERSION,
    }
    replace_whole(disk, f"{directory}/{FILE}", json.dumps(fields, separators=(",", ":")).encode())
