"""Members of the client whose group's coordinator is killed: they find the next one, hold on to their partitions and
commit on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kit.brokers.cluster_processes import NewCluster
from kit.others.group_program import GroupProgram, eventually, shared
from ottla.base.vocabulary import TopicPartition
from ottla.client.coordinators import CoordinatorKind, find_coordinator
from ottla.client.groups.vocabulary import OffsetAndMetadata

SECONDS = 120.0
BOTH: list[dict[str, Any]] = [
    {"partition_assignment_strategy": "cooperative-sticky", "session_timeout_ms": 30_000},
    {"group_protocol": "consumer"},
]


@pytest.mark.parametrize("settings", BOTH, ids=["classic", "consumer"])
async def test_members_survive_the_death_of_their_coordinator(
    new_cluster: NewCluster, settings: dict[str, Any]
) -> None:
    with new_cluster() as cluster:
        await asyncio.to_thread(cluster.create_topic, "numbers", 4)
        programs = [GroupProgram(cluster.bootstrap, "group", enable_auto_commit=False, **settings) for _ in range(2)]
        for program in programs:
            await program.start(["numbers"])
        await eventually(lambda: shared(programs, 4) and well(programs), "two partitions each", SECONDS)
        first = programs[0]
        for turn in range(2):
            before = [program.held for program in programs]
            node = await find_coordinator(
                first.cluster, CoordinatorKind.GROUP, "group", first.cluster.deadline(SECONDS)
            )
            await asyncio.to_thread(cluster.kill, node)
            positions = {each: OffsetAndMetadata(10 + turn) for each in first.held}
            await first.group.commit(positions, first.cluster.deadline(SECONDS))
            await eventually(lambda: well(programs), "all well", SECONDS)
            assert [program.held for program in programs] == before
            assert not any("lost" in program.kinds for program in programs)
            await asyncio.to_thread(cluster.start, node)
            await asyncio.to_thread(cluster.heal)
        third = GroupProgram(cluster.bootstrap, "group", **settings)
        await third.start(["numbers"])
        await eventually(lambda: shared([*programs, third], 4), "a share for the third", SECONDS)
        every = [TopicPartition("numbers", number) for number in range(4)]
        found = await third.group.committed(every, third.cluster.deadline(SECONDS))
        assert {position.offset for position in found.values()} == {11}
        for program in [*programs, third]:
            await program.close()


def well(programs: list[GroupProgram]) -> bool:
    """Whether nothing is under way or in the way for any of them."""
    return all(program.group.why_idle() is None for program in programs)
