"""The files of a cluster on one machine: a directory with one folder a node.

Owns: what is written at the first start (settings, data directories with one cluster id for all) and read at the next
ones, and which ports the nodes use. Never knows: processes (`local_processes`), the inside of a node.
Invariants: a settings file is written once and never changed; nodes that join later are brokers and leave the voters as
they are; nothing is written when anything stands against the start.
"""

import os
import socket
from typing import NamedTuple

from ottla.base.settings.file import parse_properties
from ottla.node.listeners import BadListener, parse_listeners
from ottla.node.options import StartFailure

HOST = "127.0.0.1"
DEFAULT_BROKERS = 3
DEFAULT_PORT = 9092
CONTROLLER_PORTS_ABOVE = 10_000
"""Where controllers listen, counted from the ports of the brokers, as long as those ports are free."""
REPLICAS = 3
MOST_VOTERS = 5
LAST_PORT = 65_535


class LocalNode(NamedTuple):
    """One node: its number, folder and ports; no controller port where it is only a broker."""

    node_id: int
    folder: str
    port: int
    controller_port: int | None

    @property
    def settings_file(self) -> str:
        return os.path.join(self.folder, "server.properties")

    @property
    def data(self) -> str:
        return os.path.join(self.folder, "data")

    @property
    def pid_file(self) -> str:
        return os.path.join(self.folder, "pid")

    @property
    def log_file(self) -> str:
        return os.path.join(self.folder, "log")

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def voter(self) -> str:
        return f"{self.node_id}@{HOST}:{self.controller_port}"


class Coordinators(NamedTuple):
    """Who keeps the metadata: the voters, or the ensemble as zookeeper.connect names it."""

    voters: list[str]
    zookeeper: str | None = None


def prepare(directory: str, brokers: int | None, port: int | None, zookeeper: str | None = None) -> list[LocalNode]:
    """The nodes of the cluster in `directory`, made or found, ready to be started. Raises StartFailure.

    `zookeeper` is the ensemble that coordinates them instead of a quorum of their own.
    """
    root = os.path.abspath(directory)
    try:
        found = _find(root)
        first = found[0].port if found else DEFAULT_PORT if port is None else port
        if port is not None and first != port:
            raise StartFailure(
                f"the cluster in {directory} has its ports from {first}, not {port}; "
                "leave --port out, or choose another --data."
            )
        count = (len(found) or DEFAULT_BROKERS) if brokers is None else brokers
        if count < len(found):
            raise StartFailure(
                f"{directory} holds {len(found)} nodes; a start cannot take nodes away (--brokers {len(found)})."
            )
        voters = [node.voter for node in found if node.controller_port is not None]
        voting = 0 if found or zookeeper is not None else voter_count(count)
        new = _plan(root, range(len(found) + 1, count + 1), first, voting)
        for node in (*found, *new):
            _check_free(node)
        voters += [node.voter for node in new if node.controller_port is not None]
        if new:
            _write(new, found, Coordinators(voters, zookeeper), min(REPLICAS, count))
    except OSError as problem:
        place = problem.filename or directory
        raise StartFailure(f"cannot use {place}: {problem.strerror or problem}; choose another --data.") from None
    return [*found, *new]


def coordination_of(directory: str) -> str | None:
    """How the cluster in a directory is coordinated, "quorum" or "zookeeper"; None where there is none yet."""
    path = os.path.join(os.path.abspath(directory), "node-1", "server.properties")
    try:
        with open(path, encoding="utf-8") as file:
            return "zookeeper" if "zookeeper.connect" in parse_properties(file.read()) else "quorum"
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise StartFailure(f"cannot use {path}: {problem.strerror or problem}; choose another --data.") from None


def voter_count(brokers: int) -> int:
    """How many of the first nodes also vote: an odd number, for an even one survives no more failures."""
    return min(MOST_VOTERS, brokers - 1 + brokers % 2)


