"""ZooKeeper servers on this machine, for a cluster that is developed on.

Owns: finding the ZooKeeper that is installed, the servers' files (DIR/zookeeper-k), their processes and their end.
Never knows: what the tree holds. Invariants: files are written once and found again; when `stop` returns, every server
that was started has ended.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.node.local_cluster import HOST, LAST_PORT, is_free
from ottla.node.options import StartFailure

PORTS_ABOVE = 20_000
"""Where the servers listen, counted from the port of the first broker; between themselves 100 and 200 above that."""
ROWS = 90
"""How many ports are tried until some are free."""
FOLDER = "zookeeper-"
DEBIAN_JAR = "/usr/share/java/zookeeper.jar"
"""It names the jars that it needs itself."""
OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-cp")
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
STOP_SECONDS = 20.0
HOW_TO_INSTALL = (
    "ZooKeeper is not installed here: on Debian and Ubuntu 'apt-get install zookeeper' does it; elsewhere unpack a "
    "release of Apache ZooKeeper and set ZOOKEEPER_HOME to its folder. (The built-in quorum needs neither.)"
)


class LocalServer(NamedTuple):
    """One server of the ensemble."""

    number: int
    folder: str
    port: int

    @property
    def settings_file(self) -> str:
        return os.path.join(self.folder, "zoo.cfg")

    @property
    def log_file(self) -> str:
        return os.path.join(self.folder, "log")

    @property
    def pid_file(self) -> str:
        return os.path.join(self.folder, "pid")

    @property
    def between(self) -> str:
        """Where the servers find this one, and vote."""
        return f"{HOST}:{self.port + 100}:{self.port + 200}"


def prepare_ensemble(directory: str, servers: int | None, first_broker_port: int) -> list[LocalServer]:
    """The servers of the cluster in `directory`, made or found. Raises StartFailure."""
    root = os.path.abspath(directory)
    try:
        found = _find(root)
        if found and servers not in (None, len(found)):
            raise StartFailure(
                f"{directory} holds {len(found)} ZooKeeper server{'s' if len(found) > 1 else ''}, which stay as many; "
                "leave --zookeeper-servers out, or choose another --data."
            )
        ensemble = found or _plan(root, servers or 1, first_broker_port + PORTS_ABOVE)
        for server in ensemble:
            if not is_free(server.port):
                raise StartFailure(
                    f"port {server.port} of ZooKeeper server {server.number} is in use by another process; stop it, or "
                    "choose another --port and --data."
                )
        for server in () if found else ensemble:
            _write(server, ensemble)
    except OSError as problem:
        place = problem.filename or directory
        raise StartFailure(f"cannot use {place}: {problem.strerror or problem}; choose another --data.") from None
    return ensemble


def connect_string(ensemble: Sequence[LocalServer]) -> str:
    """As the setting zookeeper.connect names them."""
    return ",".join(f"{HOST}:{server.port}" for server in ensemble)


def _find(root: str) -> list[LocalServer]:
    found: list[LocalServer] = []
    while True:
        folder = os.path.join(root, f"{FOLDER}{len(found) + 1}")
        path = os.path.join(folder, "zoo.cfg")
        if not os.path.exists(path):
            return found
        with open(path, encoding="utf-8") as file:
            ports = [line.partition("=")[2] for line in file if line.startswith("clientPort=")]
        if not ports or not ports[0].strip().isdigit():
            raise StartFailure(f"{path} names no clientPort; correct it, or choose another --data.")
        found.append(LocalServer(len(found) + 1, folder, int(ports[0])))


def _plan(root: str, count: int, first_port: int) -> list[LocalServer]:
    """At the wanted ports, or at the next ones that are free."""
    if first_port + ROWS + 200 > LAST_PORT:
        first_port -= 2 * PORTS_ABOVE
    for first in range(first_port, first_port + ROWS):
        planned = [
            LocalServer(number, os.path.join(root, f"{FOLDER}{number}"), first + number - 1)
            for number in range(1, count + 1)
        ]
        if all(is_free(server.port + above) for server in planned for above in (0, 100, 200)):
            return planned
    raise StartFailure(f"no ports are free for ZooKeeper from {first_port} on; choose another --port.")


def _write(server: LocalServer, ensemble: Sequence[LocalServer]) -> None:
    data = os.path.join(server.folder, "data")
    os.makedirs(data, exist_ok=True)
    with open(os.path.join(data, "myid"), "w", encoding="ascii") as file:
        file.write(f"{server.number}\n")
    with open(server.settings_file, "w", encoding="utf-8") as file:
        file.write(settings_text(server, ensemble))


def settings_text(server: LocalServer, ensemble: Sequence[LocalServer]) -> str:
    """The settings file of a server."""
    values = {
        "tickTime": "2000",
        "initLimit": "10",
        "syncLimit": "5",
        "dataDir": os.path.join(server.folder, "data"),
        "clientPortAddress": HOST,
        "clientPort": str(server.port),
        "admin.enableServer": "false",
        "autopurge.purgeInterval": "1",
    }
    if len(ensemble) > 1:
        values |= {f"server.{each.number}": each.between for each in ensemble}
    head = f"# ZooKeeper server {server.number} of a cluster on this machine, written by 'ottla cluster start'.\n"
    return head + "".join(f"{name}={value}\n" for name, value in values.items())


def launch_command(environment: Mapping[str, str]) -> list[str]:
    """What runs a server in the foreground, but for its settings file. Raises StartFailure where there is none."""
    path = environment.get("PATH")
    java = shutil.which("java", path=path)
    script = shutil.which("zkServer.sh", path=path)
    homes = [environment.get("ZOOKEEPER_HOME"), script and os.path.dirname(os.path.dirname(os.path.realpath(script)))]
    for home in filter(None, homes):
        folders = [folder for folder in (home, os.path.join(home, "lib")) if _has_jars(folder)]
        if java and folders:
            return [java, *OPTIONS, os.pathsep.join(os.path.join(folder, "*") for folder in folders), MAIN]
    if java and os.path.exists(DEBIAN_JAR):
        return [java, *OPTIONS, DEBIAN_JAR, MAIN]
    raise StartFailure(HOW_TO_INSTALL)


def _has_jars(folder: str) -> bool:
    return os.path.isdir(folder) and any(name.endswith(".jar") for name in os.listdir(folder))


class LocalEnsemble:
    """The processes of the servers. Nodes wait for them by themselves, as long as zookeeper.connection.timeout.ms."""

    def __init__(self, servers: Sequence[LocalServer], command: Sequence[str]) -> None:
        self._servers = servers
        self._command = command
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        for server in self._servers:
            with open(server.log_file, "ab") as log:
                # A process group of its own: Ctrl-C reaches it when the nodes have ended, not before.
                process = subprocess.Popen(
                    [*self._command, server.settings_file],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    process_group=0,
                    cwd=server.folder,
                )
            self._running.append(process)
            with open(server.pid_file, "w", encoding="ascii") as file:
                file.write(f"{process.pid}\n")

    def stop(self) -> None:
        """Tell all, and kill those that do not hear."""
        for process in self._running:
            process.terminate()
        for process in self._running:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for server in self._servers[: len(self._running)]:
            # A process that ended leaves no number behind that may soon belong to somebody else.
            with contextlib.suppress(OSError):
                os.unlink(server.pid_file)
        self._running = []
