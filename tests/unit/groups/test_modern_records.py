"""Records of groups of the consumer protocol: Kafka's bytes, there and back."""

from __future__ import annotations

import pytest

from ottla.groups.modern_facts import (
    ClassicSide,
    Current,
    CurrentFact,
    EpochFact,
    MemberProgress,
    ModernFact,
    PatternFact,
    Resolved,
    Subscription,
    SubscriptionFact,
    TargetEpochFact,
    TargetFact,
)
from ottla.groups.records import BadGroupRecord, read, written

ID = bytes(range(16))
FACTS: list[ModernFact] = [
    EpochFact("g", 7, -5),
    EpochFact("g", None),
    SubscriptionFact("g", "m", Subscription()),
    SubscriptionFact(
        "g",
        "m",
        Subscription(
            "instance", "rack", "client", "/host", frozenset({"t", "u"}), "a.*", 5, "range",
            ClassicSide(9, (("range", b"x"), ("sticky", b""))),
        ),
    ),
    SubscriptionFact("g", "m", None),
    TargetEpochFact("g", 3, 12345),
    TargetEpochFact("g", None),
    TargetFact("g", "m", {ID: frozenset({0, 2})}),
    TargetFact("g", "m", {}),
    TargetFact("g", "m", None),
    CurrentFact("g", "m", Current(5, 4, MemberProgress.UNREVOKED, {ID: {1: 3, 2: 5}}, {ID: {0: 2}})),
    CurrentFact("g", "m", Current(-2, 4)),
    CurrentFact("g", "m", None),
    PatternFact("g", "a.*", Resolved(frozenset({"ab", "a"}), 4, 99)),
    PatternFact("g", "a.*", None),
]  # fmt: skip


@pytest.mark.parametrize("fact", FACTS)
def test_what_is_written_is_read_again(fact: ModernFact) -> None:
    assert read(*written(fact)) == fact


def test_the_bytes_are_kafkas() -> None:
    """As Kafka 4.3.1 writes them."""
    key, value = written(EpochFact("g", 7))
    assert (key, value) == (b"\x00\x03\x00\x01g", b"\x00\x00\x00\x00\x00\x07\x00")
    key, value = written(CurrentFact("g", "m", Current(2, 1, MemberProgress.STABLE, {ID: {0: 2}})))
    assert key == b"\x00\x08\x00\x01g\x00\x01m"
    assert value == (
        b"\x00\x00" + b"\x00\x00\x00\x02" + b"\x00\x00\x00\x01" + b"\x00"
        + b"\x02" + ID + b"\x02\x00\x00\x00\x00" + b"\x01\x00\x05\x02\x00\x00\x00\x02" + b"\x01" + b"\x00"
    )  # fmt: skip


def test_a_member_of_the_new_protocol_is_marked_as_no_classic_one() -> None:
    """A record without the mark would be one of a classic member without protocols, which there is not."""
    _, value = written(SubscriptionFact("g", "m", Subscription(client_id="c", client_host="h", topics=frozenset("t"))))
    assert value == (
        b"\x00\x00" + b"\x00" + b"\x00" + b"\x02c" + b"\x02h" + b"\x02\x02t" + b"\x01" + b"\xff\xff\xff\xff" + b"\x00"
        + b"\x01\x00\x01\x00"
    )  # fmt: skip
    fact = read(written(SubscriptionFact("g", "m", None))[0], value[:-4] + b"\x00")
    assert isinstance(fact, SubscriptionFact)
    assert fact.subscription is not None
    assert fact.subscription.classic is None


def test_assignments_of_before_4_3_have_the_members_epoch() -> None:
    key, _ = written(CurrentFact("g", "m", None))
    value = (
        b"\x00\x00"
        + b"\x00\x00\x00\x02"
        + b"\x00\x00\x00\x01"
        + b"\x00"
        + b"\x02"
        + ID
        + b"\x02\x00\x00\x00\x00\x00\x01\x00"
    )
    assert read(key, value) == CurrentFact("g", "m", Current(2, 1, MemberProgress.STABLE, {ID: {0: 2}}))


def test_a_state_of_a_newer_release_is_unknown() -> None:
    key, value = written(CurrentFact("g", "m", Current(2, 1)))
    assert value is not None
    fact = read(key, value[:10] + b"\x63" + value[11:])
    assert isinstance(fact, CurrentFact)
    assert fact.current is not None
    assert fact.current.progress is MemberProgress.UNKNOWN


@pytest.mark.parametrize("fact", [fact for fact in FACTS if written(fact)[1] is not None])
def test_bytes_cut_off_are_no_record(fact: ModernFact) -> None:
    key, value = written(fact)
    assert value is not None
    for size in range(len(value)):
        with pytest.raises(BadGroupRecord):
            read(key, value[:size])
    with pytest.raises(BadGroupRecord):
        read(key, b"\x00\x63" + value[2:])
