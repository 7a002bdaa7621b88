"""A cluster that ZooKeeper coordinates, as tools see it: ZooKeeper's own shell, and the commands about the cluster.

What the shell must show is read from the guide's table, so that neither can change without the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from kit.brokers.command_line import Ottla
from kit.brokers.processes import until
from kit.brokers.zookeeper import ZooKeeperEnsemble
from kit.brokers.zookeeper_clusters import ZooKeeperCluster
from kit.others.debian import REPOSITORY

GUIDE = REPOSITORY / "docs" / "guide" / "zookeeper.md"
CHROOT = "/some/where"
BROKERS = (1, 2)
TOPIC = "orders"
PARTITIONS = 2
FOLDERS = ("/config/", "/isr_change_notification/")
"""What is under these has names of its own; the table tells what it is in words."""


class Row(NamedTuple):
    """A path of the guide's table, with N, T and P for a broker, a topic and a partition."""

    path: str
    text: str

    @property
    def ephemeral(self) -> bool:
        return self.text.startswith("Ephemeral: ")

    @property
    def request(self) -> bool:
        """There only until the controller has seen it."""
        return self.text.startswith("A request: ")

    def paths(self) -> set[str]:
        """The same with the brokers, topic and partitions of this cluster."""
        return {
            "/".join({"N": str(broker), "T": TOPIC, "P": str(number)}.get(part, part) for part in self.path.split("/"))
            for broker in BROKERS
            for number in range(PARTITIONS)
        }


def documented() -> list[Row]:
    section = GUIDE.read_text(encoding="utf-8").split("\n## The tree\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`/[^|]*) \| (.*) \|$", section, re.MULTILINE)
    return [Row(path, text) for paths, text in cells for path in re.findall(r"`(/[^`]*)`", paths)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperCluster]:
    folder = tmp_path_factory.mktemp("shell")
    settings = {"zookeeper.session.timeout.ms": "15000"}
    with (
        ZooKeeperEnsemble(folder / "ensemble") as ensemble,
        ZooKeeperCluster(folder, ensemble, len(BROKERS), settings, chroot=CHROOT) as running,
    ):
        running.create_topic(TOPIC, PARTITIONS, len(BROKERS), retention_ms="5000")
        Ottla(running.bootstrap)("produce", TOPIC, stdin=b"a record\n")  # with a producer id
        yield running


def shown(cluster: ZooKeeperCluster) -> set[str]:
    """The whole tree of the cluster."""
    lines = cluster.ensemble.shell("ls", "-R", CHROOT).splitlines()
    return {line.removeprefix(CHROOT) for line in lines if line.startswith(f"{CHROOT}/")}


def contents(cluster: ZooKeeperCluster, *paths: str) -> dict[str, Any]:
    """The JSON of znodes."""
    lines = cluster.ensemble.shell(typed="".join(f"get {CHROOT}{path}\n" for path in paths)).splitlines()
    return dict(zip(paths, (json.loads(line) for line in lines if line.startswith("{")), strict=True))


def test_zookeepers_own_shell_shows_what_the_guide_says_and_nothing_else(cluster: ZooKeeperCluster) -> None:
    rows = documented()
    assert len(rows) > 20, "the table was found"
    lasting = set().union(*(row.paths() for row in rows if not row.request))
    found = shown(cluster)
    assert lasting - found == set()
    every = set().union(*(row.paths() for row in rows))
    above = {path[:end] for path in every for end in range(len(path)) if path[end] == "/"}
    named_so = {path for path in found if path.startswith(FOLDERS) and path.rpartition("/")[0] in every}
    assert found - every - above - named_so == set()


def test_what_the_guide_calls_ephemeral_goes_with_its_session_and_nothing_else_does(cluster: ZooKeeperCluster) -> None:
    rows = [row for row in documented() if not row.request]
    asked = [(row, path) for row in rows for path in sorted(row.paths())]
    said = cluster.ensemble.shell(typed="".join(f"stat {CHROOT}{path}\n" for _, path in asked))
    owners = re.findall(r"^ephemeralOwner = (0x[0-9a-f]+)$", said, re.MULTILINE)
    assert len(owners) == len(asked), said
    wrong = [path for (row, path), owner in zip(asked, owners, strict=True) if (owner != "0x0") != row.ephemeral]
    assert wrong == []


def test_the_znodes_have_the_forms_of_kafka(cluster: ZooKeeperCluster) -> None:
    identity = cluster.metadata(1, TOPIC)
    assert identity is not None
    config, place = f"/config/topics/{TOPIC}", f"/brokers/topics/{TOPIC}"
    state = f"{place}/partitions/0/state"
    found = contents(cluster, "/controller", "/brokers/ids/1", place, state, config, "/cluster/id")
    assert found["/controller"]["brokerid"] in BROKERS
    assert found["/brokers/ids/1"]["version"] == 5
    assert f"PLAINTEXT://127.0.0.1:{cluster.nodes[1].port}" in found["/brokers/ids/1"]["endpoints"]
    assert {len(replicas) for replicas in found[place]["partitions"].values()} == {len(BROKERS)}
    assert sorted(found[place]["partitions"]) == [str(number) for number in range(PARTITIONS)]
    assert {"version", "topic_id", "adding_replicas", "removing_replicas"} <= set(found[place])
    assert {"version", "leader", "leader_epoch", "controller_epoch", "isr"} <= set(found[state])
    assert found[state]["leader"] in found[state]["isr"]
    assert found[config] == {"version": 1, "config": {"retention.ms": "5000"}}
    assert found["/cluster/id"] == {"version": "1", "id": identity["cluster_id"]}


def test_the_status_of_the_cluster_is_shown_as_that_of_any_other(cluster: ZooKeeperCluster) -> None:
    ottla = Ottla(cluster.bootstrap)
    until(lambda: ottla.json("cluster", "status")["under_replicated"] == [], "both are in sync", 60.0)
    status = ottla.json("cluster", "status")
    assert [broker["id"] for broker in status["brokers"]] == list(BROKERS)
    assert status["quorum"] is None
    assert status["controller"] == cluster.controller()
    text = ottla("cluster", "status").decode()
    assert re.search(rf"^controller +{cluster.controller()}$", text, re.MULTILINE)
    assert "QUORUM" not in text


@pytest.mark.parametrize("command", [("quorum",), ("quorum", "--json"), ("remove-voter", "1")], ids=" ".join)
def test_a_question_about_the_quorum_is_answered_with_where_to_look_instead(
    cluster: ZooKeeperCluster, command: tuple[str, ...]
) -> None:
    answer = Ottla(cluster.bootstrap).attempt("cluster", *command)
    assert (answer.returncode, answer.stdout) == (1, b"")
    assert answer.stderr.decode() == (
        "ottla: this cluster has no quorum that keeps its metadata, as one with ZooKeeper has none; "
        "'ottla cluster status' shows its controller\n"
    )
