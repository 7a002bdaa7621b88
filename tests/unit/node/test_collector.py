"""The collector of cyclic garbage looks through everything only now and then."""

from collections.abc import Callable
from typing import Any

from ottla.node.collector import LOOK_SECONDS, SHARE, WORTH, Collector


class Place:
    """A loop, a clock and a collector of garbage that takes its time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looks = 0
        self.collected: list[float] = []
        self.due: list[Callable[[], None]] = []
        loop: Any = self
        self.collector = Collector(loop, self.collect, lambda: self.looks, lambda: self.now)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def collect(self) -> None:
        self.collected.append(self.now)
        self.looks = 0
        self.now += 0.3

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += LOOK_SECONDS
            due, self.due = self.due, []
            assert len(due) == 1
            due[0]()


def test_everything_is_looked_through_when_much_came_and_stayed() -> None:
    place = Place()
    place.collector.look()
    place.looks = WORTH - 1
    place.pass_time(3600)
    assert place.collected == []
    place.looks = WORTH
    place.pass_time(3600)
    assert len(place.collected) == 1


def test_looking_through_everything_takes_a_thousandth_of_the_time_however_much_there_is() -> None:
    place = Place()
    place.collector.look()
    for _ in range(360):
        place.looks = WORTH
        place.pass_time(LOOK_SECONDS)
    assert len(place.collected) >= 10
    assert len(place.collected) * 0.3 <= place.now / SHARE + 0.3
