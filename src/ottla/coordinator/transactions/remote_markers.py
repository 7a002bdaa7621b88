"""Ends of transactions for partitions that other brokers lead.

Owns: WriteTxnMarkers to their leaders, those of many transactions together. Never knows: who leads, when to try again.
Invariant: every order is answered once, with the error of each partition that has not got its marker.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.coordinator.transactions.per_broker_queue import LinkContext, PerBrokerQueue
from ottla.log.producers import EndMarker
from ottla.wire.links import Link
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

ANSWER_SECONDS = 5.0
"""A broker that takes longer may have lost its partitions; whoever leads them then is told instead."""
MOST_TOGETHER = 1_000
"""Transactions whose ends go in one request."""

OnMarkersWritten = Callable[[Mapping[TopicPartition, ErrorCode]], None]


class Order(NamedTuple):
    marker: EndMarker
    names: Sequence[TopicPartition]
    done: OnMarkersWritten

    def written(self) -> WritableTxnMarker:
        marker = self.marker
        topics: dict[str, list[int]] = {}
        for topic, index in self.names:
            topics.setdefault(topic, []).append(index)
        return WritableTxnMarker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            transaction_result=marker.commit,
            topics=[WritableTxnMarkerTopic(topic, indexes) for topic, indexes in topics.items()],
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
        )


class RemoteMarkers:
    """Markers on their way to other brokers."""

    def __init__(self, broker: LinkContext) -> None:
        self._queue: PerBrokerQueue[Order] = PerBrokerQueue(broker, _send, _failed, _together)

    def send(self, broker_id: int, marker: EndMarker, names: Sequence[TopicPartition], done: OnMarkersWritten) -> None:
        self._queue.add(broker_id, Order(marker, names, done))

    def gone(self, broker_id: int) -> None:
        self._queue.gone(broker_id)

    async def stop(self) -> None:
        await self._queue.stop()


async def _send(link: Link, orders: list[Order]) -> None:
    request = WriteTxnMarkersRequest(markers=[order.written() for order in orders])
    answer = await link.ask(request, WriteTxnMarkersResponse, ANSWER_SECONDS)
    errors = {
        (marker.producer_id, topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for marker in answer.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
    for order in orders:
        told = {
            name: errors.get((order.marker.producer_id, *name), ErrorCode.UNKNOWN_SERVER_ERROR) for name in order.names
        }
        order.done({name: error for name, error in told.items() if error != ErrorCode.NONE})


def _failed(orders: list[Order]) -> None:
    for order in orders:
        order.done(dict.fromkeys(order.names, ErrorCode.NETWORK_EXCEPTION))


def _together(orders: list[Order]) -> int:
    return min(len(orders), MOST_TOGETHER)
