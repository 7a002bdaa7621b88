"""Topics in Spark: the data source `ottla`, for reading and writing, batch and stream.

This page is the door; it loads neither Spark nor Arrow before they are needed.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: "SparkSession") -> None:
    """Make the format `ottla` known to a session."""
    from ottla.spark.source import OttlaDataSource

    spark.dataSource.register(OttlaDataSource)
