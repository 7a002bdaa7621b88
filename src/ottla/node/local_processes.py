"""The processes of a cluster on one machine.

Owns: starting one `ottla serve` a node, waiting until all are ready, saying when one ended, stopping all. Never knows:
what is in the settings files (`local_cluster`). Invariants: no node is started a second time by itself; when this ends,
every process it started has ended; Ctrl-C reaches the nodes only through here.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NamedTuple

import ottla
from ottla.node.local_cluster import DEFAULT_PORT, LocalNode, coordination_of, prepare
from ottla.node.options import StartFailure
from ottla.node.signals import ending_signals
from ottla.runtime.world import RealClock

STOP_SECONDS = 60.0
LAST_WORDS_BYTES = 4096
_COORDINATION = {"quorum": "its own quorum", "zookeeper": "ZooKeeper"}


class ClusterRequest(NamedTuple):
    """What `ottla cluster start` was given."""

    directory: str
    brokers: int | None = None
    port: int | None = None
    assignments: Sequence[str] = ()
    coordination: str | None = None
    """"quorum" or "zookeeper"; None is what is there, and the quorum for a new cluster."""
    zookeeper_servers: int | None = None
    metrics_port: int | None = None
    """Of the first node; the others follow. None serves no metrics, unless the settings files want it."""
    as_json: bool = False
    """Whether what happens is told as JSON objects, one a line."""


class _Ready(NamedTuple):
    node_id: int


class _Ended(NamedTuple):
    node_id: int
    code: int


class _Told(NamedTuple):
    """A signal."""

    number: int


_Event = _Ready | _Ended | _Told


def run(wanted: ClusterRequest) -> int:
    """Run the cluster in the foreground until it is told to stop; answers the process's exit code."""
    started = RealClock().monotonic()
    try:
        present = coordination_of(wanted.directory)
        if present is not None and wanted.coordination not in (None, present):
            raise StartFailure(
                f"the cluster in {wanted.directory} is coordinated by {_COORDINATION[present]}; leave --coordination "
                "out, or choose another --data."
            )
        if (wanted.coordination or present) == "zookeeper":
            return _run_with_zookeeper(wanted, started)
        return LocalProcesses(prepare(wanted.directory, wanted.brokers, wanted.port), wanted, started).run()
    except StartFailure as failure:
        print(f"ottla: {failure}", file=sys.stderr)
        return 1


def _run_with_zookeeper(wanted: ClusterRequest, started: float) -> int:
    """The ensemble is there before the nodes and after them."""
    from ottla.node.local_ensemble import LocalEnsemble, connect_string, launch_command, prepare_ensemble

    command = launch_command(os.environ)
    servers = prepare_ensemble(wanted.directory, wanted.zookeeper_servers, wanted.port or DEFAULT_PORT)
    nodes = prepare(wanted.directory, wanted.brokers, wanted.port, connect_string(servers))
    ensemble = LocalEnsemble(servers, command)
    processes = LocalProcesses(nodes, wanted, started)
    try:
        ensemble.start()
        return processes.run()
    finally:
        ensemble.stop()


