"""The shop's books: a Spark pipeline that joins orders to their payments, run as anybody would run it.

Owns: the process of `ottla pipeline run --once`, its end, and reading what it wrote. Never knows: Spark, or what the
pipeline does (`pipelines/orders.yaml`). Invariant: when `keep` returns or is cancelled, nothing of the process is left.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import Counter
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import ottla

PIPELINE = "orders.yaml"
OUTCOMES = "orders.outcomes"
HOW_TO_GET_SPARK = "pip install 'ottla[spark]'"
_POLL_SECONDS = 1.0


class TooSlow(Exception):
    """The pipeline was not done in time, as one sentence."""


class Failed(Exception):
    """The pipeline ended with an error, as one sentence."""


class Books(NamedTuple):
    """What the pipeline found out."""

    orders: int
    paid: Counter[str]
    """Orders by how they were paid; those that were not are under an empty name."""
    examples: list[dict[str, Any]]


def has_spark() -> bool:
    return find_spec("pyspark") is not None


def command(bootstrap: str) -> str:
    """What a person would type."""
    return f"ottla pipeline run {PIPELINE} --once --bootstrap {bootstrap.split(',')[0]}"


async def keep(bootstrap: str, directory: Path, seconds: float) -> None:
    """Run the pipeline over everything that is there now; Failed or TooSlow when it does not end well."""
    pipeline = str(files("ottla.demo").joinpath("pipelines", PIPELINE))
    arguments = [pipeline, "--once", "--bootstrap", bootstrap, "--checkpoint", str(directory / "checkpoint")]
    with (directory / "pipeline.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "ottla.cli.main", "pipeline", "run"),
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=directory,
            env={**os.environ, "XDG_STATE_HOME": str(directory)},  # where pipelines keep what they know of themselves
        )
    try:
        async with asyncio.timeout(seconds):
            code = await process.wait()
    except TimeoutError:
        raise TooSlow(f"Spark was not done after {seconds:.0f} s on this machine") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # Java and Python workers too
        await process.wait()
    if code:
        said = (directory / "pipeline.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise Failed(f"the pipeline ended with code {code}: {said[-1] if said else 'it said nothing'}")


async def read(bootstrap: str) -> Books:
    """What is in the books, as a reader of committed records sees it."""
    paid: Counter[str] = Counter()
    examples: list[dict[str, Any]] = []
    async with ottla.Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        places = [ottla.TopicPartition(OUTCOMES, part.number) for part in await consumer.partitions_for(OUTCOMES)]
        ends = await consumer.end_offsets(places)
        consumer.assign(places)
        while any([await consumer.position(place) < ends[place] for place in places]):
            for record in await consumer.poll(_POLL_SECONDS):
                outcome = json.loads(record.value)
                paid[outcome.get("method") or ""] += 1
                if len(examples) < 3 or (not outcome.get("method") and len(examples) < 4):
                    examples.append(outcome)
    return Books(paid.total(), paid, examples)
