"""Who waits leaves once: by a nudge that is enough, or by the deadline."""

import asyncio
from collections.abc import Hashable

import pytest

from kit.worlds.loop_time import LoopTime
from ottla.base.errors import ErrorCode
from ottla.replicas.waits import AT_ONCE, MOST_SECONDS, Countdown, WaitingRoom, first_error


class Guest:
    def __init__(self, needs: int) -> None:
        self.needs = needs
        self.heard: list[Hashable] = []
        self.late = False
        self.ill = False
        self.let_down = False

    def nudged(self, key: Hashable) -> bool:
        if self.ill:
            raise OSError("no descriptor is left")
        self.heard.append(key)
        return len(self.heard) >= self.needs

    def expired(self) -> None:
        if self.ill:
            raise OSError("no descriptor is left")
        self.late = True

    def failed(self) -> None:
        self.let_down = True


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


async def test_a_guest_that_fails_disturbs_neither_the_others_nor_who_woke_them() -> None:
    room = WaitingRoom(asyncio.get_running_loop())
    guests = [Guest(needs=1) for _ in range(3)]
    guests[1].ill = True
    for guest in guests:
        room.park(guest, ["a"], 60)
    room.nudge("a")
    assert [guest.heard for guest in guests] == [["a"], [], ["a"]]
    assert [guest.let_down for guest in guests] == [False, True, False]
    assert len(room) == 0


async def test_a_guest_that_fails_at_its_deadline_is_let_down() -> None:
    room = WaitingRoom(asyncio.get_running_loop())
    guest = Guest(needs=9)
    guest.ill = True
    room.park(guest, ["a"], 0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert guest.let_down
    assert len(room) == 0


async def test_nobody_waits_longer_than_the_room_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    time = LoopTime(monkeypatch)
    room = WaitingRoom(asyncio.get_running_loop())
    guest = Guest(needs=9)
    room.park(guest, ["a"], 24 * 86400)
    time.forward(MOST_SECONDS + 1)
    for _ in range(10):
        await asyncio.sleep(0)
    assert guest.late


async def test_very_many_guests_are_woken_in_turns_with_other_work_and_none_is_forgotten() -> None:
    room = WaitingRoom(asyncio.get_running_loop())
    guests = [Guest(needs=2) for _ in range(3 * AT_ONCE + 1)]
    for guest in guests:
        room.park(guest, ["a"], 60)
    room.nudge("a")
    assert sum(len(guest.heard) for guest in guests) == AT_ONCE
    room.nudge("a")  # while the first ones are still being told
    for _ in range(20):
        await asyncio.sleep(0)
    assert [guest.heard for guest in guests] == [["a", "a"]] * len(guests)
    assert len(room) == 0


async def test_a_guest_that_left_is_not_told_again() -> None:
    room = WaitingRoom(asyncio.get_running_loop())
    guest = Guest(needs=1)
    room.park(guest, ["a"], 60)
    room.leave(guest)
    room.leave(guest)
    room.nudge("a")
    assert guest.heard == []


def test_a_countdown_tells_once_what_failed_when_nothing_is_missing() -> None:
    told: list[dict[str, ErrorCode]] = []
    countdown = Countdown(("a", "b"), told.append)
    countdown.arrived("a", ErrorCode.KAFKA_STORAGE_ERROR)
    countdown.arrived("a")
    assert told == []
    countdown.arrived("b")
    countdown.arrived("b", ErrorCode.REQUEST_TIMED_OUT)
    assert told == [{"a": ErrorCode.KAFKA_STORAGE_ERROR}]
    assert first_error(told[0].values()) == ErrorCode.KAFKA_STORAGE_ERROR


async def test_what_is_missing_at_the_deadline_has_timed_out_and_is_let_go() -> None:
    told: list[dict[str, ErrorCode]] = []
    left: list[str] = []
    over = asyncio.Event()

    def hear(errors: dict[str, ErrorCode]) -> None:
        told.append(errors)
        over.set()

    countdown = Countdown(("a", "b"), hear)
    countdown.within(asyncio.get_running_loop(), 0.001, left.append)
    countdown.arrived("a")
    await asyncio.wait_for(over.wait(), 60)
    countdown.arrived("b")
    assert told == [{"b": ErrorCode.REQUEST_TIMED_OUT}]
    assert left == ["b"]


async def test_a_countdown_that_is_forgotten_tells_nobody() -> None:
    told: list[object] = []
    left: list[str] = []
    countdown = Countdown(("a", "b"), told.append)
    countdown.within(asyncio.get_running_loop(), 60, left.append)
    countdown.forget()
    countdown.arrived("a")
    countdown.arrived("b")
    assert told == []
    assert sorted(left) == ["a", "b"]
