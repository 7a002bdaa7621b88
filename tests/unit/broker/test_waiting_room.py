"""Who waits leaves once: by a nudge that is enough, or by the deadline."""

import asyncio
from collections.abc import Hashable

from ottla.broker.waiting_room import WaitingRoom


class Guest:
    def __init__(self, needs: int) -> None:
        self.needs = needs
        self.heard: list[Hashable] = []
        self.late = False

    def nudged(self, key: Hashable) -> bool:
        self.heard.append(key)
        return len(self.heard) >= self.needs

    def expired(self) -> None:
        self.late = True


async def test_a_guest_leaves_when_a_nudge_is_enough() -> None:
    room = WaitingRoom(asyncio.get_running_loop())
    guest = Guest(needs=2)
    room.park(guest, ["a", "b"], 60)
    room.nudge("c")
    room.nudge("a")
    assert len(room) == 1
    room.nudge("b")
    assert len(room) == 0
    room.nudge("a")
    assert guest.heard == ["a", "b"]
    assert not guest.late
    assert not room._under


async def test_the_deadline_ends_the_wait() -> None:
    room = WaitingRoom(asyncio.get_running_loop())
    guest = Guest(needs=9)
    room.park(guest, ["a"], 0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert guest.late
    assert len(room) == 0
    room.nudge("a")
    assert guest.heard == []


async def test_a_guest_that_left_is_not_told_again() -> None:
    room = WaitingRoom(asyncio.get_running_loop())
    guest = Guest(needs=1)
    room.park(guest, ["a"], 60)
    room.leave(guest)
    room.leave(guest)
    room.nudge("a")
    assert guest.heard == []
