"""One universe: drawn from a seed, disturbed, healed, judged.

Owns: the plan of a run and its verdict. Never knows: how anything inside works. Invariants: everything is drawn from
the seed, so the same seed is the same universe, event by event; faults only happen in the middle; after healing the
cluster must make progress, and at the end everything acknowledged must be there.
"""

import logging
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, NamedTuple, TypeVar

from ottla.base.vocabulary import TopicPartition
from ottla.client.errors import ClientError
from ottla.sim.client import SimMember, SimSession
from ottla.sim.cluster import SimCluster
from ottla.sim.faults import Faults, Power
from ottla.sim.history import History
from ottla.sim.loop import Scheduler, SimLoop
from ottla.sim.members import GroupReader
from ottla.sim.network import Network
from ottla.sim.trace import LogLines
from ottla.sim.watch import Watch
from ottla.sim.workload import Actor, Copier, NumberWriter, Reader

T = TypeVar("T")

LOG, COPIES = "log", "copies"
START_SECONDS = 60.0
HEAL_SECONDS = 120.0
END_SECONDS = 60.0
LOOK_SECONDS = 0.25


class Verdict(NamedTuple):
    """How a universe ended."""

    seed: int
    violations: list[str]
    fingerprint: str
    lines: list[str]
    acknowledgements: int
    transactions: int
    faults: int
    virtual_seconds: float


class _Judged(Exception):
    """Something that must not be has happened: what comes after proves nothing."""


class UniversePlan(NamedTuple):
    """What is drawn before anything happens."""

    roles: tuple[str, ...]
    replicas: int
    least_in_sync: int
    partitions: int
    writers: int
    readers: int
    copiers: int
    members: int
    """Of a consumer group."""
    seconds: float
    power: Power
    ambushes: bool
    disks: bool
    """Whether brokers have several directories that fail, and lose what is in them."""
    delay: tuple[float, float]
    """Of the network, in seconds."""
    haste: float
    """How long a client rests between two deeds, on average, in seconds."""
    settings: dict[str, str]


def draw(random: Random, *, ambushes: bool, disks: bool) -> UniversePlan:
    """A plan; most universes are three nodes that are everything."""
    both = "broker,controller"
    roles = random.choice(
        (
            (both,) * 3,
            (both,) * 3,
            (both,) * 3,
            ("controller", "controller", "controller", "broker", "broker", "broker"),
            (both, both, both, "broker"),
            ("controller", "broker", "broker", "broker"),
            (both,),
        )
    )
    replicas = min(3, sum("broker" in role for role in roles))
    least = "2" if replicas == 3 else "1"
    power = random.choice((Power.NEVER, Power.NEVER, Power.ONE if replicas == 3 else Power.ANY, Power.ANY))
    if ambushes and replicas == 1:
        power = Power.ANY
    settings = {
        "offsets.topic.num.partitions": str(random.randint(1, 3)),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.num.partitions": str(random.randint(1, 3)),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": least,
        "min.insync.replicas": least,
        "broker.session.timeout.ms": str(random.choice((2000, 4000, 9000))),
        "broker.heartbeat.interval.ms": str(random.choice((300, 1000))),
        "replica.lag.time.max.ms": str(random.choice((1000, 3000, 10_000))),
        "replica.fetch.wait.max.ms": str(random.choice((100, 500))),
        "replica.fetch.backoff.ms": str(random.choice((100, 1000))),
        "replica.high.watermark.checkpoint.interval.ms": str(random.choice((500, 5000))),
        "controller.quorum.fetch.timeout.ms": str(random.choice((1000, 2000))),
        "controller.quorum.election.timeout.ms": str(random.choice((500, 1000))),
        "leader.imbalance.check.interval.seconds": str(random.choice((2, 300))),
        "group.initial.rebalance.delay.ms": "0",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "metadata.log.max.record.bytes.between.snapshots": str(random.choice((2_000, 20_000, 20_971_520))),
        "log.cleaner.enable": "false",
    }
    if disks:
        settings |= {"log.dirs": "/data/one,/data/two", "metadata.log.dir": "/metadata"}
    if power is Power.ANY:
        settings["log.flush.interval.messages"] = "1"
    return UniversePlan(
        roles=roles,
        replicas=replicas,
        least_in_sync=int(least),
        partitions=random.randint(1, 3),
        writers=random.randint(1, 2),
        readers=random.randint(1, 2),
        copiers=random.randint(0, 2),
        members=random.randint(0, 2),
        seconds=random.uniform(5.0, 25.0),
        power=power,
        ambushes=ambushes,
        disks=disks,
        delay=random.choice(((0.0001, 0.001), (0.001, 0.01), (0.0001, 0.05))),
        haste=random.choice((0.03, 0.05, 0.1)),
        settings=settings,
    )


