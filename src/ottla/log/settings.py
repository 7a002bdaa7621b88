"""What one log needs to know of its topic's configuration.

Owns: the frozen `LogSettings`, with units in the names. Never knows: where a value came from (topic, broker, default).
Invariant: a value object; a change of configuration is a new one, given to the log as a whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ottla.records.check import Rules
from ottla.records.compression import Compression

_LARGEST_LONG = 2**63 - 1


@dataclass(frozen=True)
class LogSettings:
    """Kafka's topic settings that steer a log, with Kafka's defaults."""

    segment_bytes: int = field(default=1 << 30, metadata={"name": "segment.bytes"})
    segment_ms: int = field(default=604_800_000, metadata={"name": "segment.ms"})
    segment_jitter_ms: int = field(default=0, metadata={"name": "segment.jitter.ms"})
    index_bytes: int = field(default=10 << 20, metadata={"name": "segment.index.bytes"})
    index_interval_bytes: int = field(default=4096, metadata={"name": "index.interval.bytes"})
    retention_ms: int = field(default=604_800_000, metadata={"name": "retention.ms"})
    retention_bytes: int = field(default=-1, metadata={"name": "retention.bytes"})
    delete_retention_ms: int = field(default=86_400_000, metadata={"name": "delete.retention.ms"})
    min_cleanable_ratio: float = field(default=0.5, metadata={"name": "min.cleanable.dirty.ratio"})
    min_compaction_lag_ms: int = field(default=0, metadata={"name": "min.compaction.lag.ms"})
    max_compaction_lag_ms: int = field(default=_LARGEST_LONG, metadata={"name": "max.compaction.lag.ms"})
    flush_messages: int = field(default=_LARGEST_LONG, metadata={"name": "flush.messages"})
    flush_ms: int = field(default=_LARGEST_LONG, metadata={"name": "flush.ms"})
    max_message_bytes: int = field(default=1_048_588, metadata={"name": "max.message.bytes"})
    timestamp_before_max_ms: int = field(default=_LARGEST_LONG, metadata={"name": "message.timestamp.before.max.ms"})
    timestamp_after_max_ms: int = field(default=3_600_000, metadata={"name": "message.timestamp.after.max.ms"})
    file_delete_delay_ms: int = field(default=60_000, metadata={"name": "file.delete.delay.ms"})
    preallocate: bool = field(default=False, metadata={"name": "preallocate"})
    producer_expiration_ms: int = field(default=86_400_000, metadata={"name": "producer.id.expiration.ms"})
    cleanup_delete: bool = True
    cleanup_compact: bool = False
    log_append_time: bool = False
    compression: Compression | None = None
    compression_level: int | None = None

    @classmethod
    def from_values(cls, values: Mapping[str, object]) -> "LogSettings":
        """From parsed settings by Kafka's topic names; what is not named keeps its default."""
        chosen: dict[str, object] = {
            declared.name: values[declared.metadata["name"]]
            for declared in cls.__dataclass_fields__.values()
            if declared.metadata.get("name") in values
        }
        if "cleanup.policy" in values:
            policies = _names(values["cleanup.policy"])
            chosen["cleanup_delete"] = "delete" in policies
            chosen["cleanup_compact"] = "compact" in policies
        if "message.timestamp.type" in values:
            chosen["log_append_time"] = values["message.timestamp.type"] == "LogAppendTime"
        kind = values.get("compression.type", "producer")
        if kind != "producer":
            chosen["compression"] = Compression.NONE if kind == "uncompressed" else Compression[str(kind).upper()]
            chosen["compression_level"] = values.get(f"compression.{kind}.level")
        return cls(**chosen)  # type: ignore[arg-type]

    @cached_property
    def _rules(self) -> Rules:
        return Rules(
            max_message_bytes=self.max_message_bytes,
            log_append_time=self.log_append_time,
            before_max_ms=self.timestamp_before_max_ms,
            after_max_ms=self.timestamp_after_max_ms,
            compacted=self.cleanup_compact,
            compression=self.compression,
            level=self.compression_level,
        )

    def rules(self) -> Rules:
        """What a produced batch is held against."""
        return self._rules

    @property
    def roll_ms(self) -> int:
        """The age at which a segment is closed; a compacted log also closes one that must become compactable."""
        if self.cleanup_compact:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms


def _names(value: object) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(name.strip() for name in value.split(","))
    assert isinstance(value, list | tuple | set | frozenset), value
    return frozenset(map(str, value))
