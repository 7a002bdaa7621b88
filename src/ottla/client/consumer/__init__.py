"""Consuming: what programs import is here, loaded with the package."""

from ottla.client.consumer.consumer import Consumer, OffsetAndTimestamp
from ottla.client.consumer.seam import GroupMetadata, OffsetAndMetadata, RebalanceListener
from ottla.client.groups.assignors import Assignor, GroupMember
from ottla.client.groups.vocabulary import BrokerPattern
from ottla.records.record import ConsumedRecord

__all__ = [
    "Assignor",
    "BrokerPattern",
    "ConsumedRecord",
    "Consumer",
    "GroupMember",
    "GroupMetadata",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RebalanceListener",
]
