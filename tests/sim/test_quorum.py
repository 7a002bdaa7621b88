"""A quorum whose network loses, delays, reorders and parts, and whose nodes crash and forget, drawn from a seed.

What must hold at every step is in `sim.quorums`; and when all is well again, a leader is found, and what it
decides, with everything that was ever committed, reaches every node. `OTTLA_QUORUM_SEED=n` runs that seed alone.
"""

import os
from collections.abc import Callable

import pytest

from ottla.raft import effects
from ottla.raft.core import Core
from ottla.raft.follower import FollowerRole
from ottla.raft.granting import VoteGranting
from ottla.raft.leader import LeaderRole
from ottla.raft.log_view import Diverging
from ottla.raft.messages import Vote
from ottla.raft.roles import Role
from sim.quorums import QuorumWorld, SimNode

SEEDS = 700
BLOCK = 50
FAULTS_END = 6.0
HEALED_END = 12.0
CHOSEN = os.environ.get("OTTLA_QUORUM_SEED")


def story(seed: int) -> QuorumWorld:
    """One life of a quorum; raises AssertionError."""
    world = QuorumWorld(seed)
    draw = world.random
    for node in world.nodes:
        world.at(draw.uniform(0.0, 0.3), node.begin)
    number = 0

    def propose() -> None:
        nonlocal number
        number += 1
        for node in world.nodes:
            node.propose((number, node.key.node_id))
        world.at(world.now + draw.uniform(0.02, 0.3), propose)

    world.at(0.2, propose)
    world.at(draw.uniform(0.3, 1.0), lambda: mischief(world))
    for until in (FAULTS_END / 2, FAULTS_END):
        world.run(until)
        world.check_logs()
    world.cuts.clear()
    world.faults = False
    world.run(HEALED_END - 2.0)
    before = world.committed_end
    world.run(HEALED_END)
    world.check_logs()
    assert world.committed_end > before, "nothing is decided any more though all is well"
    for node in world.nodes:
        assert node.applied >= before, f"node {node.key.node_id} is at {node.applied} of {before}"
    return world


def mischief(world: QuorumWorld) -> None:
    """Something happens, and after a while something else."""
    if world.now > FAULTS_END:
        return
    draw = world.random
    chance = draw.random()
    if chance < 0.4:
        world.crash(draw.choice(world.nodes), draw.uniform(0.05, 1.0))
    elif chance < 0.45:
        for node in world.nodes:
            world.crash(node, draw.uniform(0.05, 0.5))
    elif chance < 0.6:
        world.cut()
    elif chance < 0.75:
        world.cuts.clear()
    elif chance < 0.9 and world.universe.dynamic:
        world.change_voters()
    elif world.universe.snapshots:
        world.snapshot(draw.choice(world.nodes))
    world.at(world.now + draw.uniform(0.05, 0.5), lambda: mischief(world))


def judge(seed: int) -> None:
    try:
        story(seed)
    except AssertionError as problem:
        again = f"OTTLA_QUORUM_SEED={seed} pytest tests/sim/test_quorum.py -k agrees"
        raise AssertionError(f"seed {seed}: {problem}; to repeat it: {again}") from problem


def judge_from(first: int) -> None:
    for seed in range(first, max(SEEDS, first + 1)):
        judge(seed)


@pytest.mark.parametrize("first", [int(CHOSEN)] if CHOSEN else range(0, SEEDS, BLOCK))
def test_a_quorum_agrees_whatever_happens_to_it(first: int) -> None:
    for seed in range(first, first + (1 if CHOSEN else BLOCK)):
        judge(seed)


def test_the_stories_have_everything_in_them() -> None:
    """The draws are worth something: elections, changes of voters, snapshots that were installed."""
    worlds = [story(seed) for seed in range(60)]

    assert {world.universe.voters for world in worlds} == {1, 3, 5}
    assert sum(len(world.leaders) > 3 for world in worlds) > 20
    assert any(world.voters_changed for world in worlds)
    assert any(world.installed for world in worlds)


# --- machines that were broken on purpose ----------------------------------------------------------------------------


def forget_votes(patch: pytest.MonkeyPatch) -> None:
    """The vote is said before it is saved."""

    def hasty(granting: VoteGranting, token: object, request: Vote, now: float) -> None:
        core = granting._core
        before = core.take()
        answer = granting.judge(request, now)
        saved = core.take()
        for effect in [*before, effects.Reply(token, answer), *saved]:
            core.emit(effect)

    patch.setattr(VoteGranting, "receive", hasty)


def count_older_epochs(patch: pytest.MonkeyPatch) -> None:
    """What a majority holds is taken for committed, whichever epoch wrote it."""
    commit = LeaderRole._commit

    def count(leader: LeaderRole, now: float) -> None:
        commit(leader, now)
        core = leader._core
        held = leader._replicas.held_by_majority(core.voters, leader._stored_offset)
        if core.role is Role.LEADER and core.advance(held):
            leader._serve_parked(now)

    patch.setattr(LeaderRole, "_commit", count)


def keep_diverging_tails(patch: pytest.MonkeyPatch) -> None:
    """A follower goes on behind what its leader does not have."""

    def keep(follower: FollowerRole, diverging: Diverging) -> None:
        pass

    patch.setattr(FollowerRole, "_truncate", keep)
    patch.setattr("ottla.raft.log_view.LogView.compare", lambda log, offset, epoch: None)


def count_unsynced(patch: pytest.MonkeyPatch) -> None:
    """A follower says that it holds what it has not synced."""
    emit = Core.emit

    def careless(core: Core, effect: effects.Effect) -> None:
        if not isinstance(effect, effects.Sync):
            emit(core, effect)

    patch.setattr(Core, "emit", careless)


def vote_for_older_logs(patch: pytest.MonkeyPatch) -> None:
    """A vote for whoever asks."""
    patch.setattr("ottla.raft.log_view.LogView.is_newer_than", lambda log, other: False)


def count_a_tail_unconfirmed(patch: pytest.MonkeyPatch) -> None:
    """A follower takes the high watermark for its own log before the two are known to agree."""
    truncate = FollowerRole._truncate

    def count(follower: FollowerRole, diverging: Diverging) -> None:
        core = follower._core
        if core.role is Role.FOLLOWER:
            core.advance(min(diverging.end_offset + 1, core.log.end_offset))
        truncate(follower, diverging)

    patch.setattr(FollowerRole, "_truncate", count)


def count_what_was_found(patch: pytest.MonkeyPatch) -> None:
    """A node counts on what an earlier life of it left unsynced."""
    patch.setattr(SimNode, "make_found_last", lambda node: None)


BROKEN = (
    (forget_votes, 0),
    (count_older_epochs, 370),
    (keep_diverging_tails, 0),
    (count_unsynced, 0),
    (vote_for_older_logs, 0),
    (count_a_tail_unconfirmed, 0),
    (count_what_was_found, 5_000_260),
)
"""How, and from which seed on to look, as some of it takes a rare story."""


@pytest.mark.parametrize(("break_it", "first"), BROKEN)
def test_a_machine_broken_on_purpose_is_found_out(
    break_it: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    with pytest.raises(AssertionError, match="seed"):
        judge_from(first)
