"""A broker's own ephemeral znode: while it is there, the broker lives.

Owns: `/brokers/ids/N` of this node. Never knows: what the controller makes of it. Invariants: the znode belongs to this
process's session, or there is none of this process; one that another process left behind is taken over only when it
names the very same addresses, for two processes cannot have one.
"""

import logging
from collections.abc import Callable

from ottla.base.ports import Clock
from ottla.zookeeper import layout
from ottla.zookeeper.layout import BadZnode, Presence
from ottla.zookeeper.ports import ConnectionState, Ensemble, EnsembleRefusal, Unreachable

logger = logging.getLogger("ottla.zookeeper")


class Duplicate(Exception):
    """Another broker that lives has this id."""


class BrokerPresence:
    """The znode of one broker under `/brokers/ids`."""

    def __init__(self, session: Ensemble, broker_id: int, clock: Clock) -> None:
        self._session = session
        self._path = f"{layout.BROKER_IDS}/{broker_id}"
        self._broker_id = broker_id
        self._clock = clock
        self._lost: Callable[[], None] | None = None
        self._owner = 0
        """The session that holds the znode; 0 when none of ours does."""
        session.listen(self._connection_changed)

    @property
    def held(self) -> bool:
        """Whether the znode is there, as far as this node can know."""
        return self._owner != 0

    def _connection_changed(self, state: ConnectionState) -> None:
        if state is ConnectionState.LOST and self._owner:
            logger.warning("the session with ZooKeeper ended: this broker has to register anew")
            self._owner = 0
            if self._lost is not None:
                self._lost()

    def when_lost(self, lost: Callable[[], None]) -> None:
        """Hear that the session ended, and the znode with it."""
        self._lost = lost

    async def announce(self, presence: Presence) -> None:
        """Be there. Raises Duplicate, Refused, Unreachable."""
        data = layout.presence_znode(presence, self._clock.now_ms())
        while True:
            session = self._session.identity
            found = await self._session.get(self._path)
            if found is None:
                try:
                    await self._session.create(self._path, data, ephemeral=True)
                except EnsembleRefusal as refusal:
                    if not refusal.exists:
                        raise
                    continue
                self._owner = session
                return
            # A new epoch is a new znode: whoever watches for brokers sees them come and go, not change.
            if found.stat.owner != session and not self._left_behind(found.data, presence):
                raise Duplicate(f"another broker that lives has the id {self._broker_id} ({self._path})")
            await self._session.remove(self._path, found.stat.version)

    def _left_behind(self, data: bytes, presence: Presence) -> bool:
        try:
            other = layout.read_presence(self._broker_id, data)
        except BadZnode:
            return False
        return other.endpoints == presence.endpoints

    async def withdraw(self) -> None:
        """Leave with notice. Raises Refused, Unreachable."""
        if self._owner:
            self._owner = 0
            if self._session.state is not ConnectionState.CONNECTED:
                raise Unreachable("no server is reached")
            await self._session.remove(self._path)
