"""The files of a cluster on one machine: made once, found again, grown, and refused where they do not fit."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kit.brokers.processes import CONTROLLERS_ABOVE, free_port, free_ports
from ottla.base.settings.file import check_static, parse_properties
from ottla.log.properties import read_directory_properties
from ottla.node.local_cluster import Coordinators, LocalNode, coordination_of, prepare, settings_text, voter_count
from ottla.node.options import StartFailure
from ottla.runtime.disk import RealDisk


@pytest.mark.parametrize(("brokers", "voters"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (6, 5), (9, 5)])
def test_an_odd_number_of_the_first_nodes_votes(brokers: int, voters: int) -> None:
    assert voter_count(brokers) == voters


def test_nodes_are_made_once_and_found_again(tmp_path: Path) -> None:
    made = prepare(str(tmp_path), 2, free_ports(2))
    texts = [Path(node.settings_file).read_text() for node in made]
    assert prepare(str(tmp_path), None, None) == made
    assert prepare(str(tmp_path), 2, made[0].port) == made
    assert [Path(node.settings_file).read_text() for node in made] == texts
    assert [node.controller_port is not None for node in made] == [True, False]


def test_every_node_belongs_to_the_same_cluster(tmp_path: Path) -> None:
    nodes = prepare(str(tmp_path), 3, free_ports(3))
    grown = prepare(str(tmp_path), 4, None)
    assert grown[:3] == nodes
    owned = [read_directory_properties(RealDisk(), node.data) for node in grown]
    assert len({each.cluster_id for each in owned if each is not None}) == 1
    assert [each.node_id for each in owned if each is not None] == [1, 2, 3, 4]
    assert len({each.directory_id for each in owned if each is not None}) == 4


def test_a_start_that_was_cut_off_is_done_again(tmp_path: Path) -> None:
    nodes = prepare(str(tmp_path), 1, free_ports(4))
    Path(nodes[0].settings_file).unlink()
    again = prepare(str(tmp_path), 1, nodes[0].port)
    assert [node.node_id for node in again] == [1]


def test_settings_name_all_voters_and_copy_as_often_as_there_are_nodes_for() -> None:
    voters = ["1@127.0.0.1:19092", "2@127.0.0.1:19093", "3@127.0.0.1:19094"]
    values = parse_properties(settings_text(LocalNode(2, "/folder", 9093, 19093), Coordinators(voters), 3))
    check_static(values)
    assert values["listeners"] == "PLAINTEXT://127.0.0.1:9093,CONTROLLER://127.0.0.1:19093"
    assert values["process.roles"] == "broker,controller"
    assert values["controller.quorum.voters"] == ",".join(voters)
    assert (values["default.replication.factor"], values["min.insync.replicas"]) == ("3", "2")
    alone = parse_properties(settings_text(LocalNode(4, "/folder", 9095, None), Coordinators(voters), 1))
    assert alone["process.roles"] == "broker"
    assert alone["listeners"] == "PLAINTEXT://127.0.0.1:9095"
    assert (alone["default.replication.factor"], alone["min.insync.replicas"]) == ("1", "1")


def test_a_controller_takes_another_port_when_the_usual_one_is_in_use(tmp_path: Path) -> None:
    port = free_port()
    usual = port + CONTROLLERS_ABOVE
    with socket.socket() as other:
        other.bind(("127.0.0.1", usual))
        other.listen()
        (node,) = prepare(str(tmp_path), 1, port)
    assert node.controller_port not in (None, usual)


def test_a_port_in_use_a_smaller_cluster_and_a_strange_file_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(StartFailure, match="of node 1 is in use"):
            prepare(str(tmp_path / "new"), 1, other.getsockname()[1])
    assert not (tmp_path / "new").exists()
    nodes = prepare(str(tmp_path), 2, free_ports(2))
    with pytest.raises(StartFailure, match="holds 2 nodes"):
        prepare(str(tmp_path), 1, None)
    with pytest.raises(StartFailure, match="leave --port out"):
        prepare(str(tmp_path), 2, nodes[0].port + 1)
    Path(nodes[1].settings_file).write_text("node.id=7\nlisteners=PLAINTEXT://127.0.0.1:1234\n")
    with pytest.raises(StartFailure, match="does not describe node 2"):
        prepare(str(tmp_path), 2, None)


def test_a_cluster_of_zookeepers_is_found_again_as_such(tmp_path: Path) -> None:
    assert coordination_of(str(tmp_path)) is None
    nodes = prepare(str(tmp_path), 2, free_ports(2), "127.0.0.1:2181")
    assert coordination_of(str(tmp_path)) == "zookeeper"
    assert [node.controller_port for node in nodes] == [None, None]
    values = parse_properties(Path(nodes[0].settings_file).read_text())
    check_static(values)
    assert values["zookeeper.connect"] == "127.0.0.1:2181"
    assert not {"process.roles", "controller.quorum.voters"} & set(values)


def test_a_cluster_with_a_quorum_is_found_again_as_such(tmp_path: Path) -> None:
    prepare(str(tmp_path), 1, free_ports(1))
    assert coordination_of(str(tmp_path)) == "quorum"
