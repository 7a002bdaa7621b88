"""The printed table: what was measured, the ratio to Kafka and the target it should reach.

Owns: labels, targets, the shape of the table. Never knows: how a number came about.
"""

from typing import Any, NamedTuple

from bench import clients, coordination, hostile, spark, testkit


class Row(NamedTuple):
    """One line of the comparison; a target reads "ottla ÷ Kafka is at least (at most) this"."""

    label: str
    key: str
    unit: str
    at_least: bool
    cold: float | None
    warm: float | None


class Limit(NamedTuple):
    """One line of the comparison whose target is a number of its own, the same whatever Kafka's is."""

    label: str
    key: str
    most: float
    unit: str


ROWS = (
    Row("produce 100 B, six partitions, linger 5 ms", "produce_small", "messages/s", True, 1.5, 1.0),
    Row("produce 1 KiB", "produce_large", "MB/s", True, 2.0, 1.1),
    Row("consume the same topic", "consume", "messages/s", True, 1.5, 1.0),
    Row("unbatched requests, one connection", "unbatched_one", "requests/s", True, 4.0, 4.0),
    Row("unbatched requests, eight connections", "unbatched_eight", "requests/s", True, 1.5, 1.5),
    Row("one message, acks=all: p50", "latency_p50", "µs", False, 0.5, 0.8),
    Row("one message, acks=all: p99", "latency_p99", "µs", False, 0.2, 0.8),
    Row("one message, acks=all: p99.9", "latency_p999", "µs", False, 0.2, 0.25),
    Row("broker CPU per message: produce 100 B", "cpu_produce", "µs", False, 0.3, 0.7),
    Row("broker CPU per message: produce 1 KiB", "cpu_produce_large", "µs", False, 0.3, 0.7),
    Row("broker CPU per message: consume", "cpu_consume", "µs", False, 0.3, 1.0),
    Row("broker CPU per message: unbatched", "cpu_unbatched", "µs", False, 0.3, 0.25),
)


GROUP_ROWS = (
    Row("ten consumers agree, classic protocol", "rebalance_classic", "ms", False, 0.5, 0.5),
    Row("ten consumers agree, consumer protocol", "rebalance_consumer", "ms", False, 0.5, 0.5),
    Row("offset commits, one at a time", "commits_one_by_one", "commits/s", True, 1.0, 1.0),
    Row("offset commits, a hundred on their way", "commits_pipelined", "commits/s", True, 1.0, 1.0),
    # No target: Kafka has taken its heap from the system long before, so what it adds there does not show.
    Row("memory that 1,000 groups add", "groups_growth", "MB", False, None, None),
    Row("memory with 1,000 groups", "groups_resident", "MB", False, None, 0.1),
)
TRANSACTION_ROWS = (
    Row("produce 100 B, 100 messages a transaction", "transactional", "messages/s", True, 1.0, 1.0),
    Row("broker CPU per message: transactions", "cpu_transactional", "µs", False, None, None),
)
CLUSTER_ROWS = (
    Row("three nodes: produce 100 B, six partitions, linger 5 ms", "produce_small", "messages/s", True, 2.0, 1.2),
    Row("three nodes: produce 1 KiB", "produce_large", "MB/s", True, 2.0, 1.2),
    Row("three nodes: one message, acks=all: p50", "latency_p50", "µs", False, 0.7, 0.7),
    Row("three nodes: one message, acks=all: p99", "latency_p99", "µs", False, 0.4, 0.4),
    Row("three nodes: CPU of all per message, produce 100 B", "cpu_produce", "µs", False, None, None),
    Row("three nodes: start to first write of a replicated topic", "start", "s", False, 0.2, None),
    Row("three nodes: resident memory idle", "resident_idle", "MB", False, 0.12, None),
    Row("three nodes: resident memory after the load", "resident_after", "MB", False, None, 0.12),
    Row("three nodes: creating 1,000 partitions", "create_partitions", "s", False, None, 1.0),
    Row("three nodes: moving a partition of 1 GB", "move", "MB/s", True, None, None),
)
CLUSTER_LIMITS = (
    Limit("longest gap between acknowledgements after kill -9 of the leader, s", "gap_killed", 2.0, "s"),
    Limit("longest gap between acknowledgements after a controlled stop of the leader, s", "gap_stopped", 0.3, "s"),
    Limit("moving a partition of 1 GB at 100 MB/s: distance from the throttle, %", "throttle_missed", 10.0, "%"),
)
PARTS = (("load", ROWS), ("groups", GROUP_ROWS), ("transactions", TRANSACTION_ROWS), ("cluster", CLUSTER_ROWS))


class Bound(NamedTuple):
    """One line about ottla alone: the number and the most it may be."""

    label: str
    key: str
    unit: str
    most: float | None


