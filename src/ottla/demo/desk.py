"""The shop's desk: consumers of one group that share the work, come and go.

Owns: the clerks, what each of them holds and how much they have read. Never knows: who sends, which node is down.
Invariant: a clerk that leaves has committed what it read, so nobody reads it again.
"""

import asyncio
from collections.abc import Sequence

import ottla
from ottla.errors import ClientError

GROUP = "shop-desk"
_POLL_SECONDS = 0.25
_LEAVE_SECONDS = 5.0


class Clerk:
    """One member of the group."""

    def __init__(self, name: str, topics: Sequence[str], bootstrap: str) -> None:
        self.name = name
        self.read = 0
        self.troubles: list[ClientError] = []
        self._consumer = ottla.Consumer(
            *topics, bootstrap_servers=bootstrap, group_id=GROUP, client_id=name, auto_offset_reset="earliest"
        )
        self._task: asyncio.Task[None] | None = None

    @property
    def holds(self) -> list[ottla.TopicPartition]:
        return sorted(self._consumer.assignment())

    @property
    def lag(self) -> int:
        return sum(self._consumer.lag(place) or 0 for place in self._consumer.assignment())

    async def start(self) -> None:
        await self._consumer.start()
        self._task = asyncio.create_task(self._work())

    async def leave(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._consumer.close(_LEAVE_SECONDS)

    async def _work(self) -> None:
        while True:
            try:
                self.read += len(await self._consumer.poll(_POLL_SECONDS))
            except ClientError as problem:  # what retrying heals is not seen here; the demo tells what is
                self.troubles.append(problem)
                await asyncio.sleep(_POLL_SECONDS)


class Desk:
    """All clerks, also those that have left: what they read counts."""

    def __init__(self, topics: Sequence[str], bootstrap: str) -> None:
        self.clerks: list[Clerk] = []
        self._topics = topics
        self._bootstrap = bootstrap
        self._left: list[Clerk] = []

    @property
    def read(self) -> int:
        return sum(clerk.read for clerk in (*self.clerks, *self._left))

    @property
    def lag(self) -> int:
        return sum(clerk.lag for clerk in self.clerks)

    def shared_evenly(self, partitions: int) -> bool:
        """Whether every partition has exactly one clerk, and every clerk some."""
        held = [place for clerk in self.clerks for place in clerk.holds]
        return len(held) == len(set(held)) == partitions and all(clerk.holds for clerk in self.clerks)

    async def hire(self, name: str) -> None:
        clerk = Clerk(name, self._topics, self._bootstrap)
        await clerk.start()
        self.clerks.append(clerk)

    async def dismiss(self, name: str) -> None:
        clerk = next(each for each in self.clerks if each.name == name)
        self.clerks.remove(clerk)
        self._left.append(clerk)
        await clerk.leave()

    async def close(self) -> None:
        for clerk in list(self.clerks):
            await self.dismiss(clerk.name)
