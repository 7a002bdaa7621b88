"""Whatever happens to the sessions of controllers: what was acknowledged is in the tree, and every node sees the tree.

Seeded lives of three controllers on one tree in memory: connections break with writes under way, answers get lost,
sessions end seen and unseen, operators remove the controller, while topics are created, changed and deleted.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from random import Random
from typing import TypeVar

import pytest

from kit.machines.clusters import CLUSTER, creation, new_topic
from kit.worlds.zookeeper_nodes import Member, MemoryCluster, eventually
from ottla.base.errors import ErrorCode
from ottla.controller.controller import Controller
from ottla.metadata.image import ClusterImage
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.zookeeper import layout
from ottla.zookeeper.node import OFFSETS_IN_EPOCH
from ottla.zookeeper.ports import ConnectionState
from ottla.zookeeper.translation import Operation, Write, read_tree

STEPS = 150
T = TypeVar("T")


class Life:
    """One seeded life, and what clients were told in it."""

    def __init__(self, cluster: MemoryCluster, seed: int) -> None:
        self._cluster = cluster
        self._chance = Random(seed)
        self._number = 0
        self.there: set[str] = set()
        """Topics that were acknowledged and not touched since."""
        self.gone: set[str] = set()
        self.retention: dict[str, str] = {}
        self._unsure: set[str] = set()
        self.told: list[str] = []
        self._asking: list[asyncio.Task[None]] = []

    async def finish(self) -> None:
        await asyncio.gather(*self._asking)

    def latency(self) -> float:
        """Writes take their time, so that some arrive when their sender is controller no longer."""
        return self._chance.choice([0.0, 0.001, 0.01, 0.03])

    def _member(self) -> Member:
        return self._chance.choice(list(self._cluster.members.values()))

    def _controller(self) -> Controller:
        """One that believes it decides, if there is any."""
        members = list(self._cluster.members.values())
        return self._chance.choice([each for each in members if each.controller.active] or members).controller

    async def step(self) -> None:
        await asyncio.sleep(0.003)
        what = self._chance.choices(
            ["create", "delete", "configure", "break", "mend", "lose answers", "expire", "depose", "pause"],
            [10, 4, 5, 2, 6, 2, 1, 3, 4],
        )[0]
        member = self._member()
        if what == "create":
            await self._create(self._controller())
        elif what == "delete" and self.there:
            await self._delete(self._controller(), self._chance.choice(sorted(self.there)))
        elif what == "configure" and self.there:
            await self._configure(self._controller(), self._chance.choice(sorted(self.there)))
        elif what == "break" and member.session.state is ConnectionState.CONNECTED:
            member.session.suspend()
        elif what == "mend" and member.session.state is ConnectionState.SUSPENDED:
            member.session.reconnect()
        elif what == "lose answers":
            member.session.answers_lost += 1
        elif what == "expire" and member.session.state is ConnectionState.CONNECTED:
            member.session.expire()
        elif what == "depose":
            # With writes under way that arrive when another controller has begun.
            for _ in range(3):
                self._asking.append(asyncio.create_task(self._create(self._controller())))
            await asyncio.sleep(self._chance.random() * 0.002)
            if layout.CONTROLLER in self._cluster.tree.nodes:
                self._cluster.tree.remove(layout.CONTROLLER)
        elif what == "pause":
            await asyncio.sleep(self._chance.random() * 0.02)

    async def _create(self, controller: Controller) -> None:
        self._number += 1
        name = f"topic-{self._number}"
        answer = await self._ask(controller.create_topics(creation(new_topic(name, 2, 1))))
        if answer is not None and answer.topics[0].error_code == ErrorCode.NONE:
            self.there.add(name)
            self.told.append(f"{name} is created")

    async def _delete(self, controller: Controller, name: str) -> None:
        self.there.discard(name)
        self.retention.pop(name, None)
        answer = await self._ask(controller.delete_topics(DeleteTopicsRequest([DeleteTopicState(name)]), 6))
        if answer is not None and answer.responses[0].error_code == ErrorCode.NONE:
            self.gone.add(name)
            self.told.append(f"{name} is deleted")

    async def _configure(self, controller: Controller, name: str) -> None:
        value = str(self._chance.randrange(1000, 9000))
        self.retention.pop(name, None)
        if name in self._unsure:
            return
        change = AlterableConfig("retention.ms", 0, value)
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(2, name, [change])])
        answer = await self._ask(controller.incremental_alter_configs(request))
        if answer is not None and answer.responses[0].error_code == ErrorCode.NONE:
            self.retention[name] = value
            self.told.append(f"{name} keeps records for {value}")
        elif answer is None:
            # It may still come, after a later one that is acknowledged.
            self._unsure.add(name)

    async def _ask(self, question: Awaitable[T]) -> T | None:
        """The answer, or None where it takes too long: a client that went away."""
        try:
            async with asyncio.timeout(0.03):
                return await question
        except TimeoutError:
            return None


def past_the_fence(writes: Sequence[Sequence[Operation]]) -> list[str]:
    """Decisions that came into the tree when a newer controller had been elected, late, or twice.

    What they leave there may look like another program's work, which the newer one takes in: only the order of the
    writes tells. Each carries its offset, and each controller counts from a place of its own.
    """
    found: list[str] = []
    epoch, last = 0, 0
    for operation in (each for transaction in writes for each in transaction if isinstance(each, Write)):
        if operation.path == layout.CONTROLLER_EPOCH:
            epoch = int(operation.data)
        elif operation.path == layout.LAST_OFFSET:
            offset = int(operation.data)
            if offset // OFFSETS_IN_EPOCH != epoch or offset <= last:
                found.append(f"offset {offset} after {last} in epoch {epoch}")
            last = offset
    return found


def said(image: ClusterImage) -> object:
    return image._replace(offset=0, epoch=0)


@pytest.mark.parametrize("seed", range(6))
async def test_what_was_acknowledged_is_in_the_tree_and_every_node_sees_the_tree(seed: int) -> None:
    async with MemoryCluster(session_seconds=0.5) as cluster:
        leader = await cluster.leader()
        # A broker that nothing happens to, so that topics have somebody to lie on.
        await Member(cluster, 9, {}).register(leader.controller)
        life = Life(cluster, seed)
        for member in cluster.members.values():
            member.session.latency = life.latency
        for _ in range(STEPS):
            await life.step()
        await life.finish()
        for member in cluster.members.values():
            member.session.answers_lost = 0
            if member.session.state is ConnectionState.SUSPENDED:
                member.session.reconnect()

        def settled() -> bool:
            image = read_tree(cluster.tree.znodes(), CLUSTER, iter(())).image
            leads = [member for member in cluster.members.values() if member.controller.active]
            return len(leads) == 1 and all(
                said(member.loader.image) == said(image) for member in cluster.members.values()
            )

        await eventually(settled, "one controller, and one image for all", 60.0)
        assert past_the_fence(cluster.tree.writes) == []
        image = next(iter(cluster.members.values())).loader.image
        assert life.there <= set(image.topics)
        assert not life.gone & set(image.topics)
        for name, value in life.retention.items():
            assert image.configs[2, name] == {"retention.ms": value}
