"""Pipelines: sources, steps and sinks in one file, run on Spark.

What a file says is `definition` (without Spark), what it becomes is `building`, how it lives is `running`; where it is
heard of is `registry`. This page is the door for programs that build one in Python; it loads no Spark.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.spark.pipelines.building import Pipeline

__all__ = ["Pipeline"]


def __getattr__(name: str) -> object:
    if name == "Pipeline":
        from ottla.spark.pipelines.building import Pipeline

        return Pipeline
    raise AttributeError(f"module 'ottla.spark.pipelines' has no attribute {name!r}")
