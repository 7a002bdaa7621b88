"""Topics in Spark: the data source `ottla`, for reading and writing, batch and stream.

This page is the door; it loads neither Spark nor Arrow before they are needed.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "start_session"]


def register(spark: "SparkSession") -> None:
    """Make the format `ottla` known to a session."""
    from ottla.spark.source import OttlaDataSource

    spark.dataSource.register(OttlaDataSource)


def start_session(name: str, master: str | None = None, settings: Mapping[str, str] | None = None) -> "SparkSession":
    """A session that is ready for topics: Java found, workers on this Python, quiet logs. See `ottla.spark.launch`."""
    from ottla.spark.launch import start_session as start

    return start(name, master, settings)
