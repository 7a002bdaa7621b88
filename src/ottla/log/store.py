"""All logs of a node, in one or several data directories.

Owns: which logs there are and where, loading them at the start and closing them at the end, making and removing them,
their checkpoints, and directories that fail. Never knows: what is in a log, metadata, threads' owners.
Invariants: a partition has one log; the loop's thread alone touches `logs`. Work that blocks comes in three parts, as
flushing does: begin on the loop, `run` in a thread, finish on the loop. A failing directory takes only its own logs
away; when none is left the store says so.
"""

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from threading import Event
from typing import NamedTuple

from ottla.base.vocabulary import TopicId, TopicPartition, identity_text
from ottla.log.checkpoints import Checkpoint
from ottla.log.data_directory import DataDirectory, aside_name
from ottla.log.files import NotDurable, StorageFailure, World, disk_full, how_to_make_room
from ottla.log.flushing import Removal
from ottla.log.loading import DirectoryLoading, IsStray, SettingsOf
from ottla.log.partition_log import PartitionLog
from ottla.log.properties import InconsistentCluster, UnusableDirectory, read_topic_id, write_topic_id
from ottla.log.recovery import load_log
from ottla.log.settings import LogSettings

LOGS_A_JOB = 64
"""Loading an idle log takes less time than handing it to a thread."""

_logger = logging.getLogger(__name__)


class NoUsableDirectory(Exception):
    """Every data directory has failed; the message says how each did."""


class NewLog(NamedTuple):
    """A log to be made."""

    topic_partition: TopicPartition
    topic_id: TopicId
    settings: LogSettings


class Creation:
    """Logs on their way into being: begun and finished on the loop, `run` in a thread."""

    __slots__ = ("_directories", "_wanted", "_world", "failures", "logs")

    def __init__(self, world: World, wanted: Sequence[NewLog], directories: Sequence[Sequence[DataDirectory]]) -> None:
        self._world = world
        self._wanted = wanted
        self._directories = directories
        self.logs: list[PartitionLog] = []
        self.failures: list[tuple[DataDirectory, StorageFailure]] = []

    def run(self) -> None:
        """Make the directories and what a new log needs in them. Blocking, some 50 µs a log."""
        for directory in {choices[0] for choices in self._directories if choices}:
            with suppress(OSError):  # met again for each log
                directory.forget(
                    [
                        new.topic_partition
                        for new, choices in zip(self._wanted, self._directories, strict=True)
                        if choices[:1] == [directory]
                    ]
                )
        for new, choices in zip(self._wanted, self._directories, strict=True):
            for directory in choices:
                try:
                    self.logs.append(self._make(new, directory))
                    break
                except OSError as error:
                    self.failures.append((directory, StorageFailure.of(directory.path, error)))
                except StorageFailure as failure:
                    self.failures.append((directory, failure))

    def _make(self, new: NewLog, directory: DataDirectory) -> PartitionLog:
        path = os.path.join(directory.path, str(new.topic_partition))
        found = self._world.disk.exists(path)
        try:
            directory.forget((new.topic_partition,))
            self._world.disk.make_directory(path)
            write_topic_id(self._world.disk, path, new.topic_id)
            return load_log(self._world, new.topic_partition, path, new.settings, topic_id=new.topic_id)
        except (OSError, StorageFailure):
            # The log is made elsewhere, or later: half a one would be taken for a second copy at the next start.
            if not found:
                with suppress(OSError):
                    self._world.disk.remove(path)
            raise


class CheckpointWork(NamedTuple):
    """Offsets as they were on the loop, to be written by a thread."""

    offsets: list[tuple[DataDirectory, Checkpoint, dict[TopicPartition, int], int]]
    """Where, which and what, and the directory's turn."""
    failures: list[tuple[DataDirectory, StorageFailure]]

    def run(self) -> None:
        """Write the files. Blocking."""
        for directory, kind, offsets, turn in self.offsets:
            try:
                directory.write_offsets(kind, offsets, turn)
            except OSError as error:
                self.failures.append((directory, StorageFailure.of(directory.path, error)))


