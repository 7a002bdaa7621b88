"""Metrics: their names, their text form, what dashboards and the reference say of them."""

import importlib.util
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kit.worlds.lone_partitions import lone_partition
from ottla.base.vocabulary import TopicPartition
from ottla.net.request_times import BOUNDS, RequestMeter
from ottla.node.metrics import families
from ottla.node.metrics.broker_pages import MessagesOut, write_requests
from ottla.node.metrics.exposition import Page, labels_of
from ottla.node.metrics.families import GROUPED, Family
from ottla.replicas.traffic import Traffic

ROOT = Path(__file__).resolve().parents[3]
DASHBOARD = ROOT / "ops" / "grafana" / "ottla.json"
ALERTS = ROOT / "ops" / "prometheus" / "ottla-alerts.yml"
FAMILIES = {family.name: family for group in GROUPED.values() for family in group}
_METRIC = re.compile(r"\b((?:kafka|ottla|process)_[a-z0-9_]+)(?:\{([^}]*)\})?")
_GROUPED = re.compile(r"by \(([^)]*)\)")
_LABEL = re.compile(r"([a-zA-Z_]+)\s*(?:=~|!~|!=|=)")


def parsed(page: Page) -> dict[str, Any]:
    """What Prometheus' own parser makes of it, by name."""
    return {family.name: family for family in text_string_to_metric_families(page.text().decode())}


# --- the form ---


def test_a_page_is_what_prometheus_reads() -> None:
    page = Page()
    page.number(families.LEADER_COUNT, 3)
    page.all_series(families.LOG_SIZE, [(("orders", 0), 10), (("orders", 1), 2.5)])
    page.all_series(families.BYTES_IN, [((), 7), (("orders",), 7)])
    found = parsed(page)
    assert found["kafka_server_replicamanager_leadercount"].samples[0].value == 3
    assert [(each.labels, each.value) for each in found["kafka_log_log_size"].samples] == [
        ({"topic": "orders", "partition": "0"}, 10),
        ({"topic": "orders", "partition": "1"}, 2.5),
    ]
    counted = found["kafka_server_brokertopicmetrics_bytesin"]
    assert counted.type == "counter"
    assert [each.labels for each in counted.samples] == [{}, {"topic": "orders"}]


@pytest.mark.parametrize("name", ['a "quoted" one', "back\\slash", "two\nlines", "ümläut", ""])
def test_any_group_can_be_told_of(name: str) -> None:
    page = Page()
    page.all_series(families.GROUP_MEMBERS, [((name,), 1)])
    assert parsed(page)["kafka_consumergroup_members"].samples[0].labels == {"consumergroup": name}


def test_a_histogram_counts_all_below_each_bound() -> None:
    page = Page()
    page.begin(families.TOTAL_TIME)
    counts = [0] * (len(BOUNDS) + 1)
    counts[0], counts[3], counts[-1] = 5, 2, 1
    page.histogram(families.TOTAL_TIME, labels_of(families.TOTAL_TIME, ("Produce",)), counts, 1.5)
    told = parsed(page)["kafka_network_requestmetrics_totaltimems"]
    assert told.type == "histogram"
    values = {(each.name.rpartition("_")[2], each.labels.get("le")): each.value for each in told.samples}
    assert values["bucket", "0.1"] == 5
    assert values["bucket", "1"] == 7
    assert values["bucket", "30000"] == 7
    assert values["bucket", "+Inf"] == values["count", None] == 8
    assert values["sum", None] == 1500


def test_requests_of_a_broker_and_its_controller_are_told_together() -> None:
    loop: Any = None
    meters = [RequestMeter(lambda: 0.0, loop, 1.0) for _ in range(2)]
    meters[0].times("FetchConsumer").total[2] = 3
    meters[0].times("FetchFollower").total[4] = 5
    meters[1].times("Fetch").total[1] = 7
    page = Page()
    for _ in write_requests(page, meters):
        pass
    told = {
        each.labels["request"]: each.value for each in parsed(page)["kafka_network_requestmetrics_requests"].samples
    }
    assert told == {"Fetch": 15, "FetchConsumer": 3, "FetchFollower": 5}


