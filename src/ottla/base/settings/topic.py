"""The settings a topic may override, and the broker setting behind each.

Owns: the table and the synonyms. Never knows: who has set what.
"""

from ottla.base.settings.bounds import GzipLevel, ListOf, OneOf, Range, ThrottledReplicas
from ottla.base.settings.kinds import Scope, Setting, ValueKind
from ottla.base.settings.reasons import TIERED

BOOLEAN = ValueKind.BOOLEAN
STRING = ValueKind.STRING
INT = ValueKind.INT
LONG = ValueKind.LONG
DOUBLE = ValueKind.DOUBLE
LIST = ValueKind.LIST
TOPIC = Scope.TOPIC

# One setting a declaration, its facts first, its sentence below.
# fmt: off
_TOPIC_TABLE: tuple[Setting, ...] = (
    Setting("cleanup.policy", LIST, "delete",
            "What happens to old records: `delete` drops them, `compact` keeps the last of every key, both does both.",
            TOPIC, ListOf("compact", "delete")),
    Setting("compression.gzip.level", INT, "-1",
            "Effort of gzip when the broker recompresses; -1 is the library's own choice.", TOPIC, GzipLevel()),
    Setting("compression.lz4.level", INT, "9", "Effort of lz4 when the broker recompresses.", TOPIC, Range(1, 17)),
    Setting("compression.type", STRING, "producer",
            "How batches are stored: `producer` keeps what arrives, anything else recompresses.",
            TOPIC, OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    Setting("compression.zstd.level", INT, "3",
            "Effort of zstd when the broker recompresses.", TOPIC, Range(-131_072, 22)),
    Setting("delete.retention.ms", LONG, "86400000",
            "How long a tombstone stays in a compacted topic, so that slow readers learn of the deletion.",
            TOPIC, Range(0)),
    Setting("file.delete.delay.ms", LONG, "60000",
            "How long a deleted segment's files stay on disk, for readers still sending them.", TOPIC, Range(0)),
    Setting("flush.messages", LONG, "9223372036854775807",
            "Flush to stable storage after so many records; 1 makes an acknowledgement wait for a flush shared "
            "with its neighbours.", TOPIC, Range(1)),
    Setting("flush.ms", LONG, "9223372036854775807", "Flush records that have waited this long.", TOPIC, Range(0)),
    Setting("follower.replication.throttled.replicas", LIST, "",
            "Replicas whose followers are throttled, as `partition:broker`, or `*` for all.",
            TOPIC, ThrottledReplicas()),
    Setting("index.interval.bytes", INT, "4096", "One index entry for so many bytes of log.", TOPIC, Range(0)),
    Setting("internal.segment.bytes", INT, None,
            "Segment size below the usual minimum; meant for tests.", TOPIC, hidden=True),
    Setting("leader.replication.throttled.replicas", LIST, "",
            "Replicas whose leaders are throttled, as `partition:broker`, or `*` for all.",
            TOPIC, ThrottledReplicas()),
    Setting("local.retention.bytes", LONG, "-2",
            "How much of a tiered partition stays local; -2 means the full retention size.",
            TOPIC, Range(-2), no_effect=TIERED),
    Setting("local.retention.ms", LONG, "-2",
            "How long the local copy of a tiered segment stays; -2 means the full retention time.",
            TOPIC, Range(-2), no_effect=TIERED),
    Setting("max.compaction.lag.ms", LONG, "9223372036854775807",
            "A record older than this makes its log due for compaction, whatever the ratio.", TOPIC, Range(1)),
    Setting("max.message.bytes", INT, "1048588",
            "The largest record batch accepted, as it arrives (compressed).", TOPIC, Range(0)),
    Setting("message.timestamp.after.max.ms", LONG, "3600000",
            "How far a producer's timestamp may lie in the future.", TOPIC, Range(0)),
    Setting("message.timestamp.before.max.ms", LONG, "9223372036854775807",
            "How far a producer's timestamp may lie in the past.", TOPIC, Range(0)),
    Setting("message.timestamp.type", STRING, "CreateTime",
            "Whose clock stamps a record: the producer's (`CreateTime`) or the broker's (`LogAppendTime`).",
            TOPIC, OneOf("CreateTime", "LogAppendTime")),
    Setting("min.cleanable.dirty.ratio", DOUBLE, "0.5",
            "The log is compacted once this share of it has not been compacted yet.", TOPIC, Range(0, 1)),
    Setting("min.compaction.lag.ms", LONG, "0", "A record younger than this is never compacted away.", TOPIC, Range(0)),
    Setting("min.insync.replicas", INT, "1",
            "How many in-sync replicas must hold a record before acks=all is answered; with fewer the write is "
            "refused.", TOPIC, Range(1)),
    Setting("preallocate", BOOLEAN, "false", "Whether a new segment's file gets its full size at once.", TOPIC),
    Setting("remote.log.copy.disable", BOOLEAN, "false",
            "Whether a tiered topic stops copying segments away and only reads them.", TOPIC, no_effect=TIERED),
    Setting("remote.log.delete.on.disable", BOOLEAN, "false",
            "Whether remote segments are deleted when tiering is turned off.", TOPIC, no_effect=TIERED),
    Setting("remote.storage.enable", BOOLEAN, "false",
            "Whether old segments move to remote storage; refused, because there is none.", TOPIC, no_effect=TIERED),
    Setting("retention.bytes", LONG, "-1",
            "A partition larger than this loses its oldest segments; -1 sets no limit.", TOPIC),
    Setting("retention.ms", LONG, "604800000",
            "Records older than this may be deleted; -1 keeps them for ever.", TOPIC, Range(-1)),
    Setting("segment.bytes", INT, "1073741824",
            "A segment that would grow beyond this is closed and a new one begun.", TOPIC, Range(1_048_576)),
    Setting("segment.index.bytes", INT, "10485760",
            "The largest index file; a full index closes its segment.", TOPIC, Range(4)),
    Setting("segment.jitter.ms", LONG, "0",
            "Up to this much is taken off a segment's age limit at random, so that not all roll together.",
            TOPIC, Range(0)),
    Setting("segment.ms", LONG, "604800000",
            "A segment older than this is closed even if it is small.", TOPIC, Range(1)),
    Setting("unclean.leader.election.enable", BOOLEAN, "false",
            "Whether a replica that is out of sync may lead when no other is left, losing records.",
            TOPIC),
)
# fmt: on

TOPIC_SETTINGS: dict[str, Setting] = {setting.name: setting for setting in _TOPIC_TABLE}

BROKER_NAME_OF_TOPIC: dict[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""The broker setting that gives a topic setting its default; those not listed have none."""