def _find(root: str) -> list[LocalNode]:
    """The nodes whose settings are there, by number."""
    found: list[LocalNode] = []
    while True:
        folder = os.path.join(root, f"node-{len(found) + 1}")
        path = os.path.join(folder, "server.properties")
        if not os.path.exists(path):
            return found
        with open(path, encoding="utf-8") as file:
            values = parse_properties(file.read())
        try:
            listeners = parse_listeners(values.get("listeners", "").split(","), "listeners")
        except BadListener as problem:
            raise StartFailure(f"{path}: {problem}") from None
        ports = {listener.name: listener.port for listener in listeners}
        if "PLAINTEXT" not in ports or values.get("node.id") != str(len(found) + 1):
            raise StartFailure(f"{path} does not describe node {len(found) + 1} of a cluster on this machine.")
        found.append(LocalNode(len(found) + 1, folder, ports["PLAINTEXT"], ports.get("CONTROLLER")))


def _plan(root: str, numbers: range, first_port: int, voters: int) -> list[LocalNode]:
    taken = {first_port + number - 1 for number in numbers}
    planned = []
    for number in numbers:
        port = first_port + number - 1
        if port > LAST_PORT:
            raise StartFailure(f"node {number} would have port {port}; choose a smaller --port.")
        controller_port = None
        if number <= voters:
            controller_port = _controller_port(port + CONTROLLER_PORTS_ABOVE, taken)
            taken.add(controller_port)
        planned.append(LocalNode(number, os.path.join(root, f"node-{number}"), port, controller_port))
    return planned


def _controller_port(wanted: int, taken: set[int]) -> int:
    """The wanted port, or any other that is free."""
    while wanted > LAST_PORT or wanted in taken or not is_free(wanted):
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            wanted = probe.getsockname()[1]
    return wanted


def is_free(port: int) -> bool:
    """Whether nobody listens there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _check_free(node: LocalNode) -> None:
    for port in (node.port, node.controller_port):
        if port is not None and not is_free(port):
            raise StartFailure(
                f"port {port} of node {node.node_id} is in use by another process; "
                "stop it, or choose another --port and --data."
            )


def _write(new: list[LocalNode], found: list[LocalNode], coordinators: Coordinators, replicas: int) -> None:
    from ottla.base.vocabulary import identity_text
    from ottla.log.properties import DirectoryProperties, read_directory_properties, write_directory_properties
    from ottla.runtime.disk import RealDisk
    from ottla.runtime.world import RealRandom

    disk, random = RealDisk(), RealRandom()
    of_first = read_directory_properties(disk, found[0].data) if found else None
    cluster_id = identity_text(random.identity()) if of_first is None else of_first.cluster_id
    for node in new:
        os.makedirs(node.data, exist_ok=True)
        if read_directory_properties(disk, node.data) is None:
            properties = DirectoryProperties(cluster_id, node.node_id, random.identity())
            write_directory_properties(disk, node.data, properties)
        # The file that makes a folder a node comes last: a start that was cut off before is simply done again.
        with open(node.settings_file, "w", encoding="utf-8") as file:
            file.write(settings_text(node, coordinators, replicas))


def settings_text(node: LocalNode, coordinators: Coordinators, replicas: int) -> str:
    """The settings file of a node: where it listens and keeps its data, who coordinates, how many copies there are."""
    listeners = [f"PLAINTEXT://{node.address}"]
    roles = ["broker"]
    if node.controller_port is not None:
        listeners.append(f"CONTROLLER://{HOST}:{node.controller_port}")
        roles.append("controller")
    in_sync = 2 if replicas >= REPLICAS else 1
    of_quorum = {
        "process.roles": ",".join(roles),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(coordinators.voters),
    }
    zookeeper = coordinators.zookeeper
    values = {
        "node.id": str(node.node_id),
        "listeners": ",".join(listeners),
        **(of_quorum if zookeeper is None else {"zookeeper.connect": zookeeper}),
        "log.dirs": node.data.replace("\\", "\\\\"),
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "group.initial.rebalance.delay.ms": "0",
    }
    head = f"# Node {node.node_id} of a cluster on this machine, written by 'ottla cluster start'.\n"
    return head + "".join(f"{name}={value}\n" for name, value in values.items())
