"""The quorum as it is shown, and who a voter is."""

from pathlib import Path

import pytest

from ottla.base.vocabulary import identity_text
from ottla.cli.failures import Failure
from ottla.cli.output import plain
from ottla.cli.quorum_views import places_table, quorum_json, quorum_summary
from ottla.cli.voters import voter_named, voter_of_file, voter_to_remove
from ottla.client.address import Address
from ottla.client.admin.brokers import Quorum, QuorumReplica

ONE, TWO, FOUR = bytes([1] * 16), bytes([2] * 16), bytes([4] * 16)
QUORUM = Quorum(
    1, 7, 95,
    (QuorumReplica(1, ONE, 100, 9_000, 9_000), QuorumReplica(2, TWO, 90, 5_000, 5_000)),
    (QuorumReplica(4, FOUR, 100, -1, -1),),
    {1: {"CONTROLLER": Address("one", 9093)}, 2: {"CONTROLLER": Address("::1", 9093)}},
)  # fmt: skip


def test_the_summary_tells_the_worst_voter() -> None:
    assert quorum_summary(QUORUM) == (
        "leader          1\nepoch           7\nhigh watermark  95\nlargest lag     10 records of a voter\n"
        "longest lag     4.0 s of a voter\n"
    )


def test_voters_and_observers_are_shown_with_their_places() -> None:
    heading, *rows = [line.split() for line in plain(places_table(QUORUM)).splitlines()]
    assert heading[-2:] == ["DIRECTORY", "LISTENERS"]
    assert rows[0] == ["1", "leader", "100", "0", "0.0", "s", identity_text(ONE), "CONTROLLER://one:9093"]
    assert rows[1][-1] == "CONTROLLER://[::1]:9093"
    assert rows[2] == ["4", "observer", "100", "0", "?", identity_text(FOUR), "-"]
    document = quorum_json(QUORUM)
    assert document["voters"][1] == {
        "id": 2, "end_offset": 90, "lag": 10, "behind_ms": 4000, "directory_id": identity_text(TWO),
        "listeners": {"CONTROLLER": "[::1]:9093"},
    }  # fmt: skip


def test_a_quorum_without_leader_says_none() -> None:
    assert quorum_summary(QUORUM._replace(leader_id=-1)).startswith("leader          none\n")


def test_an_observer_becomes_a_voter_with_the_directory_the_quorum_sees() -> None:
    voter = voter_named(4, None, ["controller://four:9093"], QUORUM)
    assert voter == (4, FOUR, {"CONTROLLER": Address("four", 9093)})
    other = voter_named(5, identity_text(TWO), ["CONTROLLER://[::1]:9093"], QUORUM)
    assert other == (5, TWO, {"CONTROLLER": Address("::1", 9093)})
    with pytest.raises(Failure, match="does not see node 5"):
        voter_named(5, None, ["CONTROLLER://five:9093"], QUORUM)
    with pytest.raises(Failure, match="NAME://host:port"):
        voter_named(4, None, ["four:9093"], QUORUM)
    with pytest.raises(Failure, match="no id of a directory"):
        voter_named(4, "short", ["CONTROLLER://four:9093"], QUORUM)


def test_a_voter_goes_by_its_number_and_its_directory_if_one_is_named() -> None:
    assert voter_to_remove(2, None, QUORUM).directory_id == TWO
    assert voter_to_remove(2, identity_text(TWO), QUORUM).node_id == 2
    for node, directory in ((4, None), (2, identity_text(ONE))):
        with pytest.raises(Failure, match="does not vote"):
            voter_to_remove(node, directory, QUORUM)
    twice = QUORUM._replace(voters=(*QUORUM.voters, QuorumReplica(2, ONE, 0, 0, 0)))
    with pytest.raises(Failure, match="--directory-id"):
        voter_to_remove(2, None, twice)


def test_a_settings_file_and_its_directory_make_a_voter(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "node.properties"
    file.write_text(
        "node.id=4\nprocess.roles=controller\nlisteners=CONTROLLER://localhost:9093\n"
        f"controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=one:9093\nlog.dirs={data}\n"
    )
    with pytest.raises(Failure, match="not formatted"):
        voter_of_file(str(file))
    data.mkdir()
    (data / "meta.properties").write_text(
        f"version=1\ncluster.id=4L6g3nShT-eMCtK--X86sw\nnode.id=4\ndirectory.id={identity_text(FOUR)}\n"
    )
    assert voter_of_file(str(file)) == (4, FOUR, {"CONTROLLER": Address("localhost", 9093)})
