"""Proves that a directory says whose it is in Kafka's words, and that a stranger's directory is refused with advice."""

from pathlib import Path

import pytest

from ottla.log.properties import (
    BadProperties,
    DirectoryProperties,
    InconsistentCluster,
    InconsistentNode,
    read_directory_properties,
    read_topic_id,
    write_directory_properties,
    write_topic_id,
)
from ottla.runtime.disk import RealDisk

OURS = DirectoryProperties("rQ5KGBqaS0SeIIusAQ5smA", 1, bytes(range(16)))


def test_properties_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    write_directory_properties(RealDisk(), str(tmp_path), OURS)
    assert read_directory_properties(RealDisk(), str(tmp_path)) == OURS


def test_a_file_written_by_kafka_is_understood(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        "#\n#Sun Nov 15 20:52:24 UTC 2026\nnode.id=1\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\n"
        "version=1\ncluster.id=rQ5KGBqaS0SeIIusAQ5smA\n"
    )
    assert read_directory_properties(RealDisk(), str(tmp_path)) == OURS


def test_a_new_directory_has_no_properties(tmp_path: Path) -> None:
    assert read_directory_properties(RealDisk(), str(tmp_path)) is None


def test_a_directory_without_an_id_of_its_own_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=3\n")
    assert read_directory_properties(RealDisk(), str(tmp_path)) == DirectoryProperties("c", 3, b"")


def test_a_directory_of_a_broker_of_the_zookeeper_times_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0\ncluster.id=c\nbroker.id=3\n")
    assert read_directory_properties(RealDisk(), str(tmp_path)) == DirectoryProperties("c", 3, b"")


@pytest.mark.parametrize(
    "text",
    [
        "version=2\ncluster.id=c\nnode.id=1\n",
        "version=0\ncluster.id=c\nnode.id=1\n",
        "version=1\nnode.id=1\n",
        "version=1\ncluster.id=c\nnode.id=one\n",
        "version=1\ncluster.id=c\nnode.id=1\ndirectory.id=short\n",
        "gibberish\n",
    ],
)
def test_wrong_content_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(BadProperties, match=r"meta\.properties"):
        read_directory_properties(RealDisk(), str(tmp_path))


def test_a_directory_of_another_cluster_is_refused() -> None:
    OURS.require("data", OURS.cluster_id, 1)
    OURS.require("data", None, 1)
    with pytest.raises(InconsistentCluster, match=r"data holds data of cluster rQ5KGBqaS0SeIIusAQ5smA, .* other;"):
        OURS.require("data", "other", 1)


def test_a_directory_of_another_node_is_refused() -> None:
    with pytest.raises(InconsistentNode, match=r"data holds data of node 1, but this is node 2; set node\.id=1"):
        OURS.require("data", OURS.cluster_id, 2)


def test_a_topic_id_is_read_back_and_stands_as_kafka_writes_it(tmp_path: Path) -> None:
    write_topic_id(RealDisk(), str(tmp_path), bytes(range(16)))
    assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert read_topic_id(RealDisk(), str(tmp_path)) == bytes(range(16))
    write_topic_id(RealDisk(), str(tmp_path), bytes(16))
    assert read_topic_id(RealDisk(), str(tmp_path)) == bytes(16)


def test_a_missing_topic_id_and_an_empty_file_are_no_id(tmp_path: Path) -> None:
    assert read_topic_id(RealDisk(), str(tmp_path)) is None
    whole = "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    for size in range(len(whole)):
        (tmp_path / "partition.metadata").write_text(whole[:size])
        assert read_topic_id(RealDisk(), str(tmp_path)) is None


def test_a_damaged_topic_id_is_refused(tmp_path: Path) -> None:
    (tmp_path / "partition.metadata").write_text("version: 0\ntopic_id: not an id")
    with pytest.raises(BadProperties, match=r"partition\.metadata"):
        read_topic_id(RealDisk(), str(tmp_path))
