"""Giving data directories to a node."""

from pathlib import Path

import pytest

from ottla.base.settings.values import BrokerValues
from ottla.base.vocabulary import identity_text
from ottla.log.files import World
from ottla.log.properties import read_directory_properties
from ottla.node.formatting import Wishes, format_directories, is_formatted, require_one_metadata_log
from ottla.node.options import Options, StartFailure, resolve
from ottla.quorum.snapshots import Snapshots
from ottla.records.control import Control, KraftVersion, Voter, Voters
from ottla.runtime.disk import RealDisk
from ottla.runtime.world import RealClock, RealRandom

WORLD = World(RealDisk(), RealClock(), RealRandom())
CLUSTER = identity_text(b"c" * 16)


def values_in(path: Path, *assignments: str) -> BrokerValues:
    return resolve(Options(data=f"{path}/a,{path}/b", assignments=assignments))


def do_format(values: BrokerValues, cluster_id: str | None = None, ignore_formatted: bool = False) -> str:
    return format_directories(WORLD, values, Wishes(cluster_id, ignore_formatted))[0]


def test_every_directory_belongs_to_the_node_then(tmp_path: Path) -> None:
    values = values_in(tmp_path, f"metadata.log.dir={tmp_path}/m", "node.id=3")
    assert not is_formatted(RealDisk(), values)
    assert do_format(values, CLUSTER) == CLUSTER
    found = [read_directory_properties(RealDisk(), str(tmp_path / name)) for name in "abm"]
    assert [(each.cluster_id, each.node_id) for each in found if each is not None] == [(CLUSTER, 3)] * 3
    assert len({each.directory_id for each in found if each is not None}) == 3
    assert is_formatted(RealDisk(), values)


def test_a_formatted_directory_is_only_left_alone_when_asked(tmp_path: Path) -> None:
    cluster = do_format(values_in(tmp_path))
    with pytest.raises(StartFailure, match="is formatted already"):
        do_format(values_in(tmp_path))
    before = (tmp_path / "a" / "meta.properties").read_bytes()
    assert do_format(values_in(tmp_path), ignore_formatted=True) == cluster
    assert (tmp_path / "a" / "meta.properties").read_bytes() == before


def test_a_directory_of_another_cluster_or_node_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    do_format(values_in(tmp_path))
    (tmp_path / "b" / "meta.properties").unlink()
    with pytest.raises(StartFailure, match="holds data of cluster"):
        do_format(values_in(tmp_path), CLUSTER, ignore_formatted=True)
    with pytest.raises(StartFailure, match="holds data of node 1"):
        do_format(values_in(tmp_path, "node.id=2"), ignore_formatted=True)
    assert not (tmp_path / "b" / "meta.properties").exists()


def test_a_text_that_is_no_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartFailure, match="is no cluster id"):
        do_format(values_in(tmp_path), "mine")


def voters_in(controls: tuple[Control, ...]) -> tuple[Voter, ...]:
    return next(each.voters for each in controls if isinstance(each, Voters))


def test_a_standalone_node_votes_alone_in_a_set_that_can_change(tmp_path: Path) -> None:
    values = values_in(tmp_path, "listeners=PLAINTEXT://localhost:1,CONTROLLER://localhost:2", "node.id=4")
    format_directories(WORLD, values, Wishes(standalone=True))
    own = read_directory_properties(RealDisk(), str(tmp_path / "a"))
    assert own is not None
    snapshots = Snapshots(WORLD, str(tmp_path / "a" / "__cluster_metadata-0"))
    controls = snapshots.controls(snapshots.found()[-1])
    assert KraftVersion(1) in controls
    assert [(voter.voter_id, voter.directory_id) for voter in voters_in(controls)] == [(4, own.directory_id)]


def test_a_first_voter_gets_the_directory_id_it_is_known_by(tmp_path: Path) -> None:
    others = identity_text(b"2" * 16)
    values = values_in(tmp_path, "listeners=PLAINTEXT://localhost:1,CONTROLLER://localhost:2")
    wanted = f"1@localhost:2:{CLUSTER}, 2@[::1]:3:{others}"
    format_directories(WORLD, values, Wishes(initial_controllers=wanted))
    own = read_directory_properties(RealDisk(), str(tmp_path / "a"))
    assert own is not None
    assert own.directory_id == b"c" * 16
    snapshots = Snapshots(WORLD, str(tmp_path / "a" / "__cluster_metadata-0"))
    voters = voters_in(snapshots.controls(snapshots.found()[-1]))
    assert [(each.voter_id, each.endpoints[0].host) for each in voters] == [(1, "localhost"), (2, "::1")]


def test_voters_that_cannot_be_understood_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StartFailure, match="is not of the form id@host:port:directory-id"):
        format_directories(WORLD, values_in(tmp_path), Wishes(initial_controllers="1@localhost:2"))
    fixed = values_in(tmp_path, "controller.quorum.voters=1@localhost:2")
    with pytest.raises(StartFailure, match="fixes the voters"):
        format_directories(WORLD, fixed, Wishes(standalone=True))


def test_a_metadata_log_in_another_directory_than_the_one_of_the_settings_is_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    log = "__cluster_metadata-0"
    first.joinpath(log).mkdir(parents=True)
    second.mkdir()
    require_one_metadata_log(RealDisk(), values_in(tmp_path))
    swapped = resolve(Options(data=f"{second},{first}"))
    with pytest.raises(
        StartFailure, match=rf"{first} holds a metadata log .* in {second}: set metadata.log.dir={first}"
    ):
        require_one_metadata_log(RealDisk(), swapped)
    second.joinpath(log).mkdir()
    with pytest.raises(StartFailure, match=rf": move {first}/{log} elsewhere, or set metadata.log.dir={first} if"):
        require_one_metadata_log(RealDisk(), swapped)
    first.joinpath(log).rmdir()
    require_one_metadata_log(RealDisk(), swapped)
