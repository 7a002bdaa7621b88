"""One of a node's data directories, apart from the logs in it.

Owns: its lock, its identity, the marks of a clean stop and of a broker at work, its checkpoint files, and the names of
the directories in it. Never knows: what is in a partition's directory.
Invariants: nothing is read or written before the lock is held and the owner is known; the clean-stop marker is gone
while the directory is in use, so a crash at any time counts as one. Neither mark is there while logs are loaded: what a
recovery cut is not vouched for by the next one, which finds nothing more to cut.
"""

import json
import logging
import os
import re
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

from ottla.base.ports import Disk, File, Random
from ottla.base.vocabulary import TopicPartition
from ottla.log.checkpoints import BadCheckpoint, Checkpoint, format_offsets, read_checkpoint
from ottla.log.files import World
from ottla.log.properties import (
    DirectoryProperties,
    UnusableDirectory,
    read_directory_properties,
    write_directory_properties,
)
from ottla.log.whole_file import read_whole, replace_whole

try:
    import fcntl
except ImportError:  # a platform without it runs without the guard
    fcntl = None  # type: ignore[assignment]

LOCK_FILE = ".lock"
CLEAN_STOP_FILE = ".kafka_cleanshutdown"
METADATA_LOG = "__cluster_metadata-0"
"""Its directory belongs to the quorum; the store leaves it alone."""
# What a killed process proves by this file: design/0013.
RUNNING_FILE = ".ottla-running"
"""Which broker uses the directory, in which start of the machine, and which file on which mount is its lock: a copy of
the directory has another one."""
DOUBTED_FILE = ".ottla-doubted"
"""What it is renamed to when a sync failed. It need not be durable: a machine that starts again has only its disk."""
LONGEST_NAME = 255

_NAME = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)(?:\.[0-9a-zA-Z_-]+?-(?P<mark>delete|stray|future))?")

_logger = logging.getLogger(__name__)


class DirectoryInUse(UnusableDirectory):
    """Another process holds the directory's lock."""


class PartitionDirectory(NamedTuple):
    """What a directory's name says: whose it is, and whether it was put aside."""

    name: str
    topic_partition: TopicPartition
    mark: str | None


def parse_name(name: str) -> PartitionDirectory | None:
    """None when no partition has such a directory."""
    matched = _NAME.fullmatch(name)
    if matched is None:
        return None
    return PartitionDirectory(name, TopicPartition(matched["topic"], int(matched["partition"])), matched["mark"])


def aside_name(topic_partition: TopicPartition, identity: bytes, mark: str) -> str:
    """The name under which a partition's directory is put aside; a long topic is cut to what file systems take."""
    suffix = f"-{topic_partition.partition}.{identity.hex()}-{mark}"
    return topic_partition.topic[: LONGEST_NAME - len(suffix)] + suffix


