"""The two brokers under measurement, started and stopped as processes on loopback.

Owns: their processes, data directories and what the kernel knows of them (CPU time, memory). Never knows: what is
measured. Invariants: only processes started here are ended; only directories below bench/work are removed.
"""

import abc
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from bench.wire import Connection

HERE = Path(__file__).parent
WORK = HERE / "work"
START_SECONDS = 120.0
POLL_SECONDS = 0.001
HEAP = "1G"  # what Kafka's own start script gives a broker


class DidNotStart(Exception):
    """The process ended or did not answer in time."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Broker(abc.ABC):
    """One broker process with one data directory."""

    name: str

    def __init__(self, directory: str) -> None:
        self.home = WORK / f"{self.name}-{directory}"
        self.data = self.home / "data"
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @abc.abstractmethod
    def command(self) -> list[str]:
        """What to execute."""

    def format(self) -> None:
        """Make an empty data directory."""
        self.remove()
        self.data.mkdir(parents=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker runs"
        return self._process.pid

    def start(self) -> float:
        """Execute the process; the seconds until it answered a first ApiVersions request."""
        with (self.home / "log").open("ab") as log:
            begin = time.perf_counter()
            self._process = subprocess.Popen(self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        while True:
            try:
                with Connection(self.port, START_SECONDS) as connection:
                    connection.api_versions()
                return time.perf_counter() - begin
            except OSError:
                if self._process.poll() is not None or time.perf_counter() - begin > START_SECONDS:
                    tail = (self.home / "log").read_text(errors="replace")[-2000:]
                    raise DidNotStart(f"{self.name} did not start:\n{tail}") from None
                time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(START_SECONDS)
            self._process = None

    def remove(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)

    def cpu_seconds(self) -> float:
        """User and system time of the process, from the kernel's clock for it (nanoseconds, not ticks)."""
        return time.clock_gettime((~self.pid << 3) | 2)

    def resident_megabytes(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))


class Kafka(Broker):
    """Apache Kafka with its own start script's heap and collector; the jars come from scripts/real-kafka."""

    name = "kafka"

    def format(self) -> None:
        super().format()
        controller = free_port()
        (self.home / "server.properties").write_text(
            f"process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}\n"
            f"controller.listener.names=CONTROLLER\nlog.dirs={self.data}\n"
            "offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n"
            "transaction.state.log.min.isr=1\n"
        )
        arguments = ["format", "-t", "b3R0bGFiZW5jaDAwMDAwMQ", "-c", str(self.home / "server.properties")]
        subprocess.run([*java("256m"), "kafka.tools.StorageTool", *arguments], check=True, capture_output=True)

    def command(self) -> list[str]:
        return kafka_command(self.home / "server.properties", HEAP)


class Ottla(Broker):
    """ottla as it is installed beside the running interpreter."""

    name = "ottla"

    def command(self) -> list[str]:
        program = Path(sys.executable).parent / "ottla"
        return [str(program), "serve", "--port", str(self.port), "--data", str(self.data)]


def java(heap: str) -> list[str]:
    """A virtual machine that knows Kafka's classes."""
    jars = libraries()
    return [
        "java",
        f"-Xmx{heap}",
        f"-Dlog4j2.configurationFile={jars.parent / 'log4j2.properties'}",
        "-cp",
        f"{jars}/*",
    ]


def kafka_command(settings: Path, heap: str) -> list[str]:
    """What starts a node of Kafka as its own script does."""
    collector = ["-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"]
    program, *rest = java(heap)
    return [program, f"-Xms{heap}", *collector, *rest, "kafka.Kafka", str(settings)]


def libraries() -> Path:
    found = subprocess.run(
        [str(HERE.parent / "scripts" / "real-kafka"), "libraries"], check=True, stdout=subprocess.PIPE, text=True
    )
    return Path(found.stdout.strip())


BROKERS: tuple[type[Broker], ...] = (Kafka, Ottla)
