"""The settings of a log from a topic's configuration."""

from ottla.log.settings import LogSettings
from ottla.records.compression import Compression


def test_the_defaults_are_kafkas() -> None:
    assert LogSettings.from_values({}) == LogSettings()
    rules = LogSettings().rules()
    assert (rules.max_message_bytes, rules.after_max_ms, rules.compression) == (1_048_588, 3_600_000, None)


def test_values_are_taken_by_their_topic_names() -> None:
    settings = LogSettings.from_values(
        {
            "segment.bytes": 1000,
            "segment.index.bytes": 800,
            "min.cleanable.dirty.ratio": 0.1,
            "message.timestamp.type": "LogAppendTime",
            "message.timestamp.before.max.ms": 5,
            "cleanup.policy": ["compact"],
            "some.other": 1,
        }
    )
    assert (settings.segment_bytes, settings.index_bytes, settings.min_cleanable_ratio) == (1000, 800, 0.1)
    assert (settings.cleanup_compact, settings.cleanup_delete) == (True, False)
    rules = settings.rules()
    assert (rules.log_append_time, rules.before_max_ms, rules.compacted) == (True, 5, True)
    assert settings.rules() is rules


def test_cleanup_policies_may_come_as_text() -> None:
    settings = LogSettings.from_values({"cleanup.policy": "compact, delete"})
    assert settings.cleanup_compact
    assert settings.cleanup_delete


def test_compression_brings_its_own_level_with_it() -> None:
    levels = {"compression.gzip.level": 7, "compression.zstd.level": 3}
    zstd = LogSettings.from_values({"compression.type": "zstd", **levels}).rules()
    assert (zstd.compression, zstd.level) == (Compression.ZSTD, 3)
    none = LogSettings.from_values({"compression.type": "uncompressed", **levels}).rules()
    assert (none.compression, none.level) == (Compression.NONE, None)
    assert LogSettings.from_values({"compression.type": "producer", **levels}).rules().compression is None


def test_a_compacted_log_rolls_in_time_to_become_compactable() -> None:
    values: dict[str, object] = {"segment.ms": 1000, "max.compaction.lag.ms": 10}
    assert LogSettings.from_values(values).roll_ms == 1000
    assert LogSettings.from_values({**values, "cleanup.policy": "compact"}).roll_ms == 10
