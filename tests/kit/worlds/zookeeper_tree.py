"""ZooKeeper in memory: one tree, and sessions with it that can be suspended and lost, for tests without processes.

Owns ZooKeeper's rules as far as the product relies on them: versions, ephemeral and sequential znodes, transactions
that are done as a whole or not at all, watches that fire once. Fulfils the port `zookeeper.ports.Ensemble`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from ottla.zookeeper.ports import ConnectionState, EnsembleRefusal, Found, Stat, Unreachable, Watch
from ottla.zookeeper.translation import Create, Operation, Remove, Write, Znode


class Node:
    """One znode."""

    def __init__(self, data: bytes, owner: int, created_ms: int) -> None:
        self.data = data
        self.version = 0
        self.owner = owner
        self.created_ms = created_ms
        self.next_number = 0


class MemoryTree:
    """What all servers of an ensemble agree on."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {"/": Node(b"", 0, 0)}
        self.now_ms = 1_700_000_000_000
        self.writes: list[Sequence[Operation]] = []
        """Transactions that were done."""
        self._watches: list[tuple[str, str, int, Watch]] = []
        self._sessions = 0

    def next_session(self) -> int:
        self._sessions += 1
        return self._sessions

    def znodes(self) -> dict[str, Znode]:
        return {path: Znode(node.data, node.version) for path, node in self.nodes.items()}

    def children(self, path: str) -> list[str]:
        start = path.rstrip("/") + "/"
        return sorted(name for each in self.nodes if each.startswith(start) and "/" not in (name := each[len(start) :]))

    # --- changes ---

    def create(
        self, path: str, data: bytes, *, owner: int = 0, makepath: bool = False, sequential: bool = False
    ) -> None:
        parent = path.rpartition("/")[0] or "/"
        if parent not in self.nodes:
            if not makepath:
                raise EnsembleRefusal("NoNode", path, missing=True)
            self.create(parent, b"", makepath=True)
        if sequential:
            path = f"{path}{self.nodes[parent].next_number:010d}"
            self.nodes[parent].next_number += 1
        if path in self.nodes:
            raise EnsembleRefusal("NodeExists", path, exists=True)
        self.nodes[path] = Node(data, owner, self.now_ms)
        self._fire(path, "data")
        self._fire(parent, "children")

    def write(self, path: str, data: bytes, version: int = -1) -> None:
        node = self.checked(path, version)
        node.data = data
        node.version += 1
        self._fire(path, "data")

    def remove(self, path: str, version: int = -1) -> None:
        self.checked(path, version)
        if self.children(path):
            raise EnsembleRefusal("NotEmpty", path)
        del self.nodes[path]
        self._fire(path, "data")
        self._fire(path.rpartition("/")[0] or "/", "children")

    def checked(self, path: str, version: int) -> Node:
        node = self.nodes.get(path)
        if node is None:
            raise EnsembleRefusal("NoNode", path, missing=True)
        if version not in (-1, node.version):
            raise EnsembleRefusal("BadVersion", path)
        return node

    def transact(self, work: Callable[[], None]) -> None:
        """All of it or nothing."""
        kept = {path: (node.data, node.version, node.next_number) for path, node in self.nodes.items()}
        nodes, watches = dict(self.nodes), self._watches
        self._watches = []
        try:
            work()
        except EnsembleRefusal:
            self.nodes = nodes
            for path, (data, version, number) in kept.items():
                self.nodes[path].data, self.nodes[path].version, self.nodes[path].next_number = data, version, number
            self._watches = watches
            raise
        self._watches = watches
        for path in {*kept, *self.nodes}:
            node = self.nodes.get(path)
            if path not in kept or node is None:
                self._fire(path.rpartition("/")[0] or "/", "children")
            if path not in kept or node is None or node.version != kept[path][1]:
                self._fire(path, "data")

    def end_session(self, owner: int) -> None:
        """The ensemble gave it up: its ephemeral znodes go."""
        for path in [path for path, node in self.nodes.items() if node.owner == owner]:
            self.remove(path)

    # --- watches ---

    def watch(self, path: str, kind: str, session: int, watch: Watch) -> None:
        self._watches.append((path, kind, session, watch))

    def _fire(self, path: str, kind: str) -> None:
        self._release(lambda entry: entry[:2] == (path, kind))

    def forget_watches(self, session: int) -> None:
        """They will not fire: whoever set them does not listen."""
        self._watches = [entry for entry in self._watches if entry[2] != session]

    def drop_watches(self, session: int) -> None:
        self._release(lambda entry: entry[2] == session)

    def _release(self, chosen: Callable[[tuple[str, str, int, Watch]], bool]) -> None:
        fired = [entry for entry in self._watches if chosen(entry)]
        self._watches = [entry for entry in self._watches if not chosen(entry)]
        for entry in fired:
            asyncio.get_running_loop().call_soon(entry[3])


