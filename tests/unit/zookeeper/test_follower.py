"""A node believes the newest controller it has seen, and no other."""

import asyncio
from collections.abc import Iterable, Sequence

import pytest

from kit.worlds.zookeeper_nodes import eventually
from ottla.base.errors import ErrorCode
from ottla.metadata.fact_batches import fact_batch
from ottla.metadata.facts import Fact
from ottla.metadata.quorum_events import Stored
from ottla.raft.log_view import LogPosition
from ottla.raft.messages import Believed, Fetched
from ottla.raft.translation import write_answer
from ottla.wire.links import LinkDown
from ottla.wire.schema import LATEST, Root
from ottla.wire.stored.metadata import FeatureLevelRecord
from ottla.zookeeper.follower import Follower


class Events:
    """What a node is told."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self.leaders: list[tuple[int, int]] = []

    def committed(self, batches: Sequence[Stored]) -> None:
        self.told += [batch.offset for batch in batches]

    def snapshot(self, facts: Iterable[Fact], offset: int, epoch: int) -> None:
        raise AssertionError("nobody sends one")

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        self.leaders.append((leader_id, epoch))

    def began_leading(self, epoch: int) -> None:
        raise AssertionError("it follows")

    def stopped_leading(self, epoch: int) -> None:
        raise AssertionError("it follows")


class Reached:
    """How often the controller was reached, and refused."""

    def __init__(self) -> None:
        self.times = self.refusals = 0

    def refused(self) -> None:
        self.refusals += 1

    def reached(self) -> None:
        self.times += 1


class OneController:
    """A controller that answers every fetch with one decision of its epoch; also where links come from."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.asked = 0
        self.refuses = False

    def link(self, host: str, port: int) -> "OneController":
        return self

    async def ask(self, request: Root, answer: type[Root], seconds: float, *, highest: int = LATEST) -> Root:
        await asyncio.sleep(0)
        self.asked += 1
        if self.refuses:
            raise LinkDown("connection refused", refused=True)
        batch = fact_batch([FeatureLevelRecord(name="group.version", feature_level=1)], 40 + self.asked, 0, self.epoch)
        return write_answer(request, Fetched(ErrorCode.NONE, Believed(1, self.epoch)), bytes(batch))

    def close(self) -> None:
        """Nothing is open."""


async def test_what_a_controller_of_an_older_epoch_says_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    stale, events = OneController(3), Events()
    follower = Follower("cluster", 2, stale, events, Reached())  # type: ignore[arg-type]
    follower.epoch = 4
    following = asyncio.create_task(follower.follow(1, ("host", 1)))
    await eventually(lambda: stale.asked > 2, "it asks again and again")
    assert events.told == []
    assert caplog.text.count("refuses what the controller of epoch 3 on node 1 says: the epoch is 4") == 1
    stale.epoch = 5
    await eventually(lambda: events.told, "the newest is believed")
    assert events.leaders[-1] == (1, 5)
    assert follower.position == LogPosition(events.told[-1] + 1, 5)
    following.cancel()


async def test_a_controller_whose_machine_says_that_nobody_listens_is_told_of() -> None:
    gone, events = OneController(3), Events()
    gone.refuses = True
    reach = Reached()
    follower = Follower("cluster", 2, gone, events, reach)  # type: ignore[arg-type]
    following = asyncio.create_task(follower.follow(1, ("host", 1)))
    await eventually(lambda: reach.refusals, "it is told")
    assert reach.times == 0
    following.cancel()
