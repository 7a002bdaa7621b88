"""Settings of a consumer."""

from ottla.base.settings.bounds import NonEmpty, OneOf, Range
from ottla.base.settings.kinds import Setting, ValueKind
from ottla.client.settings.checks import ConsumerReset
from ottla.client.settings.reasons import SHARE

BOOLEAN = ValueKind.BOOLEAN
STRING = ValueKind.STRING
INT = ValueKind.INT
LIST = ValueKind.LIST
CLASS = ValueKind.CLASS

# One setting a declaration, its facts first, its sentence below.
# fmt: off
OWN_SETTINGS: tuple[Setting, ...] = (
    Setting("group.id", STRING, None,
            "The group that shares the topics and keeps the offsets; without it the consumer reads for itself."),
    Setting("group.instance.id", STRING, None,
            "A lasting name of this member, whose short absences move no partitions.", check=NonEmpty()),
    Setting("group.protocol", STRING, "classic",
            "How the group comes to its assignment: `classic` among members, `consumer` on the broker (KIP-848).",
            check=OneOf("CONSUMER", "CLASSIC", any_case=True)),
    Setting("group.remote.assignor", STRING, None,
            "The broker's assignor for `group.protocol=consumer`; not set, the broker chooses."),
    Setting("partition.assignment.strategy", LIST, "range,cooperative-sticky",
            "Assignors this member offers, best first: words, objects or classes."),
    Setting("session.timeout.ms", INT, "45000",
            "A member silent for this long is taken for dead by its coordinator."),
    Setting("heartbeat.interval.ms", INT, "3000", "How often a member reports to its coordinator."),
    Setting("max.poll.interval.ms", INT, "300000",
            "A consumer that asks for nothing this long leaves its group, so that others get its partitions.",
            check=Range(1)),
    Setting("max.poll.records", INT, "500", "The most records one `poll` returns.", check=Range(1)),
    Setting("enable.auto.commit", BOOLEAN, "true",
            "Whether positions are committed by themselves, at intervals and when partitions go."),
    Setting("auto.commit.interval.ms", INT, "5000", "How often that happens.", check=Range(0)),
    Setting("auto.offset.reset", STRING, "latest",
            "Where to start without a valid committed offset; `none` raises an error.", check=ConsumerReset()),
    Setting("isolation.level", STRING, "read_uncommitted",
            "Whether records of open and aborted transactions are seen.",
            check=OneOf("read_committed", "read_uncommitted")),
    Setting("key.deserializer", CLASS, "bytes",
            "What turns the bytes of keys into objects: a deserializer, its class, a function, or a word."),
    Setting("value.deserializer", CLASS, "bytes",
            "What turns the bytes of values into objects: a deserializer, its class, a function, or a word."),
    Setting("interceptor.classes", LIST, "",
            "Objects or classes that see records before they are returned and offsets after they are committed."),
    Setting("fetch.min.bytes", INT, "1",
            "A broker waits until it has so many bytes to answer with.", check=Range(0)),
    Setting("fetch.max.wait.ms", INT, "500", "How long it waits for them.", check=Range(0)),
    Setting("fetch.max.bytes", INT, "52428800",
            "The most one answer carries; a first batch that is larger comes all the same.", check=Range(0)),
    Setting("max.partition.fetch.bytes", INT, "1048576",
            "The most of one partition in one answer.", check=Range(0)),
    Setting("client.rack", STRING, "",
            "Where this consumer stands: assignors prefer partitions with a replica there, and brokers may let it read"
            " from that one."),
    Setting("check.crcs", BOOLEAN, "true", "Whether the checksums of batches are verified."),
    Setting("allow.auto.create.topics", BOOLEAN, "true",
            "Whether subscribing to a topic that is not there may create it, where brokers allow that."),
    Setting("exclude.internal.topics", BOOLEAN, "true",
            "Whether a pattern passes over internal topics."),
    Setting("default.api.timeout.ms", INT, "60000",
            "How long a call without a time-out of its own may take.", check=Range(0)),
    Setting("share.acknowledgement.mode", STRING, "implicit",
            "How share groups acknowledge.", check=OneOf("implicit", "explicit"), no_effect=SHARE),
    Setting("share.acquire.mode", STRING, "batch_optimized",
            "How share groups acquire.", check=OneOf("batch_optimized", "record_limit"), no_effect=SHARE),
)
# fmt: on