class Universe:
    """One seeded cluster and what happens to it. `run` once."""

    ambushed = 4
    """In every so many universes the faults also lie in wait; 0 for in none."""
    troubled = 3
    """In every so many universes disks fail and are replaced; 0 for in none."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._random = Random(seed)
        self.scheduler = Scheduler(Random(self._random.getrandbits(64)))
        self.plan = draw(
            self._random,
            ambushes=self.ambushed > 0 and seed % self.ambushed == 0,
            disks=self.troubled > 0 and seed % self.troubled == 0,
        )
        self.trace = self.scheduler.trace
        self.history = History(self.trace.tell)
        self._lines = LogLines(self.trace)
        self.network = Network(self.scheduler)
        self.network.weather.delay = self.plan.delay
        self.cluster = SimCluster(self.scheduler, self.network, self.plan.roles, self.plan.settings)
        self.watch = Watch(self.cluster, self.history.violation, self.history.acknowledged_end)
        self._partitions = [TopicPartition(LOG, number) for number in range(self.plan.partitions)]
        self._copies = [TopicPartition(COPIES, number) for number in range(2)]
        self.actors = self._actors()
        names = [actor.name for actor in self.actors]
        random = Random(self._random.getrandbits(64))
        self.faults = Faults(
            self.cluster, random, self.plan.power, names, ambushes=self.plan.ambushes, disks=self.plan.disks
        )
        self._judge = self.cluster.client("judge")

    def _actors(self) -> list[Actor]:
        actors: list[Actor] = []
        addresses = self.cluster.addresses

        def who(name: str) -> tuple[SimLoop, Random]:
            return self.cluster.client(name), Random(self._random.getrandbits(64))

        for number in range(self.plan.writers):
            loop, random = who(f"writer-{number}")
            actors.append(NumberWriter(loop, addresses, random, self.history, self._partitions))
        for number in range(self.plan.readers):
            loop, random = who(f"reader-{number}")
            actors.append(Reader(loop, addresses, random, self.history, [*self._partitions, *self._copies]))
        for number in range(self.plan.copiers):
            loop, random = who(f"copier-{number}")
            actors.append(Copier(loop, addresses, random, self.history, self._partitions, self._copies))
        for number in range(self.plan.members):
            loop, random = who(f"member-{number}")
            actors.append(GroupReader(loop, addresses, random, self.history, self._partitions))
        for actor in actors:
            actor.haste = self.plan.haste
        return actors

    # --- the run ------------------------------------------------------------------------------------------------------

    def run(self) -> Verdict:
        logger = logging.getLogger("ottla")
        before = (logger.level, logger.propagate)
        logger.addHandler(self._lines)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        try:
            self._live()
        except _Judged:
            self.trace.tell("ends here")
        finally:
            logger.removeHandler(self._lines)
            logger.setLevel(before[0])
            logger.propagate = before[1]
            self.scheduler.close()
        return Verdict(
            self.seed,
            self.history.violations,
            self.trace.fingerprint,
            self.trace.lines,
            self.history.acknowledgements,
            self.history.committed_attempts,
            self.faults.happened,
            self.scheduler.now,
        )

    def _live(self) -> None:
        self.trace.tell(f"seed {self.seed}: {self.plan}")
        self.cluster.boot()
        self._look()
        self._begin()
        for actor in self.actors:
            actor.start()
        self.faults.start()
        self.scheduler.run_for(self.plan.seconds)
        self.faults.heal()
        self._demand_progress()
        for actor in self.actors:
            actor.stopping = True
        self._until(lambda: all(actor.done for actor in self.actors), END_SECONDS, "the clients come to an end")
        self._final_reads()
        self.watch.look()
        self.watch.compare_logs()
        self._look_for_faults_of_code()

    def _look(self) -> None:
        self.watch.look()
        self._look_for_faults_of_code()
        if self.history.violations:
            raise _Judged
        self.scheduler.after(LOOK_SECONDS, self._look)

    def _until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = self.scheduler.now + seconds
        while not condition():
            if self.scheduler.now >= deadline:
                self.history.violation(f"no progress: not in {seconds:g} s: {what}")
                raise _Judged
            self.scheduler.run_for(0.1)

    def _ask(self, work: Callable[[SimSession], Coroutine[Any, Any, T]], what: str) -> T | None:
        """Ask the healthy cluster, repeating what fails; a violation when it does not answer in time."""

        async def repeat() -> T | None:
            session = SimSession(self.cluster.addresses, Random(self.seed))
            deadline = session.deadline(END_SECONDS)
            while True:
                try:
                    return await work(session)
                except ClientError as problem:
                    if session.deadline(0) > deadline:
                        self.history.violation(f"no progress: {what} is not possible: {problem!r}")
                        return None
                await session.pause()

        return self.scheduler.complete(self._judge, repeat(), END_SECONDS + 30)

    def _begin(self) -> None:
        nodes = self.cluster.nodes
        self._until(lambda: all(node.ready for node in nodes), START_SECONDS, "all nodes are ready")
        self._ask(self._create_topics, "creating topics")

    async def _create_topics(self, session: SimSession) -> None:
        configs = {"min.insync.replicas": str(self.plan.least_in_sync)}
        await session.create_topic(LOG, len(self._partitions), self.plan.replicas, configs)
        await session.create_topic(COPIES, len(self._copies), self.plan.replicas, configs)

    def _demand_progress(self) -> None:
        self.scheduler.after(1.0, self._revive)
        nodes = self.cluster.nodes
        self._until(lambda: all(node.ready for node in nodes), HEAL_SECONDS, "all nodes are ready again")
        self._until(self.faults.everything_in_sync, HEAL_SECONDS, "all replicas are in sync again")
        acknowledged = self.history.acknowledgements
        self._until(
            lambda: self.history.acknowledgements >= acknowledged + 3 * self.plan.writers,
            HEAL_SECONDS,
            "writes are acknowledged again",
        )
        if self.plan.copiers:
            copied = self.history.committed_attempts
            self._until(
                lambda: self.history.committed_attempts > copied, HEAL_SECONDS, "transactions are committed again"
            )

        if self.plan.members:
            committed = self.history.group_commits
            self._until(lambda: self.history.group_commits > committed, HEAL_SECONDS, "offsets are committed again")

    def _revive(self) -> None:
        self.faults.keep_alive()
        self.scheduler.after(1.0, self._revive)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _final_reads(self) -> None:
        everything = {partition: self._read(partition, committed=False) for partition in self._partitions}
        self.history.judge_writes(everything)
        if not self.plan.copiers:
            return
        visible = {partition: self._read(partition, committed=True) for partition in self._copies}
        self.history.judge_transactions(visible)
        offsets = self._ask(
            lambda session: session.committed("copies", self._partitions, SimMember()), "reading committed offsets"
        )
        for partition in self._partitions:
            upto = max(0, (offsets or {}).get(partition.partition, 0))
            self.history.judge_copies(visible, partition, upto, [offset for offset, _ in everything[partition]])

    def _read(self, partition: TopicPartition, *, committed: bool) -> list[tuple[int, bytes]]:
        """Everything in a partition; what is still undecided is waited for."""

        async def read(session: SimSession) -> list[tuple[int, bytes]]:
            found: list[tuple[int, bytes]] = []
            position = 0
            deadline = session.deadline(END_SECONDS)
            while True:
                end = await session.end_offset(partition)
                while position < end:
                    seen = await session.fetch(partition, position, committed=committed)
                    found += [(record.offset, record.value or b"") for record in seen.records]
                    if seen.next_offset == position:
                        await session.pause()
                        if session.deadline(0) > deadline:
                            self.history.violation(f"no progress: {partition} is not readable beyond {position}")
                            return found
                    position = seen.next_offset
                if await session.end_offset(partition) == position:
                    return found

        return self._ask(read, f"reading {partition}") or []

    def _look_for_faults_of_code(self) -> None:
        failures = [*self.cluster.failures]
        for loop in self.scheduler.loops:
            failures += loop.failures
        for failure in dict.fromkeys([*failures, *self._lines.errors]):
            self.history.violation(f"a fault of the code: {failure}")
        for actor in self.actors:
            problem = actor.outcome()
            if problem is not None and not isinstance(problem, ClientError):
                self.history.violation(f"{actor.name} failed: {problem!r}")
