"""A group changes from the classic to the consumer protocol and back while its members go on."""

from __future__ import annotations

from typing import Any

import pytest

from kit.machines.consumer_groups import ModernCoordinator, assigned, quick
from kit.machines.groups import GROUP
from ottla.base.errors import ErrorCode
from ottla.groups.classic import ClassicGroup
from ottla.groups.embedded import BadFormat, read_assignment, read_subscription, version_of, write_assignment
from ottla.groups.modern import ConsumerGroup


def subscription(*topics: str, owned: dict[str, list[int]] | None = None) -> bytes:
    """What a consumer joins with: version 1, with what it works on."""
    out = b"\0\1" + len(topics).to_bytes(4, "big")
    for name in topics:
        out += len(name).to_bytes(2, "big") + name.encode()
    out += b"\xff\xff\xff\xff" + len(owned or {}).to_bytes(4, "big")
    for name, numbers in (owned or {}).items():
        out += len(name).to_bytes(2, "big") + name.encode() + len(numbers).to_bytes(4, "big")
        out += b"".join(number.to_bytes(4, "big") for number in numbers)
    return out


def classic_group(coordinator: ModernCoordinator, instance: str | None = None) -> str:
    """One classic member that has everything; answers its id."""
    joined = coordinator.join(metadata=subscription("t"), instance=instance).answer
    everything = write_assignment({"t": [0, 1, 2, 3]}, 1)
    coordinator.sync(joined.member_id, joined.generation_id, {joined.member_id: everything}, instance=instance)
    return str(joined.member_id)


def rejoin(coordinator: ModernCoordinator, member_id: str, owned: dict[str, list[int]]) -> Any:
    return coordinator.join(member_id, metadata=subscription("t", owned=owned), version=9).answer


def test_the_first_member_of_the_new_protocol_changes_the_group_over() -> None:
    coordinator = ModernCoordinator()
    old = classic_group(coordinator)
    joined = coordinator.beat("new")
    assert (joined.error_code, assigned(joined)) == (ErrorCode.NONE, {})
    group = coordinator.modern
    assert group.members[old].is_classic
    assert {number for (_, number), owner in group.owners.items() if owner == old} == {0, 1, 2, 3}
    # The classic member is told to join again, gives up its half, and the new one gets it.
    assert coordinator.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    told = rejoin(coordinator, old, {"t": [0, 1, 2, 3]})
    assert (told.generation_id, told.protocol_name, told.leader) == (1, "range", "")
    synced = coordinator.sync(old, 1).answer
    assert read_assignment(synced.assignment) == {"t": [0, 1]}
    assert coordinator.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    told = rejoin(coordinator, old, {"t": [0, 1]})
    assert told.generation_id == group.epoch
    assert read_assignment(coordinator.sync(old, told.generation_id).answer.assignment) == {"t": [0, 1]}
    assert coordinator.heartbeat(old, told.generation_id) == ErrorCode.NONE
    assert assigned(coordinator.beat("new", joined.member_epoch)) == {"t": [2, 3]}


def test_whoever_waits_in_the_classic_group_is_told_to_join_again() -> None:
    coordinator = ModernCoordinator()
    classic_group(coordinator)
    waiting = coordinator.join(metadata=subscription("t"))
    assert not waiting.answered
    coordinator.beat("new")
    assert waiting.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert len(coordinator.modern.members) == 3


def test_the_group_goes_back_when_its_last_new_member_leaves() -> None:
    coordinator = ModernCoordinator()
    old = classic_group(coordinator)
    epoch = coordinator.beat("new").member_epoch
    coordinator.beat("new", -1)
    assert coordinator.group.state.value == "PreparingRebalance"
    assert coordinator.group.generation == epoch
    again = coordinator.join(old, metadata=subscription("t")).answer
    assert (again.error_code, again.generation_id, again.leader) == (ErrorCode.NONE, epoch + 1, old)
    coordinator.reload()
    assert isinstance(coordinator.machine.groups[GROUP], ClassicGroup)


def test_the_group_goes_back_when_its_last_new_member_falls_silent() -> None:
    coordinator = ModernCoordinator()
    old = classic_group(coordinator)
    coordinator.beat("new")
    for _ in range(5):
        coordinator.pass_time(9_000)
        if isinstance(coordinator.machine.groups[GROUP], ConsumerGroup):
            coordinator.sync(old, rejoin(coordinator, old, {}).generation_id)
    assert isinstance(coordinator.machine.groups[GROUP], ClassicGroup)


def test_a_classic_member_that_does_not_join_again_is_out() -> None:
    coordinator = ModernCoordinator()
    old = classic_group(coordinator)
    epoch = coordinator.beat("new").member_epoch
    for _ in range(7):
        coordinator.heartbeat(old, 1)
        coordinator.pass_time(5_000)
        coordinator.beat("new", epoch)
    assert old not in coordinator.modern.members
    assert assigned(coordinator.beat("new", coordinator.modern.members["new"].current.epoch)) is None
    assert set(coordinator.modern.owners.values()) == {"new"}


def test_a_static_member_changes_protocol_in_its_place() -> None:
    coordinator = ModernCoordinator()
    classic_group(coordinator, instance="i")
    joined = coordinator.beat("new", instance="i")
    assert assigned(joined) == {"t": [0, 1, 2, 3]}
    assert set(coordinator.modern.members) == {"new"}
    # And back: the last member of the new protocol is replaced by one of the classic.
    back = coordinator.join(metadata=subscription("t"), instance="i", version=9).answer
    assert back.error_code == ErrorCode.NONE
    assert list(coordinator.group.members) == [back.member_id]
    synced = coordinator.sync(back.member_id, back.generation_id, instance="i").answer
    assert read_assignment(synced.assignment) == {"t": [0, 1, 2, 3]}


