"""Partitions, moments and durations as people write them."""

from datetime import datetime

import pytest
import typer

from ottla.base.vocabulary import TopicPartition
from ottla.cli.named import parse_duration, parse_moment, parse_partition, parse_partitions, spelled


def test_a_topic_stands_alone_or_with_some_of_its_partitions() -> None:
    assert parse_partitions("orders") == ("orders", ())
    assert parse_partitions("orders:0") == ("orders", (0,))
    assert parse_partitions("orders:2,0") == ("orders", (2, 0))
    assert parse_partition("orders:3") == TopicPartition("orders", 3)


@pytest.mark.parametrize("text", ["", ":0", "orders:", "orders:x", "orders:1,,2", "orders:-1"])
def test_what_names_no_partition_is_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_partitions(text)


@pytest.mark.parametrize("text", ["orders", "orders:0,1"])
def test_one_partition_is_asked_for_where_one_is_needed(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="TOPIC:N"):
        parse_partition(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("2w", 1_209_600_000),
        ("0.5s", 500),
        ("0s", 0),
        ("PT1H30M", 5_400_000),
        ("P7D", 604_800_000),
        ("P1DT0.25S", 86_400_250),
        ("pt10m", 600_000),
    ],
)
def test_a_duration_is_short_or_in_javas_form(text: str, milliseconds: int) -> None:
    assert parse_duration(text, "--by-duration") == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1", "h", "30m1h", "1 h", "-1h"])
def test_what_is_no_duration_is_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="duration"):
        parse_duration(text, "--by-duration")


def test_a_moment_has_its_zone_or_is_local() -> None:
    assert parse_moment("2026-01-31T12:00:00Z", "--to-datetime") == 1769860800000
    assert parse_moment("2026-01-31T12:00:00.250+01:00", "--to-datetime") == 1769857200250
    assert parse_moment("2026-01-31", "--to-datetime") == int(datetime(2026, 1, 31).timestamp() * 1000)
    with pytest.raises(typer.BadParameter, match="2026"):
        parse_moment("yesterday", "--to-datetime")


def test_states_are_known_in_any_case() -> None:
    known = ("Stable", "PreparingRebalance")
    assert spelled(["stable", "PREPARINGREBALANCE"], known, "--state") == ["Stable", "PreparingRebalance"]
    assert spelled(None, known, "--state") == []
    with pytest.raises(typer.BadParameter, match="none of Stable, PreparingRebalance"):
        spelled(["unstable"], known, "--state")
