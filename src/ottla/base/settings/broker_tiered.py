"""Broker settings of tiered storage: all of them are accepted and none has an effect."""

from ottla.base.settings.bounds import NonEmpty, Range
from ottla.base.settings.kinds import Scope, Setting, ValueKind
from ottla.base.settings.reasons import TIERED

BOOLEAN = ValueKind.BOOLEAN
STRING = ValueKind.STRING
INT = ValueKind.INT
LONG = ValueKind.LONG
DOUBLE = ValueKind.DOUBLE
CLUSTER = Scope.CLUSTER_WIDE

# One setting a declaration, its facts first, its sentence below.
# fmt: off
TIERED_SETTINGS: tuple[Setting, ...] = (
    Setting("remote.log.storage.system.enable", BOOLEAN, "false",
            "Whether old segments move to remote storage.", no_effect=TIERED),
    Setting("remote.log.storage.manager.class.name", STRING, None,
            "The class that stores remote segments.", check=NonEmpty(), no_effect=TIERED),
    Setting("remote.log.storage.manager.class.path", STRING, None, "Where that class is found.", no_effect=TIERED),
    Setting("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.",
            "Prefix of the settings handed to that class.", check=NonEmpty(), no_effect=TIERED),
    Setting("remote.log.metadata.manager.class.name", STRING,
            "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
            "The class that keeps the list of remote segments.", check=NonEmpty(), no_effect=TIERED),
    Setting("remote.log.metadata.manager.class.path", STRING, None, "Where that class is found.", no_effect=TIERED),
    Setting("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.",
            "Prefix of the settings handed to that class.", check=NonEmpty(), no_effect=TIERED),
    Setting("remote.log.metadata.manager.listener.name", STRING, None,
            "The listener over which that class reaches its own broker.", check=NonEmpty(), no_effect=TIERED),
    Setting("remote.log.metadata.custom.metadata.max.bytes", INT, "128",
            "The most bytes of its own the storage class may note for a segment.", check=Range(0), no_effect=TIERED),
    Setting("remote.log.index.file.cache.total.size.bytes", LONG, "1073741824",
            "Local room for the indexes of remote segments.", CLUSTER, Range(1), no_effect=TIERED),
    Setting("remote.log.index.file.cache.ttl.ms", LONG, "900000",
            "How long an unused remote index stays local.", check=Range(-1), hidden=True, no_effect=TIERED),
    Setting("remote.log.manager.thread.pool.size", INT, "2",
            "Threads that follow the remote state, by an older name.", check=Range(1), no_effect=TIERED),
    Setting("remote.log.manager.copier.thread.pool.size", INT, "10",
            "Threads that copy segments away.", CLUSTER, Range(1), no_effect=TIERED),
    Setting("remote.log.manager.expiration.thread.pool.size", INT, "10",
            "Threads that delete expired remote segments.", CLUSTER, Range(1), no_effect=TIERED),
    Setting("remote.log.manager.follower.thread.pool.size", INT, "2",
            "Threads that follow the remote state for followers.", CLUSTER, Range(1), no_effect=TIERED),
    Setting("remote.log.manager.task.interval.ms", LONG, "30000",
            "How often segments to copy or delete are looked for.", check=Range(1), no_effect=TIERED),
    Setting("remote.log.manager.task.retry.backoff.ms", LONG, "500",
            "First pause after a failed remote task.", check=Range(1), hidden=True, no_effect=TIERED),
    Setting("remote.log.manager.task.retry.backoff.max.ms", LONG, "30000",
            "The longest such pause.", check=Range(1), hidden=True, no_effect=TIERED),
    Setting("remote.log.manager.task.retry.jitter", DOUBLE, "0.2",
            "The random part of such a pause.", check=Range(0, 0.5), hidden=True, no_effect=TIERED),
    Setting("remote.log.manager.copy.max.bytes.per.second", LONG, "9223372036854775807",
            "Bytes a second for copying segments away.", CLUSTER, Range(1), no_effect=TIERED),
    Setting("remote.log.manager.copy.quota.window.num", INT, "11",
            "How many windows that limit is averaged over.", check=Range(1), no_effect=TIERED),
    Setting("remote.log.manager.copy.quota.window.size.seconds", INT, "1",
            "How long one of those windows lasts.", check=Range(1), no_effect=TIERED),
    Setting("remote.log.manager.fetch.max.bytes.per.second", LONG, "9223372036854775807",
            "Bytes a second for reading remote segments.", CLUSTER, Range(1), no_effect=TIERED),
    Setting("remote.log.manager.fetch.quota.window.num", INT, "11",
            "How many windows that limit is averaged over.", check=Range(1), no_effect=TIERED),
    Setting("remote.log.manager.fetch.quota.window.size.seconds", INT, "1",
            "How long one of those windows lasts.", check=Range(1), no_effect=TIERED),
    Setting("remote.log.reader.threads", INT, "10",
            "Threads that read remote segments.", CLUSTER, Range(1), no_effect=TIERED),
    Setting("remote.log.reader.max.pending.tasks", INT, "100",
            "How many remote reads may wait.", check=Range(1), no_effect=TIERED),
    Setting("remote.fetch.max.wait.ms", INT, "500",
            "How long a fetch waits for a remote read.", CLUSTER, Range(1), no_effect=TIERED),
    Setting("remote.list.offsets.request.timeout.ms", LONG, "30000",
            "How long an offset lookup waits for remote storage.", CLUSTER, Range(1), no_effect=TIERED),
    Setting("follower.fetch.last.tiered.offset.enable", BOOLEAN, "false",
            "Whether an empty follower starts after what is already remote.", CLUSTER, no_effect=TIERED),
)
# fmt: on
