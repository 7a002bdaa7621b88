"""Everything that can fail under a log, made to fail: each call of its disk, with each error, once and for good.

A story is what happens to a partition's log; while it runs one call fails, or all from it on. Then the process goes on,
stops, is killed, or the machine loses its power (what was not synced is gone, or what chance leaves of it). The disk is
well again, the log is opened, and everything is held against the model (`kit.disks.faulty_log`); then it is written to,
flushed, and loses its power once more. Recovery is a story too: it begins where another one ended, and fails at a call.

A sample of it runs with the other tests; `OTTLA_FAULTS=all` runs all of it and prints how much that was.
"""

import errno
import logging
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from kit.disks.faulty_disk import ERRNOS, Call, possible
from kit.disks.faulty_log import KEYED, SMALL, Down, FaultyLog
from ottla.log.settings import LogSettings

ALL = os.environ.get("OTTLA_FAULTS") == "all"
ENDINGS = ("goes on", "stops", "is killed", "loses power", "loses power by chance")
SAMPLE = 97
"""Every so manieth case is in the sample."""


Story = Callable[[FaultyLog], None]


class Case(NamedTuple):
    """One run of a story."""

    call: int
    number: int
    for_good: bool
    ending: str

    def __str__(self) -> str:
        kind = "for good" if self.for_good else "once"
        return f"call {self.call} {errno.errorcode[self.number]} {kind}, then it {self.ending}"


def leading(life: FaultyLog) -> None:
    """Appends, rolls, producers, transactions that end both ways, flushes, checkpoints, retention, a clean restart."""
    life.boot()
    life.make()
    for number in range(3):
        life.append(b"plain %d" % number)
    life.append(b"counted", producer=1)
    life.append(b"doomed", producer=2, transactional=True)
    life.append(b"good", producer=3, transactional=True)
    life.end_transaction(2, commit=False)
    life.flush()
    life.checkpoint()
    life.end_transaction(3, commit=True)
    life.epoch = 2
    for number in range(4):
        life.append(b"counted %d" % number, producer=1)
    life.append(b"doomed again", producer=2, transactional=True)
    life.append(b"between")
    life.end_transaction(2, commit=False)
    life.delete_before(4)
    life.checkpoint()
    life.remove_files()
    life.stop()
    life.boot()
    life.make()
    life.append(b"after a stop", producer=1)
    life.flush()
    life.append(b"last")


def following(life: FaultyLog) -> None:
    """A follower that is cut where histories part, cut again below its recovery point, and begins anew further up."""
    life.boot()
    life.make()
    life.epoch = 4
    life.follow(9)
    life.epoch = 5
    life.follow(4)
    life.flush()
    life.checkpoint()
    life.cut(9)
    life.epoch = 6
    life.follow(5)
    life.checkpoint()
    life.cut(3)
    life.checkpoint()
    life.epoch = 7
    life.follow(6)
    life.flush()
    life.begin_anew(50)
    life.follow(3)
    life.checkpoint()
    life.remove_files()
    life.follow(2)


def compacting(life: FaultyLog) -> None:
    """Keys that are written over, compactions, files that are removed, a cut between, another compaction."""
    life.boot()
    life.make()
    for number in range(12):
        life.append(b"%d" % number * 20, key=b"k%d" % (number % 3))
    life.flush()
    life.checkpoint()
    life.compact()
    life.remove_files()
    for number in range(6):
        life.append(b"%d" % number * 20, key=b"k%d" % (number % 2))
    life.compact()
    life.checkpoint()
    life.cut(15)
    life.append(b"new", key=b"k0")
    life.append(b"new", key=b"k1" * 60)
    life.append(b"new", key=b"k1" * 60)
    life.flush()
    life.compact()
    life.remove_files()


def deleting(life: FaultyLog) -> None:
    """A topic that goes and comes again."""
    life.boot()
    life.make()
    for number in range(5):
        life.append(b"first life %d" % number)
    life.flush()
    life.checkpoint()
    life.delete()
    life.checkpoint()
    life.remove_files()
    life.make()
    life.append(b"second life")
    life.flush()


STORIES: dict[Story, LogSettings] = {leading: SMALL, following: SMALL, compacting: KEYED, deleting: SMALL}


def tell(story: Story, life: FaultyLog) -> None:
    """The story, up to where the directory is given up."""
    try:
        story(life)
    except Down:
        if life.log is not None:
            life.lasting = min(life.lasting, life.log.recovery_point)


def look(life: FaultyLog, *, power_lost: bool) -> None:
    """Open it where it was closed, compare, go on, and lose the power once more."""
    if life.store is None:
        life.boot()
    life.compare(power_lost=power_lost)
    if life.log is None:
        return
    life.go_on()
    life.end("loses power", 0)
    life.boot()
    life.compare(power_lost=True)


def cases(story: Story) -> Iterator[Case]:
    life = FaultyLog(STORIES[story])
    tell(story, life)
    yield from _cases(life.disk.calls, 0)


def _cases(calls: list[Call], first: int) -> Iterator[Case]:
    for place, call in enumerate(calls[first:], start=first + 1):
        for number in ERRNOS:
            if possible(call, number):
                for for_good in (False, True):
                    for ending in ENDINGS:
                        yield Case(place, number, for_good, ending)


def sampled(all_of_them: Iterator[Case]) -> list[Case]:
    return [case for place, case in enumerate(all_of_them) if ALL or place % SAMPLE == 0]


def run(story: Story, case: Case) -> None:
    life = FaultyLog(STORIES[story])
    life.disk.fail_at(case.call, case.number, for_good=case.for_good)
    tell(story, life)
    look(life, power_lost=life.end(case.ending, case.call))


def run_recovery(story: Story, case: Case, ending: str) -> None:
    """The story ends, and the start after it meets the failure; the one after that does not."""
    life = FaultyLog(STORIES[story])
    tell(story, life)
    power_lost = life.end(ending, case.call)
    life.disk.fail_at(len(life.disk.calls) + case.call, case.number, for_good=case.for_good)
    try:
        life.boot()
    except Down:
        life.store = None
    lasting = life.lasting
    power_lost = life.end(case.ending, case.call) or power_lost
    life.lasting = lasting
    look(life, power_lost=power_lost)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of failures would be told."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def report(capsys: pytest.CaptureFixture[str], what: str, found: list[Case]) -> None:
    if ALL:
        calls = len({case.call for case in found})
        with capsys.disabled():
            print(f"\n{what}: {len(found)} cases of (call, errno, ending), {calls} calls")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_log_keeps_what_it_acknowledged_whatever_fails(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    found = sampled(cases(story))
    for case in found:
        try:
            run(story, case)
        except BaseException as problem:
            problem.add_note(f"{story.__name__}: {case}")
            raise
    report(capsys, story.__name__, found)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("ending", ["is killed", "loses power", "loses power by chance"])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_recovery_that_fails_loses_nothing_to_the_next_one(
    story: Story, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    life = FaultyLog(STORIES[story])
    tell(story, life)
    life.end(ending, 1)
    before = len(life.disk.calls)
    life.boot()
    found = sampled(_cases([Call(*call) for call in life.disk.calls[before:]], 0))
    for case in found:
        try:
            run_recovery(story, case, ending)
        except BaseException as problem:
            problem.add_note(f"{story.__name__}, then it {ending}, then recovery: {case}")
            raise
    report(capsys, f"{story.__name__}, recovery after it {ending}", found)
