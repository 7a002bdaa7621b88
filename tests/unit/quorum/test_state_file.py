"""The quorum-state file, in Kafka's format."""

import re
from pathlib import Path

import pytest

from ottla.quorum.state_file import (
    BadQuorumState,
    QuorumState,
    read_quorum_state,
    remembered_election,
    write_quorum_state,
)
from ottla.raft.voters import Election, ReplicaKey
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

    with pytest.raises(BadQuorumState, match="a sole voter finds its epoch"):
        remembered_election(RealDisk(), str(tmp_path), 3, others=False)
    with pytest.raises(BadQuorumState, match="must not vote in them again") as told:
        remembered_election(RealDisk(), str(tmp_path), 3, others=True)
    assert "remove it" not in str(told.value)


def test_a_vote_that_was_lost_beside_a_log_is_not_given_again(tmp_path: Path) -> None:
    with pytest.raises(BadQuorumState, match=r"is missing.*with epoch 3: .*must not vote in them again"):
        remembered_election(RealDisk(), str(tmp_path), 3, others=True)
    assert remembered_election(RealDisk(), str(tmp_path), 0, others=True) == Election()
    assert remembered_election(RealDisk(), str(tmp_path), 3, others=False) == Election()


def test_a_file_from_an_old_copy_is_not_gone_on_with(tmp_path: Path) -> None:
    write_quorum_state(RealDisk(), str(tmp_path), QuorumState(1, 2, (1, 2, 3)))

    with pytest.raises(BadQuorumState, match="ends with epoch 2, and the metadata log beside it with epoch 3"):
        remembered_election(RealDisk(), str(tmp_path), 3, others=True)
    assert remembered_election(RealDisk(), str(tmp_path), 2, others=True) == Election(2, 1, None)


def test_what_the_advice_says_to_write_is_read_as_a_vote_for_nobody(tmp_path: Path) -> None:
    with pytest.raises(BadQuorumState) as told:
        remembered_election(RealDisk(), str(tmp_path), 3, others=True)
    advised = re.search(r"\{.*\}", str(told.value))
    assert advised is not None
    (tmp_path / "quorum-state").write_text(advised[0].replace("N", "8"))

    assert remembered_election(RealDisk(), str(tmp_path), 3, others=True) == Election(8, -1, None)
