"""What happens on stage, act by act.

Owns: the order of events, what is said about them, and the figures they are told with; every figure is measured while
it happens. Never knows: processes (`nodes`), how records are sent and read (`till`, `desk`), colours (`screen`).
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import ottla
from ottla.admin import NewTopic, Topic
from ottla.demo import books
from ottla.demo.desk import GROUP, Desk
from ottla.demo.nodes import NODES, Nodes
from ottla.demo.proof import Verdict, compare, read_everything
from ottla.demo.screen import Screen
from ottla.demo.shop import CUSTOMERS, ORDERS, TOPICS
from ottla.demo.till import Till
from ottla.errors import ClientError

PARTITIONS = 3
_LOOK_SECONDS = 0.05
_MOST_LINES_QUOTED = 5
_PATIENCE_SECONDS = 120.0
_DESK_TOPICS = tuple(name for name in TOPICS if name != CUSTOMERS)


class Stalled(Exception):
    """Something that was announced did not happen, as one sentence."""


class Play:
    """One performance."""

    def __init__(self, nodes: Nodes, till: Till, admin: ottla.Admin, screen: Screen, scene_seconds: float) -> None:
        self.desk = Desk(_DESK_TOPICS, nodes.bootstrap)
        self._nodes = nodes
        self._till = till
        self._admin = admin
        self._screen = screen
        self._scene_seconds = scene_seconds
        self._topics: list[Topic] = []

    # --- the acts -----------------------------------------------------------------------------------------------------

    async def introduce(self) -> None:
        """The cluster is there; the topics are made."""
        say = self._screen.say
        state = await self._admin.describe_cluster()
        say(f"Each is a broker and votes in the quorum; node {state.controller_id} leads the quorum: what it decides")
        say("is a log, and all three have it.")
        self._screen.act("Four topics for a small shop, every record on all three nodes")
        new = [NewTopic(name, PARTITIONS, NODES, settings) for name, settings in TOPICS.items()]
        for name, created in (await self._admin.create_topics(new)).items():
            if created.error:
                raise Stalled(f"topic {name} could not be created: {created.error.name} {created.message or ''}")
        await self._until(self._all_in_sync, "the topics to appear")
        rows = [
            [f"{topic.name}-{part.number}", str(part.leader), _list(part.replicas), _list(part.in_sync)]
            for topic in self._shop_topics()
            for part in topic.partitions[:1]
        ]
        self._screen.table(["PARTITION", "LEADER", "REPLICAS", "IN SYNC"], rows)
        say(f"(the first of {PARTITIONS} partitions each.) A leader takes the writes; the others pull from it.")

    async def open_shop(self) -> None:
        self._screen.act("The shop opens")
        say = self._screen.say
        say("Customers, orders, payments and clicks, as a day would bring them, only faster: a little out of order,")
        say("some payments late, some twice, some never. An event counts when all replicas in sync have it: acks=all.")
        self._till.open()
        await self._scene()
        waits = self._till.waits()
        say(
            f"{self._till.acknowledged.total():,} events acknowledged: half within {waits.half * 1000:.1f} ms, "
            f"99 of 100 within {waits.nearly_all * 1000:.1f} ms."
        )

    async def staff_the_desk(self) -> None:
        self._screen.act(f"Three consumers share the work, as group '{GROUP}'")
        for name in ("anna", "bert", "cleo"):
            await self.desk.hire(name)
        await self._until_shared()
        self._show_desk()
        await self._scene()
        self._screen.say("Cleo goes home. Her partitions move to the others, and they go on where she stopped.")
        await self.desk.dismiss("cleo")
        await self._until_shared()
        self._show_desk()
        await self._scene()

    async def kill_a_leader(self) -> int:
        """Kill the node that leads the first partition of the orders; answers which one it was."""
        victim = self._partition(ORDERS, 0).leader
        led = self._led_by(victim)
        self._screen.act(f"Node {victim} dies, in the middle of the work")
        self._till.begin_watch()
        failures = len(self._till.failures)
        begun = asyncio.get_running_loop().time()
        lengths = self._nodes.log_lengths()
        self._screen.command(f"kill -9 {self._nodes.pid(victim)}")
        self._nodes.kill(victim)
        await self._until(lambda: self._without_leader(victim) == 0, f"others to lead what node {victim} led")
        took = asyncio.get_running_loop().time() - begun
        self._screen.good(
            f"{led} partitions had lost their leader; {took:.2f} s later each has another that lacks nothing."
        )
        for line in self._nodes.said(lengths)[:_MOST_LINES_QUOTED]:
            self._screen.quote(line)
        healed = asyncio.get_running_loop().time()
        await self._until(lambda: not self._till.overdue(healed), "everything sent meanwhile to be acknowledged")
        await self._scene()
        self._screen.say(
            f"The shop never closed: the event that waited longest for its acknowledgement waited "
            f"{self._till.longest_wait:.2f} s."
        )
        if len(self._till.failures) > failures:
            self._screen.bad(f"{len(self._till.failures) - failures} events were refused.")
        missing = sum(len(part.in_sync) < NODES for topic in self._shop_topics() for part in topic.partitions)
        self._screen.say(f"{missing} partitions have two copies now instead of three. Two are enough to go on.")
        return victim

    async def heal(self, victim: int) -> None:
        self._screen.act(f"Node {victim} comes back")
        self._screen.command(f"ottla serve --config {self._nodes.settings_file(victim)}")
        before = self._till.acknowledged.total()
        begun = asyncio.get_running_loop().time()
        ready = await self._nodes.restart(victim)
        self._screen.say(ready)
        await self._until(self._all_in_sync, f"node {victim} to catch up")
        took = asyncio.get_running_loop().time() - begun
        more = self._till.acknowledged.total() - before
        self._screen.good(f"All partitions have three copies in sync again, {took:.2f} s after its start.")
        self._screen.say(
            f"It pulled what it had missed, and the {more:,} events that came meanwhile. It leads nothing yet:"
        )
        self._screen.command("ottla partition elect")
        await self._admin.elect_leaders()
        await self._until(lambda: self._led_by(victim) > 0, f"node {victim} to lead again")
        self._screen.good(f"Node {victim} leads {self._led_by(victim)} partitions again.")

    async def keep_the_books(self, directory: Path, seconds: float) -> bool:
        """The Spark pipeline over what has happened so far, where Spark is installed; so long may it take.

        False when it fails. A machine on which it takes too long, or that has no Spark, is told so and that is all.
        """
        self._screen.act("A Spark pipeline joins orders to their payments")
        say = self._screen.say
        if not books.has_spark():
            say(f"Spark is not installed here, so this act is left out; get it with: {books.HOW_TO_GET_SPARK}")
            return True
        self._screen.command(books.command(self._nodes.bootstrap))
        say("It reads the topics as tables, waits for late payments, drops those told twice, and writes what became of")
        say("each order into a topic, exactly once. Starting Spark takes some seconds.")
        begun = asyncio.get_running_loop().time()
        try:
            await books.keep(self._nodes.bootstrap, directory, seconds)
        except (books.TooSlow, books.Failed) as problem:
            self._screen.bad(f"{problem}; everything else goes on")
            return isinstance(problem, books.TooSlow)
        took = asyncio.get_running_loop().time() - begun
        found = await books.read(self._nodes.bootstrap)
        self._screen.good(f"{found.orders:,} orders in topic '{books.OUTCOMES}' after {took:.0f} s, for example:")
        self._screen.table(
            ["ORDER", "CUSTOMER", "ITEM", "CENTS", "PAID BY"],
            [
                [
                    each["order"],
                    each["customer"],
                    each["item"],
                    f"{each['cents']:,}",
                    each.get("method") or "nobody yet",
                ]
                for each in found.examples
            ],
        )
        ways = ", ".join(f"{count:,} by {way}" for way, count in sorted(found.paid.items()) if way)
        say(f"{ways}; {found.paid['']:,} not paid in time.")
        return True

    async def count(self) -> Verdict:
        """Stop the till, read everything from the beginning and compare."""
        self._screen.act("Was anything lost? We count")
        await self._till.pause()
        verdict = compare(self._till.acknowledged, await read_everything(list(TOPICS), self._nodes.bootstrap))
        self._screen.table(
            ["ACKNOWLEDGED", "FOUND", "LOST", "DOUBLED"],
            [[f"{number:,}" for number in verdict]],
        )
        if verdict.whole:
            self._screen.good("Every event that was acknowledged is there, once, byte for byte.")
        else:
            self._screen.bad("That should not be. Please keep this output and report it.")
        await self._until(lambda: self.desk.lag == 0, "the group to read the rest")
        self._screen.good(f"The group has read {self.desk.read:,} orders, payments and clicks, and lags by 0.")
        return verdict

    # --- looking ------------------------------------------------------------------------------------------------------

    async def look(self) -> None:
        """Keep an eye on the partitions, as anybody with an admin client could."""
        while True:
            with contextlib.suppress(ClientError):  # while a node dies one answer may fail; the next one will come
                self._topics = await self._admin.topics(5.0)
            await asyncio.sleep(_LOOK_SECONDS)

    def figures(self, rate: float) -> dict[str, str]:
        """The state of things, for people."""
        waits = self._till.waits()
        leaders = Counter(part.leader for topic in self._shop_topics() for part in topic.partitions)
        total = sum(len(part.replicas) for topic in self._shop_topics() for part in topic.partitions)
        in_sync = sum(len(part.in_sync) for topic in self._shop_topics() for part in topic.partitions)
        return {
            "events": f"{self._till.acknowledged.total():,}",
            "a second": f"{rate:,.0f}",
            "ack p50/p99": f"{waits.half * 1000:.1f}/{waits.nearly_all * 1000:.1f} ms",
            "read": f"{self.desk.read:,}",
            "lag": f"{self.desk.lag:,}",
            "leads 1/2/3": "/".join(str(leaders[node]) for node in range(1, NODES + 1)),
            "copies in sync": f"{in_sync}/{total}",
        }

    def _shop_topics(self) -> list[Topic]:
        return [topic for topic in self._topics if topic.name in TOPICS]

    def _partition(self, name: str, number: int) -> ottla.admin.Partition:
        return next(topic for topic in self._shop_topics() if topic.name == name).partitions[number]

    def _led_by(self, node: int) -> int:
        """How many partitions this node leads, those of internal topics included."""
        return sum(part.leader == node for topic in self._topics for part in topic.partitions)

    def _without_leader(self, dead: int) -> int:
        return sum(part.leader in (dead, -1) for topic in self._topics for part in topic.partitions)

    def _all_in_sync(self) -> bool:
        whole = all(len(part.in_sync) == len(part.replicas) for topic in self._topics for part in topic.partitions)
        return whole and len(self._shop_topics()) == len(TOPICS)

    def _show_desk(self) -> None:
        rows = []
        for clerk in self.desk.clerks:
            held: dict[str, list[int]] = {}
            for place in clerk.holds:
                held.setdefault(place.topic, []).append(place.partition)
            rows.append([clerk.name, ", ".join(f"{topic} {_list(numbers)}" for topic, numbers in held.items())])
        self._screen.table(["MEMBER", "HAS"], rows)

    # --- time ---------------------------------------------------------------------------------------------------------

    async def _until_shared(self) -> None:
        wanted = PARTITIONS * len(_DESK_TOPICS)
        await self._until(lambda: self.desk.shared_evenly(wanted), "the group to share its partitions")

    async def _scene(self) -> None:
        """Let people watch for a while."""
        await asyncio.sleep(self._scene_seconds)

    async def _until(self, happened: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while True:
                    if happened():
                        return
                    await asyncio.sleep(_LOOK_SECONDS / 2)
        except TimeoutError:
            raise Stalled(f"waited {_PATIENCE_SECONDS:.0f} s for {what}") from None


def _list(numbers: Sequence[int]) -> str:
    return ",".join(str(number) for number in numbers)
