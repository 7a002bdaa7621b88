"""Members of groups, the client's side, under seeded simulation against the coordinator's machine.

It proves, for every seed and assignor of both protocols: no partition has two holders whom the coordinator counts on,
and once the network and the members are quiet everybody has an assignment and every partition one holder.
"""

from __future__ import annotations

import pytest

from sim.member_world import MemberWorld

SEEDS = range(12)
PROTOCOLS = ("range", "roundrobin", "sticky", "cooperative-sticky", "range,cooperative-sticky", "modern")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("seed", SEEDS)
def test_members_that_come_go_and_crash_share_the_partitions(seed: int, protocol: str) -> None:
    world = MemberWorld(seed, t=8, u=5)
    for _ in range(4):
        world.start(protocol, "t", "u")
    for _ in range(25):
        world.loss = world.chance.choice((0.0, 0.0, 0.1, 0.3))
        act = world.chance.random()
        present = world.present
        if act < 0.35 and len(present) < 9:
            world.start(protocol, *world.chance.choice((("t",), ("u",), ("t", "u"))))
        elif act < 0.55 and len(present) > 1:
            world.chance.choice(present).leave()
        elif act < 0.65 and len(present) > 1:
            world.chance.choice(present).crash()
        elif act < 0.75 and present:
            world.chance.choice(present).poll_ms = world.chance.choice((100, 3_000, 25_000))
        elif act < 0.85 and present:
            member = world.chance.choice(present).member
            member.subscribe(frozenset(world.chance.choice((("t",), ("t", "u")))), world.now)
        world.run(world.chance.randrange(10, 4_000))
    world.loss = 0.0
    for program in world.present:
        program.poll_ms = 200
    world.run(30_000)  # the slow have polled again, the silent are given up
    world.settle()


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky", "modern"])
def test_a_hundred_members_settle(protocol: str) -> None:
    world = MemberWorld(1, t=250)
    for _ in range(100):
        world.start(protocol)
        world.run(20)
    world.settle()
    sizes = [len(program.member.owned) for program in world.present]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("protocol", ["cooperative-sticky", "modern"])
def test_a_member_that_comes_takes_its_share_and_nobody_gives_up_more(protocol: str) -> None:
    world = MemberWorld(2, t=12)
    for _ in range(3):
        world.start(protocol)
    world.run(20_000)
    world.settle()
    before = {program.name: program.revoked for program in world.present}
    world.start(protocol)
    world.run(20_000)
    world.settle()
    given = sum(program.revoked - before.get(program.name, 0) for program in world.present)
    assert given == 3
