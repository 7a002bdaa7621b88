"""Lives of a log that nobody wrote down: work, failures of the disk and ends of the process in an order of chance.

The stories of `test_log_storage` fail at one call, and end once. Here several calls fail, flushes and compactions are
under way while the log is cut, settings change, and starts fail that follow failed starts. What is held against the
log is the same model (`kit.disks.faulty_log`).

`OTTLA_LIVES=20000+500` lives those seeds of both kinds; a failure tells its seed.
"""

import errno
import logging
import os
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import pytest

from kit.disks.faulty_disk import ERRNOS, Call, possible
from kit.disks.faulty_log import KEYED, SMALL, Down, FaultyLog
from ottla.log.flushing import FlushTicket
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings

FIRST, _, COUNT = os.environ.get("OTTLA_LIVES", "1+25").partition("+")
LIFETIMES = 4
PRODUCERS = (1, 2)
TRANSACTIONAL = (11, 12, 13)


class RandomLife(FaultyLog):
    """A log to which anything may happen next."""

    def __init__(self, settings: LogSettings, random: Random) -> None:
        super().__init__(settings)
        self.random = random
        self.told: list[str] = []
        """What has happened, for who looks into a failure."""
        self._keyed = settings.cleanup_compact
        self._flush: tuple[FlushTicket, PartitionLog] | None = None
        self._compaction: Iterator[None] | None = None
        self._count = 0
        self._power_cuts = 0
        self._knows_boot = random.random() < 0.5

    # The disk

    def arm(self) -> None:
        """Let calls fail from now on, or none."""
        random = self.random
        numbers = [number for number in ERRNOS if number != errno.EIO]
        first, second = random.choice(numbers), random.choice(numbers)
        place, step, chance = random.randint(1, 60), random.randint(2, 6), random.choice((0.02, 0.1, 0.3))
        kind = random.choice(("none", "none", "by chance", "each nth", "for good", "two", "broken"))
        picks: dict[str, Callable[[int], int]] = {
            "none": lambda call: 0,
            "by chance": lambda call: random.choice(numbers) if random.random() < chance else 0,
            "each nth": lambda call: first if call % step == 0 else 0,
            "for good": lambda call: first if call >= place else 0,
            "two": lambda call: {place: first, place + step: second}.get(call, 0),
            "broken": lambda call: errno.EIO if call == place else 0,
        }
        pick, before = picks[kind], len(self.disk.calls)

        def fails(operation: str, path: str) -> int:
            number = pick(len(self.disk.calls) - before)
            if not number or not possible(Call(operation, path), number):
                return 0
            self.told.append(f"  {errno.errorcode[number]} from {operation} {path}")
            return number

        self.told.append(f"  disk: {kind}")
        self.disk.fail_when = fails

    # What may happen

    def write(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            self._count += 1
            value = b"%d " % self._count * self.random.randint(1, 8)
            key = b"k%d" % self.random.randint(0, 5) if self._keyed else None
            producer = self.random.choice(PRODUCERS) if self.random.random() < 0.4 else -1
            self.append(value, producer=producer, key=key)

    def transact(self) -> None:
        producer = self.random.choice(TRANSACTIONAL)
        self._count += 1
        if self._keyed:
            self.write()
        elif producer in self._open_transactions() and self.random.random() < 0.6:
            self.end_transaction(producer, commit=self.random.random() < 0.4)
        else:
            self.append(b"transaction %d" % self._count, producer=producer, transactional=True)

    def _open_transactions(self) -> set[int]:
        opened: set[int] = set()
        for _, written in sorted(self.now.items()):
            if written.commit is not None:
                opened.discard(written.producer[0])
            elif written.transactional:
                opened.add(written.producer[0])
        return opened

    def follow_some(self) -> None:
        if self._keyed:
            self.write()
        else:
            self.follow(self.random.randint(1, 4))

    def next_epoch(self) -> None:
        self.epoch += self.random.randint(1, 2)

    def begin_or_end_flush(self) -> None:
        """A flush is under way while other things happen."""
        if self._flush is None:
            self.attempt(self._begin_flush)
            return
        ticket, log = self._flush
        self._flush = None
        if log is self.log:
            self.attempt(partial(_end_flush, ticket=ticket))

    def _begin_flush(self, log: PartitionLog) -> None:
        ticket = log.begin_flush(sealed_only=self.random.random() < 0.4)
        self._flush = None if ticket is None else (ticket, log)

    def flush(self) -> None:
        if self._flush is None:
            super().flush()
        else:
            self.begin_or_end_flush()

    def cut_somewhere(self) -> None:
        log = self.log
        assert log is not None
        start, end = log.start_offset, log.end_offset
        places = (self.random.randint(start, end), end - self.random.randint(1, 3), self._some_segment(log))
        # Compaction stays below the high watermark, and cuts stay above it.
        self.cut(max(self.random.choice(places), start, self.compacted_to))
        self.epoch += 1

    def _some_segment(self, log: PartitionLog) -> int:
        return self.random.choice(log.segments).base_offset

    def begin_further_up(self) -> None:
        assert self.log is not None
        self.begin_anew(self.log.end_offset + self.random.randint(1, 30))
        self.epoch += 1

    def delete_some(self) -> None:
        assert self.log is not None
        if not self._keyed:
            self.delete_before(self.random.randint(self.log.start_offset, self.log.high_watermark))

    def expire(self) -> None:
        """Retention by size."""
        log = self.log
        assert log is not None
        if self._keyed:
            return
        log.settings = self.settings._replace(retention_bytes=600)
        try:
            self.sweep(log)
        finally:
            log.settings = self.settings

    def compact_further(self) -> None:
        """A compaction is under way while other things happen."""
        running, self._compaction = self._compaction or self.compaction(), None
        for _ in running if self._keyed else ():
            if self.random.random() < 0.7:
                self._compaction = running
                return

    def change_settings(self) -> None:
        assert self.log is not None
        self.settings = self.log.settings = self.settings._replace(
            segment_bytes=self.random.choice((300, 420, 800, 2000)),
            index_interval_bytes=self.random.choice((1, 100, 4000)),
        )

    def topic_goes_and_comes(self) -> None:
        self._compaction = None
        self.delete()
        self.make()

    def look(self) -> None:
        saved, self.disk.fail_when = self.disk.fail_when, None
        self.compare(power_lost=False)
        self.disk.fail_when = saved

    HAPPENS: tuple[tuple[Callable[["RandomLife"], object], float], ...] = (
        (write, 10),
        (transact, 8),
        (follow_some, 5),
        (next_epoch, 1),
        (flush, 3),
        (begin_or_end_flush, 4),
        (FaultyLog.checkpoint, 3),
        (cut_somewhere, 2),
        (begin_further_up, 0.3),
        (delete_some, 1),
        (FaultyLog.remove_files, 2),
        (compact_further, 6),
        (change_settings, 1),
        (topic_goes_and_comes, 0.06),
        (expire, 1),
        (look, 1),
        (arm, 2),
    )

    # A life

    def live(self) -> None:
        """Several processes, one after the other."""
        self.start_process()
        for _ in range(LIFETIMES):
            self._work()
            if self.random.random() < 0.5:
                self.disk.fail_when = None
            endings = ("goes on", "stops", "stops", "is killed", "is killed", "loses power", "loses power by chance")
            power_lost = self.ends(self.random.choice(endings))
            lasting = self.lasting
            if self.store is None:
                for _ in range(self.random.randint(0, 3)):
                    power_lost = self._start_in_vain() or power_lost
                    self.lasting = lasting
                self.start_process()
            self.lasting = lasting
            self.told.append(f"compare, {power_lost=}")
            self.compare(power_lost=power_lost)
            if self.log is None:
                self.forget()
            else:
                self.go_on()

    def _work(self) -> None:
        happens, weights = zip(*self.HAPPENS, strict=True)
        try:
            for _ in range(self.random.randint(10, 60)):
                if self.log is None:
                    self.make()
                if self.log is not None:
                    happening = self.random.choices(happens, weights)[0]
                    self.told.append(f"{happening.__name__} at {self.log.end_offset}")
                    happening(self)
        except Down as problem:
            self.told.append(str(problem))
            if self.log is not None:
                self.lasting = min(self.lasting, self.log.recovery_point)

    def start_process(self) -> None:
        self.told.append("start")
        self.boot(boot=f"machine {self._power_cuts}" if self._knows_boot else "")

    def _start_in_vain(self) -> bool:
        """A start that may fail, and an end right after it; answers whether the power was lost."""
        if self.random.random() < 0.7:
            self.arm()
        try:
            self.start_process()
        except Down as problem:
            self.told.append(str(problem))
            self.store = None
        self.disk.fail_when = None
        return self.ends(self.random.choice(("is killed", "stops", "loses power by chance")))

    def ends(self, ending: str) -> bool:
        self.told.append(ending)
        power_lost = self.end(ending, self.random.randint(0, 1 << 30))
        self._power_cuts += power_lost
        if self.store is None:
            self._flush = self._compaction = None
        return power_lost


def _end_flush(log: PartitionLog, ticket: FlushTicket) -> None:
    ticket.run()
    log.finish_flush(ticket)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of failures would be told."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("settings", [SMALL, KEYED], ids=["plain", "keyed"])
def test_a_log_keeps_what_it_acknowledged_whatever_life_brings(settings: LogSettings) -> None:
    for seed in range(int(FIRST), int(FIRST) + int(COUNT)):
        life = RandomLife(settings, Random(seed))
        try:
            life.live()
        except BaseException as problem:
            problem.add_note(f"seed {seed}:\n" + "\n".join(life.told))
            raise
