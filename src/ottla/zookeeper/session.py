"""One node's session with the ensemble: kazoo's threads on one side, the event loop on the other.

Owns: the connection, what it is secured with, and the way of every answer and event into the loop. Never knows: what
the znodes mean. Invariants: nothing here blocks the loop but `open` and `close`, which are not called on a running one;
answers come in the order of the questions; every question ends by its deadline; a watch fires at most once, and also
when the connection was lost, for what it watched may have changed unseen.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ottla.base.settings.values import BrokerValues
from ottla.zookeeper.ports import ConnectionState, EnsembleRefusal, Found, Stat, Unreachable, Watch
from ottla.zookeeper.translation import Create, Operation, Write

logger = logging.getLogger("ottla.zookeeper")

LONGEST_PAUSE = 1.0
LOOK_SECONDS = 0.1
"""How often a start that waits for the ensemble looks whether it is still wanted."""


class Security(NamedTuple):
    """How the session proves who it is, and what it asks of the servers."""

    tls: bool = False
    certificate: str | None = None
    """A PEM file with this node's certificate and key."""
    password: str | None = None
    authorities: str | None = None
    """A PEM file with the certificates that are trusted."""
    check_hostname: bool = True
    mechanism: str | None = None
    username: str | None = None
    secret: str | None = None
    guard_znodes: bool = False
    """Everybody may read and only this user may write what it creates (`zookeeper.set.acl`)."""


class SessionSettings(NamedTuple):
    """Times in seconds."""

    servers: str
    """`host:port,host:port/chroot`"""
    session: float = 18.0
    connect: float = 18.0
    in_flight: int = 10
    security: Security = Security()

    @classmethod
    def of(cls, values: BrokerValues) -> "SessionSettings":
        session = values.integer("zookeeper.session.timeout.ms") / 1000
        connect = values.get("zookeeper.connection.timeout.ms")
        secret = values.get("ottla.zookeeper.sasl.password")
        security = Security(
            tls=values.boolean("zookeeper.ssl.client.enable"),
            certificate=_text(values, "zookeeper.ssl.keystore.location"),
            password=_text(values, "zookeeper.ssl.keystore.password"),
            authorities=_text(values, "zookeeper.ssl.truststore.location"),
            check_hostname=values.text("zookeeper.ssl.endpoint.identification.algorithm").upper() == "HTTPS",
            mechanism=_text(values, "ottla.zookeeper.sasl.mechanism"),
            username=_text(values, "ottla.zookeeper.sasl.username"),
            secret=None if secret is None else str(secret),
            guard_znodes=values.boolean("zookeeper.set.acl"),
        )
        return cls(
            values.text("zookeeper.connect"),
            session,
            connect / 1000 if isinstance(connect, int) else session,
            values.integer("zookeeper.max.in.flight.requests"),
            security,
        )


def _text(values: BrokerValues, name: str) -> str | None:
    found = values.get(name)
    return None if found is None or not str(found) else str(found)


