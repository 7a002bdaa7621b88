"""Sessions of brokers: who lives, who fell silent, and when a broker that stops may stop."""

from ottla.controller.heartbeats import Heartbeats
from ottla.metadata.brokers import RegisteredProcess


def test_a_broker_lives_for_a_session_after_it_was_heard() -> None:
    heartbeats = Heartbeats(9.0)
    heartbeats.begin(1, 7, 100.0)
    assert heartbeats.holder(1, 101.0) is RegisteredProcess.UNHEARD
    heartbeats.hear(1, 7, 50, 105.0)

    assert heartbeats.holder(1, 113.9) is RegisteredProcess.ALIVE
    assert heartbeats.holder(1, 114.0) is RegisteredProcess.GONE
    assert heartbeats.holder(2, 100.0) is RegisteredProcess.GONE


def test_only_sessions_that_ended_are_expired() -> None:
    heartbeats = Heartbeats(9.0)
    heartbeats.begin(1, 7, 100.0)
    heartbeats.begin(2, 8, 103.0)

    assert heartbeats.next_expiry() == 109.0
    assert heartbeats.expired(108.0) == []
    assert heartbeats.expired(109.0) == [1]
    heartbeats.forget(1)
    assert heartbeats.next_expiry() == 112.0
    heartbeats.clear()
    assert heartbeats.next_expiry() is None


def test_a_broker_may_stop_when_all_others_have_seen_what_it_gave_away() -> None:
    heartbeats = Heartbeats(9.0)
    for broker, offset in ((1, 20), (2, 18), (3, 25)):
        heartbeats.hear(broker, broker, offset, 100.0)
    heartbeats.stops(1, 19)
    heartbeats.stops(1, 30)

    assert heartbeats.standing(1, [2, 3]) == (19, 18)
    assert heartbeats.standing(1, [3]) == (19, 25)
    assert heartbeats.standing(2, [3]) == (None, 25)
    assert heartbeats.standing(1, []).lowest_offset > 1 << 60


def test_a_new_registration_begins_without_what_the_old_one_said() -> None:
    heartbeats = Heartbeats(9.0)
    heartbeats.hear(1, 7, 50, 100.0)
    heartbeats.stops(1, 60)
    heartbeats.begin(1, 8, 101.0)

    assert heartbeats.standing(1, []).shutdown_offset is None
    assert heartbeats.standing(2, [1]).lowest_offset == -1
