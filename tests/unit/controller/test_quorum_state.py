"""The quorum-state file, in Kafka's format."""

from pathlib import Path

import pytest

from ottla.controller.quorum_state import BadQuorumState, QuorumState, read_quorum_state, write_quorum_state
from ottla.raft.voters import ReplicaKey
from ottla.runtime.disk import RealDisk


def test_the_file_reads_as_kafka_writes_it(tmp_path: Path) -> None:
    content = (
        '{"clusterId":"","leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )

    write_quorum_state(RealDisk(), str(tmp_path), QuorumState(1, 3, (1,)))
    assert (tmp_path / "quorum-state").read_text() == content
    assert read_quorum_state(RealDisk(), str(tmp_path)) == QuorumState(1, 3, (1,))


def test_a_vote_is_kept_in_both_formats(tmp_path: Path) -> None:
    voted = ReplicaKey(2, b"2" * 16)
    write_quorum_state(RealDisk(), str(tmp_path), QuorumState(-1, 3, (), voted), 1)
    assert (tmp_path / "quorum-state").read_text() == (
        '{"leaderId":-1,"leaderEpoch":3,"votedId":2,"votedDirectoryId":"MjIyMjIyMjIyMjIyMjIyMg","data_version":1}'
    )
    assert read_quorum_state(RealDisk(), str(tmp_path)) == QuorumState(-1, 3, (), voted)

    write_quorum_state(RealDisk(), str(tmp_path), QuorumState(-1, 4, (1, 2), voted))
    assert read_quorum_state(RealDisk(), str(tmp_path)) == QuorumState(-1, 4, (1, 2), ReplicaKey(2))


def test_without_a_file_nobody_has_led(tmp_path: Path) -> None:
    assert read_quorum_state(RealDisk(), str(tmp_path)) == QuorumState(-1, 0, ())


@pytest.mark.parametrize("content", ["", "{", "[]", '{"leaderId": 1}', '{"leaderId": "x", "leaderEpoch": 1}'])
def test_a_file_that_cannot_be_read_is_told_with_what_to_do(tmp_path: Path, content: str) -> None:
    (tmp_path / "quorum-state").write_text(content)

    with pytest.raises(BadQuorumState, match="remove it"):
        read_quorum_state(RealDisk(), str(tmp_path))