class LocalProcesses:
    """All nodes of one cluster. Everything that happens comes through one queue, in the main thread."""

    def __init__(self, nodes: Sequence[LocalNode], wanted: ClusterRequest, started: float) -> None:
        self._nodes = {node.node_id: node for node in nodes}
        self._wanted = wanted
        self._started = started
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        # A SimpleQueue may be filled by a signal handler while this very thread waits on it.
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._log_sizes: dict[int, int] = {}

    def run(self) -> int:
        """Start, wait for the end of all nodes or a signal, stop."""
        for number in ending_signals():
            signal.signal(number, self._signalled)
        try:
            for node in self._nodes.values():
                self._start(node)
            failure = self._await_ready()
            if failure is None:
                failure = self._watch()
            code = self._stop()
            if failure is not None:
                raise StartFailure(failure)
            return code
        finally:
            for process in self._running.values():
                process.kill()

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._events.put(_Told(number))

    def _start(self, node: LocalNode) -> None:
        command = [sys.executable, "-P", "-m", "ottla.cli.main", "serve", "--config", node.settings_file]
        for assignment in self._wanted.assignments:
            command += ["--set", assignment]
        if self._wanted.metrics_port is not None:
            command += ["--metrics-port", str(self._wanted.metrics_port + node.node_id - 1)]
        with open(node.log_file, "ab") as log:
            self._log_sizes[node.node_id] = log.tell()
            # A process group of its own: Ctrl-C is ours to pass on, once and to all.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, process_group=0
            )
        self._running[node.node_id] = process
        with open(node.pid_file, "w", encoding="ascii") as file:
            file.write(f"{process.pid}\n")
        threading.Thread(target=self._follow, args=(node, process), daemon=True).start()

    def _follow(self, node: LocalNode, process: subprocess.Popen[bytes]) -> None:
        """In a thread of the node: keep what it prints, and tell the two things that count."""
        assert process.stdout is not None
        with open(node.log_file, "ab") as log:
            for position, line in enumerate(process.stdout):
                log.write(line)
                log.flush()
                if position == 0:
                    self._events.put(_Ready(node.node_id))
        self._events.put(_Ended(node.node_id, process.wait()))

    # --- what happens -------------------------------------------------------------------------------------------------

    def _await_ready(self) -> str | None:
        """None when all nodes are ready, or when somebody wants us to stop; else why the cluster cannot run."""
        awaited = set(self._nodes)
        while awaited:
            event = self._events.get()
            if isinstance(event, _Told):
                self._events.put(event)
                return None
            if isinstance(event, _Ended):
                self._forget(event.node_id)
                return f"node {event.node_id} did not start: {self._last_words(event)}"
            awaited.discard(event.node_id)
        self._tell_ready(RealClock().monotonic() - self._started)
        return None

    def _tell_ready(self, seconds: float) -> None:
        addresses = ",".join(node.address for node in self._nodes.values())
        count = len(self._nodes)
        self._tell(
            f"ottla {ottla.__version__} is ready on {addresses} "
            f"({count} node{'s' if count != 1 else ''}, data in {self._wanted.directory}, {seconds:.2f} s)",
            {
                "event": "ready",
                "version": ottla.__version__,
                "bootstrap": addresses,
                "data": self._wanted.directory,
                "nodes": [
                    {"node_id": node.node_id, "address": node.address, "config": node.settings_file}
                    for node in self._nodes.values()
                ],
                "seconds": round(seconds, 3),
            },
        )

    def _tell(self, sentence: str, document: dict[str, object]) -> None:
        # Who has closed the terminal, or the pipe, wants to hear no more; the nodes are none the worse for it.
        with contextlib.suppress(OSError):
            print(json.dumps(document, ensure_ascii=False) if self._wanted.as_json else sentence, flush=True)

    def _watch(self) -> str | None:
        """None when somebody wants us to stop; a sentence when no node is left."""
        while self._running:
            event = self._events.get()
            if isinstance(event, _Told):
                return None
            if isinstance(event, _Ended):
                node = self._forget(event.node_id)
                reason = self._last_words(event)
                self._tell(
                    f"node {node.node_id} ended: {reason}; "
                    f"start it again with: ottla serve --config {node.settings_file}",
                    {"event": "ended", "node_id": node.node_id, "reason": reason, "config": node.settings_file},
                )
        return "no node is left; see the reasons above."

    def _stop(self) -> int:
        """Stop what runs, all at once; a second signal of a person's, or too long a wait, kills.

        A terminal that is closed sends its signal twice: the system's own and that of the shell.
        """
        self._send(subprocess.Popen.terminate)
        deadline = RealClock().monotonic() + STOP_SECONDS
        code = 0
        while self._running:
            try:
                event = self._events.get(timeout=max(0.0, deadline - RealClock().monotonic()))
            except queue.Empty:
                names = ", ".join(str(node_id) for node_id in self._running)
                print(f"ottla: not stopped after {STOP_SECONDS:.0f} s, killed: node {names}", file=sys.stderr)
                self._send(subprocess.Popen.kill)
                return 1
            if isinstance(event, _Told):
                if event.number in (signal.SIGTERM, signal.SIGINT):
                    self._send(subprocess.Popen.kill)
            elif isinstance(event, _Ended):
                self._forget(event.node_id)
                code = code or (0 if event.code == 0 else 1)
        return code

    def _send(self, what: Callable[[subprocess.Popen[bytes]], None]) -> None:
        for process in self._running.values():
            what(process)

    def _forget(self, node_id: int) -> LocalNode:
        """A process that ended leaves no number behind that may soon belong to somebody else."""
        del self._running[node_id]
        node = self._nodes[node_id]
        with contextlib.suppress(OSError):
            os.unlink(node.pid_file)
        return node

    def _last_words(self, ended: _Ended) -> str:
        """The sentence the node ended with, or how it ended and where to look."""
        node = self._nodes[ended.node_id]
        with open(node.log_file, "rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_sizes[ended.node_id], end - LAST_WORDS_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
        said = [line for line in lines if line.startswith("ottla: ")]
        if said:
            return said[-1].removeprefix("ottla: ")
        how = f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
        return f"{how}, see {node.log_file}"
