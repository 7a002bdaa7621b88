"""The figures of a bench are counted and told as Kafka's performance tools do it."""

import pytest

from ottla.cli import bench_figures
from ottla.cli.bench import metric_lines
from ottla.cli.bench_figures import CONSUMER_HEADER, DETAILED_HEADER, Consumed, Sent, Travelled, percentiles
from ottla.cli.bench_loads import random_values


def test_percentiles_are_picked_as_kafkas_tools_pick_them() -> None:
    assert percentiles([number / 1000 for number in range(1000)]) == [0.5, 0.95, 0.99, 0.999]
    assert percentiles([3.0]) == [3.0] * 4
    assert percentiles([]) == [0.0] * 4


def test_a_producers_window_and_total_are_told_in_kafkas_words() -> None:
    sent = Sent(100.0)
    for latency in (0.001, 0.002, 0.003, 0.010):
        sent.record(latency, 1024 * 1024)
    assert sent.turn(102.0) == (
        "4 records sent, 2.0 records/sec (2.00 MB/sec), 4.0 ms avg latency, 10.0 ms max latency."
    )
    sent.record(0.004, 1024 * 1024)
    assert sent.turn(103.0).startswith("1 records sent, 1.0 records/sec (1.00 MB/sec), 4.0 ms avg latency")
    assert sent.line(105.0) == (
        "5 records sent, 1.0 records/sec (1.00 MB/sec), 4.00 ms avg latency, 10.00 ms max latency, "
        "3.00 ms 50th, 10.00 ms 95th, 10.00 ms 99th, 10.00 ms 99.9th."
    )
    document = sent.document(105.0)
    assert (document["records"], document["records_per_second"], document["p50_ms"]) == (5, 1.0, 3.0)


def test_nothing_sent_is_no_division_by_zero() -> None:
    assert Sent(1.0).line(1.0).startswith("0 records sent, 0.0 records/sec")


def test_latencies_of_very_many_records_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_figures, "SAMPLES", 100)
    sent = Sent(0.0)
    for number in range(10_000):
        sent.record(number / 10_000, 1)
    assert sent.whole.records == 10_000
    assert sent.document(1.0)["p50_ms"] == pytest.approx(500, abs=30)
    assert sent.document(1.0)["latency_max_ms"] == pytest.approx(999.9)


def test_a_consumers_row_stands_under_kafkas_heading() -> None:
    read = Consumed(1000.0, 1004.0, 2_000, 8 * 1024 * 1024, joining=2.0)
    cells = read.line().split(", ")
    assert len(cells) == len(CONSUMER_HEADER.split(", ")) == len(DETAILED_HEADER.split(", "))
    assert cells[2:] == ["8.0000", "2.0000", "2000", "500.0000", "2000", "2000", "4.0000", "1000.0000"]
    assert read.document()["fetch_records_per_second"] == 1000.0
    later = Consumed(1000.0, 1006.0, 2_600, 9 * 1024 * 1024, joining=2.5).since(read)
    assert later == (1004.0, 1006.0, 600, 1024 * 1024, 0.5)
    assert read.detailed_line(5_000, 16 * 1024 * 1024).split(", ")[1:5] == ["0", "16.0000", "2.0000", "5000"]


def test_the_way_through_is_told_with_its_percentiles() -> None:
    travelled = Travelled()
    for latency in (0.001, 0.002, 0.003):
        travelled.record(latency, 10)
    assert travelled.lines() == (
        "Avg latency: 2.0000 ms\n"
        "Percentiles: 50th = 2.000, 95th = 3.000, 99th = 3.000, 99.9th = 3.000\n"
        "Max latency: 3.000 ms\n"
    )
    assert travelled.document()["records"] == 3


def test_random_values_are_capital_letters_of_the_size_asked_for_and_the_same_every_time() -> None:
    values = random_values(5)
    assert values == random_values(5)
    assert all(len(value) == 5 and value.isalpha() and value.isupper() for value in values)


def test_what_a_client_says_of_itself_is_a_line_each() -> None:
    assert metric_lines({"requests": 3, "bytes_acknowledged": 1.5}) == (
        "bytes_acknowledged : 1.500\nrequests           : 3.000\n"
    )
    assert metric_lines({}) == ""
