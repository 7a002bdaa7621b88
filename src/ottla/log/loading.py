"""Loading the logs of one data directory.

Owns: which directories in it are logs, which are leftovers and which belong to no topic any more, and what the
checkpoints say of each. Never knows: other data directories; what is in a log (that is `recovery`).
Invariants: the clean-stop marker is gone before the first log is touched; the first failure ends the loading of the
directory, since nothing in it is then to be trusted.
"""

import logging
import os
from collections.abc import Callable, Sequence
from threading import Event
from typing import TypeAlias

from ottla.base.vocabulary import NO_TOPIC_ID, TopicId, TopicPartition
from ottla.log.checkpoints import Checkpoint
from ottla.log.data_directory import DataDirectory, PartitionDirectory, aside_name
from ottla.log.files import StorageFailure, World
from ottla.log.partition_log import PartitionLog
from ottla.log.properties import UnusableDirectory, read_topic_id
from ottla.log.recovery import load_log
from ottla.log.settings import LogSettings

SettingsOf: TypeAlias = Callable[[TopicPartition], LogSettings]
IsStray: TypeAlias = Callable[[TopicPartition, TopicId | None], bool]
"""Whether a log (its topic id as its directory tells it) belongs to no topic any more."""

_logger = logging.getLogger(__name__)


class DirectoryLoading:
    """One directory being loaded. Made on one thread; `run` by several; the results are read when all have returned."""

    def __init__(
        self,
        world: World,
        directory: DataDirectory,
        settings_of: SettingsOf,
        is_stray: IsStray | None,
        given_up: Event,
    ) -> None:
        self.directory = directory
        self.logs: list[PartitionLog] = []
        self.leftovers: list[str] = []
        self.failure: Exception | None = None
        self._world = world
        self._settings_of = settings_of
        self._is_stray = is_stray
        self._given_up = given_up
        self._clean = directory.take_clean_stop()
        self._recovery_points = directory.read_offsets(Checkpoint.RECOVERY_POINT)
        self._start_offsets = directory.read_offsets(Checkpoint.START_OFFSET)
        self._high_watermarks = directory.read_offsets(Checkpoint.HIGH_WATERMARK)
        self._cleaned_offsets = directory.read_offsets(Checkpoint.CLEANED)
        self._unproven = directory.doubted
        self.entries: list[PartitionDirectory] = []
        for entry in directory.partitions():
            if entry.mark is None:
                self.entries.append(entry)
            elif entry.mark == "delete":
                self.leftovers.append(os.path.join(directory.path, entry.name))

    def run(self, entries: Sequence[PartitionDirectory]) -> int:
        """Load some of the logs; answers how many were seen to."""
        for entry in entries:
            if self.failure is None and not self._given_up.is_set():
                try:
                    self._load(entry)
                except NotADirectoryError as error:
                    _logger.warning("%s is no directory and is left alone", error.filename)
                except (OSError, StorageFailure, UnusableDirectory) as error:
                    self.failure = error
        return len(entries)

    def _load(self, entry: PartitionDirectory) -> None:
        name = entry.topic_partition
        path = os.path.join(self.directory.path, entry.name)
        topic_id = read_topic_id(self._world.disk, path)
        if self._is_stray is not None and self._is_stray(name, topic_id):
            aside = os.path.join(self.directory.path, aside_name(name, self._world.random.identity(), "stray"))
            self._world.disk.rename(path, aside)
            _logger.warning("%s belongs to no topic of this node any more and was put aside as %s", path, aside)
            return
        log = load_log(
            self._world,
            name,
            path,
            self._settings_of(name),
            clean=self._clean,
            recovery_point=self._recovery_points.get(name, 0),
            start_offset=self._start_offsets.get(name, 0),
            cleaned_offset=self._cleaned_offsets.get(name),
            power_kept=self.directory.last_epoch >= 0,
            unproven=self._unproven,
            topic_id=NO_TOPIC_ID if topic_id is None else topic_id,
        )
        committed = self._high_watermarks.get(name, 0)
        if committed > log.end_offset:
            _logger.warning(
                "%s ends at %d and was committed up to %d when it was last told", path, log.end_offset, committed
            )
            log.intact = False
        log.high_watermark = max(committed, log.start_offset)
        self.logs.append(log)
