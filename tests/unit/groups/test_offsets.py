"""Committed offsets: who may commit, what is kept, how it is fetched and when it goes."""

from __future__ import annotations

import pytest

from kit.machines.groups import GROUP, Coordinator
from ottla.base.errors import ErrorCode
from ottla.groups.decision import GroupLimits
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequestTopics

HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS
SUBSCRIBED = b"\0\0" + b"\0\0\0\1" + b"\0\5topic" + b"\0\0\0\0"


def test_a_simple_consumer_commits_without_joining() -> None:
    at = Coordinator()
    assert at.commit(5) == ErrorCode.NONE
    assert (at.committed(), at.state, at.group.protocol_type) == (5, "Empty", None)


def test_a_stranger_cannot_commit_for_a_group_with_members() -> None:
    at = Coordinator()
    (member,) = at.stable(1)
    assert at.commit(5) == ErrorCode.UNKNOWN_MEMBER_ID
    assert at.commit(5, member_id="nobody", generation=1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert at.commit(5, member_id=member, generation=0) == ErrorCode.ILLEGAL_GENERATION
    assert at.commit(5, member_id=member, generation=1) == ErrorCode.NONE


@pytest.mark.parametrize(("version", "error"), [(8, "ILLEGAL_GENERATION"), (9, "GROUP_ID_NOT_FOUND")])
def test_a_member_of_no_group_learns_it_as_its_version_can(version: int, error: str) -> None:
    assert Coordinator().commit(5, member_id="a", generation=1, version=version).name == error


def test_members_commit_while_they_prepare_a_rebalance_but_not_while_it_is_assigned() -> None:
    at = Coordinator()
    leader, follower = at.stable(2)
    at.join(leader)
    assert at.commit(5, member_id=follower, generation=2) == ErrorCode.NONE
    at.join(follower)
    assert at.state == "CompletingRebalance"
    assert at.commit(6, member_id=follower, generation=3) == ErrorCode.REBALANCE_IN_PROGRESS
    assert at.commit(6, member_id=follower, generation=2) == ErrorCode.ILLEGAL_GENERATION


def test_notes_have_a_limit() -> None:
    at = Coordinator(GroupLimits(metadata_bytes=3))
    assert at.commit(1, metadata="abcd") == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert at.commit(1, metadata=None) == ErrorCode.NONE
    assert at.machine.fetched(GROUP, None)[0].partitions[0].metadata == ""


def test_a_commit_that_is_not_stored_is_not_kept() -> None:
    at = Coordinator()
    at.commit(1)
    at.disk_full = True
    with pytest.raises(AttributeError):
        at.commit(2)
    assert at.committed() == 1


def test_offsets_are_fetched_by_topic_or_all() -> None:
    at = Coordinator()
    at.commit(5, topic="one", metadata="note")
    at.commit(6, topic="two")
    (one,) = at.machine.fetched(GROUP, [OffsetFetchRequestTopics("one", partition_indexes=[0, 1])])
    assert [(each.partition_index, each.committed_offset, each.metadata) for each in one.partitions] == [
        (0, 5, "note"),
        (1, -1, ""),
    ]
    assert {topic.name for topic in at.machine.fetched(GROUP, None)} == {"one", "two"}
    assert at.machine.fetched("another", None) == []


def test_a_topic_made_anew_has_no_offsets_of_the_old_one() -> None:
    at = Coordinator()
    at.commit(5, topic_id=b"a" * 16)

    def fetched(topic_id: bytes) -> int:
        (topic,) = at.machine.fetched(GROUP, [OffsetFetchRequestTopics("topic", topic_id, [0])])
        return topic.partitions[0].committed_offset

    assert fetched(b"b" * 16) == -1
    assert fetched(b"a" * 16) == fetched(bytes(16)) == 5


def test_offsets_of_a_topic_in_use_are_not_deleted() -> None:
    at = Coordinator()
    member = at.join(metadata=SUBSCRIBED).answer.member_id
    at.sync(member, 1, {})
    at.commit(1, member_id=member, generation=1)
    at.commit(1, member_id=member, generation=1, topic="other")
    request = OffsetDeleteRequest(
        GROUP, [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(0)]) for name in ("topic", "other")]
    )
    reply = at.carry_out(at.machine.decide_offset_delete(request))
    errors = [topic.partitions[0].error_code for topic in reply.topics]
    assert errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    assert (at.committed(), at.committed("other")) == (1, None)


