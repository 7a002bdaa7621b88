"""A cluster of real processes for tests: started, stopped, killed, frozen and cut off, node by node.

Owns the settings files, the processes and what they said, and waiting until the cluster has healed. Knows of the
protocol only how to ask for metadata and the quorum. `OTTLA_TEST_BROKER=kafka` makes it a cluster of real Kafka nodes:
a test that fails there is itself wrong. Every wait has a deadline and fails with the nodes' last words.
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from kit.brokers.processes import free_port, until
from kit.brokers.proxies import Network
from kit.others import java
from kit.wire.raw import ConnectionClosed, RawConnection

HOST = "127.0.0.1"
START_SECONDS = 120.0
STOP_SECONDS = 120.0
HEAL_SECONDS = 120.0
ASK_SECONDS = 10.0
NOT_YET = ("topic_already_exists", "not_controller", "request_timed_out", "invalid_replication_factor", "no answer")
"""What may be said to an order for a topic until it is there. A broker that is missed for a moment cannot hold one."""
QUICK = {
    # Silence is missed soon, but not when a busy machine lets a process wait for a second or two: that would be another
    # story than the one that is told. (A process that was killed is missed at once, by its port.)
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "6000",
    "controller.quorum.fetch.timeout.ms": "4000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "300",
    "replica.lag.time.max.ms": "6000",
    "replica.fetch.wait.max.ms": "100",
    "replica.fetch.backoff.ms": "100",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}
SILENCE = {
    # For stories of nodes that fall silent, which take as long as it takes until somebody misses them.
    "broker.session.timeout.ms": "3000",
    "controller.quorum.fetch.timeout.ms": "3000",
    "replica.lag.time.max.ms": "3000",
}


def under_test() -> str:
    return os.environ.get("OTTLA_TEST_BROKER", "ottla")


class NodeProcess:
    """One node: its settings file, its process, its log."""

    def __init__(self, node_id: int, folder: Path, settings: Mapping[str, str], kind: str) -> None:
        self.node_id = node_id
        self.kind = kind
        self.folder = folder
        self.settings = dict(settings)
        self.environment: Mapping[str, str] = {}
        """What its process gets beside this one's own."""
        self.port = int(settings["listeners"].split(",")[0].rpartition(":")[2])
        self.process: subprocess.Popen[bytes] | None = None
        self.frozen = False

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def reachable(self) -> bool:
        return self.running and not self.frozen

    def write(self, cluster_id: str) -> None:
        self.format(self.data, cluster_id)
        self.write_settings()

    def format(self, directory: Path, cluster_id: str) -> None:
        """A new disk for this node."""
        directory.mkdir(parents=True)
        identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        directory.joinpath("meta.properties").write_text(
            f"version=1\ncluster.id={cluster_id}\nnode.id={self.node_id}\ndirectory.id={identity}\n"
        )

    def write_settings(self) -> None:
        lines = [f"{name}={value}\n" for name, value in self.settings.items()]
        self.folder.joinpath("server.properties").write_text("".join(lines))

    def start(self) -> None:
        assert not self.running, f"node {self.node_id} runs already"
        file = str(self.folder / "server.properties")
        if self.kind == "kafka":
            command = java.command("kafka.Kafka", file)
        else:
            command = [str(Path(sys.executable).with_name("ottla")), "serve", "--config", file]
        with self.folder.joinpath("log").open("ab") as log:
            environment = {**os.environ, **self.environment}
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        self.frozen = False

    def send(self, number: int) -> None:
        assert self.process is not None, f"node {self.node_id} was never started"
        self.process.send_signal(number)

    def wait(self) -> int:
        assert self.process is not None, f"node {self.node_id} was never started"
        return self.process.wait(STOP_SECONDS)


