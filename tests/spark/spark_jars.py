"""Spark's own Kafka connector, fetched from Maven by scripts/spark-connector."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kit.others.debian import REPOSITORY, program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRIPT = REPOSITORY / "scripts" / "spark-connector"


@cache
def connector_jars() -> list[Path]:
    """The connector and what it needs beyond Spark."""
    for needed in ("java", "mvn"):
        program(needed)
    answer = subprocess.run([str(SCRIPT)], check=False, capture_output=True, text=True)
    assert answer.returncode == 0, f"Spark's Kafka connector could not be fetched:\n{answer.stderr}"
    return sorted(Path(answer.stdout.strip()).glob("*.jar"))


def add_connector(spark: SparkSession) -> None:
    """Make the format `kafka` known to a running session."""
    for jar in connector_jars():
        spark.sql(f"ADD JAR '{jar}'")
