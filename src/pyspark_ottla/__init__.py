"""Where Spark looks for the format `ottla` by itself: a module of this name with a class of this name."""

from ottla.spark.source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
