"""Giving data directories to a node."""

from pathlib import Path

import pytest

from ottla.base.settings.values import BrokerValues
from ottla.base.vocabulary import identity_text
from ottla.log.properties import read_directory_properties
from ottla.node.formatting import format_directories, is_formatted
from ottla.node.options import Options, StartFailure, resolve
from ottla.runtime.disk import RealDisk
from ottla.runtime.world import RealRandom

CLUSTER = identity_text(b"c" * 16)


def values_in(path: Path, *assignments: str) -> BrokerValues:
    return resolve(Options(data=f"{path}/a,{path}/b", assignments=assignments))


def do_format(values: BrokerValues, cluster_id: str | None = None, ignore_formatted: bool = False) -> str:
    return format_directories(RealDisk(), RealRandom(), values, cluster_id, ignore_formatted)[0]


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
