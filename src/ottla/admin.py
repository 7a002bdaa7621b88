"""What `ottla.Admin` takes and answers."""

from ottla.client.address import Address
from ottla.client.admin.brokers import BrokerState, ClusterState, Quorum, QuorumReplica, Reassignment
from ottla.client.admin.groups import CommittedOffset, GroupDescription, GroupMember, ListedGroup
from ottla.client.admin.nodes import Feature, FeatureChange, LogDirectory, StoredReplica
from ottla.client.admin.part import Outcome
from ottla.client.admin.quotas import ClientQuota, QuotaEntity
from ottla.client.admin.topics import (
    Config,
    ConfigSource,
    ConfigSynonym,
    Created,
    EligibleLeaders,
    NewTopic,
    Resource,
    ResourceKind,
)
from ottla.client.admin.transactions import ActiveProducer, ListedTransaction, TransactionDescription
from ottla.client.cluster import Partition, Topic
from ottla.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, FoundOffset

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "ActiveProducer",
    "Address",
    "BrokerState",
    "ClientQuota",
    "ClusterState",
    "CommittedOffset",
    "Config",
    "ConfigSource",
    "ConfigSynonym",
    "Created",
    "EligibleLeaders",
    "Feature",
    "FeatureChange",
    "FoundOffset",
    "GroupDescription",
    "GroupMember",
    "ListedGroup",
    "ListedTransaction",
    "LogDirectory",
    "NewTopic",
    "Outcome",
    "Partition",
    "Quorum",
    "QuorumReplica",
    "QuotaEntity",
    "Reassignment",
    "Resource",
    "ResourceKind",
    "StoredReplica",
    "Topic",
    "TransactionDescription",
]
