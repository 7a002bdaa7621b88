"""A pipeline on Spark, from its definition or from a Python function `build(p)`.

Owns: sources, tables and steps as views of a session, and the writers of sinks. Never knows: how queries live.
Invariants: building reads no record and asks no broker, so a pipeline can be checked without one; whatever is wrong is
a `BadPipeline` with the name of the part; every source, table and step is a view by its name, for SQL.
"""

import importlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import functions

from ottla.client.settings import CONSUMER, PRODUCER
from ottla.spark.pipelines.definition import (
    RAW,
    BadPipeline,
    Definition,
    Frame,
    Sink,
    Source,
    Step,
    declare,
    sink_from,
    source_from,
    table_from,
)
from ottla.spark.pipelines.files import Program, carry_along, where_in
from ottla.spark.pipelines.graph import PipelineNode, dead_letter_node, graph_of, sink_node, source_node
from ottla.spark.pipelines.sentences import sentence_of
from ottla.spark.pipelines.workers import patiently

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_STREAM_ONLY = ("maxoffsetspertrigger", "minoffsetspertrigger", "maxbytespertrigger", "maxtriggerdelay")
_ISOLATION = ("isolation.level", "kafka.isolation.level")
_KEY_COLUMNS = ("key", "headers")


class Output(NamedTuple):
    """A sink and the rows it gets."""

    sink: Sink
    frame: "DataFrame"
    views: frozenset[str]
    """Sources, tables and steps the rows are made of, directly or not."""


