"""From executing the process to its first answered request, on an empty data directory."""

import statistics

from bench.brokers import BROKERS


def measure(starts: int) -> dict[str, dict[str, float]]:
    seen: dict[str, list[float]] = {kind.name: [] for kind in BROKERS}
    for number in range(starts):
        print(f"start: {number + 1} of {starts}", flush=True)
        for kind in BROKERS:
            broker = kind("start")
            broker.format()
            try:
                seen[kind.name].append(broker.start())
            finally:
                broker.stop()
                broker.remove()
    return {name: {"seconds": statistics.median(found)} for name, found in seen.items()}
