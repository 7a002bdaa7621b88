"""What one log needs to know of its topic's configuration.

Owns: the frozen `LogSettings`, with units in the names. Never knows: where a value came from (topic, broker, default).
Invariant: a value object; a change of configuration is a new one, given to the log as a whole.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from ottla.records.check import Rules
from ottla.records.compression import Compression

_LARGEST_LONG = 2**63 - 1


class _SettingFields(NamedTuple):
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    delete_retention_ms: int = 86_400_000
    min_cleanable_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _LARGEST_LONG
    flush_messages: int = _LARGEST_LONG
    flush_ms: int = _LARGEST_LONG
    max_message_bytes: int = 1_048_588
    timestamp_before_max_ms: int = _LARGEST_LONG
    timestamp_after_max_ms: int = 3_600_000
    file_delete_delay_ms: int = 60_000
    producer_expiration_ms: int = 86_400_000
    cleanup_delete: bool = True
    cleanup_compact: bool = False
    log_append_time: bool = False
    compression: Compression | None = None
    compression_level: int | None = None


_NAMES = {
    "segment_bytes": "segment.bytes",
    "segment_ms": "segment.ms",
    "segment_jitter_ms": "segment.jitter.ms",
    "index_bytes": "segment.index.bytes",
    "index_interval_bytes": "index.interval.bytes",
    "retention_ms": "retention.ms",
    "retention_bytes": "retention.bytes",
    "delete_retention_ms": "delete.retention.ms",
    "min_cleanable_ratio": "min.cleanable.dirty.ratio",
    "min_compaction_lag_ms": "min.compaction.lag.ms",
    "max_compaction_lag_ms": "max.compaction.lag.ms",
    "flush_messages": "flush.messages",
    "flush_ms": "flush.ms",
    "max_message_bytes": "max.message.bytes",
    "timestamp_before_max_ms": "message.timestamp.before.max.ms",
    "timestamp_after_max_ms": "message.timestamp.after.max.ms",
    "file_delete_delay_ms": "file.delete.delay.ms",
    "producer_expiration_ms": "producer.id.expiration.ms",
}
"""Fields that take a setting's value as it is, and the setting's name."""


class LogSettings(_SettingFields):
    """Kafka's topic settings that steer a log, with Kafka's defaults."""

    @classmethod
    def from_values(cls, values: Mapping[str, object]) -> "LogSettings":
        """From parsed settings by Kafka's topic names; what is not named keeps its default."""
        chosen = {field: values[name] for field, name in _NAMES.items() if name in values}
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
