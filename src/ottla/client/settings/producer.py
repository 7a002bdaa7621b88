"""Settings of a producer."""

from ottla.base.settings.bounds import GzipLevel, NonEmpty, OneOf, Range
from ottla.base.settings.kinds import Setting, ValueKind

BOOLEAN = ValueKind.BOOLEAN
STRING = ValueKind.STRING
INT = ValueKind.INT
LONG = ValueKind.LONG
LIST = ValueKind.LIST
CLASS = ValueKind.CLASS

# One setting a declaration, its facts first, its sentence below.
# fmt: off
OWN_SETTINGS: tuple[Setting, ...] = (
    Setting("acks", STRING, "all",
            "Who must have a record before it counts as delivered: nobody (0), the leader (1), all in-sync replicas.",
            check=OneOf("all", "-1", "0", "1")),
    Setting("enable.idempotence", BOOLEAN, "true",
            "Whether every record is written once and in order, also when a request is repeated."),
    Setting("transactional.id", STRING, None,
            "The name that makes transactions possible; who takes it over fences whoever had it before.",
            check=NonEmpty()),
    Setting("transaction.timeout.ms", INT, "60000",
            "How long a transaction may stay open before the coordinator aborts it."),
    Setting("transaction.two.phase.commit.enable", BOOLEAN, "false",
            "Whether transactions stay open until this producer ends them, without time-out, for somebody else's "
            "two-phase commit; brokers must offer it."),
    Setting("key.serializer", CLASS, "bytes",
            "What turns keys into bytes: a serializer, its class, a function, or a word."),
    Setting("value.serializer", CLASS, "bytes",
            "What turns values into bytes: a serializer, its class, a function, or a word."),
    Setting("interceptor.classes", LIST, "",
            "Objects or classes that see every record before it is sent and after it is acknowledged."),
    Setting("partitioner.class", CLASS, None,
            "What chooses a partition: a partitioner, its class or a word; not set: keys by hash, the rest sticky."),
    Setting("partitioner.ignore.keys", BOOLEAN, "false",
            "Whether records with a key are spread like those without."),
    Setting("partitioner.adaptive.partitioning.enable", BOOLEAN, "true",
            "Whether slow partitions get fewer records without key."),
    Setting("partitioner.availability.timeout.ms", LONG, "0",
            "How long a partition may take no batch before records without key avoid it; 0 never avoids one.",
            check=Range(0)),
    Setting("batch.size", INT, "16384",
            "Records of one partition travel together up to so many bytes.", check=Range(0)),
    Setting("linger.ms", LONG, "5",
            "How long a record may wait for others to travel with.", check=Range(0)),
    Setting("buffer.memory", LONG, "33554432",
            "Memory for records that are not acknowledged yet; without room `send` fails and `put` waits.",
            check=Range(0)),
    Setting("max.block.ms", LONG, "60000",
            "How long `put` waits for room and for a topic's metadata.", check=Range(0)),
    Setting("max.request.size", INT, "1048576",
            "The largest request, and so the largest record.", check=Range(0)),
    Setting("max.in.flight.requests.per.connection", INT, "5",
            "Requests on their way to one broker at a time; order holds across retries up to 5 with idempotence.",
            check=Range(1)),
    Setting("delivery.timeout.ms", INT, "120000",
            "A record that is not acknowledged after this long has failed.", check=Range(0)),
    Setting("retries", INT, "2147483647",
            "How often a request is repeated; `delivery.timeout.ms` is the better bound.", check=Range(0, 2147483647)),
    Setting("compression.type", STRING, "none",
            "How batches are compressed.", check=OneOf("none", "gzip", "snappy", "lz4", "zstd")),
    Setting("compression.gzip.level", INT, "-1", "Effort of gzip; -1 is the library's own choice.", check=GzipLevel()),
    Setting("compression.lz4.level", INT, "9", "Effort of lz4.", check=Range(1, 17)),
    Setting("compression.zstd.level", INT, "3", "Effort of zstd.", check=Range(-131_072, 22)),
    Setting("metadata.max.idle.ms", LONG, "300000",
            "How long a topic without records is kept in mind.", check=Range(5000)),
)
# fmt: on
