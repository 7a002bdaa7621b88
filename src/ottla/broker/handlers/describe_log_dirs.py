"""DescribeLogDirs, v1 to v5: the data directories, their room and what lies in them.

KIP-113; KIP-784 (v3: an error of the whole answer), KIP-827 (v4: room on the volume), KIP-1066 (v5: cordoned
directories).
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.log.data_directory import DataDirectory
from ottla.net.dispatch import Context
from ottla.net.portions import in_turns
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_STEP_PARTITIONS = 500


async def handle(broker: "Broker", request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    wanted: dict[str, set[int]] | None = None
    if request.topics is not None:
        wanted = {}
        async for topics in in_turns(broker, request.topics):
            for topic in topics:
                of_topic = wanted.setdefault(topic.topic, set())
                async for partitions in in_turns(broker, topic.partitions):
                    of_topic.update(partitions)
    found: dict[DataDirectory, dict[str, list[DescribeLogDirsPartition]]] = {
        directory: {} for directory in broker.store.directories
    }
    for position, (name, log) in enumerate(tuple(broker.store.logs.items())):
        if position % _STEP_PARTITIONS == _STEP_PARTITIONS - 1:
            await broker.dispatcher.turn()
        if wanted is not None and name.partition not in wanted.get(name.topic, ()):
            continue
        if broker.store.get(name) is log:
            present = found[broker.store.directory_of(name)]
            present.setdefault(name.topic, []).append(
                DescribeLogDirsPartition(partition_index=name.partition, partition_size=log.size)
            )
    return DescribeLogDirsResponse(results=[_result(broker, directory, topics) for directory, topics in found.items()])


def _result(
    broker: "Broker", directory: DataDirectory, topics: dict[str, list[DescribeLogDirsPartition]]
) -> DescribeLogDirsResult:
    if directory.failure is not None:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path)
    total, usable = broker.disk_room(directory.path)
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=[
            DescribeLogDirsTopic(name=name, partitions=sorted(partitions, key=lambda one: one.partition_index))
            for name, partitions in topics.items()
        ],
        total_bytes=total,
        usable_bytes=usable,
    )