class DirectoryRemoval(NamedTuple):
    """A log's directory that was renamed away and goes at `due_ms`."""

    due_ms: int
    path: str
    log: PartitionLog | None
    world: World

    def run(self) -> None:
        """Remove it. Blocking; raises StorageFailure."""
        if self.log is not None:
            self.log.abandon()
        try:
            self.world.disk.remove(self.path)
        except OSError as error:
            raise StorageFailure.of(self.path, error) from error


Progress = Callable[[int, int], None]


class LogStore:
    """All logs of one node. Call `open`, then `load`; `close` at the end."""

    def __init__(self, paths: Sequence[str], world: World, recovery_threads: int = 2) -> None:
        assert paths
        self.directories = [DataDirectory(os.path.abspath(path), world) for path in paths]
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.intact = True
        """Whether everything was found whole when the logs were loaded: no directory failed, and no log had anything
        cut off, put aside or begun anew. What a node has not found whole it cannot vouch for."""
        self.when_offline: Callable[[DataDirectory, Sequence[TopicPartition]], None] = lambda directory, lost: None
        """Hears of every directory that fails once the logs are loaded, and of the logs that went with it."""
        self._world = world
        self._recovery_threads = recovery_threads
        self._loaded = False
        self._given_up = Event()
        self._held: dict[DataDirectory, dict[TopicPartition, PartitionLog]] = {each: {} for each in self.directories}
        self._removals: list[DirectoryRemoval | Removal] = []

    # Starting

    def open(self, node_id: int, cluster_id: str | None = None) -> str:
        """Lock the directories and see that they are this node's; answers the cluster's id.

        That is the given one, else the one found, else a new one. Raises UnusableDirectory, NoUsableDirectory.
        """
        claimed = []
        for slot, directory in enumerate(self.directories):
            if any(directory.path == other.path for other in self.directories[:slot]):
                path = directory.path
                raise UnusableDirectory(path, f"{path} is named twice among the data directories; name it once.")
        try:
            for directory in self.directories:
                try:
                    claimed.append((directory, directory.claim()))
                except OSError as error:
                    self._fail(directory, StorageFailure.of(directory.path, error))
            found = sorted({properties.cluster_id for _, properties in claimed if properties is not None})
            if cluster_id is None and len(found) > 1:
                owners = "; ".join(f"{place.path}: {own.cluster_id}" for place, own in claimed if own is not None)
                raise InconsistentCluster(
                    self.directories[0].path,
                    f"the data directories belong to different clusters ({owners}); use those of one.",
                )
            cluster = cluster_id or (found[0] if found else identity_text(self._world.random.identity()))
            for directory, properties in claimed:
                try:
                    directory.own(cluster, node_id, self._world.random, properties)
                except OSError as error:
                    self._fail(directory, StorageFailure.of(directory.path, error))
            self._require_one()
            self._require_own_ids()
        except BaseException:
            self.release()
            raise
        return cluster

    def _require_own_ids(self) -> None:
        known: dict[bytes, DataDirectory] = {}
        for directory in self.live:
            other = known.setdefault(directory.identity, directory)
            if other is not directory:
                raise UnusableDirectory(
                    directory.path,
                    f"{other.path} and {directory.path} have the same directory.id in meta.properties, so one is a "
                    "copy of the other; use an empty directory in place of the copy.",
                )

    @property
    def live(self) -> list[DataDirectory]:
        return [directory for directory in self.directories if directory.failure is None]

    @property
    def last_epoch(self) -> int:
        """The epoch of the broker that was here last, if no directory can miss anything that it wrote; else -1."""
        epochs = {directory.last_epoch for directory in self.directories}
        return epochs.pop() if len(epochs) == 1 else -1

    def mark_running(self, broker_epoch: int) -> list[StorageFailure]:
        """A broker of this epoch is at work here from now on; answers what failed. Blocking.

        One that has lost a directory vouches for none: the one that failed may be back at the next start, with what its
        last mark says.
        """
        epoch = broker_epoch if len(self.live) == len(self.directories) else -1
        failures = []
        for directory in self.live:
            try:
                directory.mark_running(epoch)
            except OSError as error:
                failures.append(StorageFailure.of(directory.path, error))
        return failures

    def load(
        self, settings_of: SettingsOf, *, is_stray: IsStray | None = None, progress: Progress | None = None
    ) -> None:
        """Load every log there is, recovering those of a directory that was not closed. Blocking.

        `is_stray` says whether a log belongs to no topic any more; such are put aside. Raises NoUsableDirectory,
        UnusableDirectory. After `give_up_loading` it returns soon, and the store counts as one that was never loaded.
        """
        self._require_one_of_each(is_stray)
        loadings = []
        for directory in self.live:
            try:
                loadings.append(DirectoryLoading(self._world, directory, settings_of, is_stray, self._given_up))
            except OSError as error:
                self._fail(directory, StorageFailure.of(directory.path, error))
        total = sum(len(loading.entries) for loading in loadings)
        done = 0
        with ThreadPoolExecutor(self._recovery_threads * max(len(loadings), 1), "log-recovery") as threads:
            jobs = {
                threads.submit(loading.run, loading.entries[start : start + LOGS_A_JOB]): loading
                for loading in loadings
                for start in range(0, len(loading.entries), LOGS_A_JOB)
            }
            for job in as_completed(jobs):
                done += job.result()
                if progress is not None:
                    progress(done, total)
        if self._given_up.is_set():
            return
        for loading in loadings:
            self._take_over(loading)
        self._require_one()
        self._loaded = True

    def give_up_loading(self) -> None:
        """Have `load`, in whichever thread it is, return with the logs that it is at."""
        self._given_up.set()

    def _require_one_of_each(self, is_stray: IsStray | None) -> None:
        """No partition in two directories, which a directory leaves behind that was away for a while.

        Raises UnusableDirectory, while the marks still tell which of them is older.
        """
        places: dict[TopicPartition, DataDirectory] = {}
        for directory in self.live:
            try:
                held = [entry.topic_partition for entry in directory.partitions() if entry.mark is None]
            except OSError:  # told when it is loaded
                continue
            for name in held:
                other = places.setdefault(name, directory)
                if other is not directory and all(self._is_wanted(name, each, is_stray) for each in (directory, other)):
                    twice = sum(places.get(each) is other for each in held)
                    raise UnusableDirectory(directory.path, _held_twice(other, directory, name, twice))

    def _is_wanted(self, name: TopicPartition, directory: DataDirectory, is_stray: IsStray | None) -> bool:
        if is_stray is None:
            return True
        try:
            return not is_stray(name, read_topic_id(self._world.disk, os.path.join(directory.path, str(name))))
        except (OSError, UnusableDirectory):
            return False

    def _take_over(self, loading: DirectoryLoading) -> None:
        directory = loading.directory
        if loading.failure is not None:
            self._fail(directory, loading.failure)
            return
        for log in loading.logs:
            self._add(log, directory)
            self.intact = self.intact and log.intact
        try:
            if directory.doubted:
                directory.prove()
        except OSError as error:
            self._fail(directory, StorageFailure.of(directory.path, error))
            return
        now = self._world.clock.now_ms()
        self._removals.extend(DirectoryRemoval(now, path, None, self._world) for path in loading.leftovers)

    # Making and removing logs

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self.logs.get(topic_partition)

    def create(self, topic_partition: TopicPartition, topic_id: TopicId, settings: LogSettings) -> PartitionLog:
        """Make one log at once. Raises StorageFailure."""
        creation = self.begin_creation([NewLog(topic_partition, topic_id, settings)])
        creation.run()
        made = self.finish_creation(creation)
        if not made:
            raise creation.failures[-1][1]
        return made[0]

    def adopt(self, topic_partition: TopicPartition, topic_id: TopicId) -> None:
        """Say whose log it is that does not say so itself. Raises StorageFailure."""
        log = self.logs[topic_partition]
        try:
            write_topic_id(self._world.disk, log.directory, topic_id)
        except OSError as error:
            raise StorageFailure.of(log.directory, error) from error
        log.topic_id = topic_id

    def begin_creation(self, wanted: Sequence[NewLog], directory_id: bytes | None = None) -> Creation:
        """Choose directories for new logs: the one asked for, else that with the fewest."""
        live = self.live
        counts = {directory: len(self._held[directory]) for directory in live}
        choices = []
        for new in wanted:
            assert new.topic_partition not in self.logs, new.topic_partition
            ordered = live
            if len(live) > 1:
                ordered = sorted(live, key=lambda directory: (directory.identity != directory_id, counts[directory]))
                counts[ordered[0]] += 1
            choices.append(ordered)
        return Creation(self._world, wanted, choices)

    def finish_creation(self, creation: Creation) -> list[PartitionLog]:
        """Take the new logs in; directories that failed on the way go offline (unless merely full)."""
        places = {directory.path: directory for directory in self.directories}
        for log in creation.logs:
            self._add(log, places[os.path.dirname(log.directory)])
        for directory, failure in creation.failures:
            if not failure.out_of_space:
                self.take_offline(directory, failure)
        return [log for log in creation.logs if log.topic_partition in self.logs]

    def delete(self, topic_partition: TopicPartition) -> None:
        """Rename a log's directory away; its files go when ranges of them can no longer be on their way to a reader.

        Raises StorageFailure.
        """
        directory = self.directory_of(topic_partition)
        log = self.logs[topic_partition]
        aside = os.path.join(directory.path, aside_name(topic_partition, self._world.random.identity(), "delete"))
        try:
            self._world.disk.rename(log.directory, aside)
        except OSError as error:
            raise StorageFailure.of(log.directory, error) from error
        log.move(aside)
        del self.logs[topic_partition], self._held[directory][topic_partition]
        due_ms = self._world.clock.now_ms() + log.settings.file_delete_delay_ms
        self._removals.append(DirectoryRemoval(due_ms, aside, log, self._world))

    def due_removals(self, now_ms: int) -> list[DirectoryRemoval | Removal]:
        """Directories of deleted logs and files of deleted segments that may go now, each to be `run` in a thread."""
        for log in self.logs.values():
            self._removals.extend(log.take_removals())
        due = [removal for removal in self._removals if removal.due_ms <= now_ms]
        if due:
            self._removals = [removal for removal in self._removals if removal.due_ms > now_ms]
        return due

    def try_again(self, removal: DirectoryRemoval | Removal) -> None:
        """It could not be done whole for now: have it among the due ones again."""
        self._removals.append(removal)

    def _add(self, log: PartitionLog, directory: DataDirectory) -> None:
        self.logs[log.topic_partition] = self._held[directory][log.topic_partition] = log

    def directory_of(self, topic_partition: TopicPartition) -> DataDirectory:
        """Where a log of the store is."""
        assert topic_partition in self.logs, topic_partition
        return next(directory for directory, held in self._held.items() if topic_partition in held)

    # Checkpoints

    def begin_checkpoint(self, *kinds: Checkpoint) -> CheckpointWork:
        """Take the offsets of every log as they are now: some 0.1 µs a log and kind."""
        if Checkpoint.RECOVERY_POINT in kinds:
            # Until it is known what the file holds, it may hold either.
            for log in self.logs.values():
                log.checkpointed = max(log.checkpointed, log.provable_point)
        if Checkpoint.CLEANED in kinds:
            for log in self.logs.values():
                log.checkpointed_clean = max(log.checkpointed_clean, log.cleaned_offset or 0)
        return CheckpointWork(
            [
                (directory, kind, self._offsets(kind, self._held[directory]), directory.turn)
                for directory in self.live
                for kind in kinds
            ],
            [],
        )

    def _offsets(self, kind: Checkpoint, held: dict[TopicPartition, PartitionLog]) -> dict[TopicPartition, int]:
        if kind is Checkpoint.RECOVERY_POINT:
            return {name: log.provable_point for name, log in held.items()}
        if kind is Checkpoint.HIGH_WATERMARK:
            return {name: log.high_watermark for name, log in held.items()}
        if kind is Checkpoint.CLEANED:
            return {name: log.cleaned_offset for name, log in held.items() if log.cleaned_offset is not None}
        # As Kafka: where the first segment says as much, the file need not.
        return {
            name: log.start_offset
            for name, log in held.items()
            if log.start_offset and log.start_offset > log.segments[0].base_offset
        }

    def finish_checkpoint(self, work: CheckpointWork) -> None:
        """Take directories offline whose checkpoints could not be written (unless merely full)."""
        failed = {directory for directory, _ in work.failures}
        for directory, kind, offsets, _ in work.offsets:
            if directory in failed:
                continue
            for name, log in self._held[directory].items():
                if kind is Checkpoint.RECOVERY_POINT and name in offsets:
                    log.checkpointed = offsets[name]
                elif kind is Checkpoint.CLEANED:
                    log.checkpointed_clean = offsets.get(name, 0)
        for directory, failure in work.failures:
            if not failure.out_of_space:
                self.take_offline(directory, failure)

    # Failing and stopping

    def take_offline(self, directory: DataDirectory, failure: Exception) -> list[TopicPartition]:
        """Give up a directory; answers the partitions that went with it. Raises NoUsableDirectory on the last one.

        `when_offline` hears of it first, whoever noticed.
        """
        if directory.failure is not None:
            return []
        self._fail(directory, failure)
        held = self._held[directory]
        lost = list(held)
        for name in lost:
            self.logs.pop(name).abandon()
        held.clear()
        self.when_offline(directory, lost)
        self._require_one()
        return lost

    def _fail(self, directory: DataDirectory, failure: Exception) -> None:
        # Only its words are wanted; what its frames hold (requests of clients among it) must not live on with it.
        directory.failure = failure.with_traceback(None)
        if isinstance(failure, NotDurable):
            directory.doubt()
        failure.__cause__ = failure.__context__ = None
        directory.release()
        self.intact = self.intact and self._loaded
        if self.live:  # of the last one NoUsableDirectory tells
            _logger.error("data directory %s is offline: %s", directory.path, failure)

    def _require_one(self) -> None:
        if not self.live:
            reasons = "; ".join(str(directory.failure) for directory in self.directories)
            full = [directory.path for directory in self.directories if disk_full(directory.failure)]
            remedy = how_to_make_room(full[0]) if full else "repair one or name another."
            raise NoUsableDirectory(f"no data directory can be used ({reasons}); {remedy}")

    def close(self, broker_epoch: int = -1) -> None:
        """Flush and close every log, write the checkpoints and mark the stop as clean. Blocking; nothing may run on.

        A store that was never loaded only lets its locks go: what it does not know it cannot call clean.
        """
        if self._loaded:
            self._close_each(self._close)
            epoch = broker_epoch if len(self.live) == len(self.directories) else -1
            self._close_each(lambda directory: directory.mark_clean_stop(epoch))
        self.release()

    def _close_each(self, step: Callable[[DataDirectory], None]) -> None:
        for directory in self.live:
            try:
                step(directory)
            except (StorageFailure, OSError) as error:
                directory.failure = error
                if isinstance(error, NotDurable):
                    directory.doubt()
                _logger.error("%s was not closed and is recovered at the next start: %s", directory.path, error)

    def _close(self, directory: DataDirectory) -> None:
        held = self._held[directory]
        with ThreadPoolExecutor(self._recovery_threads, "log-closing") as threads:
            list(threads.map(_close_all, _slices(list(held.values()))))
        for kind in Checkpoint:
            directory.write_offsets(kind, self._offsets(kind, held))

    def release(self) -> None:
        """Let the locks go."""
        for directory in self.directories:
            directory.release()


def _held_twice(first: DataDirectory, second: DataDirectory, name: TopicPartition, count: int) -> str:
    older, newer = sorted((first, second), key=lambda each: each.latest_epoch)
    said = f"{first.path} and {second.path} both hold {name} ({count} partitions in all): "
    if older.latest_epoch == newer.latest_epoch:
        return f"{said}move their folders in one of the two elsewhere."
    return f"{said}{older.path} was in use before {newer.path}; move its folders of these elsewhere."


def _slices(logs: Sequence[PartitionLog]) -> list[Sequence[PartitionLog]]:
    return [logs[start : start + LOGS_A_JOB] for start in range(0, len(logs), LOGS_A_JOB)]


def _close_all(logs: Sequence[PartitionLog]) -> None:
    for log in logs:
        log.close()
