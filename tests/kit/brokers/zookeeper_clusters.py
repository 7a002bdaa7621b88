"""A cluster of real processes that a real ZooKeeper coordinates; otherwise as `cluster_processes`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kazoo.exceptions import KazooException

from kit.brokers.cluster_processes import HEAL_SECONDS, HOST, ClusterProcesses
from kit.brokers.processes import until
from kit.brokers.proxies import Relay
from kit.brokers.zookeeper import ZooKeeperEnsemble

QUICK = {
    # A dead session is missed sooner than by default, so that tests take seconds.
    "zookeeper.session.timeout.ms": "4000",
    "zookeeper.connection.timeout.ms": "20000",
}
ONLY_THE_STORYS_TOPICS = {"auto.create.topics.enable": "false"}
"""A client of somebody else's, which looks for its cluster where this one listens now, creates nothing here."""
OF_THE_QUORUM = ("process.roles", "controller.quorum.voters")


class ZooKeeperCluster(ClusterProcesses):
    """Use it as a context manager, inside that of its ensemble; `chroot` is where in the tree it lives."""

    def __init__(
        self,
        directory: Path,
        ensemble: ZooKeeperEnsemble,
        nodes: int = 3,
        settings: Mapping[str, str] | None = None,
        *,
        links: bool = False,
        chroot: str = "",
    ) -> None:
        self.ensemble = ensemble
        self._chroot = chroot
        self._client: Any = None
        self._relays: list[Relay] = []
        own = {**QUICK, "zookeeper.connect": ensemble.connect + chroot, **(settings or {})}
        # Whatever else is under test: Kafka 4 has no other way than the quorum.
        super().__init__(directory, nodes, own, links=links, voters=nodes, kind="ottla")
        for node in self.nodes.values():
            for name in OF_THE_QUORUM:
                del node.settings[name]
            node.write_settings()

    def reach_over_relays(self) -> dict[int, Relay]:
        """Before the start: each node reaches ZooKeeper, of one server, over a relay of its own."""
        (server,) = self.ensemble.servers.values()
        relays = {number: Relay(server.port) for number in self.nodes}
        for number, node in self.nodes.items():
            node.settings["zookeeper.connect"] = f"{HOST}:{relays[number].port}{self._chroot}"
            node.write_settings()
        self._relays += relays.values()
        return relays

    @property
    def tree(self) -> Any:
        """A client of kazoo's for the test's own looks."""
        if self._client is None:
            self._client = self.ensemble.client(self._chroot)
        return self._client

    def znode(self, path: str) -> Any:
        """The JSON in a znode; None where there is none or nobody answers."""
        try:
            return json.loads(self.tree.get(path)[0])
        except KazooException:
            return None

    def controller(self) -> int:
        """The holder of `/controller`, once there is one that runs."""

        def look() -> int:
            found = self.znode("/controller")
            number = int(found["brokerid"]) if found else 0
            return number if number in self.nodes and self.nodes[number].reachable else 0

        return until(look, "a controller", HEAL_SECONDS)

    def _end(self) -> None:
        if self._client is not None:
            self._client.stop()
            self._client.close()
        super()._end()
        for relay in self._relays:
            relay.close()