class ClusterProcesses:
    """Use it as a context manager. Nodes are numbered from 1; the first five or three of them vote."""

    def __init__(
        self,
        directory: Path,
        nodes: int = 3,
        settings: Mapping[str, str] | None = None,
        *,
        links: bool = False,
        voters: int = 3,
        kind: str = "",
    ) -> None:
        """`kind` is for tests that run against both: `ottla` or `kafka`; otherwise it is what is under test."""
        self.kind = kind or under_test()
        self.nodes: dict[int, NodeProcess] = {}
        self.network = Network(self._pids) if links else None
        self._directory = directory
        self._plan(nodes, min(voters, nodes), {**QUICK, **(settings or {})})

    def _plan(self, count: int, voters: int, settings: Mapping[str, str]) -> None:
        numbers = range(1, count + 1)
        ports = {number: (free_port(), free_port(), free_port()) for number in numbers}
        reached = {number: ports[number][1:] for number in numbers}
        if self.network is not None:
            for number in numbers:
                between, control = reached[number]
                reached[number] = self.network.proxy(number, between), self.network.proxy(number, control)
        voting = ",".join(f"{number}@{HOST}:{reached[number][1]}" for number in numbers[:voters])
        copies = min(3, count)
        self.id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
        for number in numbers:
            client, between, control = ports[number]
            votes = number <= voters
            folder = self._directory / f"node-{number}"
            values = {
                "node.id": str(number),
                "process.roles": "broker,controller" if votes else "broker",
                "listeners": _listeners(client, between, control if votes else None),
                "advertised.listeners": _listeners(client, reached[number][0], reached[number][1] if votes else None),
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BETWEEN:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "BETWEEN",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voting,
                "log.dirs": str(folder / "data"),
                "default.replication.factor": str(copies),
                "min.insync.replicas": str(min(2, copies)),
                "offsets.topic.replication.factor": str(copies),
                "transaction.state.log.replication.factor": str(copies),
                "transaction.state.log.min.isr": str(min(2, copies)),
                **settings,
            }
            self.nodes[number] = NodeProcess(number, folder, values, self.kind)
            self.nodes[number].write(self.id)

    def _pids(self) -> dict[int, int]:
        return {node.node_id: node.process.pid for node in self.nodes.values() if node.process is not None}

    # --- what a test does to nodes ------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{node.port}" for node in self.nodes.values())

    def start(self, *numbers: int) -> None:
        """Start nodes, all where none is named, and wait until each answers and the cluster knows it."""
        chosen = self._chosen(numbers)
        for node in chosen:
            node.start()
        until(partial(self._known, chosen), f"nodes {self._names(chosen)} are up", START_SECONDS)

    def stop(self, *numbers: int) -> None:
        """A clean stop, all at the same time."""
        chosen = [node for node in self._chosen(numbers) if node.running]
        for node in chosen:
            node.send(signal.SIGTERM)
        for node in chosen:
            code = node.wait()
            assert code in (0, 143), f"node {node.node_id} ended with {code}; it said:\n{node.log[-3000:]}"

    def kill(self, *numbers: int) -> None:
        """kill -9, all at the same time."""
        chosen = [node for node in self._chosen(numbers) if node.running]
        for node in chosen:
            node.send(signal.SIGKILL)
        for node in chosen:
            node.wait()

    def freeze(self, *numbers: int) -> None:
        """SIGSTOP: alive for the kernel, silent for everybody else."""
        for node in self._chosen(numbers):
            node.send(signal.SIGSTOP)
            node.frozen = True

    def thaw(self, *numbers: int) -> None:
        for node in self._chosen(numbers):
            node.send(signal.SIGCONT)
            node.frozen = False

    def restart(self, *numbers: int) -> None:
        self.stop(*numbers)
        self.start(*numbers)

    def _chosen(self, numbers: Sequence[int]) -> list[NodeProcess]:
        return [self.nodes[number] for number in numbers or self.nodes]

    @staticmethod
    def _names(nodes: Iterable[NodeProcess]) -> str:
        return ", ".join(str(node.node_id) for node in nodes)

    # --- what the cluster says ----------------------------------------------------------------------------------------

    def ask(self, number: int, api: str, version: int, **fields: Any) -> dict[str, Any] | None:
        """One node's answer, or None when it does not answer."""
        try:
            with RawConnection(HOST, self.nodes[number].port, seconds=ASK_SECONDS) as connection:
                return connection.ask(api, version, **fields)
        except (OSError, ConnectionClosed):
            return None

    def metadata(self, number: int, *topics: str) -> dict[str, Any] | None:
        wanted = [{"name": topic} for topic in topics] if topics else None
        return self.ask(number, "metadata", 12, topics=wanted)

    def partition(self, topic: str, index: int = 0) -> dict[str, Any]:
        """A partition as the first node that answers sees it."""

        def look() -> dict[str, Any] | None:
            for node in self.nodes.values():
                answer = self.metadata(node.node_id, topic) if node.reachable else None
                for row in answer["topics"][0]["partitions"] if answer else ():
                    if row["partition_index"] == index:
                        return dict(row)
            return None

        found = until(look, f"partition {index} of {topic}", HEAL_SECONDS)
        assert found is not None
        return found

    def leader(self, topic: str, index: int = 0) -> int:
        """The leader, once there is one that runs."""

        def look() -> int:
            found = self.partition(topic, index)["leader_id"]
            return found if found in self.nodes and self.nodes[found].reachable else 0

        return until(look, f"a leader of partition {index} of {topic}", HEAL_SECONDS)

    def controller(self) -> int:
        """The leader of the metadata quorum, once there is one that runs."""
        topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]

        def look() -> int:
            for node in self.nodes.values():
                answer = self.ask(node.node_id, "describe_quorum", 0, topics=topics) if node.reachable else None
                for topic in answer["topics"] if answer else ():
                    found = int(topic["partitions"][0]["leader_id"])
                    if found in self.nodes and self.nodes[found].reachable:
                        return found
            return 0

        return until(look, "a controller", HEAL_SECONDS)

    def create_topic(self, name: str, partitions: int = 1, copies: int = 3, **configs: str) -> None:
        """A topic that every node knows and whose partitions have all their replicas in sync."""
        rows = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": copies, "configs": rows}

        def create() -> bool:
            answer = self.ask(next(iter(self._reachable())), "create_topics", 7, topics=[topic], timeout=10_000)
            error = answer["topics"][0]["error_code"] if answer else "no answer"
            assert error == "none" or error in NOT_YET, answer
            return error in ("none", "topic_already_exists")

        until(create, f"topic {name} is made", HEAL_SECONDS)
        until(partial(self.in_sync, name), f"topic {name} is in sync", HEAL_SECONDS)

    def spread(self, topic: str, partitions: int) -> None:
        """See to it that every partition is led by the first of its replicas: they lie on different nodes."""
        rows = [{"topic": topic, "partitions": list(range(partitions))}]

        def preferred() -> bool:
            found = [self.partition(topic, index) for index in range(partitions)]
            if all(row["leader_id"] == row["replica_nodes"][0] for row in found):
                return True
            asked = next(iter(self._reachable()))
            self.ask(asked, "elect_leaders", 2, election_type=0, topic_partitions=rows, timeout=10_000)
            return False

        until(preferred, f"{topic} is led by the first of its replicas", HEAL_SECONDS)

    def in_sync(self, *topics: str) -> bool:
        """Whether every running node says: all running nodes are there, every partition led and whole."""
        running = set(self._reachable())
        for number in running:
            answer = self.metadata(number, *topics)
            if answer is None or {row["node_id"] for row in answer["brokers"]} != running:
                return False
            for topic in answer["topics"]:
                if topic["error_code"] != "none" or not all(
                    row["leader_id"] in running and len(row["isr_nodes"]) == len(row["replica_nodes"])
                    for row in topic["partitions"]
                ):
                    return False
        return bool(running)

    def heal(self, seconds: float = HEAL_SECONDS) -> None:
        """Wait until every partition of every topic has all its replicas in sync, in the eyes of every node."""
        try:
            until(self.in_sync, "the cluster is whole", seconds)
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{self.last_words()}") from None

    def last_words(self) -> str:
        said = [f"--- node {node.node_id}:\n{node.log[-2500:]}" for node in self.nodes.values()]
        seen = [f"node {number} sees {self.metadata(number)}" for number in self._reachable()]
        return "\n".join([*said, *seen])

    def _reachable(self) -> list[int]:
        return [node.node_id for node in self.nodes.values() if node.reachable]

    def _known(self, chosen: Sequence[NodeProcess]) -> bool:
        """Whether each of these nodes answers and knows itself and the others of them as living."""
        for node in chosen:
            if not node.running:
                raise AssertionError(f"node {node.node_id} ended; it said:\n{node.log[-3000:]}")
        for node in chosen:
            answer = self.metadata(node.node_id)
            living = {row["node_id"] for row in answer["brokers"]} if answer else set()
            if not {each.node_id for each in chosen} <= living:
                return False
        return True

    # --- as a context -------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            print(self.last_words())
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if kind is None:
                for number in [node.node_id for node in self.nodes.values() if node.frozen]:
                    self.thaw(number)
                self.stop()
            else:
                print(self.last_words())
        finally:
            self._end()

    def _end(self) -> None:
        self.kill()
        if self.network is not None:
            self.network.close()


class NewCluster(Protocol):
    """Three nodes of this test's own, to be used as a context manager."""

    def __call__(
        self, nodes: int = 3, settings: Mapping[str, str] | None = None, *, links: bool = False
    ) -> ClusterProcesses: ...


def _listeners(client: int, between: int, control: int | None) -> str:
    ports = {"PLAINTEXT": client, "BETWEEN": between, "CONTROLLER": control}
    return ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items() if port is not None)
