"""Three nodes of each system on this machine, as one cluster.

Owns: their processes, ports and files, and what the kernel knows of them. Never knows: what is measured.
Invariants: only processes started here are ended; only directories below bench/work are removed.
"""

import abc
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from bench.brokers import HEAP, START_SECONDS, WORK, DidNotStart, java, kafka_command

NODES = (1, 2, 3)
FIRST_PORT = 20_500
CONTROLLERS_ABOVE = 10_000


class Cluster(abc.ABC):
    """Three nodes; node k is `address_of(k)`."""

    name: str

    def __init__(self, directory: str) -> None:
        self.home = WORK / f"{self.name}-{directory}"
        self.first_port = free_ports()
        self._own: dict[int, subprocess.Popen[bytes]] = {}

    @abc.abstractmethod
    def format(self) -> None:
        """Make empty data directories."""

    @abc.abstractmethod
    def start(self) -> None:
        """Execute all three; returns before they are ready."""

    @abc.abstractmethod
    def command(self, node: int) -> list[str]:
        """What starts one of them again."""

    @abc.abstractmethod
    def pid_of(self, node: int) -> int: ...

    def port_of(self, node: int) -> int:
        return self.first_port + node - 1

    @property
    def address(self) -> str:
        return ",".join(f"127.0.0.1:{self.port_of(node)}" for node in NODES)

    def restart(self, node: int) -> None:
        """Start a node that was ended."""
        with (self.home / f"restarted-{node}.log").open("ab") as log:
            self._own[node] = subprocess.Popen(self.command(node), stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def runs(self) -> bool:
        """Raises DidNotStart when a process has ended by itself."""
        for node, process in self._own.items():
            if process.poll() is not None:
                log = (self.home / f"restarted-{node}.log").read_text(errors="replace")
                raise DidNotStart(f"node {node} of {self.name} ended:\n{log[-2000:]}")
        return True

    def wait_for_end(self, pid: int, node: int) -> None:
        """Until the process of a node is gone."""
        own = self._own.pop(node, None)
        if own is not None:
            own.wait(START_SECONDS)
        deadline = time.monotonic() + START_SECONDS
        while is_running(pid):
            if time.monotonic() > deadline:
                raise DidNotStart(f"node {node} of {self.name} does not end")
            time.sleep(0.01)

    def stop(self) -> None:
        for process in self._own.values():
            process.terminate()
        for process in self._own.values():
            try:
                process.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._own.clear()

    def remove(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)

    def cpu_seconds(self) -> float:
        return sum(time.clock_gettime((~self.pid_of(node) << 3) | 2) for node in NODES)

    def resident_megabytes(self) -> float:
        """Of all three."""
        return sum(resident_kilobytes(self.pid_of(node)) for node in NODES) / 1024


class KafkaCluster(Cluster):
    """Apache Kafka: each node is a broker and a controller."""

    name = "kafka"

    def format(self) -> None:
        self.remove()
        controllers = {node: self.port_of(node) + CONTROLLERS_ABOVE for node in NODES}
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in controllers.items())
        for node, port in controllers.items():
            (self.home / f"node-{node}").mkdir(parents=True)
            self._settings(node).write_text(
                f"process.roles=broker,controller\nnode.id={node}\ncontroller.quorum.voters={voters}\n"
                f"listeners=PLAINTEXT://127.0.0.1:{self.port_of(node)},CONTROLLER://127.0.0.1:{port}\n"
                f"controller.listener.names=CONTROLLER\nlog.dirs={self.home}/node-{node}/data\n"
                "min.insync.replicas=2\n"  # as ottla writes it for a cluster of three
            )
            arguments = ["format", "-t", "b3R0bGFiZW5jaDAwMDAwMQ", "-c", str(self._settings(node))]
            subprocess.run([*java("256m"), "kafka.tools.StorageTool", *arguments], check=True, capture_output=True)

    def _settings(self, node: int) -> Path:
        return self.home / f"node-{node}" / "server.properties"

    def command(self, node: int) -> list[str]:
        return kafka_command(self._settings(node), HEAP)

    def start(self) -> None:
        for node in NODES:
            self.restart(node)

    def pid_of(self, node: int) -> int:
        return self._own[node].pid


class OttlaCluster(Cluster):
    """ottla as `ottla cluster start` runs it; a node that was ended is started again by `ottla serve`."""

    name = "ottla"
    program = str(Path(sys.executable).parent / "ottla")
    _all: subprocess.Popen[bytes] | None = None

    def format(self) -> None:
        self.remove()
        self.home.mkdir(parents=True)

    def command(self, node: int) -> list[str]:
        return [self.program, "serve", "--config", str(self.home / f"node-{node}" / "server.properties")]

    def start(self) -> None:
        arguments = ["--brokers", str(len(NODES)), "--port", str(self.first_port), "--data", str(self.home)]
        with (self.home / "log").open("ab") as log:
            self._all = subprocess.Popen(
                [self.program, "cluster", "start", *arguments],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def pid_of(self, node: int) -> int:
        own = self._own.get(node)
        return own.pid if own is not None else int((self.home / f"node-{node}" / "pid").read_text())

    def runs(self) -> bool:
        if self._all is not None and self._all.poll() is not None:
            log = (self.home / "log").read_text(errors="replace")
            raise DidNotStart(f"the cluster of {self.name} ended:\n{log[-2000:]}")
        return super().runs()

    def stop(self) -> None:
        super().stop()
        if self._all is not None:
            self._all.terminate()
            self._all.wait(START_SECONDS)
            self._all = None


def resident_kilobytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1])


def is_running(pid: int) -> bool:
    """A process that has ended but that nobody has waited for does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except OSError:
        return False


def free_ports() -> int:
    """The first of three ports in a row that are free, with those of the controllers above them: all below those that
    the system gives to clients, which would otherwise take one now and then."""
    for first in range(FIRST_PORT, FIRST_PORT + CONTROLLERS_ABOVE, len(NODES)):
        try:
            for port in range(first, first + len(NODES)):
                for each in (port, port + CONTROLLERS_ABOVE):
                    with socket.socket() as probe:
                        probe.bind(("127.0.0.1", each))
        except OSError:
            continue
        return first
    raise DidNotStart("no three free ports in a row")


CLUSTERS: tuple[type[Cluster], ...] = (KafkaCluster, OttlaCluster)
