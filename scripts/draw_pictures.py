"""Draws the pictures of docs/explanation/ from the real thing.

Starts a cluster of three processes, lets things happen to it (a log grows, a leader is killed, a group changes, the
quorum's leader is killed), writes down what any client can see while they happen, and draws that. Run it again at any
time: `.venv/bin/python scripts/draw_pictures.py [DIRECTORY [PORT]]`; times and ids will differ, the story is the same.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple, TypeVar

import ottla
from ottla.admin import NewTopic, Partition
from ottla.demo.nodes import NODES, Nodes
from ottla.errors import ClientError
from ottla.log.dump import dump
from ottla.runtime.disk import RealDisk

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "pictures"
LOOK_SECONDS = 0.01
PATIENCE_SECONDS = 120.0
LINES = 10
ELECTED = "is the controller"
LEFT = 96
WIDTH = 900
INK, PALE, GRID = "#263238", "#90a4ae", "#eceff1"
LEADS, FOLLOWS, GONE = "#00897b", "#b2dfdb", "#eceff1"
OWNERS = {"anna": "#00897b", "bert": "#ffb300", "cleo": "#5e35b1", "": "#eceff1"}
T = TypeVar("T")


class Sample(NamedTuple):
    """What was seen at a moment, in seconds."""

    moment: float
    seen: object


class Drawing:
    """An SVG that is written piece by piece."""

    def __init__(self, height: int, title: str) -> None:
        self._height = height
        self._title = title
        self._parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, fill: str, title: str = "") -> None:
        shape = f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.3):.1f}" height="{height:.1f}" fill="{fill}"'
        self._parts.append(f"{shape}><title>{escape(title)}</title></rect>" if title else f"{shape}/>")

    def line(
        self, points: Sequence[tuple[float, float]], colour: str = INK, width: float = 1.0, dash: str = ""
    ) -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed}/>')

    def text(self, x: float, y: float, words: str, colour: str = INK, size: int = 12, anchor: str = "start") -> None:
        place = f'x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" text-anchor="{anchor}"'
        self._parts.append(f"<text {place}>{escape(words)}</text>")

    def code(self, x: float, y: float, words: str) -> None:
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" fill="{INK}" font-size="11" xml:space="preserve" '
            f'font-family="ui-monospace, Menlo, Consolas, monospace">{escape(words)}</text>'
        )

    def save(self, path: Path) -> None:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self._height}" '
            f'width="{WIDTH}" height="{self._height}" font-family="system-ui, sans-serif" role="img">'
        )
        body = "\n".join(self._parts)
        path.write_text(f"{head}\n<title>{escape(self._title)}</title>\n{body}\n</svg>\n", encoding="utf-8")


class Timeline:
    """Lanes under an axis of time."""

    def __init__(self, drawing: Drawing, seconds: float, top: float, lanes: Sequence[str]) -> None:
        self.drawing = drawing
        self.top = top
        self._scale = (WIDTH - LEFT - 20) / seconds
        self.lane_height = 26.0
        bottom = top + len(lanes) * self.lane_height
        step = next(step for step in (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 60, 300) if seconds / step <= 12)
        for number in range(int(seconds / step) + 1):
            drawing.line([(self.x(number * step), top - 6), (self.x(number * step), bottom + 4)], GRID)
            drawing.text(self.x(number * step), bottom + 18, f"{number * step:g} s", PALE, 11, "middle")
        for number, name in enumerate(lanes):
            drawing.text(LEFT - 10, self.y(number) + 16, name, anchor="end")

    def x(self, moment: float) -> float:
        return LEFT + moment * self._scale

    def y(self, lane: int) -> float:
        return self.top + lane * self.lane_height

    def fill(self, lane: int, begin: float, end: float, colour: str, title: str = "") -> None:
        y = self.y(lane) + 3
        self.drawing.box(self.x(begin), y, (end - begin) * self._scale, self.lane_height - 6, colour, title)

    def event(self, moment: float, words: str, lanes: int, *, right: bool = False) -> None:
        """A moment that is told above the lanes."""
        x = self.x(moment)
        self.drawing.line([(x, self.top - 8), (x, self.y(lanes))], "#c62828", 1.2, "4 3")
        self.drawing.text(x + (-4 if right else 4), self.top - 12, words, "#c62828", 12, "end" if right else "start")


def stretches(samples: Sequence[Sample], end: float) -> list[tuple[float, float, object]]:
    """Samples as stretches of time in which the same was seen."""
    found: list[tuple[float, float, object]] = []
    for sample, following in zip(samples, [*samples[1:], None], strict=True):
        until = end if following is None else following.moment
        if found and found[-1][2] == sample.seen:
            found[-1] = (found[-1][0], until, sample.seen)
        else:
            found.append((sample.moment, until, sample.seen))
    return found


def legend(drawing: Drawing, y: float, entries: Sequence[tuple[str, str]]) -> None:
    x = float(LEFT)
    for colour, words in entries:
        drawing.box(x, y, 14, 14, colour)
        drawing.text(x + 20, y + 12, words)
        x += 40 + 7 * len(words)


# --- watching ---------------------------------------------------------------------------------------------------------


class Watch:
    """Looks at the cluster again and again, and keeps what changed and when."""

    def __init__(self, look: Callable[[], Awaitable[object]]) -> None:
        self.samples: list[Sample] = []
        self._look = look
        self._begun = asyncio.get_running_loop().time()

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time() - self._begun

    def begin(self) -> None:
        """Forget what was seen before now."""
        self.samples = [Sample(0.0, self.samples[-1].seen)]
        self._begun = asyncio.get_running_loop().time()

    async def run(self) -> None:
        while True:
            with contextlib.suppress(ClientError, KeyError):  # a broker may not know yet of what is new
                seen = await self._look()
                if not self.samples or self.samples[-1].seen != seen:
                    self.samples.append(Sample(self.now if self.samples else 0.0, seen))
            await asyncio.sleep(LOOK_SECONDS)


@contextlib.asynccontextmanager
async def watching(look: Callable[[], Awaitable[object]]) -> AsyncIterator[Watch]:
    watch = Watch(look)
    task = asyncio.create_task(watch.run())
    try:
        await until(lambda: bool(watch.samples), "the first look")
        yield watch
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(happened: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                if happened():
                    return
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise SystemExit(f"waited too long for {what}") from None


# --- the log ----------------------------------------------------------------------------------------------------------


async def draw_log(nodes: Nodes, admin: ottla.Admin, target: Path) -> None:
    """Three segments of a partition, with the batches and index entries that are in the files."""
    settings = {"segment.bytes": str(1024 * 1024), "index.interval.bytes": str(64 * 1024)}
    await admin.create_topics([NewTopic("events", 1, NODES, settings)])
    async with ottla.Producer(bootstrap_servers=nodes.bootstrap, batch_size=32 * 1024, linger_ms=20) as producer:
        for number in range(2600):
            await producer.put("events", os.urandom(800), key=str(number % 50).encode())
    folder = nodes.settings_file(1).parent / "data" / "events-0"
    segments = sorted(folder.glob("*.log"))
    drawing = Drawing(70 + 88 * len(segments) + 150, "A partition's segments, batches and index entries")
    drawing.text(10, 24, f"events-0 on node 1: {len(segments)} segments, as they lie on the disk", size=15)
    scale = (WIDTH - 30) / max(path.stat().st_size for path in segments)
    first: dict[str, object] | None = None
    for row, path in enumerate(segments):
        y = 60.0 + 88 * row
        batches = [each.fields for each in dump(RealDisk(), str(path)) if each.kind == "batch"]
        first = first or batches[0]
        drawing.text(10, y - 6, f"{path.name}   {path.stat().st_size:,} bytes, {len(batches)} batches")
        for number, batch in enumerate(batches):
            x, size = 10 + _number(batch, "position") * scale, _number(batch, "size") * scale
            words = f"offsets {batch['base_offset']} to {batch['last_offset']}, {batch['size']} bytes"
            drawing.box(x, y, size - 0.8, 26, LEADS if number % 2 else "#4db6ac", words)
        drawing.text(10, y + 42, f"offset {batches[0]['base_offset']}", PALE, 11)
        end = 10 + path.stat().st_size * scale
        if end > WIDTH / 2:
            drawing.text(end, y + 42, f"to {batches[-1]['last_offset']}", PALE, 11, "end")
        else:
            drawing.text(end + 8, y + 17, f"to {batches[-1]['last_offset']}, and growing", PALE, 11)
        index = path.with_suffix(".index")
        rows = dump(RealDisk(), str(index)) if index.exists() else ()  # a short segment needs none yet
        entries = [each.fields for each in rows if "position" in each.fields]
        for entry in entries:
            x = 10 + _number(entry, "position") * scale
            drawing.line([(x, y + 27), (x, y + 50)], "#c62828", 1.0)
            drawing.box(
                x - 2.5, y + 49, 5, 5, "#c62828", f"index: offset {entry['offset']} is at byte {entry['position']}"
            )
    assert first is not None
    y = 60 + 88 * len(segments)
    legend(drawing, y - 6, [(LEADS, "a batch of records"), ("#c62828", "an entry of the offset index")])
    drawing.text(10, y + 36, "The first batch, as its header says:", size=13)
    for number, (name, value) in enumerate(list(first.items())[:12]):
        drawing.code(10 + 290 * (number % 3), y + 60 + 20 * (number // 3), f"{name} = {value}")
    drawing.save(target / "log.svg")


def _number(fields: dict[str, object], name: str) -> float:
    value = fields[name]
    assert isinstance(value, int)
    return float(value)


# --- replication ------------------------------------------------------------------------------------------------------


async def draw_replication(nodes: Nodes, admin: ottla.Admin, target: Path) -> None:
    """A leader is killed and comes back: who leads, who is in sync, what was acknowledged."""
    topic = "orders"
    await admin.create_topics([NewTopic(topic, 1, NODES)])
    acknowledged: list[float] = []

    async def look() -> Partition:
        return {each.name: each for each in await admin.topics(5.0)}[topic].partitions[0]

    async def write(producer: ottla.Producer, watch: Watch) -> None:
        while True:
            delivery = await producer.put(topic, b"x" * 100)
            delivery.add_callback(lambda placed, error: acknowledged.append(watch.now) if error is None else None)
            await asyncio.sleep(0.004)

    async with watching(look) as watch, ottla.Producer(bootstrap_servers=nodes.bootstrap, acks="all") as producer:
        await until(lambda: len(_partition(watch).in_sync) == NODES, "three copies")
        watch.begin()
        writer = asyncio.create_task(write(producer, watch))
        await asyncio.sleep(0.6)
        victim, killed = _partition(watch).leader, watch.now
        nodes.kill(victim)
        await until(lambda: _partition(watch).leader not in (victim, -1), "another leader")
        await asyncio.sleep(0.7)
        restarted = watch.now
        await nodes.restart(victim)
        await until(lambda: len(_partition(watch).in_sync) == NODES, "the third copy")
        await asyncio.sleep(0.4)
        end = watch.now
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)
    drawing = Drawing(300, "A leader dies and comes back")
    lanes = [f"node {number}" for number in range(1, NODES + 1)]
    drawing.text(10, 24, f"{topic}-0, three copies, min.insync.replicas=2, a write every 4 ms with acks=all", size=15)
    line = Timeline(drawing, end, 150, lanes)
    counted = [(line.x(moment), 128 - 72 * number / len(acknowledged)) for number, moment in enumerate(acknowledged)]
    drawing.text(LEFT - 10, 92, "acknow-", anchor="end")
    drawing.text(LEFT - 10, 107, "ledged", anchor="end")
    drawing.line(counted, LEADS, 2)
    drawing.text(line.x(acknowledged[-1]), 50, f"{len(acknowledged)} records", LEADS, 12, "end")
    told: set[int] = set()
    for begin, stop, seen in stretches(watch.samples, end):
        assert isinstance(seen, Partition)
        for node in range(1, NODES + 1):
            colour = LEADS if node == seen.leader else FOLLOWS if node in seen.in_sync else GONE
            line.fill(
                node - 1,
                begin,
                stop,
                colour,
                f"epoch {seen.leader_epoch}: leader {seen.leader}, in sync {seen.in_sync}",
            )
        if seen.leader > 0 and seen.leader_epoch not in told:
            told.add(seen.leader_epoch)
            drawing.text(line.x(begin) + 4, line.y(seen.leader - 1) + 17, f"epoch {seen.leader_epoch}", "#fff", 11)
    line.event(killed, f"kill -9 of node {victim}", NODES)
    line.event(restarted, f"node {victim} is started", NODES)
    legend(drawing, 262, [(LEADS, "leads"), (FOLLOWS, "in sync"), (GONE, "not in sync")])
    drawing.save(target / "replication.svg")


def _partition(watch: Watch) -> Partition:
    seen = watch.samples[-1].seen
    assert isinstance(seen, Partition)
    return seen


# --- groups -----------------------------------------------------------------------------------------------------------


async def draw_groups(nodes: Nodes, admin: ottla.Admin, target: Path) -> None:
    """Members come and go; who has which partition."""
    topic, partitions = "tables", 6
    await admin.create_topics([NewTopic(topic, partitions, NODES)])
    consumers: dict[str, ottla.Consumer] = {}
    tasks: dict[str, asyncio.Task[None]] = {}

    async def look() -> tuple[str, ...]:
        owners = {place.partition: name for name, each in consumers.items() for place in each.assignment()}
        return tuple(owners.get(number, "") for number in range(partitions))

    async def work(consumer: ottla.Consumer) -> None:
        while True:
            await consumer.poll(0.05)

    async def join(name: str) -> None:
        consumer = ottla.Consumer(
            topic, bootstrap_servers=nodes.bootstrap, group_id="waiters", heartbeat_interval_ms=200
        )
        await consumer.start()
        consumers[name] = consumer
        tasks[name] = asyncio.create_task(work(consumer))

    async def leave(name: str) -> None:
        tasks[name].cancel()
        await asyncio.gather(tasks.pop(name), return_exceptions=True)
        consumer = consumers[name]
        await consumer.close()
        del consumers[name]

    async def settled(watch: Watch) -> None:
        def shared() -> bool:
            seen = watch.samples[-1].seen
            return isinstance(seen, tuple) and set(seen) == set(consumers)

        await until(shared, "the group to settle")
        await asyncio.sleep(0.5)

    story: list[tuple[float, str]] = []
    async with watching(look) as watch:
        for name in ("anna", "bert", "cleo"):
            story.append((watch.now, f"{name} joins"))
            await join(name)
            await settled(watch)
        story.append((watch.now, "cleo leaves"))
        await leave("cleo")
        await settled(watch)
        end = watch.now
        for name in list(consumers):
            await leave(name)
    drawing = Drawing(300, "Members of a group come and go")
    drawing.text(
        10, 24, "group 'waiters', a topic of six partitions, heartbeat.interval.ms=200: who has which", size=15
    )
    line = Timeline(drawing, end, 76, [f"partition {number}" for number in range(partitions)])
    for begin, stop, seen in stretches(watch.samples, end):
        assert isinstance(seen, tuple)
        for number, owner in enumerate(seen):
            line.fill(number, begin, stop, OWNERS[owner], owner or "nobody")
    for moment, words in story:
        line.event(moment, words, partitions)
    legend(drawing, 270, [(OWNERS[name], name) for name in ("anna", "bert", "cleo")] + [(GONE, "nobody, for a moment")])
    drawing.save(target / "groups.svg")


# --- the quorum -------------------------------------------------------------------------------------------------------


async def draw_quorum(nodes: Nodes, admin: ottla.Admin, target: Path) -> None:
    """The quorum's leader is killed: who leads, in which epoch, and what the nodes say about it."""

    async def look() -> tuple[int, int]:
        quorum = await admin.describe_quorum(5.0)
        return quorum.leader_id, quorum.leader_epoch

    async with watching(look) as watch:
        await asyncio.sleep(0.4)
        before = watch.samples[-1].seen
        assert isinstance(before, tuple)
        victim, killed = before[0], watch.now
        lengths = nodes.log_lengths()
        nodes.kill(victim)

        def elected() -> bool:
            seen = watch.samples[-1].seen
            return isinstance(seen, tuple) and seen[0] not in (victim, -1)

        await until(elected, "another leader of the quorum")
        await until(lambda: any(ELECTED in line for line in nodes.said(lengths)), "a line in its log")
        await asyncio.sleep(0.5)
        end = watch.now
    said = nodes.said(lengths)
    elected_at = next(number for number, line in enumerate(said) if ELECTED in line)
    said = said[:LINES] if elected_at < LINES else [*said[: LINES - 1], said[elected_at]]
    drawing = Drawing(230 + 18 * len(said), "The quorum elects another leader")
    drawing.text(10, 24, "Three voters; the one that leads the quorum is killed", size=15)
    line = Timeline(drawing, end, 70, [f"node {number}" for number in range(1, NODES + 1)])
    for begin, stop, seen in stretches(watch.samples, end):
        assert isinstance(seen, tuple)
        for node in range(1, NODES + 1):
            gone = node == victim and begin >= killed
            line.fill(
                node - 1, begin, stop, GONE if gone else LEADS if node == seen[0] else FOLLOWS, f"epoch {seen[1]}"
            )
        if seen[0] > 0:
            drawing.text(line.x(begin) + 4, line.y(seen[0] - 1) + 17, f"epoch {seen[1]}", "#fff", 11)
    line.fill(victim - 1, killed, end, GONE)
    line.event(killed, f"kill -9 of node {victim}", NODES)
    legend(drawing, 176, [(LEADS, "leads the quorum"), (FOLLOWS, "votes and follows"), (GONE, "dead")])
    drawing.text(10, 216, "What the nodes wrote into their logs meanwhile:", size=13)
    for number, sentence in enumerate(said):
        drawing.code(10, 238 + 18 * number, sentence[:128])
    drawing.save(target / "quorum.svg")


async def main(target: Path, first_port: int | None) -> None:
    with tempfile.TemporaryDirectory(prefix="ottla-pictures-") as directory:
        nodes = Nodes(Path(directory), first_port)
        try:
            await nodes.start()
            async with ottla.Admin(bootstrap_servers=nodes.bootstrap) as admin:
                for draw in (draw_log, draw_groups, draw_replication, draw_quorum):
                    await draw(nodes, admin, target)
                    print(f"drawn: {draw.__name__.removeprefix('draw_')}")
        finally:
            await nodes.close()


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    place.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(place, int(sys.argv[2]) if len(sys.argv) > 2 else None))
