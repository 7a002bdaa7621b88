"""Giving data directories to a node of a cluster, as Kafka's storage tool does.

Owns: what is written before the first start of a node of a cluster: whose the directories are, and who votes first.
Never knows: a running node. Invariants: a directory that belongs to somebody is never given to another; nothing is
written when one of the directories cannot be used.
"""

import os
from collections.abc import Sequence
from typing import NamedTuple

from ottla.base.ports import Disk, Random
from ottla.base.settings.values import BrokerValues
from ottla.base.vocabulary import identity_bytes, identity_text
from ottla.log.data_directory import METADATA_LOG
from ottla.log.properties import (
    DirectoryProperties,
    UnusableDirectory,
    read_directory_properties,
    write_directory_properties,
)
from ottla.node.options import StartFailure


class Formatted(NamedTuple):
    """One directory, and whether it is new."""

    path: str
    new: bool


def format_directories(
    disk: Disk, random: Random, values: BrokerValues, cluster_id: str | None, ignore_formatted: bool
) -> tuple[str, list[Formatted]]:
    """Give every data directory of a node to a cluster; answers its id. Raises StartFailure."""
    if cluster_id is not None:
        try:
            identity_bytes(cluster_id)
        except ValueError:
            raise StartFailure(
                f"{cluster_id!r} is no cluster id: one has 22 letters and digits; leave --cluster-id out for a new one."
            ) from None
    paths = _paths(values)
    try:
        found = [(path, read_directory_properties(disk, path)) for path in paths]
    except UnusableDirectory as problem:
        raise StartFailure(str(problem)) from None
    except OSError as problem:
        raise StartFailure(f"cannot read {problem.filename}: {problem.strerror}.") from None
    node_id = values.integer("node.id")
    cluster = cluster_id or next((own.cluster_id for _, own in found if own is not None), None)
    cluster = cluster or identity_text(random.identity())
    for path, own in found:
        if own is None:
            continue
        try:
            own.require(path, cluster, node_id)
        except UnusableDirectory as problem:
            raise StartFailure(str(problem)) from None
        if not ignore_formatted:
            raise StartFailure(f"{path} is formatted already; leave it so with --ignore-formatted.")
    try:
        for path, own in found:
            if own is None:
                disk.make_directory(path)
                properties = DirectoryProperties(cluster, node_id, random.identity())
                write_directory_properties(disk, path, properties)
    except OSError as problem:
        raise StartFailure(f"cannot write to {problem.filename}: {problem.strerror}.") from None
    return cluster, [Formatted(path, own is None) for path, own in found]


def is_formatted(disk: Disk, values: BrokerValues) -> bool:
    """Whether the directory of the metadata log belongs to somebody. Raises UnusableDirectory and OSError."""
    return read_directory_properties(disk, metadata_directory(values)) is not None


def metadata_directory(values: BrokerValues) -> str:
    return os.path.abspath(values.text("metadata.log.dir"))


def metadata_log_directory(values: BrokerValues) -> str:
    """Where the metadata log itself lies."""
    return os.path.join(metadata_directory(values), METADATA_LOG)


def _paths(values: BrokerValues) -> Sequence[str]:
    paths = [os.path.abspath(path) for path in values.listing("log.dirs")]
    metadata = metadata_directory(values)
    return paths if metadata in paths else [metadata, *paths]
