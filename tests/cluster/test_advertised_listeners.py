"""Addresses that are meant for others are no sign of a broker's life or death."""

from __future__ import annotations

import socket
from pathlib import Path

from kit.brokers.cluster_processes import HEAL_SECONDS, HOST, ClusterProcesses
from kit.brokers.processes import free_port, until
from kit.brokers.zookeeper_clusters import ONLY_THE_STORYS_TOPICS

PROBES = 20


def test_a_listener_that_only_the_outside_can_reach_costs_no_broker_its_place(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path, settings=ONLY_THE_STORYS_TOPICS)
    for node in cluster.nodes.values():
        # As behind a published port: where the nodes live, nobody listens there.
        _, *inside = node.settings["advertised.listeners"].split(",")
        settings = node.folder / "server.properties"
        advertised = ",".join([f"PLAINTEXT://localhost:{free_port()}", *inside])
        settings.write_text(settings.read_text() + f"advertised.listeners={advertised}\n")
    with cluster:
        cluster.create_topic("numbers")
        for _ in range(PROBES):
            probe(cluster)
            assert cluster.in_sync("numbers")
        assert fencings(cluster) == []

        dead = next(number for number in cluster.nodes if number != cluster.controller())
        cluster.kill(dead)
        until(lambda: fencings(cluster), "a broker that was killed is missed", HEAL_SECONDS)
        assert all(f"broker {dead} is fenced" in line and "connection refused" in line for line in fencings(cluster))


def probe(cluster: ClusterProcesses) -> None:
    """As somebody who looks whether the controllers' ports are open."""
    for node in cluster.nodes.values():
        port = int(node.settings["listeners"].rpartition(":")[2])
        socket.create_connection((HOST, port)).close()


def fencings(cluster: ClusterProcesses) -> list[str]:
    return [line for node in cluster.nodes.values() for line in node.log.splitlines() if "is fenced:" in line]