@pytest.mark.parametrize("change", ["made again", "grown", "another"])
def test_a_static_member_that_changes_protocol_after_its_topic_did_shares_the_work_anew(change: str) -> None:
    coordinator = ModernCoordinator(t=4, u=1)
    coordinator.beat("new", instance="i")
    coordinator.beat("new", -2, instance="i")
    if change == "made again":
        coordinator.topics.make_again("t")
    elif change == "grown":
        coordinator.topics.grow(t=6)
    wanted = "u" if change == "another" else "t"
    back = coordinator.join(metadata=subscription(wanted), instance="i", version=9).answer
    # It leads, and has to say who gets what, which the group does not know.
    assert (back.error_code, back.leader, back.skip_assignment) == (ErrorCode.NONE, back.member_id, False)
    assert back.generation_id > 2
    assert [member.member_id for member in back.members] == [back.member_id]


@pytest.mark.parametrize(
    ("policy", "there", "back"),
    [
        ("bidirectional", True, True),
        ("upgrade", True, False),
        ("downgrade", False, False),
        ("disabled", False, False),
    ],
)
def test_the_policy_says_which_way_groups_may_go(policy: str, there: bool, back: bool) -> None:
    coordinator = ModernCoordinator(quick(migration=policy))
    classic_group(coordinator)
    answer = coordinator.beat("new")
    assert (answer.error_code == ErrorCode.NONE) == there
    if not there:
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert "because online upgrade is disabled" in answer.error_message
        return
    coordinator.beat("new", -1)
    assert isinstance(coordinator.machine.groups[GROUP], ClassicGroup) == back


def test_classic_members_cannot_join_where_migration_is_disabled() -> None:
    coordinator = ModernCoordinator(quick(migration="disabled"))
    coordinator.beat("new")
    refused = coordinator.join(metadata=subscription("t")).answer
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_groups_of_other_protocols_and_malformed_ones_stay_as_they_are() -> None:
    connect = ModernCoordinator()
    connect.join(protocol_type="connect")
    assert "does not use the consumer embedded protocol" in connect.beat("new").error_message
    malformed = ModernCoordinator()
    malformed.join(metadata=b"\0\1\0\0")
    assert malformed.beat("new").error_message.endswith("the embedded consumer protocol is malformed.")
    assert isinstance(malformed.machine.groups[GROUP], ClassicGroup)


def test_a_new_classic_member_joins_a_consumer_group() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("new")
    asked = coordinator.join(metadata=subscription("t"), version=9).answer
    assert asked.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = coordinator.join(asked.member_id, metadata=subscription("t"), version=9).answer
    assert joined.error_code == ErrorCode.NONE
    assert coordinator.sync(joined.member_id, 99).answer.error_code == ErrorCode.ILLEGAL_GENERATION
    assert coordinator.sync("new", 2).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat("new", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    other = coordinator.join(metadata=subscription("t"), protocols=("sticky",), version=9).answer
    assert other.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    coordinator.pass_time(30_000)
    # It never fetched its assignment.
    assert joined.member_id not in coordinator.modern.members


def test_a_classic_member_that_was_removed_and_is_still_at_work_is_told_so() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("new")
    assert rejoin(coordinator, "removed", {"t": [0]}).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert rejoin(coordinator, "fresh", {}).error_code == ErrorCode.NONE


def test_an_empty_consumer_group_becomes_a_classic_one() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("new")
    coordinator.beat("new", -1)
    classic_group(coordinator)
    assert coordinator.state == "Stable"
    coordinator.reload()
    assert coordinator.state == "Stable"


def test_members_of_either_protocol_can_be_removed_by_an_administrator() -> None:
    coordinator = ModernCoordinator()
    coordinator.beat("a", instance="i")
    coordinator.beat("b")
    assert coordinator.leave(("b", None), ("x", None)) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert coordinator.leave(("", "i")) == [ErrorCode.NONE]
    assert coordinator.modern.empty


# --- the consumers' own formats ---


def test_what_consumers_say_is_read() -> None:
    said = read_subscription(subscription("t", "u", owned={"t": [1, 2]}))
    assert (said.version, said.topics, said.owned) == (1, ("t", "u"), {"t": [1, 2]})
    newest = b"\0\3" + subscription("t")[2:] + b"\0\0\0\5" + b"\0\4rack"
    assert read_subscription(newest).rack_id == "rack"
    assert read_subscription(b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff").owned == {}


def test_assignments_are_written_as_consumers_read_them() -> None:
    data = write_assignment({"t": [0, 3]}, 7)
    assert data == b"\0\3\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\3\xff\xff\xff\xff"
    assert read_assignment(data) == {"t": [0, 3]}
    assert read_assignment(b"") == {}
    assert [version_of(data), version_of(b""), version_of(b"\xff\xff")] == [3, 0, 0]


def test_bytes_cut_off_are_in_no_format() -> None:
    for whole, reader in (
        (subscription("t", owned={"t": [1]}), read_subscription),
        (write_assignment({"t": [0]}, 1), read_assignment),
    ):
        for size in range(1, len(whole) - 4):
            with pytest.raises(BadFormat):
                reader(whole[:size])
