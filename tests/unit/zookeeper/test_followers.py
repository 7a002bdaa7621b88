"""A controller can tell whether the others are gone or it is cut off from them."""

from ottla.zookeeper.followers import Followers


class Watch:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_controller_that_half_of_the_living_follow_is_not_cut_off() -> None:
    watch = Watch()
    followers = Followers(1, watch)
    followers.begin([1, 2, 3, 4])
    watch.now = 10.0
    followers.heard(2)
    assert followers.lacking([1, 2, 3, 4], 5.0) is None
    watch.now = 20.0
    assert followers.lacking([1, 2, 3, 4], 5.0) == "only 1 of 4 brokers follow it"


def test_of_two_neither_can_tell_and_the_controller_stays() -> None:
    watch = Watch()
    followers = Followers(1, watch)
    followers.begin([1, 2])
    watch.now = 100.0
    assert followers.lacking([1, 2], 5.0) is None


def test_one_that_came_later_has_its_whole_time_to_be_heard() -> None:
    watch = Watch()
    followers = Followers(1, watch)
    followers.begin([1])
    watch.now = 100.0
    assert followers.lacking([1, 2, 3], 5.0) is None
    watch.now = 106.0
    assert followers.lacking([1, 2, 3], 5.0) == "only 1 of 3 brokers follow it"
