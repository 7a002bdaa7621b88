"""Real ZooKeeper servers for tests, from Maven's jars: one, or an ensemble of three, killed and started one by one.

Owns the servers' settings files, processes and data. Every wait has a deadline and fails with what the servers said.
"""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

from kit.brokers.processes import free_port, until
from kit.others.debian import REPOSITORY, program

HOST = "127.0.0.1"
SCRIPT = REPOSITORY / "scripts" / "real-zookeeper"
START_SECONDS = 60.0
TICK_MS = 200
"""A short tick allows short sessions (from two ticks on), so that tests take seconds."""


@cache
def libraries() -> Path:
    """The folder of ZooKeeper's jars; fetched by Maven the first time."""
    for needed in ("java", "mvn"):
        program(needed)
    answer = subprocess.run([str(SCRIPT)], check=False, capture_output=True, text=True)
    assert answer.returncode == 0, f"ZooKeeper's jars could not be fetched:\n{answer.stderr}"
    return Path(answer.stdout.strip())


def java(main: str, *arguments: str) -> list[str]:
    """The command line of one of ZooKeeper's own programs."""
    return [
        program("java"), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dzookeeper.4lw.commands.whitelist=*",
        "-Dzookeeper.admin.enableServer=false", "-cp", f"{libraries()}/*", main, *arguments,
    ]  # fmt: skip


class ZooKeeperServer:
    """One server of an ensemble."""

    def __init__(self, number: int, folder: Path, options: Sequence[str]) -> None:
        self.number = number
        self.options = options
        self.folder = folder
        self.port, self.quorum_port, self.election_port = free_port(), free_port(), free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def write(self, ensemble: list[ZooKeeperServer], settings: Mapping[str, str]) -> None:
        data = self.folder / "data"
        data.mkdir(parents=True)
        (data / "myid").write_text(str(self.number))
        values = {
            "tickTime": str(TICK_MS),
            "initLimit": "50",
            "syncLimit": "25",
            "dataDir": str(data),
            "clientPort": str(self.port),
            "clientPortAddress": HOST,
            "maxClientCnxns": "0",
            "maxSessionTimeout": "60000",
            # A test's disk may be slow and its machine does not lose power.
            "forceSync": "no",
            **settings,
        }
        if len(ensemble) > 1:
            for server in ensemble:
                values[f"server.{server.number}"] = f"{HOST}:{server.quorum_port}:{server.election_port}"
        lines = [f"{name}={value}\n" for name, value in values.items()]
        (self.folder / "zoo.cfg").write_text("".join(lines))

    def start(self) -> None:
        command = java("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self.folder / "zoo.cfg"))
        command[1:1] = self.options
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(30)

    def ask(self, word: str) -> str:
        """One of ZooKeeper's four letter words; empty when it does not answer."""
        try:
            with socket.create_connection((HOST, self.port), 5) as connection:
                connection.sendall(word.encode())
                connection.shutdown(socket.SHUT_WR)
                answer = b""
                while portion := connection.recv(65536):
                    answer += portion
                return answer.decode(errors="replace")
        except OSError:
            return ""

    @property
    def mode(self) -> str:
        """`standalone`, `leader`, `follower`, or empty while it serves nobody."""
        for line in self.ask("srvr").splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        return ""


class ZooKeeperEnsemble:
    """Use it as a context manager. `settings` are ZooKeeper's own, `options` are Java's."""

    def __init__(
        self,
        directory: Path,
        servers: int = 1,
        settings: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self.servers = {
            number: ZooKeeperServer(number, directory / f"server-{number}", options) for number in range(1, servers + 1)
        }
        for server in self.servers.values():
            server.write(list(self.servers.values()), settings or {})

    @property
    def connect(self) -> str:
        return ",".join(f"{HOST}:{server.port}" for server in self.servers.values())

    def start(self, *numbers: int) -> None:
        """Start servers, all where none is named, and wait until they serve."""
        for number in numbers or self.servers:
            self.servers[number].start()
        until(partial(self._serve, numbers), "ZooKeeper serves", START_SECONDS)

    def _serve(self, numbers: tuple[int, ...]) -> bool:
        for number in numbers or self.servers:
            server = self.servers[number]
            assert server.running, f"ZooKeeper server {number} ended; it said:\n{server.log[-3000:]}"
        return all(self.servers[number].mode for number in numbers or self.servers)

    def kill(self, *numbers: int) -> None:
        """kill -9, all where none is named."""
        for number in numbers or self.servers:
            self.servers[number].kill()

    def leader(self) -> int:
        """The number of the server that leads."""
        return until(
            lambda: next((each.number for each in self.servers.values() if each.mode in ("leader", "standalone")), 0),
            "an ensemble with a leader",
            START_SECONDS,
        )

    def client(self, chroot: str = "") -> Any:
        """A client of kazoo's, started; after an outage it is back within a second."""
        again = KazooRetry(max_tries=-1, max_delay=1.0)
        client = KazooClient(hosts=self.connect + chroot, timeout=10.0, connection_retry=again)
        client.start(timeout=START_SECONDS)
        return client

    def shell(self, *command: str, typed: str = "") -> str:
        """What ZooKeeper's own shell prints, of one command or of lines that are typed."""
        answer = subprocess.run(
            java("org.apache.zookeeper.ZooKeeperMain", "-server", self.connect, *command),
            check=True,
            input=typed,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return answer.stdout

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