class DataDirectory:
    """A data directory this node holds the lock of once `claim` has returned."""

    __slots__ = (
        "_begun",
        "_disk",
        "_lock",
        "_said",
        "_world",
        "_writing",
        "_written",
        "failure",
        "identity",
        "known_epoch",
        "last_epoch",
        "path",
        "turn",
    )

    def __init__(self, path: str, world: World) -> None:
        self.path = path
        self.identity = b""
        self.last_epoch = -1
        """The epoch of the broker that was here last, if nothing that it wrote can be missing; else -1."""
        self.known_epoch = -1
        """The epoch of the broker that was here last as far as it is known, whatever may be missing."""
        self.failure: Exception | None = None
        """Why it is offline; None while it serves."""
        self._disk = world.disk
        self._world = world
        self._lock: File | None = None
        self.turn = 0
        """Grows when logs begin here under names that checkpoints may know; who writes one says when he began."""
        self._begun: dict[TopicPartition, int] = {}  # in which turn, for checkpoints that began before
        self._said: dict[Checkpoint, dict[TopicPartition, int]] = {}  # by the files; more where a write failed
        self._written: set[Checkpoint] = set()  # by this process, so that it knows that they last
        self._writing = Lock()

    def claim(self) -> DirectoryProperties | None:
        """Make the directory, take its lock, and tell what it says of itself. Raises UnusableDirectory and OSError."""
        self._disk.make_directory(self.path)
        lock = self._disk.open(os.path.join(self.path, LOCK_FILE), create=True)
        try:
            _take(lock, self.path)
            properties = read_directory_properties(self._disk, self.path)
            self._find_epochs()
        except BaseException:
            lock.close()
            raise
        self._lock = lock
        if properties is not None:
            self.identity = properties.directory_id
        return properties

    def own(self, cluster_id: str, node_id: int, random: Random, present: DirectoryProperties | None) -> None:
        """Check that the directory is ours; write who owns it when it is new. Raises UnusableDirectory and OSError."""
        if present is not None:
            present.require(self.path, cluster_id, node_id)
        if not self.identity:
            self.identity = random.identity()
            write_directory_properties(self._disk, self.path, DirectoryProperties(cluster_id, node_id, self.identity))

    def release(self) -> None:
        """Let another process have the directory."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def latest_epoch(self) -> int:
        """The epoch of the broker that was here last, whatever may be missing and however it ended."""
        return max(self.last_epoch, self.known_epoch)

    def take_clean_stop(self) -> bool:
        """Whether the last owner stopped cleanly; from here on the directory counts as not stopped cleanly, and nobody
        vouches for what is in it until somebody has read it."""
        stopped, running = os.path.join(self.path, CLEAN_STOP_FILE), os.path.join(self.path, RUNNING_FILE)
        clean = self._disk.exists(stopped)
        marks = [mark for mark in (stopped, running) if self._disk.exists(mark)]
        for mark in marks:
            self._disk.remove(mark)
        if marks:
            self._disk.sync_directory(self.path)
        return clean

    def _find_epochs(self) -> None:
        """A process that was killed loses nothing that it wrote as long as the machine runs on and has the file system
        attached; one that stopped cleanly loses nothing at all."""
        stopped = read_whole(self._disk, os.path.join(self.path, CLEAN_STOP_FILE))
        running = read_whole(self._disk, os.path.join(self.path, RUNNING_FILE))
        if running is not None:
            # What Kafka's brokers leave behind is no measure: ZooKeeper counted their epochs in another way.
            self.known_epoch = _broker_epoch(running)
        if stopped is not None:
            self.last_epoch = _broker_epoch(stopped)
        elif running is not None and self._world.boot:
            boot, place = _field(running, "boot"), _field(running, "place")
            if (boot, place) == (self._world.boot, self._place()):
                self.last_epoch = self.known_epoch

    def _place(self) -> str:
        return self._world.place(os.path.join(self.path, LOCK_FILE))

    def mark_running(self, broker_epoch: int) -> None:
        """From here on a broker of this epoch writes here; -1 for one that cannot vouch for what it wrote."""
        boot, place = self._world.boot, self._place()
        content = json.dumps({"version": 1, "brokerEpoch": broker_epoch, "boot": boot, "place": place})
        replace_whole(self._disk, os.path.join(self.path, RUNNING_FILE), content.encode())

    def mark_clean_stop(self, broker_epoch: int) -> None:
        """Say that every log here is flushed and its checkpoints are written."""
        if self._lock is not None:
            # From here on its lock is another file for every mark of a broker at work, those in copies included: what
            # was copied from under a broker does not have what it wrote until it stopped.
            self._lock.truncate(0)
        content = b'{"version":0,"brokerEpoch":%d}' % broker_epoch
        replace_whole(self._disk, os.path.join(self.path, CLEAN_STOP_FILE), content)

    def doubt(self) -> None:
        """A sync failed: the next process must not believe its own. Changing a name needs no room."""
        running, doubted = os.path.join(self.path, RUNNING_FILE), os.path.join(self.path, DOUBTED_FILE)
        try:
            if self._disk.exists(running):
                self._disk.rename(running, doubted)
            else:
                self._disk.open(doubted, create=True).close()
        except OSError as error:
            _logger.error("%s: a sync failed, which cannot be noted (%s); restart the machine", self.path, error)

    @property
    def doubted(self) -> bool:
        """Whether a sync failed here whose bytes no process has written again since."""
        return self._disk.exists(os.path.join(self.path, DOUBTED_FILE))

    def prove(self) -> None:
        """Everything was written again, and lasts."""
        self._disk.remove(os.path.join(self.path, DOUBTED_FILE))

    def read_offsets(self, kind: Checkpoint) -> dict[TopicPartition, int]:
        """A checkpoint; a damaged one costs time (or history that retention would remove), never data."""
        try:
            said = read_checkpoint(self._disk, self.path, kind)
        except BadCheckpoint as error:
            _logger.warning("%s", error)
            return {}
        self._said[kind] = said
        return said

    def write_offsets(self, kind: Checkpoint, offsets: dict[TopicPartition, int], turn: int | None = None) -> None:
        """Write a checkpoint that was begun now, or in a turn, unless the file says so: an idle node syncs nothing.

        Blocking; raises OSError.
        """
        with self._writing:
            if turn is not None and turn < self.turn:
                begun = self._begun
                offsets = {name: offset for name, offset in offsets.items() if begun.get(name, 0) <= turn}
            else:
                self._begun.clear()
            if kind not in self._written or self._said.get(kind) != offsets:
                self._say(kind, offsets)

    def forget(self, names: Sequence[TopicPartition]) -> None:
        """Logs are about to begin under these names: what the checkpoints say of earlier ones is not about them, and
        would have a start after a crash give up or believe what it finds. Blocking; raises OSError."""
        with self._writing:
            self.turn += 1
            self._begun.update(dict.fromkeys(names, self.turn))
            for kind, said in self._said.items():
                if any(name in said for name in names):
                    gone = set(names)
                    self._say(kind, {name: offset for name, offset in said.items() if name not in gone})

    def _say(self, kind: Checkpoint, offsets: dict[TopicPartition, int]) -> None:
        self._said[kind] = self._said.get(kind, {}) | offsets
        self._written.discard(kind)
        replace_whole(self._disk, os.path.join(self.path, kind.value), format_offsets(offsets))
        self._said[kind] = offsets
        self._written.add(kind)

    def partitions(self) -> list[PartitionDirectory]:
        """The partition directories in it, put aside ones too. What is no partition's is left alone."""
        parsed = (parse_name(name) for name in self._disk.list(self.path) if name != METADATA_LOG)
        return [entry for entry in parsed if entry is not None]


def in_use(disk: Disk, path: str) -> bool:
    """Whether a process has the directory's lock; changes nothing."""
    lock_path = os.path.join(path, LOCK_FILE)
    if not disk.exists(lock_path):
        return False
    try:
        lock = disk.open(lock_path)
    except PermissionError:
        return False  # who may not write here cannot ask
    try:
        _take(lock, path)
    except DirectoryInUse:
        return True
    finally:
        lock.close()
    return False


def _broker_epoch(content: bytes) -> int:
    """The epoch in a mark of a clean stop, which older releases left empty, or of a broker at work."""
    found = _field(content, "brokerEpoch")
    return found if isinstance(found, int) else -1


def _field(content: bytes, name: str) -> object:
    try:
        fields = json.loads(content)
    except ValueError:
        return None
    return fields.get(name) if isinstance(fields, dict) else None


def _take(lock: File, path: str) -> None:
    descriptor = lock.fileno()
    if fcntl is None or descriptor < 0:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The JVM takes the other kind of lock; this one keeps a Kafka out.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DirectoryInUse(
            path, f"{path} is in use by another ottla (or Kafka); stop it or use another data directory."
        ) from error
