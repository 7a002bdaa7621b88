"""A cluster with records, open groups and transactions moves from ZooKeeper to the quorum, and its clients go on."""

from __future__ import annotations

from pathlib import Path

from cluster.traffic import Traffic
from kit.brokers.cluster_processes import HOST, NodeProcess
from kit.brokers.command_line import Ottla
from kit.brokers.processes import until
from kit.brokers.zookeeper import ZooKeeperEnsemble
from kit.brokers.zookeeper_clusters import ZooKeeperCluster

PARTITIONS = 3
STEADY = {"zookeeper.session.timeout.ms": "15000"}  # every broker is there when somebody looks


def controller_port(node: NodeProcess) -> int:
    listeners = dict(each.split("://") for each in node.settings["advertised.listeners"].split(","))
    return int(listeners["CONTROLLER"].rpartition(":")[2])


def quorum_settings(cluster: ZooKeeperCluster) -> None:
    """The settings file of every node, as an administrator would change it."""
    voters = ",".join(f"{number}@{HOST}:{controller_port(node)}" for number, node in cluster.nodes.items())
    for node in cluster.nodes.values():
        kept = {name: value for name, value in node.settings.items() if not name.startswith("zookeeper.")}
        own = {**kept, "process.roles": "broker,controller", "controller.quorum.voters": voters}
        lines = [f"{name}={value}\n" for name, value in own.items()]
        node.folder.joinpath("quorum.properties").write_text("".join(lines))


def test_a_cluster_moves_to_the_quorum_and_its_clients_go_on(tmp_path: Path) -> None:
    ottla = Ottla(None)
    with (
        ZooKeeperEnsemble(tmp_path / "ensemble", 1) as ensemble,
        ZooKeeperCluster(tmp_path, ensemble, settings=STEADY) as cluster,
    ):
        cluster.create_topic("numbers", PARTITIONS, retention_ms="604800001")
        place = ensemble.connect
        with Traffic(cluster.bootstrap, "numbers", PARTITIONS) as traffic:
            traffic.go_on(300)
            looked = ottla("quorum", "migrate", "--zookeeper", place).decode()
            assert "note: the cluster runs: brokers 1, 2, 3 are registered" in looked
            assert "nothing was changed" in looked
            identity = cluster.metadata(1, "numbers")
            assert identity is not None
            quorum_settings(cluster)
            file = str(cluster.nodes[1].folder / "quorum.properties")
            refused = ottla.attempt("quorum", "migrate", "--zookeeper", place, "--config", file, "--execute")
            assert refused.returncode == 1
            assert b"the cluster runs" in refused.stderr
            cluster.stop()
            until(lambda: not cluster.tree.get_children("/brokers/ids"), "every session has ended")

            shown = ottla("quorum", "migrate", "--zookeeper", place).decode()
            assert identity["cluster_id"] in shown
            assert "nothing was changed" in shown
            files = [str(node.folder / "quorum.properties") for node in cluster.nodes.values()]
            voters = [argument for file in files for argument in ("--config", file)]
            planned = ottla("quorum", "migrate", "--zookeeper", place, *voters).decode()
            assert f"node 2 would begin with this in {cluster.nodes[2].data}" in planned
            moved = ottla.json("quorum", "migrate", "--zookeeper", place, *voters, "--execute")
            assert moved["executed"]
            assert moved["voters"] == [1, 2, 3]
            assert moved["topics"]["numbers"] == PARTITIONS
            again = ottla.attempt("quorum", "migrate", "--zookeeper", place, *voters, "--execute")
            assert again.returncode == 1
            assert b"holds metadata of a quorum already" in again.stderr

            for number in (1, 2, 3):
                take_new_settings(cluster.nodes[number])
            cluster.start()
            cluster.heal()
            after = cluster.metadata(1, "numbers")
            assert after is not None
            assert after["cluster_id"] == identity["cluster_id"]
            assert after["topics"][0]["topic_id"] == identity["topics"][0]["topic_id"]
            traffic.go_on(300)
        assert traffic.verdict() == []
        described = Ottla(cluster.bootstrap).json("config", "describe", "topic", "numbers")
        assert "604800001" in str(described)


def take_new_settings(node: NodeProcess) -> None:
    """From here on the node has its new settings."""
    node.folder.joinpath("quorum.properties").replace(node.folder / "server.properties")
