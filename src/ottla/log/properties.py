"""The two files that say whose data a directory holds: `meta.properties` and `partition.metadata`.

Owns: their formats (Kafka's) and the checks that a directory belongs to this cluster and node. Never knows: logs.
Invariant: nothing is written over a file that could not be understood.
"""

import os
from typing import NamedTuple

from ottla.base.ports import Disk
from ottla.base.vocabulary import TopicId, identity_bytes, identity_text
from ottla.log.whole_file import read_whole, replace_whole

DIRECTORY_FILE = "meta.properties"
PARTITION_FILE = "partition.metadata"
_TOPIC_ID_START = b"version: 0\ntopic_id: "
_IDENTITY_LETTERS = 22
_NODE_NAMES = {"0": "broker.id", "1": "node.id"}
"""What the node is called, by version: the older one is of Kafka's brokers that ZooKeeper coordinated."""


class UnusableDirectory(Exception):
    """A data directory that this node must not use; the message is one sentence with what to do."""

    def __init__(self, directory: str, message: str) -> None:
        super().__init__(message)
        self.directory = directory


class BadProperties(UnusableDirectory):
    """A properties file that cannot be understood."""


class InconsistentCluster(UnusableDirectory):
    """The directory belongs to another cluster."""


class InconsistentNode(UnusableDirectory):
    """The directory belongs to another node of the cluster."""


class DirectoryProperties(NamedTuple):
    """What `meta.properties` says."""

    cluster_id: str
    node_id: int
    directory_id: bytes

    def require(self, directory: str, cluster_id: str | None, node_id: int) -> None:
        """Raise when the directory belongs to another cluster or node; cluster None accepts any."""
        if cluster_id is not None and self.cluster_id != cluster_id:
            raise InconsistentCluster(
                directory,
                f"{directory} holds data of cluster {self.cluster_id}, but this node belongs to cluster {cluster_id}; "
                "use another data directory or correct the cluster id.",
            )
        if self.node_id != node_id:
            raise InconsistentNode(
                directory,
                f"{directory} holds data of node {self.node_id}, but this is node {node_id}; "
                f"set node.id={self.node_id} or use another data directory.",
            )


def _parse(content: bytes, directory: str, path: str) -> dict[str, str]:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise BadProperties(directory, f"{path} is not a text file; restore it from a backup.") from error
    values: dict[str, str] = {}
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        name, separator, value = stripped.partition("=")
        if not separator:
            raise BadProperties(directory, f"{path} has a line that is not name=value ({stripped!r}); correct it.")
        # Java escapes these two when it writes properties.
        values[name.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    return values


def read_directory_properties(disk: Disk, directory: str) -> DirectoryProperties | None:
    """What the directory says of itself, or None when it is new. Raises BadProperties and OSError."""
    path = os.path.join(directory, DIRECTORY_FILE)
    content = read_whole(disk, path)
    if content is None:
        return None
    values = _parse(content, directory, path)
    if values.get("version") not in _NODE_NAMES:
        raise BadProperties(
            directory,
            f"{path} has version {values.get('version', 'none')} where 0 or 1 is needed; "
            "use a directory of Kafka or ottla, or a new one.",
        )
    try:
        directory_id = identity_bytes(values["directory.id"]) if "directory.id" in values else b""
        return DirectoryProperties(values["cluster.id"], int(values[_NODE_NAMES[values["version"]]]), directory_id)
    except KeyError as error:
        raise BadProperties(directory, f"{path} has no {error.args[0]}; add it or restore the file.") from error
    except ValueError as error:
        raise BadProperties(directory, f"{path} has a value that cannot be read ({error}); correct it.") from error


def write_directory_properties(disk: Disk, directory: str, properties: DirectoryProperties) -> None:
    """Write `meta.properties`, durably. Blocking."""
    text = (
        f"version=1\ncluster.id={properties.cluster_id}\nnode.id={properties.node_id}\n"
        f"directory.id={identity_text(properties.directory_id)}\n"
    )
    replace_whole(disk, os.path.join(directory, DIRECTORY_FILE), text.encode())


def read_topic_id(disk: Disk, partition_directory: str) -> TopicId | None:
    """The topic id in `partition.metadata`; None when there is no file, or the beginning of one left by a crash.

    Raises BadProperties when it holds something else.
    """
    path = os.path.join(partition_directory, PARTITION_FILE)
    content = read_whole(disk, path)
    if content is None or _torn(content):
        return None
    try:
        version, identity = content.decode().splitlines()
        if version != "version: 0" or not identity.startswith("topic_id: "):
            raise ValueError(content)
        return TopicId(identity_bytes(identity[10:]))
    except ValueError as error:
        raise BadProperties(
            partition_directory,
            f"{path} does not say which topic the data is of; correct it (version: 0, topic_id: …) or remove it.",
        ) from error


def _torn(content: bytes) -> bool:
    start, identity = content[: len(_TOPIC_ID_START)], content[len(_TOPIC_ID_START) :]
    cut_short = len(identity) < _IDENTITY_LETTERS and identity.translate(None, b"-_").isalnum()
    return _TOPIC_ID_START.startswith(start) and (not identity or cut_short)


def write_topic_id(disk: Disk, partition_directory: str, topic_id: bytes) -> None:
    """Write `partition.metadata`, without a sync.

    The metadata log is the authority on topic ids and this file only guards against mix-ups, so a power cut may lose
    it; thousands of partitions are created without thousands of syncs.
    """
    file = disk.open(os.path.join(partition_directory, PARTITION_FILE), create=True)
    try:
        if file.size():
            file.truncate(0)
        file.append(f"version: 0\ntopic_id: {identity_text(topic_id)}".encode())
    finally:
        file.close()