def test_errors_are_told_by_request_and_by_kafkas_name_of_them() -> None:
    loop: Any = None
    meters = [RequestMeter(lambda: 0.0, loop, 1.0) for _ in range(2)]
    meters[0].refused("Produce", [6, 6, 87])
    meters[1].refused("Produce", [6])
    meters[1].refused("Fetch", [-1, 9999])
    page = Page()
    for _ in write_requests(page, meters):
        pass
    told = parsed(page)["kafka_network_requestmetrics_errors"]
    assert told.type == "counter"
    assert {(each.labels["request"], each.labels["error"]): each.value for each in told.samples} == {
        ("Produce", "NOT_LEADER_OR_FOLLOWER"): 3,
        ("Produce", "INVALID_RECORD"): 1,
        ("Fetch", "UNKNOWN_SERVER_ERROR"): 1,
        ("Fetch", "9999"): 1,
    }


# --- what is counted ---


def test_what_was_counted_for_a_topic_that_is_gone_stays_in_the_sum() -> None:
    traffic = Traffic()
    traffic.begin("orders", b"1" * 16).bytes_in = 10
    traffic.begin("clicks", b"2" * 16).bytes_in = 5
    assert traffic.begin("orders", b"1" * 16) is traffic.of("orders") is traffic.of(b"1" * 16)
    traffic.end("orders", b"1" * 16)
    assert list(traffic.by_name) == ["clicks"]
    assert traffic.total().bytes_in == 15
    traffic.of("orders").failed_fetches += 1
    assert traffic.total().failed_fetches == 1


def test_a_topic_made_anew_is_counted_anew() -> None:
    traffic = Traffic()
    traffic.begin("orders", b"1" * 16).messages_in = 10
    again = traffic.begin("orders", b"2" * 16)
    traffic.end("orders", b"1" * 16)
    assert traffic.of("orders") is again
    assert (traffic.by_name["orders"].messages_in, traffic.total().messages_in) == (0, 10)


@dataclass
class SizedLog:
    """What is counted of a log."""

    size: int
    start_offset: int
    end_offset: int


def test_messages_out_are_bytes_by_the_mean_size_and_never_go_back() -> None:
    traffic = Traffic().begin("orders", b"1" * 16)
    log = SizedLog(size=1000, start_offset=0, end_offset=10)
    name = TopicPartition("orders", 0)
    held, without_log = (lone_partition(name, b"1" * 16, 0, cast(Any, each)) for each in (log, None))
    partitions = [held, None, without_log]
    counter = MessagesOut()
    assert counter.count("orders", traffic, partitions) == 0
    traffic.bytes_out = 500
    assert counter.count("orders", traffic, partitions) == 5
    log.size = 0
    assert counter.count("orders", traffic, partitions) == 5
    log.size, log.end_offset, traffic.bytes_out = 1000, 100, 600
    assert counter.count("orders", traffic, partitions) == 15


# --- names, dashboard, reference ---


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_a_metric_is_named_as_prometheus_wants_it(family: Family) -> None:
    assert re.fullmatch(r"(kafka|ottla|process)_[a-z0-9_]+", family.name)
    assert family.kind in ("counter", "gauge", "histogram")
    assert family.name.endswith("_total") == (family.kind == "counter")
    assert family.help.endswith(".")
    assert "\n" not in family.help
    assert "|" not in family.help


def test_no_metric_is_declared_twice_or_left_out() -> None:
    declared = [value for value in vars(families).values() if isinstance(value, Family)]
    declared += families.GROUPS_BY_STATE.values()
    assert sum(map(len, GROUPED.values())) == len(FAMILIES) == len(declared)
    assert set(declared) == set(FAMILIES.values())


