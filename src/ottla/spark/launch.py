"""Spark sessions that are ready for topics.

Owns: what a session is started with: Java, the workers' Python, settings for short micro-batches, quiet logs. Never
knows: what runs on it. Invariants: what the user set, by argument or environment, counts before what is set here.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
_SETTINGS = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
_LOCAL_SETTINGS = {
    # a micro-batch writes two small files: these two settings halve what that costs on a disk of this machine; where
    # checkpoints lie in a store of others, Spark's own way of writing and its checksums stay
    "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}
_ARROW = "-Darrow.enable_unsafe_memory_access=true"
"""Spark takes Arrow's columns apart value by value: without this each look at one checks the memory's bounds again."""
_LOGGING = Path(__file__).with_name("log4j2.properties")


def start_session(name: str, master: str | None = None, settings: Mapping[str, str] | None = None) -> "SparkSession":
    """A session that knows the format `ottla`; the one that runs already, if there is one.

    Without a master Spark runs in this process's machine with all its cores, or where `spark-submit` says.
    """
    _prepare(os.environ)
    from pyspark.sql import SparkSession

    import ottla.spark

    builder = SparkSession.builder.appName(name)
    for key, value in (session_settings(os.environ, master) | dict(settings or {})).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    ottla.spark.register(session)
    return session


def _prepare(environment: "os._Environ[str]") -> None:
    if "PYSPARK_GATEWAY_PORT" in environment:
        return  # spark-submit started us: the JVM is there, and its options count
    home = find_java(environment)
    if home:
        environment["JAVA_HOME"] = home
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def session_settings(environment: Mapping[str, str], master: str | None) -> dict[str, str]:
    """What a session is started with unless the user says otherwise."""
    if "PYSPARK_GATEWAY_PORT" in environment:
        known = _LOCAL_SETTINGS if (master or "").startswith("local") else {}
        return _SETTINGS | known | ({"spark.master": master} if master else {})
    master = master or "local[*]"
    chosen = _SETTINGS | {
        "spark.master": master,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{_LOGGING} {_ARROW}",
        "spark.executor.extraJavaOptions": _ARROW,
    }
    if master.startswith("local"):
        # Spark's 200 are for clusters: here each is a file per micro-batch and a task in a queue
        chosen |= _LOCAL_SETTINGS
        chosen["spark.sql.shuffle.partitions"] = str(max(2, min(os.cpu_count() or 2, 16)))
        if "SPARK_LOCAL_IP" not in environment:
            chosen |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return chosen