class Pipeline:
    """What `build(p)` gets: `p.source`, `p.table`, `p.sql`, `p.step`, `p.sink`, `p.spark` and `p.variables`."""

    def __init__(self, spark: "SparkSession", frame: Frame, variables: Mapping[str, str] | None = None) -> None:
        self.spark = spark
        self.frame = frame
        self.variables = dict(variables or {})
        self.sources: dict[str, Source] = {}
        self.outputs: list[Output] = []
        self._steps: list[PipelineNode] = []

    # --- for pipelines in Python --------------------------------------------------------------------------------------

    def source(self, name: str, **given: Any) -> "DataFrame":
        """A stream of records; keywords as the keys of a source in YAML."""
        return self._add_source(declare(source_from, name, given))

    def table(self, name: str, **given: Any) -> "DataFrame":
        """A compacted topic as a table, read anew for each batch; keywords as in YAML."""
        return self._add_source(declare(table_from, name, given))

    def sql(self, query: str) -> "DataFrame":
        """Rows by SQL over the sources, tables and steps so far."""
        return self.spark.sql(query)

    def step(self, name: str, frame: "DataFrame", detail: str = "Python") -> "DataFrame":
        """Give rows a name: SQL knows them, and `ottla pipeline plan` shows them."""
        inputs = _nearest_views(frame, self._names())
        self._view(name, frame)
        self._steps.append(PipelineNode("step", name, detail, tuple(sorted(inputs))))
        return self.spark.table(name)

    def sink(self, name: str, frame: "DataFrame", **given: Any) -> None:
        """Write rows to a topic, Parquet files or the screen; keywords as the keys of a sink in YAML, without from."""
        self._add_sink(declare(sink_from, name, {"from": name, **given}), frame)

    # --- parts --------------------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        return [*self.sources, *(step.name for step in self._steps)]

    def _view(self, name: str, frame: "DataFrame") -> None:
        if name.lower() in {each.lower() for each in self._names()}:
            raise BadPipeline([f"{name} is there twice among sources, tables and steps"])
        frame.createOrReplaceTempView(name)

    def _add_source(self, source: Source) -> "DataFrame":
        try:
            frame = self.read(source, streaming=not source.table)
            if self.sends_undecodable(source):
                corrupt = corrupt_column(source)
                frame = frame.observe(observation(source.name), functions.count(corrupt).alias("undecodable"))
                frame = frame.where(functions.col(corrupt).isNull()).drop(corrupt)
            frame = shaped(frame, source)
            if source.watermark is not None:
                frame = frame.withWatermark(source.watermark.column, source.watermark.delay)
        except PySparkException as problem:
            what = "table" if source.table else "source"
            raise BadPipeline([f"{what} {source.name}: {sentence_of(problem)}"]) from problem
        self._view(source.name, frame)
        self.sources[source.name] = source
        return self.spark.table(source.name)

    def read(self, source: Source, *, streaming: bool, **other: str) -> "DataFrame":
        """A source's rows as they come; `other` options win."""
        options = self.options(source)
        if not streaming:
            options = {name: value for name, value in options.items() if name.lower() not in _STREAM_ONLY}
        if source.table:
            options.pop("startingOffsets", None)
        reader = self.spark.readStream if streaming else self.spark.read
        return patiently(reader.format("ottla").options(**(options | other)).load)

    def options(self, source: Source) -> dict[str, str]:
        """What the data source is told. Committed records only, unless the pipeline says otherwise: what another
        pipeline has aborted is in its topic too."""
        options = {name: value for name, value in self.frame.client.items() if name in CONSUMER.settings}
        options |= source.options
        if not any(name.lower() in _ISOLATION for name in options):
            options["isolation.level"] = "read_committed"
        if source.format and not source.option("mode"):
            options["mode"] = "PERMISSIVE" if self.frame.dead_letters and not source.table else "FAILFAST"
        return options

    def sends_undecodable(self, source: Source) -> bool:
        """Records of this source that cannot be decoded go to the dead letters."""
        permissive = source.option("mode", "PERMISSIVE").upper() == "PERMISSIVE"
        return bool(self.frame.dead_letters and source.format and not source.table and permissive)

    def add_step(self, step: Step, inputs: tuple[str, ...]) -> None:
        try:
            frame = self._step_frame(step)
        except PySparkException as problem:
            raise BadPipeline([f"step {step.name}: {sentence_of(problem)}"]) from problem
        self._view(step.name, frame)
        detail = "SQL" if step.sql else f"Python {step.python}" if step.python else "without duplicates"
        self._steps.append(PipelineNode("step", step.name, detail, inputs))

    def _step_frame(self, step: Step) -> "DataFrame":
        if step.sql:
            return self.spark.sql(step.sql)
        frames = [self.spark.table(name) for name in step.inputs]
        if step.python:
            return _call(step, frames)
        return frames[0].dropDuplicatesWithinWatermark(list(step.deduplicate))

    def _add_sink(self, sink: Sink, frame: "DataFrame") -> None:
        if any(output.sink.name == sink.name for output in self.outputs):
            raise BadPipeline([f"sink {sink.name} is there twice"])
        try:
            rows = _records(sink, frame) if sink.kind == "topic" else frame
        except PySparkException as problem:
            raise BadPipeline([f"sink {sink.name}: {sentence_of(problem)}"]) from problem
        if not frame.isStreaming:
            raise BadPipeline([f"sink {sink.name} gets rows of tables alone: a pipeline's sink needs a source"])
        self.outputs.append(Output(sink, rows, frozenset(_views(frame)) & frozenset(self._names())))

    # --- the whole ----------------------------------------------------------------------------------------------------

    def check(self) -> list[str]:
        """What Spark would refuse when the queries start."""
        problems = []
        for output in self.outputs:
            try:
                _check_streaming(self.spark, output)
            except PySparkException as problem:
                problems.append(f"sink {output.sink.name}: {sentence_of(problem)}")
        return problems

    def graph(self) -> list[PipelineNode]:
        names = set(self._names())
        return [
            *(source_node(source) for source in self.sources.values()),
            *self._steps,
            *(sink_node(each.sink, tuple(sorted(_nearest_views(each.frame, names)))) for each in self.outputs),
            *dead_letter_node(self.frame.dead_letters, self.sources.values()),
        ]

    def writer(self, output: Output, checkpoint: str, once: bool) -> "DataStreamWriter":
        """The query of a sink, ready to start."""
        sink = output.sink
        if "TransformWithState" in _plan(output.frame) and _STATE_STORE not in self.frame.spark:
            self.spark.conf.set(_STATE_STORE, _ROCKS)  # the only store that Spark's stateful functions work with
        writer = output.frame.writeStream.queryName(f"{self.frame.name}/{sink.name}").outputMode(sink.mode)
        writer = writer.option("checkpointLocation", checkpoint)
        if sink.kind == "topic":
            options = {name: value for name, value in self.frame.client.items() if name in PRODUCER.settings}
            options |= {} if sink.format in ("json", RAW) else {"format": sink.format}
            options |= {"topic": sink.place, **sink.options}
            if sink.mode == "update":
                writer = writer.foreachBatch(_batch_writer(options))
            else:
                writer = writer.format("ottla").options(**options)
        elif sink.kind == "parquet":
            writer = writer.format("parquet").option("path", sink.place).options(**sink.options)
            writer = writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
        else:
            writer = writer.format("console").options(**({"truncate": "false"} | dict(sink.options)))
        interval = sink.trigger or self.frame.trigger
        if once:
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=interval) if interval else writer