class MemorySession:
    """One session with a tree; see the port."""

    def __init__(self, tree: MemoryTree, *, session_seconds: float = 1.0) -> None:
        self.tree = tree
        self.state = ConnectionState.CONNECTED
        self.identity = tree.next_session()
        self.session_seconds = session_seconds
        self.in_flight = 4
        self.latency: Callable[[], float] | None = None
        """How long a commit is under way; it arrives also when its sender has lost the connection meanwhile."""
        self._order = asyncio.Lock()
        self.answers_lost = 0
        """How many commits are done without the session hearing of it."""
        self._asleep = False
        self._listeners: list[Callable[[ConnectionState], None]] = []

    # --- what a test does ---

    def suspend(self) -> None:
        self._change(ConnectionState.SUSPENDED)
        self.tree.drop_watches(self.identity)

    def reconnect(self) -> None:
        self._change(ConnectionState.CONNECTED)

    def expire(self) -> None:
        """The ensemble gives the session up, and a new one begins."""
        self.tree.end_session(self.identity)
        self.identity = self.tree.next_session()
        self._change(ConnectionState.LOST)
        self._change(ConnectionState.CONNECTED)

    def oversleep(self, *, ended: bool = True) -> None:
        """Its owner hears nothing from here on, and can only write; the ensemble gives the session up, or will."""
        self.tree.forget_watches(self.identity)
        self._asleep = True
        if ended:
            self.tree.end_session(self.identity)

    def _change(self, state: ConnectionState) -> None:
        self.state = state
        for listener in self._listeners:
            listener(state)

    # --- the port ---

    def listen(self, listener: Callable[[ConnectionState], None]) -> None:
        self._listeners.append(listener)

    async def _asked(self, *, writing: bool = False) -> None:
        await asyncio.sleep(0)
        if self._asleep and not writing:
            await asyncio.sleep(0.2)
            raise Unreachable("no answer in time")
        if self.state is not ConnectionState.CONNECTED:
            raise Unreachable("no server is reached")

    async def get(self, path: str, watch: Watch | None = None) -> Found | None:
        await self._asked()
        if watch is not None:
            self.tree.watch(path, "data", self.identity, watch)
        node = self.tree.nodes.get(path)
        return None if node is None else Found(node.data, Stat(node.version, node.owner, node.created_ms))

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        await self._asked()
        if watch is not None:
            self.tree.watch(path, "children", self.identity, watch)
        return self.tree.children(path)

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> None:
        await self._asked()
        self.tree.create(path, data, owner=self.identity if ephemeral else 0, makepath=True)

    async def remove(self, path: str, version: int = -1) -> None:
        await self._asked()
        if path in self.tree.nodes:
            self.tree.remove(path, version)

    async def ensure(self, paths: Iterable[str]) -> None:
        await self._asked()
        for path in paths:
            if path not in self.tree.nodes:
                self.tree.create(path, b"", makepath=True)

    async def commit(
        self,
        operations: Sequence[Operation],
        checks: Sequence[tuple[str, int]] = (),
        *,
        ephemeral: Create | None = None,
    ) -> None:
        await self._asked(writing=True)
        identity = self.identity
        if self.latency is not None:
            async with self._order:
                await asyncio.sleep(self.latency())
        if identity != self.identity:
            raise Unreachable("the session has ended")

        def work() -> None:
            for path, version in checks:
                self.tree.checked(path, version)
            if ephemeral is not None:
                self.tree.create(ephemeral.path, ephemeral.data, owner=self.identity)
            for operation in operations:
                self._do(operation)

        self.tree.transact(work)
        self.tree.writes.append(operations)
        if self.answers_lost or self.state is not ConnectionState.CONNECTED:
            self.answers_lost = max(self.answers_lost - 1, 0)
            raise Unreachable("the connection broke")

    def _do(self, operation: Operation) -> None:
        if isinstance(operation, Create):
            self.tree.create(operation.path, operation.data, sequential=operation.sequential)
        elif isinstance(operation, Write):
            self.tree.write(operation.path, operation.data, operation.version)
        else:
            assert isinstance(operation, Remove)
            self.tree.remove(operation.path)

    def close(self) -> None:
        self.tree.end_session(self.identity)
        self.state = ConnectionState.LOST