def test_only_a_group_without_members_is_deleted_and_its_offsets_with_it() -> None:
    at = Coordinator()
    (member,) = at.stable(1)
    at.commit(1, member_id=member, generation=1)
    assert at.carry_out(at.machine.decide_delete(GROUP)).error_code == ErrorCode.NON_EMPTY_GROUP
    at.leave((member, None))
    assert at.carry_out(at.machine.decide_delete(GROUP)).error_code == ErrorCode.NONE
    assert GROUP not in at.machine.groups
    assert list(at.machine.offsets) == []
    assert [value for _, value in at.log[-2:]] == [None, None]
    assert at.carry_out(at.machine.decide_delete(GROUP)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_go_with_their_topics() -> None:
    at = Coordinator()
    at.commit(1, topic="gone")
    at.commit(2, topic="stays")
    at.commit(3, topic="gone", group_id="another")
    at.carry_out(at.machine.decide_topics_removed(["gone"]))
    assert [(fact.group_id, fact.topic) for fact in at.machine.offsets] == [(GROUP, "stays")]


# --- expiry ---


def test_offsets_of_a_simple_consumer_expire_after_their_last_commit() -> None:
    at = Coordinator()
    at.commit(1, topic="old")
    at.pass_time(WEEK_MS // 2)
    at.commit(2, topic="new")
    at.pass_time(WEEK_MS // 2 + HOUR_MS)
    assert (at.committed("old"), at.committed("new")) == (None, 2)
    at.pass_time(WEEK_MS)
    assert GROUP not in at.machine.groups, "a group without offsets and members is forgotten"


def test_offsets_of_a_group_expire_when_it_has_been_empty_for_long() -> None:
    at = Coordinator()
    (member,) = at.stable(1)
    at.commit(1, member_id=member, generation=1)
    at.pass_time(9_000)
    at.heartbeat(member, 1)
    at.pass_time(9_000)
    at.leave((member, None))
    at.pass_time(WEEK_MS - HOUR_MS)
    assert at.committed() == 1
    at.pass_time(2 * HOUR_MS)
    assert at.committed() is None
    assert GROUP not in at.machine.groups


def test_a_live_group_keeps_what_it_subscribes_to_and_loses_what_it_left_behind() -> None:
    at = Coordinator()
    member = at.join(metadata=SUBSCRIBED, session_ms=1_800_000).answer.member_id
    at.sync(member, 1, {})
    for topic in ("topic", "other"):
        at.commit(1, member_id=member, generation=1, topic=topic)
    for _ in range(WEEK_MS // 1_000_000 + 2):
        at.pass_time(1_000_000)
        assert at.heartbeat(member, 1) == ErrorCode.NONE
    assert (at.committed(), at.committed("other")) == (1, None)


def test_an_old_client_sets_the_retention_of_its_commit() -> None:
    at = Coordinator()
    at.commit(1, retention_ms=2 * HOUR_MS)
    at.pass_time(HOUR_MS)
    assert at.committed() == 1
    at.pass_time(2 * HOUR_MS)
    assert at.committed() is None


def test_expiry_of_many_groups_is_done_in_portions() -> None:
    at = Coordinator()
    for number in range(250):
        at.commit(1, group_id=f"group{number}")
    at.now_ms += WEEK_MS
    portions = []
    while (decision := at.machine.expire(at.now)) is not None:
        at.carry_out(decision)
        portions.append(len(decision.facts))
    assert portions == [200, 200, 100]
    assert not at.machine.groups
