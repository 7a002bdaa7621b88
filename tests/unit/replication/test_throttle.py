"""A limit of bytes a second."""

import pytest

from ottla.replication.throttle import Throttle


def passed_in(throttle: Throttle, seconds: float, portion: int, step: float) -> int:
    total, now = 0, 0.0
    while now < seconds:
        if throttle.seconds_until_free(now) == 0:
            throttle.passed(portion)
            total += portion
        now += step
    return total


@pytest.mark.parametrize("portion", [100, 10_000, 1_000_000])
@pytest.mark.parametrize("step", [0.001, 0.5])
def test_over_time_the_rate_is_kept(portion: int, step: float) -> None:
    rate = min(200_000, int(portion / step / 2)) if portion < 100_000 else 200_000
    total = passed_in(Throttle(rate, 0.0), 100, portion, step)
    assert total == pytest.approx(rate * 100, rel=0.1, abs=portion + rate)


def test_it_says_when_more_may_pass() -> None:
    throttle = Throttle(1000, 0.0)
    throttle.passed(3000)
    seconds = throttle.seconds_until_free(0.0)
    assert seconds == pytest.approx(2.0, abs=0.01)
    assert throttle.seconds_until_free(seconds) == 0


def test_what_was_not_used_is_kept_for_a_second_only() -> None:
    throttle = Throttle(1000, 0.0)
    assert throttle.seconds_until_free(1000.0) == 0
    throttle.passed(1000)
    assert throttle.seconds_until_free(1000.0) > 0


def test_a_rate_of_nothing_lets_nothing_more_pass() -> None:
    throttle = Throttle(0, 0.0)
    assert throttle.seconds_until_free(100.0) > 0
