"""Proves which segments go: by start offset, size and age, only below the high watermark, oldest first."""

from typing import NamedTuple

import pytest

from ottla.log.retention import Bounds, expired_count
from ottla.log.settings import LogSettings

NOW = 1_000_000


class FakeSegment(NamedTuple):
    base_offset: int
    size: int
    largest_timestamp: int


SEGMENTS = [
    FakeSegment(0, 100, 1000),
    FakeSegment(10, 100, 2000),
    FakeSegment(20, 100, 3000),
    FakeSegment(30, 100, 4000),
]
WHOLE = Bounds(start_offset=0, end_offset=40, high_watermark=40)
FOR_EVER = LogSettings(retention_ms=-1, retention_bytes=-1)


@pytest.mark.parametrize(("retention_ms", "expected"), [(NOW - 1000, 0), (NOW - 1001, 1), (NOW - 2001, 2), (0, 4)])
def test_segments_older_than_the_retention_go(retention_ms: int, expected: int) -> None:
    assert expired_count(SEGMENTS, WHOLE, LogSettings(retention_ms=retention_ms), NOW) == expected


@pytest.mark.parametrize(("retention_bytes", "expected"), [(500, 0), (301, 0), (300, 1), (299, 1), (200, 2), (0, 4)])
def test_whole_segments_above_the_size_go(retention_bytes: int, expected: int) -> None:
    settings = LogSettings(retention_ms=-1, retention_bytes=retention_bytes)
    assert expired_count(SEGMENTS, WHOLE, settings, NOW) == expected


@pytest.mark.parametrize(("start_offset", "expected"), [(0, 0), (9, 0), (10, 1), (29, 2), (40, 3)])
def test_segments_below_the_start_offset_go_but_never_the_active_one(start_offset: int, expected: int) -> None:
    assert expired_count(SEGMENTS, WHOLE._replace(start_offset=start_offset), FOR_EVER, NOW) == expected


def test_a_young_segment_keeps_the_older_looking_ones_behind_it() -> None:
    segments = [SEGMENTS[0]._replace(largest_timestamp=NOW), *SEGMENTS[1:]]
    assert expired_count(segments, WHOLE, LogSettings(retention_ms=1000), NOW) == 0


@pytest.mark.parametrize(("high_watermark", "expected"), [(0, 0), (9, 0), (10, 1), (39, 3), (40, 4)])
def test_nothing_at_or_above_the_high_watermark_goes(high_watermark: int, expected: int) -> None:
    bounds = WHOLE._replace(high_watermark=high_watermark)
    assert expired_count(SEGMENTS, bounds, LogSettings(retention_ms=0), NOW) == expected


def test_an_empty_active_segment_stays() -> None:
    segments = [*SEGMENTS, FakeSegment(40, 0, 5000)]
    assert expired_count(segments, WHOLE, LogSettings(retention_ms=0), NOW) == 4
    assert expired_count(segments[4:], WHOLE, LogSettings(retention_ms=0, retention_bytes=0), NOW) == 0


def test_a_log_that_is_only_compacted_keeps_all_but_what_lies_below_its_start() -> None:
    settings = LogSettings(retention_ms=0, retention_bytes=0, cleanup_delete=False, cleanup_compact=True)
    assert expired_count(SEGMENTS, WHOLE._replace(start_offset=15), settings, NOW) == 1


def test_size_and_age_count_what_the_rule_before_left() -> None:
    settings = LogSettings(retention_ms=NOW - 3001, retention_bytes=250)
    assert expired_count(SEGMENTS, WHOLE._replace(start_offset=10), settings, NOW) == 3