class ZooKeeperSession:
    """One session. `open` comes first, `close` at the end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: SessionSettings) -> None:
        # Only nodes that use ZooKeeper need its client.
        from kazoo.client import KazooClient, KazooState
        from kazoo.retry import KazooRetry

        self._loop = loop
        self.settings = settings
        self._listeners: list[Callable[[ConnectionState], None]] = []
        self._states = {
            KazooState.CONNECTED: ConnectionState.CONNECTED,
            KazooState.SUSPENDED: ConnectionState.SUSPENDED,
            KazooState.LOST: ConnectionState.LOST,
        }
        self.state = ConnectionState.LOST
        self._opened = self._closed = False
        self._client: Any = KazooClient(
            hosts=settings.servers,
            timeout=settings.session,
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=LONGEST_PAUSE),
            logger=logging.getLogger("ottla.zookeeper.kazoo"),
            **_secured(settings.security),
        )
        self._client.add_listener(self._changed)

    # --- the start and the end ---

    def open(self) -> None:
        """Connect, and see that the chroot is there. Blocking. Raises Unreachable."""
        logging.getLogger("ottla.zookeeper.kazoo").setLevel(logging.ERROR)
        from kazoo.exceptions import AuthFailedError, KazooException
        from kazoo.protocol.states import KeeperState

        started = self._client.start_async()
        for _ in range(max(1, int(self.settings.connect / LOOK_SECONDS))):
            if self._closed or started.wait(LOOK_SECONDS):
                break
        try:
            if self._client.client_state == KeeperState.AUTH_FAILED:
                raise AuthFailedError
            if not self._client.connected:
                raise Unreachable(
                    f"no ZooKeeper server of {self.settings.servers} answered within {self.settings.connect:g} s; "
                    "see that they run, and the setting zookeeper.connect."
                )
            self._make_chroot()
        except AuthFailedError:
            self.close()
            raise Unreachable(
                f"ZooKeeper at {self.settings.servers} does not believe who this node is; "
                "see the settings ottla.zookeeper.sasl.username and ottla.zookeeper.sasl.password."
            ) from None
        except KazooException as problem:
            self.close()
            raise Unreachable(f"ZooKeeper at {self.settings.servers} refused this node: {_why(problem)}.") from None
        except Unreachable:
            self.close()
            raise
        self.state = ConnectionState.CONNECTED
        self._opened = True

    def _make_chroot(self) -> None:
        """Kazoo itself makes only the last part of it."""
        chroot, self._client.chroot = self._client.chroot, ""
        try:
            if chroot:
                self._client.ensure_path(chroot)
        finally:
            self._client.chroot = chroot

    def agree(self, path: str, data: bytes) -> bytes:
        """What a znode holds; where there was none, this. Blocking. Raises Unreachable."""
        from kazoo.exceptions import KazooException, NodeExistsError

        try:
            self._client.create(path, data, makepath=True)
        except NodeExistsError:
            return bytes(self._client.get(path)[0])
        except KazooException as problem:
            raise Unreachable(f"ZooKeeper at {self.settings.servers} refused this node: {_why(problem)}.") from None
        return data

    def count_up(self, path: str) -> int:
        """How often this was asked of a znode, by anybody: its version tells. Blocking. Raises Unreachable."""
        from kazoo.exceptions import KazooException

        try:
            self._client.ensure_path(path)
            return int(self._client.set(path, b"").version)
        except KazooException as problem:
            raise Unreachable(f"ZooKeeper at {self.settings.servers} refused this node: {_why(problem)}.") from None

    def close(self) -> None:
        """End the session, and with it this node's ephemeral znodes. Blocking, but not for long."""
        self._closed = True
        with contextlib.suppress(Exception):
            self._client.stop()
            self._client.close()

    # --- how it stands ---

    def listen(self, listener: Callable[[ConnectionState], None]) -> None:
        self._listeners.append(listener)

    @property
    def session_seconds(self) -> float:
        return self.settings.session

    @property
    def in_flight(self) -> int:
        return self.settings.in_flight

    @property
    def identity(self) -> int:
        client_id = self._client.client_id
        return 0 if client_id is None else int(client_id[0])

    def _changed(self, state: object) -> None:
        """In kazoo's thread."""
        self._enter(self._tell, self._states[state])

    def _tell(self, state: ConnectionState) -> None:
        if self._closed or not self._opened or state is self.state:
            return
        self.state = state
        logger.info("the connection to ZooKeeper is %s", state.value)
        for listener in self._listeners:
            listener(state)

    def _enter(self, work: Callable[..., None], *arguments: object) -> None:
        """From a thread of kazoo's into the loop, which may have ended meanwhile."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(work, *arguments)

    # --- asking ---

    async def get(self, path: str, watch: Watch | None = None) -> Found | None:
        while True:
            answer = await self._ask(
                path, self._client.get_async(path, watch=self._watching(watch)), missing_is_none=True
            )
            if answer is not None:
                return Found(answer[0] or b"", _stat(answer[1]))
            if watch is None:
                return None
            # A watch on what is not there is set by asking whether it is.
            if await self._ask(path, self._client.exists_async(path, watch=self._watching(watch))) is None:
                return None

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        asked = self._client.get_children_async(path, watch=self._watching(watch))
        found = await self._ask(path, asked, missing_is_none=True)
        return sorted(found or ())

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> None:
        await self._ask(path, self._client.create_async(path, data, ephemeral=ephemeral, makepath=True))

    async def remove(self, path: str, version: int = -1) -> None:
        await self._ask(path, self._client.delete_async(path, version=version), missing_is_none=True)

    async def ensure(self, paths: Iterable[str]) -> None:
        for path in paths:
            await self._ask(path, self._client.ensure_path_async(path))

    async def commit(
        self,
        operations: Sequence[Operation],
        checks: Sequence[tuple[str, int]] = (),
        *,
        ephemeral: Create | None = None,
    ) -> None:
        transaction = self._client.transaction()
        for path, version in checks:
            transaction.check(path, version)
        if ephemeral is not None:
            transaction.create(ephemeral.path, ephemeral.data, ephemeral=True)
        for operation in operations:
            if isinstance(operation, Create):
                transaction.create(operation.path, operation.data, sequence=operation.sequential)
            elif isinstance(operation, Write):
                transaction.set_data(operation.path, operation.data, version=operation.version)
            else:
                transaction.delete(operation.path)
        if not transaction.operations:
            return
        asked = [path for path, _ in checks]
        asked += [] if ephemeral is None else [ephemeral.path]
        asked += [operation.path for operation in operations]
        for path, result in zip(
            asked, await self._ask(asked[0], transaction.commit_async(), patient=True), strict=True
        ):
            if isinstance(result, Exception) and not _is_bystander(result):
                raise _refusal(result, path)

    async def _ask(self, path: str, result: Any, *, missing_is_none: bool = False, patient: bool = False) -> Any:
        """An answer. `patient` waits as long as the session takes to be lost."""
        from kazoo.exceptions import KazooException, NoNodeError
        from kazoo.handlers.threading import KazooTimeoutError

        answered: asyncio.Future[None] = self._loop.create_future()

        def settle() -> None:
            if not answered.done():
                answered.set_result(None)

        result.rawlink(lambda _: self._enter(settle))
        try:
            async with asyncio.timeout(None if patient else self.settings.connect):
                await answered
        except TimeoutError:
            raise Unreachable(f"ZooKeeper did not answer within {self.settings.connect:g} s") from None
        try:
            return result.get_nowait()
        except NoNodeError as problem:
            if missing_is_none:
                return None
            raise _refusal(problem, path) from None
        except (KazooException, KazooTimeoutError) as problem:
            if _is_loss(problem):
                raise Unreachable(f"ZooKeeper: {_why(problem)}") from None
            raise _refusal(problem, path) from None

    def _watching(self, watch: Watch | None) -> Callable[[object], None] | None:
        return None if watch is None else lambda event: self._enter(watch)


def _stat(stat: Any) -> Stat:
    return Stat(int(stat.version), int(stat.ephemeralOwner), int(stat.ctime))


def _why(problem: BaseException) -> str:
    said = str(problem)
    name = type(problem).__name__.removesuffix("Error")
    return f"{name} ({said})" if said and said != "()" else name


def _is_loss(problem: Exception) -> bool:
    from kazoo import exceptions

    return isinstance(
        problem,
        exceptions.ConnectionLoss
        | exceptions.SessionExpiredError
        | exceptions.ConnectionClosedError
        | exceptions.OperationTimeoutError
        | exceptions.SessionMovedError,
    )


def _is_bystander(problem: Exception) -> bool:
    """Whether an operation of a transaction failed only because another one did."""
    from kazoo.exceptions import RolledBackError, RuntimeInconsistency

    return isinstance(problem, RolledBackError | RuntimeInconsistency)


def _refusal(problem: Exception, path: str) -> Exception:
    from kazoo.exceptions import NodeExistsError, NoNodeError

    if _is_loss(problem):
        return Unreachable(f"ZooKeeper: {_why(problem)}")
    return EnsembleRefusal(
        _why(problem),
        path,
        exists=isinstance(problem, NodeExistsError),
        missing=isinstance(problem, NoNodeError),
    )


def _secured(security: Security) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if security.tls:
        options |= {
            "use_ssl": True,
            "verify_certs": True,
            "check_hostname": security.check_hostname,
            "ca": security.authorities,
            "certfile": security.certificate,
            "keyfile": security.certificate,
            "keyfile_password": security.password,
        }
    if security.mechanism == "GSSAPI":
        # The ticket in Kerberos' cache is the proof; a name picks one of several.
        principal = {} if security.username is None else {"principal": security.username}
        options["sasl_options"] = {"mechanism": security.mechanism, **principal}
    elif security.mechanism is not None:
        options["sasl_options"] = {
            "mechanism": security.mechanism,
            "username": security.username,
            "password": security.secret,
        }
    if security.guard_znodes:
        from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

        options["default_acl"] = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
    return options
