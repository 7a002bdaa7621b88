"""The tree of znodes, read as a whole: what a new controller begins with.

Owns: which znodes are read. Never knows: what follows from them. Invariant: at most `zookeeper.max.in.flight.requests`
questions are under way at a time, however large the cluster is.
"""

import asyncio
from collections.abc import Callable, Sequence

from ottla.zookeeper import layout
from ottla.zookeeper.ports import Ensemble
from ottla.zookeeper.translation import Znode

HowFar = Callable[[int, int], None]
"""Is told how many znodes were read, and how many there are to read as far as is known: the tree tells bit by bit."""


async def load_tree(session: Ensemble, how_far: HowFar = lambda read, known: None) -> dict[str, Znode]:
    """Everything that a cluster's state is made of. Raises Unreachable, Refused, BadZnode."""
    folders = [
        layout.TOPICS,
        layout.REGISTRATIONS,
        layout.CONTROLLERS,
        *(f"{layout.CONFIG}/{folder}" for folder in layout.CONFIG_KINDS.values()),
    ]
    paths = [layout.FEATURE, layout.PRODUCER_IDS]
    for folder in folders:
        paths += [f"{folder}/{name}" for name in await session.children(folder)]
    tree = await _read(session, paths, how_far)
    states = [
        layout.state_path(topic, number)
        for path, znode in tree.items()
        if (topic := path.removeprefix(f"{layout.TOPICS}/")) != path
        for number in layout.read_topic(topic, znode.data).partitions
    ]
    before = len(paths)
    return tree | await _read(session, states, lambda read, known: how_far(before + read, before + known))


async def _read(session: Ensemble, paths: Sequence[str], how_far: HowFar) -> dict[str, Znode]:
    """Those of the paths that are there."""
    left = iter(paths)
    found: dict[str, Znode] = {}
    read = 0

    async def work() -> None:
        nonlocal read
        for path in left:
            znode = await session.get(path)
            read += 1
            how_far(read, len(paths))
            if znode is not None:
                found[path] = Znode(znode.data, znode.stat.version)

    await asyncio.gather(*(work() for _ in range(session.in_flight)))
    return found