BOUNDS = (
    Bound("fetch at a random offset, small partition, p50", "fetch_small_p50", "µs", None),
    Bound("fetch at a random offset, large partition, p50", "fetch_large_p50", "µs", None),
    Bound("fetch at a random offset, large ÷ small", "fetch_ratio", "×", 1.2),
    Bound("resident memory, no data", "resident_empty", "MB", None),
    Bound("resident memory, small partition filled", "resident_small", "MB", None),
    Bound("resident memory, large partition filled", "resident_large", "MB", None),
    Bound("resident memory after the fetches", "resident_after_lookups", "MB", None),
    Bound("creating 5,000 topics", "create_seconds", "s", None),
    Bound("5,000 idle partitions, 500 idle connections: CPU in 10 s", "idle_cpu", "s", 0.1),
    Bound("… resident memory", "idle_resident", "MB", None),
    Bound("… descriptors", "idle_descriptors", "", None),
    Bound("small requests of one client alone: worst", "delay_alone_worst", "ms", None),
    Bound("… while another asks for all metadata: worst", "delay_metadata_worst", "ms", 10.0),
    Bound("… the metadata answer itself, p50", "metadata_answer_ms", "ms", None),
    Bound("… while another asks for all configs: worst", "delay_configs_worst", "ms", 10.0),
    Bound("… the configs answer itself, p50", "configs_answer_ms", "ms", None),
)


def markdown(results: dict[str, Any]) -> str:
    """All tables of the parts that ran."""
    parts = []
    if results.keys() & {"start", "restart", *(name for name, _ in PARTS)}:
        parts.append(comparison(results))
    if "scaling" in results:
        parts.append(growth(results["scaling"]))
    if "clients" in results:
        parts.append("## Python clients on the same ottla broker\n\n" + clients.table(results["clients"]))
    if "spark" in results:
        parts.append("## Spark on the same ottla broker\n\n" + spark.table(results["spark"]))
    if "testing" in results:
        parts.append("## Until the first answer\n\n" + testkit.table(results["testing"]))
    if "coordination" in results:
        parts.append("## Coordinated by the quorum or by ZooKeeper\n\n" + coordination.table(results["coordination"]))
    if "hostile" in results:
        parts.append("## Beside clients that mean harm\n\n" + hostile.table(results["hostile"]))
    return "\n\n".join(parts) + "\n"


def comparison(results: dict[str, Any]) -> str:
    lines = [
        "| work | | Kafka | ottla | ottla ÷ Kafka | target | |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for name, rows in PARTS:
        if name in results:
            lines += measured(results[name], rows)
    if "start" in results:
        start = results["start"]
        kafka, ottla = start["kafka"]["seconds"], start["ottla"]["seconds"]
        lines.append(line("serve to first answered request, s", "cold", kafka, ottla, False, 0.1))
    if "load" in results:
        idle = [results["load"][name]["cold"]["resident_idle"] for name in ("kafka", "ottla")]
        lines.append(limited(Limit("resident memory idle, MB", "resident_idle", 60, "MB"), "cold", idle[0], idle[1]))
        after = [results["load"][name]["warm"]["resident_after"] for name in ("kafka", "ottla")]
        lines.append(line("resident memory after the load, MB", "warm", after[0], after[1], False, 0.1))
    if "cluster" in results:
        kafka, ottla = (results["cluster"][name]["warm"] for name in ("kafka", "ottla"))
        lines += [limited(limit, "warm", kafka[limit.key], ottla[limit.key]) for limit in CLUSTER_LIMITS]
    if "restart" in results:
        restart = results["restart"]
        kafka, ottla = restart["kafka"]["seconds"], restart["ottla"]["seconds"]
        label = f"restart after kill -9, 2,000 partitions, {restart['gigabytes']:g} GB, s"
        lines.append(line(label, "cold", kafka, ottla, False, 1.0))
    return "\n".join(lines)


def measured(found: dict[str, Any], rows: tuple[Row, ...]) -> list[str]:
    """The lines of one part; what is not measured cold or warm has no line there."""
    return [
        line(f"{row.label}, {row.unit}", when, found["kafka"][when][row.key], found["ottla"][when][row.key],
             row.at_least, target)
        for row in rows
        for when, target in (("cold", row.cold), ("warm", row.warm))
        if row.key in found["ottla"][when]
    ]  # fmt: skip


def line(label: str, when: str, kafka: float, ottla: float, at_least: bool, target: float | None) -> str:
    ratio = ottla / kafka
    sign, met = ("≥", ratio >= (target or 0)) if at_least else ("≤", ratio <= (target or 0))
    wanted = "" if target is None else f"{sign} {target:g}"
    mark = "" if target is None else verdict(met)
    return f"| {label} | {when} | {number(kafka)} | {number(ottla)} | {ratio:.2f} | {wanted} | {mark} |"


def limited(limit: Limit, when: str, kafka: float, ottla: float) -> str:
    cells = [number(kafka), number(ottla), f"{ottla / kafka:.2f}", f"≤ {limit.most:g} {limit.unit}"]
    return f"| {limit.label} | {when} | {' | '.join(cells)} | {verdict(ottla <= limit.most)} |"


def growth(scaling: dict[str, float]) -> str:
    found = dict(scaling)
    if "fetch_large_p50" in found:
        found["fetch_ratio"] = found["fetch_large_p50"] / found["fetch_small_p50"]
    lines = ["| how ottla's cost grows | ottla | at most | |", "| --- | ---: | ---: | --- |"]
    for bound in BOUNDS:
        if bound.key not in found:
            continue
        value = found[bound.key]
        most = "" if bound.most is None else f"{bound.most:g}"
        mark = "" if bound.most is None else verdict(value <= bound.most)
        lines.append(f"| {bound.label} | {number(value)} {bound.unit} | {most} | {mark} |")
    return "\n".join(lines)


def verdict(met: bool) -> str:
    return "reached" if met else "MISSED"


def number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"
