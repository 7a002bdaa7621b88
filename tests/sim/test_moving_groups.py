"""Groups while their coordinators move at random: what was acknowledged is there when the next coordinator serves.

Three brokers as real nodes run them, on a seeded world, with the test as their controller. A coordinator that has not
heard of its successor yet still answers readers (not writers) from what it knows, as in Kafka; so readers ask the one
that the cluster has chosen.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from kit.worlds.broker_worlds import BrokerWorld, patiently
from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.errors import BrokerError
from ottla.sim.client import SimMember, SimSession
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

DATA = TopicPartition("topic", 0)
OFFSETS = [TopicPartition("__consumer_offsets", index) for index in range(2)]
LAYOUT = {"__consumer_offsets": [[2, 3, 1], [1, 2, 3]], "topic": [[1, 2, 3], [2, 3, 1]]}
SETTINGS = {"min.insync.replicas": "2"}
NOBODY = SimMember("", -1)
SEEDS = 20
GROUPS = 4
UNTIL = 8.0


class Committer:
    """Commits higher and higher offsets of a group, and looks now and then whether they are there."""

    def __init__(self, world: BrokerWorld, session: SimSession, group: str, random: Random) -> None:
        self.world = world
        self.session = session
        self.group = group
        self.random = random
        self.asked = 0

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < UNTIL:
            self.asked += 1
            await patiently(self.session.commit, self.group, DATA, self.asked, NOBODY)
            await asyncio.sleep(self.random.uniform(0, 0.05))
            if self.random.random() < 0.3:
                await self.look()

    async def look(self) -> None:
        """Everybody has heard of the last move when the coordinator is looked for."""
        await asyncio.sleep(self.world.lag())
        self.session.lost_coordinator(self.group)
        before = self.world.image
        found = await patiently(self.session.committed, self.group, [DATA], NOBODY)
        if self.world.image is before:
            assert found == {0: self.asked}, f"{self.group}: {found} after {self.asked}"


def trouble(world: BrokerWorld, random: Random) -> None:
    def again() -> None:
        if world.scheduler.now >= UNTIL:
            world.network.calm()
            return
        late = {random.randint(1, 3): random.uniform(0, 2)} if random.random() < 0.3 else None
        world.move(random.choice(OFFSETS), random.randint(1, 3), late=late)
        if random.random() < 0.2:
            world.network.reset_some(0.2)
        world.scheduler.after(random.choice((0.01, 0.1, 0.5)) * random.random(), again)

    world.scheduler.after(0.05, again)


@pytest.mark.parametrize("first", range(0, SEEDS, 5))
def test_offsets_that_were_acknowledged_are_there_while_leaders_move(first: int) -> None:
    for seed in range(first, first + 5):
        random = Random(seed)
        world = BrokerWorld(LAYOUT, seed=seed, settings=SETTINGS)
        try:
            trouble(world, random)

            async def work(session: SimSession) -> None:
                everybody = [
                    Committer(world, session, f"group {number}", Random(random.random()))  # noqa: B023
                    for number in range(GROUPS)
                ]
                await asyncio.gather(*(each.run() for each in everybody))
                await asyncio.gather(*(each.look() for each in everybody))
                assert min(each.asked for each in everybody) > 1

            world.run(work, seconds=120)
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}: {failure}") from failure
        finally:
            world.close()


def test_a_member_of_the_consumer_protocol_goes_on_with_the_next_coordinator() -> None:
    world = BrokerWorld({**LAYOUT, "__consumer_offsets": [[2, 3, 1]]}, settings=SETTINGS)

    async def beat(session: SimSession, member_id: str, epoch: int, **said: Any) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(group_id="group", member_id=member_id, member_epoch=epoch, **said)
        answer = await session.ask_group("group", request, ConsumerGroupHeartbeatResponse)
        if answer.error_code:
            session.lost_coordinator("group")
            raise BrokerError(answer.error_code, "group")
        return answer

    async def story(session: SimSession) -> None:
        member = "a-member-of-the-tests"
        joined = await patiently(
            beat,
            session,
            member,
            0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["topic"],
            topic_partitions=[],
        )
        assert joined.assignment is not None
        held = [(topic.topic_id, sorted(topic.partitions)) for topic in joined.assignment.topic_partitions]
        assert [partitions for _, partitions in held] == [[0, 1]]
        for leader in (3, 1, 2):
            world.move(OFFSETS[0], leader)
            again = await patiently(beat, session, member, joined.member_epoch)
            assert again.member_epoch == joined.member_epoch
        # Who is not heard of by the last of them goes, as with any coordinator.
        await asyncio.sleep(60.0)
        with pytest.raises(BrokerError) as refused:
            await patiently(beat, session, member, joined.member_epoch)
        assert refused.value.code == ErrorCode.UNKNOWN_MEMBER_ID

    try:
        world.run(story, seconds=200)
    finally:
        world.close()
