"""The nodes themselves: their directories, who may vote, who is registered, which features are on.

Owns: the requests about them, and results as plain values. Never knows: partitions' moves (`admin.brokers`).
"""

import asyncio
from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.client.address import Address
from ottla.client.admin.part import Outcome, Part
from ottla.client.errors import BrokerError, known_code
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse


class Feature(NamedTuple):
    """A feature of the cluster: the level that is on, 0 for off, and the levels the broker asked can do."""

    level: int
    lowest: int
    highest: int


class FeatureChange(IntEnum):
    """In which direction a level may change; the numbers of the protocol."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class StoredReplica(NamedTuple):
    """A replica in a directory: its size in bytes and how far it lags; `future` while it moves between directories."""

    size: int
    offset_lag: int
    future: bool


class LogDirectory(NamedTuple):
    """A directory of a broker; bytes are -1 where the broker does not tell."""

    path: str
    outcome: Outcome
    replicas: Mapping[TopicPartition, StoredReplica]
    total_bytes: int
    usable_bytes: int


class NodeAdmin(Part):
    """Directories, voters, registrations, features."""

    async def log_directories(
        self, brokers: list[int] | None = None, seconds: float | None = None
    ) -> dict[int, tuple[LogDirectory, ...]]:
        """The log directories of these brokers, or of all."""
        deadline = self._deadline(seconds)
        await self._cluster.retry(lambda: self._cluster.refresh((), deadline), deadline)
        nodes = sorted(self._cluster.brokers) if brokers is None else brokers
        answers = await asyncio.gather(*(self._directories_of(node, deadline) for node in nodes))
        return dict(zip(nodes, answers, strict=True))

    async def _directories_of(self, node: int, deadline: float) -> tuple[LogDirectory, ...]:
        request = DescribeLogDirsRequest(topics=None)
        answer = await self._cluster.ask_node(node, request, DescribeLogDirsResponse, deadline)
        if answer.error_code:
            raise BrokerError(answer.error_code, f"the log directories of broker {node}")
        return tuple(
            LogDirectory(
                directory.log_dir,
                Outcome(known_code(directory.error_code)),
                {
                    TopicPartition(topic.name, part.partition_index): StoredReplica(
                        part.partition_size, part.offset_lag, part.is_future_key
                    )
                    for topic in directory.topics
                    for part in topic.partitions
                },
                directory.total_bytes,
                directory.usable_bytes,
            )
            for directory in answer.results
        )

    async def features(self, seconds: float | None = None) -> dict[str, Feature]:
        """The features a broker knows, with the levels that are on in the cluster."""
        deadline = self._deadline(seconds)
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version="0")

        async def ask() -> dict[str, Feature]:
            answer = await self._cluster.ask_any(request, ApiVersionsResponse, deadline)
            on = {each.name: each.max_version_level for each in answer.finalized_features}
            return {
                each.name: Feature(on.get(each.name, 0), each.min_version, each.max_version)
                for each in answer.supported_features
            }

        return await self._cluster.retry(ask, deadline)

    async def update_features(
        self,
        levels: Mapping[str, int],
        change: FeatureChange = FeatureChange.UPGRADE,
        seconds: float | None = None,
        *,
        validate_only: bool = False,
    ) -> dict[str, Outcome]:
        """Set the level of features, 0 to turn one off; all of it or nothing."""
        deadline = self._deadline(seconds)
        updates = [
            FeatureUpdateKey(name, level, change is not FeatureChange.UPGRADE, change) for name, level in levels.items()
        ]
        request = UpdateFeaturesRequest(self._milliseconds(seconds), updates, validate_only)

        async def ask() -> dict[str, Outcome]:
            answer = await self._cluster.ask_controller(request, UpdateFeaturesResponse, deadline)
            error = known_code(answer.error_code)
            self._require_controller([error])
            told = {
                each.feature: Outcome(known_code(each.error_code), each.error_message or None)
                for each in answer.results
            }
            # The newest version answers for all of them at once.
            return {name: told.get(name, Outcome(error, answer.error_message or None)) for name in levels}

        return await self._cluster.retry(ask, deadline)

    async def unregister_broker(self, broker: int, seconds: float | None = None) -> Outcome:
        """Forget a broker that will not come back."""
        deadline = self._deadline(seconds)

        async def ask() -> Outcome:
            request = UnregisterBrokerRequest(broker)
            answer = await self._cluster.ask_controller(request, UnregisterBrokerResponse, deadline)
            error = known_code(answer.error_code)
            self._require_controller([error])
            return Outcome(error, answer.error_message or None)

        return await self._cluster.retry(ask, deadline)

    async def add_voter(
        self, node: int, directory_id: bytes, listeners: Mapping[str, Address], seconds: float | None = None
    ) -> Outcome:
        """Let a controller that follows the metadata log vote."""
        deadline = self._deadline(seconds)
        request = AddRaftVoterRequest(
            self._cluster.cluster_id,
            self._milliseconds(seconds),
            node,
            directory_id,
            [Listener(name, address.host, address.port) for name, address in listeners.items()],
        )

        async def ask() -> Outcome:
            answer = await self._cluster.ask_any(request, AddRaftVoterResponse, deadline)
            return Outcome(known_code(answer.error_code), answer.error_message or None)

        return await self._cluster.retry(ask, deadline)

    async def remove_voter(self, node: int, directory_id: bytes, seconds: float | None = None) -> Outcome:
        """Take a controller's vote away."""
        deadline = self._deadline(seconds)
        request = RemoveRaftVoterRequest(self._cluster.cluster_id, node, directory_id)

        async def ask() -> Outcome:
            answer = await self._cluster.ask_any(request, RemoveRaftVoterResponse, deadline)
            return Outcome(known_code(answer.error_code), answer.error_message or None)

        return await self._cluster.retry(ask, deadline)