def build(spark: "SparkSession", described: Definition | Program) -> Pipeline:
    """A file's pipeline, built and not started; BadPipeline when something is wrong."""
    if isinstance(described, Program):
        pipeline = Pipeline(spark, described.frame, described.variables)
        try:
            described.build(pipeline)
        except BadPipeline:
            raise
        except PySparkException as problem:
            raise BadPipeline([f"build(p): {sentence_of(problem)}"]) from problem
        except Exception as problem:
            raise BadPipeline([f"build(p): {where_in(problem, described.path)}"]) from problem
    else:
        pipeline = _from_definition(spark, described)
    if not pipeline.outputs:
        raise BadPipeline(["the pipeline has no sinks: where its rows go"])
    return pipeline


def _from_definition(spark: "SparkSession", definition: Definition) -> Pipeline:
    pipeline = Pipeline(spark, definition.frame)
    steps = {step.name: step for step in definition.steps}
    for source in definition.sources:
        pipeline._add_source(source)
    for node in graph_of(definition):
        if node.kind == "step":
            pipeline.add_step(steps[node.name], node.inputs)
    for sink in definition.sinks:
        pipeline._add_sink(sink, spark.table(sink.input))
    return pipeline


def shaped(frame: "DataFrame", source: Source) -> "DataFrame":
    """A source's rows as its steps see them."""
    return frame.selectExpr(*source.select) if source.select else frame


def corrupt_column(source: Source) -> str:
    """Where the bytes of undecodable values are."""
    return source.option("columnNameOfCorruptRecord", "_corrupt_record")


def observation(source: str) -> str:
    """What a query's progress calls the count of undecodable records."""
    return f"undecodable {source}"


def _records(sink: Sink, frame: "DataFrame") -> "DataFrame":
    """Rows as a topic takes them: a key, if there is one, and a value."""
    if sink.format == RAW:
        return frame.withColumn("key", _key(sink.key)) if sink.key else frame
    apart = [name for name in _KEY_COLUMNS if name in frame.columns and not (name == "key" and sink.key)]
    columns = [functions.col(f"`{name}`") for name in frame.columns if name not in apart]
    kept = [functions.col(name) for name in apart] + ([_key(sink.key).alias("key")] if sink.key else [])
    if sink.format == "json":
        return frame.select(*kept, functions.to_json(functions.struct(*columns)).alias("value"))
    return frame.select(*kept, *columns)


def _key(expression: str) -> Any:
    return functions.expr(expression).cast("string")


def _batch_writer(options: dict[str, str]) -> "Callable[[DataFrame, int], None]":
    """For mode update, in which Spark starts no query with a Python sink: each batch is written by itself."""

    def write(frame: "DataFrame", _batch: int) -> None:
        frame.write.format("ottla").mode("append").options(**options).save()

    return write


def _call(step: Step, frames: list["DataFrame"]) -> "DataFrame":
    module_name, _, function_name = step.python.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as problem:
        raise BadPipeline([f"step {step.name}: cannot import {module_name}: {problem}"]) from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise BadPipeline([f"step {step.name}: {module_name} has no function {function_name}"])
    carry_along(module)
    try:
        made = function(*frames)
    except (BadPipeline, PySparkException):
        raise
    except Exception as problem:
        source = Path(module.__file__ or module_name)
        raise BadPipeline([f"step {step.name}: {step.python}: {where_in(problem, source)}"]) from problem
    if not hasattr(made, "createOrReplaceTempView"):
        raise BadPipeline([f"step {step.name}: {step.python} gives {type(made).__name__} and no DataFrame"])
    frame: DataFrame = made
    return frame


def _plan(frame: "DataFrame") -> str:
    text: str = frame._jdf.queryExecution().analyzed().toString()
    return text


def _views(frame: "DataFrame") -> set[str]:
    """Every view that rows are made of."""
    return set(re.findall(r"~?SubqueryAlias (?:spark_catalog\.default\.)?(\w+)", _plan(frame)))


def _nearest_views(frame: "DataFrame", names: "list[str] | set[str]") -> set[str]:
    """The views that rows are made of directly: those that are not inside another."""
    found: set[str] = set()
    inside = None
    for line in _plan(frame).splitlines():
        depth = len(line) - len(line.lstrip(" :+-|"))
        if inside is not None and depth > inside:
            continue
        inside = None
        matched = re.search(r"~?SubqueryAlias (\w+)", line)
        if matched and matched[1] in names:
            found.add(matched[1])
            inside = depth
    return found


def _check_streaming(spark: "SparkSession", output: Output) -> None:
    """Spark's own rules for streams, which it otherwise holds up when a query starts."""
    jvm = spark._jvm
    assert jvm is not None, "a session has a JVM"
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    mode = getattr(modes, output.sink.mode.capitalize())()
    checker.checkForStreaming(output.frame._jdf.queryExecution().analyzed(), mode)
