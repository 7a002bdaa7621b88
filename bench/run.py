"""`python -m bench.run`: ottla and Apache Kafka side by side on this machine.

--only start,load,…                 the parts to run (all): start, load, groups, transactions, cluster,
                                    restart, scaling, clients, spark, testing, coordination, hostile
--starts N                          how many starts of each broker the medians are taken over (3)
--gigabytes N                       how much data the restart and scaling parts write (5)
--keep                              write the results to bench/results (printed only, otherwise)
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import re
import subprocess
from typing import Any

from bench import (
    clients,
    cluster,
    coordination,
    groups,
    hostile,
    load,
    report,
    restart,
    rounds,
    scaling,
    spark,
    starts,
    testkit,
    transactions,
)
from bench.brokers import HERE, libraries

OF_BROKERS = ("start", "load", "groups", "transactions", "cluster", "restart", "scaling")
PARTS = (*OF_BROKERS, "clients", "spark", "testing", "coordination", "hostile")
RESULTS = HERE / "results"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure ottla against Apache Kafka on this machine.")
    parser.add_argument(
        "--only", default=",".join(PARTS), help="parts to run, separated by commas: " + ", ".join(PARTS)
    )
    parser.add_argument("--starts", type=int, default=3, help="starts of each broker the medians are taken over")
    parser.add_argument("--gigabytes", type=float, default=5.0, help="data of the restart and scaling parts")
    parser.add_argument("--keep", action="store_true", help="write the results to bench/results")
    chosen = parser.parse_args()
    unknown = set(chosen.only.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return chosen


def main() -> None:
    chosen = arguments()
    parts = chosen.only.split(",")
    load.build()
    results: dict[str, Any] = {"setting": setting()}
    if "start" in parts:
        results["start"] = starts.measure(max(chosen.starts, 5))
    if "load" in parts:
        results["load"] = rounds.measure(chosen.starts)
    if "groups" in parts:
        results["groups"] = groups.measure(chosen.starts)
    if "transactions" in parts:
        results["transactions"] = transactions.measure(chosen.starts)
    if "cluster" in parts:
        results["cluster"] = cluster.measure(chosen.starts)
    if "restart" in parts:
        results["restart"] = {**restart.measure(chosen.gigabytes), "gigabytes": chosen.gigabytes}
    if "scaling" in parts:
        results["scaling"] = scaling.measure(chosen.gigabytes / 5, chosen.gigabytes)
    if "clients" in parts:
        results["clients"] = clients.measure(chosen.starts)
    if "spark" in parts:
        results["spark"] = spark.measure(chosen.starts)
    if "testing" in parts:
        results["testing"] = testkit.measure(max(chosen.starts, 5))
    if "coordination" in parts:
        results["coordination"] = coordination.measure(chosen.starts)
    if "hostile" in parts:
        results["hostile"] = hostile.measure(chosen.starts)
    text = page(results)
    print("\n" + text)
    if chosen.keep:
        RESULTS.mkdir(exist_ok=True)
        name = f"{datetime.date.today().isoformat()}-broker"
        (RESULTS / f"{name}.md").write_text(text)
        (RESULTS / f"{name}.json").write_text(json.dumps(results, indent=2) + "\n")
        print(f"written to {RESULTS.relative_to(HERE.parent)}/{name}.md and .json")


def setting() -> dict[str, str | int]:
    """What the numbers depend on, as far as it can be said in a few words."""
    kafka = next(libraries().glob("kafka_2.13-*.jar")).stem.split("-")[-1]
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    found = re.search(r'version "([^"]+)"', java)
    return {
        "cores": os.cpu_count() or 0,
        "python": platform.python_version(),
        "ottla": importlib.metadata.version("ottla"),
        "kafka": kafka,
        "java": found.group(1) if found else "",
        "librdkafka": librdkafka_version(),
    }


def librdkafka_version() -> str:
    found = subprocess.run(["pkg-config", "--modversion", "rdkafka"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "the system's"


def page(results: dict[str, Any]) -> str:
    versions = results["setting"]
    return (
        f"# ottla {versions['ottla']} and Apache Kafka {versions['kafka']}, side by side\n\n"
        f"{versions['cores']} cores, Python {versions['python']}, Java {versions['java']}, librdkafka "
        f"{versions['librdkafka']} as the load, client and broker on the same machine over loopback. Cold is the first "
        "round after a start, warm the fourth; numbers are medians over several starts, the two brokers in turn.\n\n"
        "Unbatched: 50,000 messages of 100 B, each in a Produce request of its own (`linger.ms=0`, "
        "`batch.num.messages=1`, acks=all), pipelined as far as librdkafka does, over one connection or spread over "
        "eight. Latency: 10,000 messages of 100 B, each sent after the last one was acknowledged. CPU: user and system "
        "time of the broker process.\n\n"
        "Ten consumers agree: from the tenth member's first request until all ten have their partitions; members ask "
        "again at once, and both brokers are told to wait for nobody (`group.initial.rebalance.delay.ms=0`, "
        "`group.consumer.assignment.interval.ms=0`).\n\n" + report.markdown(results)
    )


if __name__ == "__main__":
    main()