EXPECTED_BY_DASHBOARDS = """
    kafka_server_brokertopicmetrics_messagesin_total kafka_server_brokertopicmetrics_bytesin_total
    kafka_server_brokertopicmetrics_bytesout_total kafka_server_brokertopicmetrics_totalproducerequests_total
    kafka_server_brokertopicmetrics_totalfetchrequests_total kafka_server_brokertopicmetrics_failedproducerequests_total
    kafka_server_brokertopicmetrics_failedfetchrequests_total kafka_network_requestmetrics_requests_total
    kafka_network_requestmetrics_errors_total
    kafka_network_requestmetrics_totaltimems kafka_network_requestmetrics_requestqueuetimems
    kafka_server_socket_server_metrics_connection_count kafka_server_replicamanager_leadercount
    kafka_server_replicamanager_partitioncount kafka_server_replicamanager_underreplicatedpartitions
    kafka_server_replicamanager_isrshrinks_total kafka_server_replicamanager_isrexpands_total
    kafka_cluster_partition_atminisr kafka_cluster_partition_underminisr kafka_log_log_size
    kafka_controller_kafkacontroller_activecontrollercount kafka_controller_kafkacontroller_offlinepartitionscount
    kafka_controller_controllerstats_uncleanleaderelections_total kafka_server_raftmetrics_current_state
    kafka_server_raftmetrics_current_leader kafka_server_raftmetrics_current_epoch
    kafka_server_raftmetrics_high_watermark kafka_server_raftmetrics_log_end_offset kafka_consumergroup_lag
    kafka_consumergroup_current_offset
    kafka_topic_partitions kafka_topic_partition_current_offset kafka_topic_partition_oldest_offset
    kafka_topic_partition_in_sync_replica kafka_topic_partition_replicas kafka_topic_partition_leader_is_preferred
    kafka_topic_partition_under_replicated_partition kafka_brokers process_open_fds
"""


def test_dashboards_for_kafka_find_their_metrics() -> None:
    assert set(EXPECTED_BY_DASHBOARDS.split()) <= set(FAMILIES)


def queries() -> Iterator[tuple[str, str]]:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield f"${variable['name']}", variable["definition"]
    for line in ALERTS.read_text(encoding="utf-8").splitlines():
        if _METRIC.search(line):
            yield "alerts", line


@pytest.mark.parametrize(("place", "query"), sorted(set(queries())))
def test_every_query_of_the_dashboard_and_the_alerts_names_a_metric_that_exists(place: str, query: str) -> None:
    named = _METRIC.findall(query)
    assert named, "it asks for nothing"
    known = {"instance", "le"}
    for name, filters in named:
        family = FAMILIES.get(name) or FAMILIES[re.sub(r"_(bucket|sum|count)$", "", name)]
        known |= set(family.labels)
        assert set(_LABEL.findall(filters)) <= {"instance", "le", *family.labels}
    grouped = {label.strip() for group in _GROUPED.findall(query) for label in group.split(",")}
    assert grouped <= known


def test_every_legend_of_the_dashboard_names_labels_that_are_there() -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    for target in (target for panel in dashboard["panels"] for target in panel.get("targets", ())):
        names = [name for name, _ in _METRIC.findall(target["expr"])]
        families_of = [FAMILIES.get(name) or FAMILIES[name.removesuffix("_bucket")] for name in names]
        known = {"instance", *(label for family in families_of for label in family.labels)}
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= known


def test_the_dashboard_can_be_loaded() -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in dashboard["panels"])
    assert {variable["name"] for variable in dashboard["templating"]["list"]} >= {"datasource", "instance", "topic"}


def test_the_reference_is_what_the_table_says() -> None:
    path = ROOT / "scripts" / "generate_metrics_reference.py"
    specification = importlib.util.spec_from_file_location("generate_metrics_reference", path)
    assert specification is not None
    assert specification.loader is not None
    script = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(script)
    written = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    assert written == script.reference(), "run scripts/generate_metrics_reference.py"
