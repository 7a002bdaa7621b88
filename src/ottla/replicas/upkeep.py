"""What a broker does on its own: retention, compaction, flushing by time, checkpoints, removal of files.

Owns: when each of these happens. Never knows: how; the log room decides and does. Invariants: everything that waits for
the disk runs in a thread; on the loop, work over many logs is done in slices.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence

from ottla.base.vocabulary import TopicPartition
from ottla.log.checkpoints import Checkpoint
from ottla.log.cleaning import CleanerLimits
from ottla.log.compaction import Compaction, Compactor
from ottla.log.files import StorageFailure
from ottla.log.partition_log import PartitionLog
from ottla.log.retention import Swept, sweep
from ottla.log.store import NoUsableDirectory
from ottla.replicas.context import BrokerContext
from ottla.replicas.flusher import Flusher
from ottla.replicas.partitions import Partition

logger = logging.getLogger("ottla.broker")

SLICE = 200
NEVER = 2**63 - 1
FLUSH_LOOK_SECONDS = 1.0
REMOVAL_SECONDS = 5.0


class Upkeep:
    """The tasks of one broker's upkeep."""

    def __init__(
        self,
        context: BrokerContext,
        partitions: Iterable[Partition],
        flusher: Flusher,
        make_missing_logs: Callable[[], None],
    ) -> None:
        self._context = context
        self._partitions = partitions
        self._flusher = flusher
        self._make_missing_logs = make_missing_logs
        self._tasks: list[asyncio.Task[None]] = []
        self._stop = threading.Event()
        self._checkpointing = asyncio.Lock()
        values = context.values
        threads = max(1, values.integer("log.cleaner.threads"))
        limits = CleanerLimits(
            map_bytes=values.integer("log.cleaner.dedupe.buffer.size") // threads,
            load_factor=values.real("log.cleaner.io.buffer.load.factor"),
            buffer_bytes=max(4096, values.integer("log.cleaner.io.buffer.size") // threads),
            bytes_per_second=values.real("log.cleaner.io.max.bytes.per.second"),
        )
        self._compactor = Compactor(context.world, limits, self._wait)
        self._flushed_at: dict[TopicPartition, float] = {}

    def start(self) -> None:
        values = self._context.values
        self._every("log.retention.check.interval.ms", self._retention)
        self._every("log.flush.offset.checkpoint.interval.ms", self._checkpoint_recovery)
        self._every("log.flush.start.offset.checkpoint.interval.ms", self._checkpoint_starts)
        self._every("replica.high.watermark.checkpoint.interval.ms", self._checkpoint_watermarks)
        self._every("producer.id.expiration.check.interval.ms", self._expire_producers)
        self.repeat(FLUSH_LOOK_SECONDS, self._flush_due)
        self.repeat(REMOVAL_SECONDS, self._remove_files)
        if values.boolean("log.cleaner.enable"):
            for _ in range(max(1, values.integer("log.cleaner.threads"))):
                self._every("log.cleaner.backoff.ms", self._compact)

    def _wait(self, seconds: float) -> None:
        self._stop.wait(seconds)

    def sweep(self, logs: Sequence[PartitionLog], now_ms: int) -> Swept:
        """Remove what these logs need not keep; a disk that fails at it goes offline."""
        swept = sweep(logs, now_ms)
        for log, error in swept.failed:
            if isinstance(error, OSError):
                error = StorageFailure.of(log.directory, error)
            if isinstance(error, StorageFailure):
                self._context.storage_failed(error)
        return swept

    def forget(self, name: TopicPartition) -> None:
        """The log is going away."""
        self._compactor.forget(name)
        self._flushed_at.pop(name, None)

    async def stop(self) -> None:
        self._stop.set()
        self._compactor.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- when ---

    def _every(self, setting: str, chore: Callable[[], Awaitable[None]]) -> None:
        """Do it at an interval that may be changed while running."""
        self._tasks.append(
            asyncio.create_task(self._repeat(lambda: self._context.values.integer(setting) / 1000, chore))
        )

    def repeat(self, seconds: float, chore: Callable[[], Awaitable[None]]) -> None:
        """Do it again and again, this many seconds apart, until the broker stops."""
        self._tasks.append(asyncio.create_task(self._repeat(lambda: seconds, chore)))

    async def _repeat(self, seconds: Callable[[], float], chore: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds())
            try:
                await chore()
            except StorageFailure as failure:
                self._context.storage_failed(failure)
            except NoUsableDirectory as failure:
                self._context.give_up(str(failure))
            except Exception:
                # A chore that fails today is tried again tomorrow; the broker goes on.
                logger.exception("upkeep failed")

    # --- what ---

    async def _retention(self) -> None:
        logs = list(self._context.store.logs.values())
        now_ms = self._context.clock.now_ms()
        segments = size = 0
        for start in range(0, len(logs), SLICE):
            swept = self.sweep(logs[start : start + SLICE], now_ms)
            segments += swept.segments
            size += swept.bytes
            await asyncio.sleep(0)
        if segments:
            logger.info("retention removed %d segments, %d bytes", segments, size)

    async def _flush_due(self) -> None:
        """Flush closed segments, and logs whose `flush.ms` has passed."""
        now = self._context.clock.monotonic()
        partitions = list(self._partitions)
        cut = False
        for position, partition in enumerate(partitions):
            if position % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            log = partition.log
            if log is None:
                continue
            cut = cut or log.truncated_below_checkpoint
            if log.recovery_point == log.end_offset:
                continue
            flush_ms = log.settings.flush_ms
            if flush_ms < NEVER:
                since = self._flushed_at.setdefault(partition.name, now)
                if (now - since) * 1000 >= flush_ms:
                    self._flushed_at[partition.name] = now
                    self._flusher.flush(partition)
            elif log.has_unflushed_sealed:
                self._flusher.flush(partition, sealed_only=True)
        if cut:
            # A log that was cut below what a checkpoint says cannot roll before the lower one is written.
            await self._checkpoint_recovery()

    async def _checkpoint(self, *kinds: Checkpoint) -> None:
        store = self._context.store
        async with self._checkpointing:
            work = store.begin_checkpoint(*kinds)
            await self._context.run_blocking(work.run)
            store.finish_checkpoint(work)

    async def _checkpoint_recovery(self) -> None:
        await self._checkpoint(Checkpoint.RECOVERY_POINT, Checkpoint.CLEANED)

    async def _checkpoint_starts(self) -> None:
        await self._checkpoint(Checkpoint.START_OFFSET)

    async def _checkpoint_watermarks(self) -> None:
        await self._checkpoint(Checkpoint.HIGH_WATERMARK)

    async def _expire_producers(self) -> None:
        now_ms = self._context.clock.now_ms()
        for position, log in enumerate(list(self._context.store.logs.values())):
            log.expire_producers(now_ms)
            if position % SLICE == SLICE - 1:
                await asyncio.sleep(0)

    async def _remove_files(self) -> None:
        for removal in self._context.store.due_removals(self._context.clock.now_ms()):
            try:
                await self._context.run_blocking(removal.run)
            except StorageFailure as failure:
                if failure.out_of_space:
                    self._context.store.try_again(removal)
                self._context.storage_failed(failure)
        self._make_missing_logs()

    async def _compact(self) -> None:
        """Compact as long as there is something to gain; what failed is not tried again before the next turn."""
        while True:
            work = self._compactor.begin(self._context.store.logs.values(), self._context.clock.now_ms())
            if work is None or not await self._run_compaction(work):
                return

    async def _run_compaction(self, work: Compaction) -> bool:
        """Whether it came to its end."""
        started = self._context.clock.monotonic()
        error: Exception | None = None
        try:
            for step in work.steps():
                await self._context.run_blocking(step)
        except asyncio.CancelledError:
            work.stop()
            raise
        except Exception as problem:
            error = problem
        self._compactor.end(work, error)
        if error is not None:
            return False
        seconds = self._context.clock.monotonic() - started
        logger.info("compacted %s up to offset %d in %.1f s", work.log.topic_partition, work.end_offset, seconds)
        return True
