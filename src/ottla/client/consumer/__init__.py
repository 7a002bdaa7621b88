"""Consuming: what programs import is here, loaded with the package."""

from ottla.client.consumer.consumer import Consumer, OffsetAndTimestamp
from ottla.client.consumer.seam import GroupMetadata, OffsetAndMetadata, RebalanceListener
from ottla.records.record import ConsumedRecord

__all__ = [
    "ConsumedRecord",
    "Consumer",
    "GroupMetadata",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RebalanceListener",
]
