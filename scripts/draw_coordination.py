"""Draws the picture of docs/explanation/coordination.md from the real thing: one story, on the quorum and on ZooKeeper.

Starts a cluster of three processes on each, kills the node that is the controller and leads a partition, and draws what
any client could see meanwhile: who is the controller, and when writes were acknowledged. Run it again at any time where
Java and Maven are installed: `.venv/bin/python -m scripts.draw_coordination [DIRECTORY]`; times will be others.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from scripts.draw_pictures import (
    FOLLOWS,
    GONE,
    LEADS,
    PICTURES,
    Drawing,
    Sample,
    Timeline,
    legend,
    stretches,
    until,
    watching,
)

import ottla
from ottla.admin import NewTopic
from ottla.demo.nodes import NODES, Nodes

WRITES = "#5e35b1"
FLOW_SECONDS = 0.1
"""Acknowledgements that are closer than this are drawn as one flow."""
CANDIDATES = 9
PANEL = 210


class Story(NamedTuple):
    """What happened on one cluster."""

    title: str
    controllers: Sequence[Sample]
    acknowledged: Sequence[float]
    victim: int
    killed: float
    end: float

    @property
    def gap(self) -> float:
        """The longest time without an acknowledgement."""
        return max(after - before for before, after in pairwise(self.acknowledged))


async def tell(directory: Path, title: str, options: Sequence[str], *, quorum: bool) -> Story:
    nodes = Nodes(directory, None, options)
    try:
        await nodes.start()
        async with ottla.Admin(bootstrap_servers=nodes.bootstrap) as admin:
            return await lose_the_controller(nodes, admin, title, quorum=quorum)
    finally:
        await nodes.close()


async def lose_the_controller(nodes: Nodes, admin: ottla.Admin, title: str, *, quorum: bool) -> Story:
    await admin.create_topics([NewTopic("orders", CANDIDATES, NODES)])
    acknowledged: list[float] = []

    async def controller() -> int:
        if quorum:
            return (await admin.describe_quorum(5.0)).leader_id
        return (await admin.describe_cluster(5.0)).controller_id

    async with (
        watching(controller) as watch,
        ottla.Producer(bootstrap_servers=nodes.bootstrap, acks="all") as producer,
    ):

        async def write(partition: int) -> None:
            while True:
                delivery = await producer.put("orders", b"x" * 100, partition=partition)
                delivery.add_callback(lambda placed, error: acknowledged.append(watch.now) if error is None else None)
                await asyncio.sleep(0.004)

        victim = await controller()
        partition = await led_by(admin, victim)
        for _ in range(100):  # the way is known, and everybody is warm
            await producer.send_and_wait("orders", b"x", partition=partition)
        watch.begin()
        writer = asyncio.create_task(write(partition))
        await asyncio.sleep(0.5)
        killed = watch.now
        nodes.kill(victim)
        await until(lambda: watch.samples[-1].seen not in (victim, -1), "another controller")
        await until(lambda: bool(acknowledged) and acknowledged[-1] > killed + 0.3, "acknowledgements")
        await asyncio.sleep(1.0)
        end = watch.now
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)
        return Story(title, tuple(watch.samples), tuple(acknowledged), victim, killed, end)


async def led_by(admin: ottla.Admin, node: int) -> int:
    """A partition that this node leads, once all of them are whole."""
    async with asyncio.timeout(60):
        while True:
            for topic in await admin.topics(5.0):
                whole = all(len(each.in_sync) == NODES for each in topic.partitions)
                led = [each.number for each in topic.partitions if each.leader == node]
                if topic.name == "orders" and whole and led:
                    return led[0]
            await asyncio.sleep(0.05)


def draw(stories: Sequence[Story], target: Path) -> None:
    drawing = Drawing(46 + PANEL * len(stories) + 24, "The controller dies, on the quorum and on ZooKeeper")
    drawing.text(10, 24, "kill -9 of a node that is the controller and leads the partition that is written to", size=15)
    seconds = max(story.end for story in stories)
    for number, story in enumerate(stories):
        top = 92.0 + PANEL * number
        drawing.text(10, top - 30, f"{story.title}: {story.gap:.2f} s without an acknowledgement", size=13)
        lanes = [*(f"node {node}" for node in range(1, NODES + 1)), "writes"]
        line = Timeline(drawing, seconds, top, lanes)
        for begin, stop, seen in stretches(story.controllers, story.end):
            for node in range(1, NODES + 1):
                leads = node == seen and not (node == story.victim and begin >= story.killed)
                line.fill(node - 1, begin, stop, LEADS if leads else FOLLOWS)
        line.fill(story.victim - 1, story.killed, story.end, GONE)
        begin = story.acknowledged[0]
        for before, after in pairwise([*story.acknowledged, float("inf")]):
            if after - before > FLOW_SECONDS:
                line.fill(NODES, begin, before, WRITES)
                begin = after
        line.event(story.killed, f"kill -9 of node {story.victim}", len(lanes))
    entries = [(LEADS, "is the controller"), (FOLLOWS, "follows"), (GONE, "dead"), (WRITES, "writes are acknowledged")]
    legend(drawing, 46 + PANEL * len(stories), entries)
    drawing.save(target / "coordination.svg")


async def main(target: Path) -> None:
    script = Path(__file__).with_name("real-zookeeper")
    found = subprocess.run([str(script)], check=True, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC221 at the start
    os.environ["ZOOKEEPER_HOME"] = found.stdout.strip()
    stories = []
    for title, options in (("Quorum", ()), ("ZooKeeper", ("--coordination", "zookeeper"))):
        with tempfile.TemporaryDirectory(prefix="ottla-pictures-") as directory:
            stories.append(await tell(Path(directory), title, options, quorum=not options))
            print(f"{title}: {stories[-1].gap:.2f} s without an acknowledgement")
    draw(stories, target)


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    place.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(place))
