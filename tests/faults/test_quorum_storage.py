"""Everything that can fail under a voter, made to fail: each call of its disk, with each error, once and for good.

A story is what happens to a voter of three, or to a sole one; while it runs one call fails. Then the process goes on,
stops, is killed, or the machine loses its power (what was not synced is gone, or what chance leaves of it); the disk is
well again, the voter starts, and everybody looks whether it keeps what it has said (`faults.faulty_voter`). The
recovery is a story too: it begins where the power went at one call and fails at another.

A sample of it runs with the other tests; `OTTLA_FAULTS=all` runs all of it and prints how much that was.
"""

import errno
import logging
import os
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

import pytest

from faults.faulty_voter import FaultyVoter
from kit.disks.faulty_disk import ERRNOS, Call, possible
from ottla.base.ports import Disk
from ottla.quorum import log as quorum_log
from ottla.quorum import state_file as quorum_state
from ottla.quorum.log import QuorumLog
from ottla.raft.log_view import LogPosition

ALL = os.environ.get("OTTLA_FAULTS") == "all"
ENDINGS = ("goes on", "stops", "is killed", "loses power", "loses power by chance")
SAMPLE = 97
"""Every so manieth case is in the sample."""

Story = Callable[[FaultyVoter], None]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of failures, each with its lines."""
    caplog.set_level(logging.CRITICAL, logger="ottla")


class Case(NamedTuple):
    """One run of a story."""

    call: int
    number: int
    for_good: bool
    ending: str


def following(voter: FaultyVoter) -> None:
    """It follows, votes, takes snapshots, trims, is stopped and comes back."""
    voter.boot()
    voter.follow(1)
    for name in ("a", "b", "c"):
        voter.others.decide(name)
    voter.settle()
    voter.ask_for_vote(2, voter.next_epoch, voter.others.end)
    voter.follow(2)
    voter.others.decide("d")
    voter.settle()
    voter.take_snapshot()
    voter.others.decide("e")
    voter.settle()
    voter.take_snapshot()
    if voter.up:
        voter.stop()
    voter.boot()
    voter.tell_leader()
    voter.others.decide("f")
    voter.settle()


def leading(voter: FaultyVoter) -> None:
    """It leads, writes what nobody else gets, is overruled, and cuts its log back."""
    voter.others.granting = True
    voter.boot()
    voter.until(lambda: voter.up and voter.others.leader == 0)
    voter.pull()
    for name in ("a", "b"):
        voter.decide(name)
        voter.pull()
    for number in range(4):
        voter.decide(f"lonely {number}")
    voter.until(lambda: voter.up and voter.node.log.synced_offset == voter.node.end_offset)
    voter.follow(1)
    voter.others.decide("c")
    voter.settle()
    voter.others.decide("d")
    voter.settle()


def loading(voter: FaultyVoter) -> None:
    """It is far behind, with a longer log of its own that was overruled, and gets a snapshot; later another one."""
    voter.others.granting = True
    voter.boot()
    voter.until(lambda: voter.up and voter.others.leader == 0)
    voter.pull()
    voter.decide("a")
    voter.pull()
    for number in range(8):
        voter.decide(f"lonely {number}")
    voter.until(lambda: voter.up and voter.node.log.synced_offset == voter.node.end_offset)
    voter.others.granting = False
    voter.others.lead(1, voter.next_epoch)
    voter.others.decide("b")
    voter.others.trim(0)
    voter.tell_leader()
    voter.settle()
    voter.others.silent = True
    for name in ("c", "d", "e"):
        voter.others.decide(name)
    voter.others.trim(1)
    voter.others.silent = False
    voter.settle()
    voter.others.decide("f")
    voter.settle()


def deciding(voter: FaultyVoter) -> None:
    """A sole voter decides, takes snapshots, trims, is stopped and comes back."""
    voter.boot()
    for names in ("ab", "cd", "e"):
        for name in names:
            decide_alone(voter, name)
        voter.take_snapshot()
    if voter.up:
        voter.stop()
    voter.boot()
    decide_alone(voter, "f")


def decide_alone(voter: FaultyVoter, name: str) -> None:
    if voter.decide(name):
        voter.until(lambda: voter.heard.names[-1:] == [name] or not voter.node.leads)
    voter.others.names = list(voter.heard.names) if voter.up else voter.others.names


STORIES: tuple[Story, ...] = (following, leading, loading, deciding)


def voter_of(story: Story) -> FaultyVoter:
    return FaultyVoter(1 if story is deciding else 3)


def end(voter: FaultyVoter, ending: str, chance: int) -> None:
    """How the process ends, or does not; afterwards the disk is well."""
    if ending == "goes on" and voter.up:
        voter.disk.heal()
    elif ending == "stops" and voter.up:
        voter.stop()
        voter.disk.heal()
    elif ending == "loses power":
        voter.cut_power()
    elif ending == "loses power by chance":
        voter.cut_power(Random(chance))
    else:
        voter.kill()


def judge(voter: FaultyVoter) -> None:
    """With a disk that is well it keeps its word, takes part, and tells what is true, also after a loss of power."""
    if not voter.up:
        assert voter.boot(), voter.refusal
    assert voter.until(lambda: voter.node.damaged is None), voter.node.damaged
    if voter.alone:
        judge_alone(voter)
        return
    others = voter.others
    for epoch, candidate in list(others.votes.items()):
        voter.ask_for_vote(3 - candidate if candidate else 1, epoch, others.end)
    if others.agreed.offset > 1:
        older = LogPosition(others.agreed.offset - 1, others.agreed.epoch)
        assert not voter.ask_for_vote(2, voter.next_epoch, older), "a vote for a log that lacks what was counted"
    others.silent = False
    voter.follow(1)
    others.decide("at last")
    assert voter.settle(), (voter.node.high_watermark, others.end)
    assert voter.heard.names == others.names
    voter.cut_power()
    assert voter.boot(), voter.refusal
    voter.tell_leader()
    assert voter.settle()
    assert voter.heard.names == others.names


def judge_alone(voter: FaultyVoter) -> None:
    told = voter.others.names
    assert voter.until(lambda: voter.node.leads)
    assert voter.heard.names[: len(told)] == told
    decide_alone(voter, "at last")
    told = voter.heard.names
    assert told[-1] == "at last"
    assert not voter.refused.intersection(told)
    voter.cut_power()
    assert voter.boot(), voter.refusal
    assert voter.heard.names == told


def cases(calls: list[Call]) -> Iterator[Case]:
    """Every call with every error that it can give."""
    for place, call in enumerate(calls, 1):
        for number in ERRNOS:
            if possible(call, number):
                for for_good in (False, True):
                    for ending in ENDINGS:
                        yield Case(place, number, for_good, ending)


def calls_of(story: Story) -> list[Call]:
    """What it asks of a disk that is well."""
    voter = voter_of(story)
    story(voter)
    calls = list(voter.disk.calls)
    judge(voter)
    voter.close()
    return calls


def run_all(story: Story, chosen: list[Case]) -> None:
    for case in chosen:
        voter = voter_of(story)
        voter.disk.fail_at(case.call, case.number, for_good=case.for_good)
        try:
            story(voter)
            end(voter, case.ending, case.call)
            judge(voter)
        except Exception as problem:
            raise AssertionError(f"{story.__name__}, {case}: {problem!r}") from problem
        voter.close()


def say(capsys: pytest.CaptureFixture[str], what: str, ran: int) -> None:
    if ALL:
        with capsys.disabled():
            print(f"\nquorum, {what}: {ran} of (call, error, ending)")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_voter_keeps_its_word_whichever_call_fails(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = list(cases(calls_of(story)))[:: 1 if ALL else SAMPLE]
    run_all(story, chosen)
    say(capsys, story.__name__, len(chosen))


def recover(story: Story, crash: int, case: Case | None) -> list[Call]:
    """The disk is gone for good at one call, and the power with it; then the recovery fails. Answers its calls."""
    voter = voter_of(story)
    voter.disk.fail_at(crash, errno.EIO, for_good=True)
    try:
        story(voter)
        voter.cut_power(Random(crash))
        before = len(voter.disk.calls)
        if case is not None:
            voter.disk.fail_at(before + case.call, case.number, for_good=case.for_good)
        voter.boot()
        if voter.up and not voter.alone:
            voter.tell_leader()
            voter.until(lambda: False)
        calls = voter.disk.calls[before:]
        end(voter, "goes on" if case is None else case.ending, crash)
        judge(voter)
    except Exception as problem:
        raise AssertionError(f"{story.__name__}, crash at {crash}, recovery {case}: {problem!r}") from problem
    voter.close()
    return calls


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_voter_whose_recovery_fails_recovers_later(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    ran = 0
    for crash in range(1, len(calls_of(story)) + 1, 9 if ALL else 41):
        found = [case for case in cases(recover(story, crash, None)) if case.ending in ("is killed", "loses power")]
        for case in found[crash % 7 :: 7 if ALL else 113]:
            recover(story, crash, case)
            ran += 1
    say(capsys, f"recovery of {story.__name__}", ran)


# --- voters that were broken on purpose ------------------------------------------------------------------------------


def believe_what_is_found(patch: pytest.MonkeyPatch) -> None:
    """What an earlier process left counts after a mere sync."""
    patch.setattr(QuorumLog, "_write_again", lambda log: None)


def believe_the_second_sync(patch: pytest.MonkeyPatch) -> None:
    """After a sync that failed everything that was told counts as stored."""
    patch.setattr(QuorumLog, "synced_offset", property(lambda log: max(log.told_offset, log._log.recovery_point)))


def compare_lengths(patch: pytest.MonkeyPatch) -> None:
    """A log that is longer than a snapshot is taken for its history."""
    patch.setattr(quorum_log, "_goes_on_from", lambda log, snapshot: log.end_offset >= snapshot.offset)


def vote_before_it_lasts(patch: pytest.MonkeyPatch) -> None:
    """The vote's file is put in place without a sync of its name."""

    def careless(disk: Disk, path: str, content: bytes) -> None:
        file = disk.open(path + ".tmp", create=True)
        file.truncate(0)
        file.append(content)
        file.close()
        disk.rename(path + ".tmp", path)

    patch.setattr(quorum_state, "replace_whole", careless)


BROKEN: tuple[tuple[Callable[[pytest.MonkeyPatch], None], Story, str, bool, str], ...] = (
    (believe_what_is_found, following, "sync", True, "is killed"),
    (believe_the_second_sync, following, "sync", False, "goes on"),
    (compare_lengths, loading, "append", True, "loses power"),
    (vote_before_it_lasts, following, "sync", True, "loses power"),
)
"""How, in which story it shows, which calls have to fail, whether for good, and how that ends."""


@pytest.mark.parametrize(("break_it", "story", "operation", "for_good", "ending"), BROKEN)
def test_a_voter_broken_on_purpose_is_found_out(
    break_it: Callable[[pytest.MonkeyPatch], None],
    story: Story,
    operation: str,
    for_good: bool,
    ending: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = [place for place, call in enumerate(calls_of(story), 1) if call.operation == operation]
    break_it(monkeypatch)
    with pytest.raises(AssertionError, match=story.__name__):
        run_all(story, [Case(place, errno.EIO, for_good, ending) for place in places])
