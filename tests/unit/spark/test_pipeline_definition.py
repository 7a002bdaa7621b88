"""What a pipeline's document says, and what is said about one that is wrong."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.cli.failures import Failure
from ottla.cli.pipeline_run import built
from ottla.spark.pipelines.building import Pipeline
from ottla.spark.pipelines.definition import (
    BadPipeline,
    Definition,
    declare,
    frame_of,
    source_from,
    table_from,
    understand,
)
from ottla.spark.pipelines.files import Program, load_pipeline
from ottla.spark.pipelines.variables import replace_variables


def document(**changes: Any) -> dict[str, Any]:
    return {
        "sources": {"orders": {"topic": "orders", "format": "json", "schema": "id STRING, time TIMESTAMP"}},
        "steps": {"big": "SELECT * FROM orders"},
        "sinks": {"out": {"from": "big", "topic": "big-orders"}},
    } | changes


def problems_of(**changes: Any) -> list[str]:
    with pytest.raises(BadPipeline) as failure:
        understand(document(**changes), "test")
    return failure.value.problems


def test_a_document_becomes_sources_steps_and_sinks() -> None:
    found = understand(document(dead_letters="dead", trigger="5 seconds", spark={"spark.x": 1}), "test")
    assert found.frame.name == "test"
    assert (found.frame.dead_letters, found.frame.trigger, found.frame.spark) == ("dead", "5 seconds", {"spark.x": "1"})
    source, sink = found.sources[0], found.sinks[0]
    assert source.options["subscribe"] == "orders"
    assert source.option("STARTINGOFFSETS") == "earliest"
    assert (sink.kind, sink.place, sink.format, sink.mode) == ("topic", "big-orders", "json", "append")


def test_topics_patterns_watermarks_and_tables_are_options_of_the_data_source() -> None:
    sources = {
        "several": {"topics": ["a", "b"], "starting": "latest", "options": {"maxOffsetsPerTrigger": 10}},
        "many": {"pattern": "a.*", "watermark": {"column": "timestamp", "delay": "1 minute"}},
    }
    tables = {"customers": {"topic": "customers"}}
    found = understand(document(sources=sources, tables=tables, steps={"big": "SELECT 1"}), "test")
    several, many, customers = found.sources
    assert (several.options["subscribe"], several.options["startingOffsets"]) == ("a,b", "latest")
    assert several.options["maxOffsetsPerTrigger"] == "10"
    assert many.options["subscribePattern"] == "a.*"
    assert many.watermark is not None
    assert many.watermark.until == "timestamp"
    assert customers.table
    assert customers.options["as"] == "table"


def test_every_problem_is_told_with_the_word_that_was_meant() -> None:
    found = problems_of(
        sorces={},
        steps={"big": {"sql": "SELECT 1", "fromm": "orders"}},
        sinks={"out": {"from": "bigg", "topic": "t", "mode": "appendd", "formt": "json"}},
    )
    assert found == [
        "the pipeline has no key 'sorces'; did you mean sources?",
        "step big has no key 'fromm'; did you mean from?",
        "sink out has no key 'formt'; did you mean format?",
        "sink out mode cannot be 'appendd': allowed is append, update, complete; did you mean append?",
        "sink out is made from bigg, which is no source, table or step; did you mean big?",
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sources": {}}, "the pipeline has no sources"),
        ({"sinks": {}}, "the pipeline has no sinks"),
        ({"sources": {"orders": {}}}, "source orders needs one of topic, topics and pattern"),
        (
            {"sources": {"orders": {"topic": "a", "pattern": "b"}}},
            "needs one of topic, topics and pattern, not topic and",
        ),
        ({"sources": {"orders": {"topic": "a", "schema": "x INT"}}}, "has a schema but no format"),
        ({"sources": {"orders": {"topic": "a", "watermark": {"column": "t"}}}}, "watermark needs a column and a delay"),
        ({"sources": {"orders-x": {"topic": "a"}}}, "is no name for SQL"),
        ({"sources": {"orders": "a"}}, "source orders is a text: a mapping with topic"),
        ({"steps": {"orders": "SELECT 1"}}, "orders is there twice"),
        ({"steps": {"big": {}}}, "step big needs one of sql, python and deduplicate"),
        ({"steps": {"big": {"python": "a:b"}}}, "needs the key from"),
        ({"steps": {"big": {"python": "a.b", "from": "orders"}}}, "write MODULE:FUNCTION"),
        ({"steps": {"big": {"sql": "SELECT 1", "from": "orders"}}}, "take the key from away"),
        ({"sinks": {"out": {"from": "big"}}}, "sink out needs one of topic, parquet and screen"),
        ({"sinks": {"out": {"topic": "t"}}}, "sink out needs the key from"),
        ({"sinks": {"out": {"from": "big", "parquet": "d", "key": "k"}}}, "has key, which is for sinks with topic"),
        ({"sinks": {"out": {"from": "big", "parquet": "d", "mode": "update"}}}, "files are only ever added"),
        ({"sinks": {"out": {"from": "big", "topic": "t", "mode": "complete"}}}, "a topic is never written anew"),
        ({"trigger": "5 secs"}, "trigger cannot be '5 secs': allowed is a time span such as 5 seconds"),
        ({"sinks": {"out": {"from": "big", "topic": "t", "schema": "x"}}}, "a schema, which format json does not need"),
        (
            {"sinks": {"out": {"from": "big", "topic": "t", "mode": "update", "delivery": "exactly-once"}}},
            "take append",
        ),
        ({"name": "a b"}, "the pipeline cannot be called 'a b'"),
        ({"sinks": {"a/b": {"from": "big", "topic": "t"}}}, "sink a/b cannot be called 'a/b'"),
        ({"sinks": {"..": {"from": "big", "topic": "t"}}}, "cannot be called '..'"),
        ({"sinks": {"": {"from": "big", "topic": "t"}}}, "cannot be called ''"),
        ({"steps": {"BIG": "SELECT 1", "big": "SELECT 2"}}, "BIG is there twice"),
        (
            {"sources": {"a": {"topic": "t", "watermark": {"column": "c", "delay": "10 bananas"}}}},
            "source a: watermark delay cannot be '10 bananas'",
        ),
        ({"dead_letters": ["x"]}, "dead_letters is a list: a text belongs there"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(changes: dict[str, Any], said: str) -> None:
    assert any(said in problem for problem in problems_of(**changes)), problems_of(**changes)


def test_variables_are_replaced_and_those_without_value_told() -> None:
    problems: list[str] = []
    given = {"a": "${A:-1} and ${B}", "b": ["$${C}", "${C:-}"], "c": 3}
    assert replace_variables(given, {"B": "${A}"}, problems) == {"a": "1 and ${A}", "b": ["${C}", ""], "c": 3}
    assert problems == []
    replace_variables("${MISSING} ${MISSING}", {}, problems)
    assert problems == ["variable MISSING has no value: say --set MISSING=VALUE, or write ${MISSING:-DEFAULT}"]


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


YAML = """
sources: {orders: {topic: "${TOPIC:-orders}"}}
sinks: {out: {from: orders, screen: true}}
"""


def test_a_file_gives_the_pipeline_its_name_and_the_command_line_its_variables(tmp_path: Path) -> None:
    found = load_pipeline(write(tmp_path, "my-orders.yaml", YAML), {"TOPIC": "others"})
    assert isinstance(found, Definition)
    assert (found.frame.name, found.sources[0].topics) == ("my-orders", "others")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.yaml", "sources: [", "line 1 is no YAML"),
        ("a.yaml", "name: a\nname: b\n", "line 2: name is there twice"),
        ("a.yaml", "- 1", "the pipeline is a list"),
        ("a.yaml", "", "the pipeline is empty"),
        ("a.yaml", "sources: {a: &x {topic: t, options: *x}}", "has an alias (*) inside of what it stands for"),
        (
            "a.yaml",
            "a: &a [x, x]\n"
            + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)),
            "with its aliases it has more than",
        ),
        ("a.yaml", "x: " + "[" * 5000, "a.yaml is nested too deeply"),
        ("a.yaml", "? [a]\n: 1\n", "line 1: a name is a text, not a list or a mapping"),
        ("a.yaml", "name: !!int five\n", "a value that is not what its tag says"),
        ("a.yaml", "name: !!python/object:os.system x\n", "line 1 is no YAML"),
        ("a.txt", "", "must end with .yaml, .yml or .py"),
        ("a.py", "x = 1", "has no function build(p)"),
        ("a.py", "x = (", "line 1: SyntaxError"),
        ("a.py", "\nraise ValueError('no')", "line 2: ValueError: no"),
        ("a.py", "PIPELINE = {'nam': 'x'}\ndef build(p): pass", "PIPELINE has no key 'nam'; did you mean name?"),
    ],
)
def test_a_file_that_is_no_pipeline_says_where_it_is_wrong(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(BadPipeline, match=re.escape(said)):
        load_pipeline(write(tmp_path, name, text), {})


def test_texts_of_yaml_are_as_they_were_written(tmp_path: Path) -> None:
    text = """
name: 1.10
client: &client {client.id: 2026-01-01}
sources:
  on: {<<: &common {topic: 007, options: {failOnDataLoss: false, client.id: 12:30}}, starting: latest}
  yes: *common
sinks: {no: {from: on, topic: off, format: raw, trigger: ~}}
"""
    found = load_pipeline(write(tmp_path, "a.yaml", text), {})
    assert isinstance(found, Definition)
    assert (found.frame.name, found.frame.client) == ("1.10", {"client.id": "2026-01-01"})
    assert [(each.name, each.topics, each.option("startingOffsets")) for each in found.sources] == [
        ("on", "007", "latest"),
        ("yes", "007", "earliest"),
    ]
    assert (found.sources[0].option("failOnDataLoss"), found.sources[0].option("client.id")) == ("false", "12:30")
    assert (found.sinks[0].name, found.sinks[0].input, found.sinks[0].place) == ("no", "on", "off")


@pytest.mark.parametrize("delay", ["10 minutes", "1 hour 30 minutes", "interval 2 days 12 hours", "500 milliseconds"])
def test_time_spans_are_those_that_spark_takes(delay: str) -> None:
    found = understand(document(sources={"a": {"topic": "t", "watermark": {"column": "c", "delay": delay}}}), "test")
    assert found.sources[0].watermark is not None


@pytest.mark.parametrize("make", [source_from, table_from])
def test_sources_and_tables_read_committed_records_unless_the_pipeline_says_otherwise(make: Any) -> None:
    def isolation(client: dict[str, str], options: dict[str, str]) -> list[str]:
        frame = frame_of("x", {"client": client})
        source = declare(make, "s", {"topic": "t", "options": options})
        found = Pipeline(cast("Any", None), frame).options(source)
        return [value for name, value in found.items() if name.lower().endswith("isolation.level")]

    assert isolation({}, {}) == ["read_committed"]
    assert isolation({"isolation.level": "read_uncommitted"}, {}) == ["read_uncommitted"]
    for name in ("isolation.level", "kafka.Isolation.Level"):
        assert isolation({}, {name: "read_uncommitted"}) == ["read_uncommitted"]


def test_a_python_file_is_its_function_build(tmp_path: Path) -> None:
    text = "PIPELINE = {'dead_letters': 'dead'}\ndef build(p):\n    return p\n"
    found = load_pipeline(write(tmp_path, "orders_in_python.py", text), {"A": "1"})
    assert isinstance(found, Program)
    assert found.frame == frame_of("orders_in_python", {"dead_letters": "dead"})
    assert found.build("p") == "p"
    assert found.variables["A"] == "1"


def test_a_missing_file_is_a_sentence() -> None:
    with pytest.raises(BadPipeline, match=r"cannot read nowhere\.yaml: No such file"):
        load_pipeline("nowhere.yaml", {})


def test_without_pyspark_a_pipeline_in_python_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.cloudpickle", None)
    with pytest.raises(BadPipeline, match=r"pip install 'ottla\[spark\]'"):
        load_pipeline(write(tmp_path, "without_spark.py", "def build(p): pass"), {})


def test_without_pyspark_a_command_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("ottla.spark.pipelines.building")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.errors", None)
    described = load_pipeline(write(tmp_path, "any.yaml", YAML), {})
    with pytest.raises(Failure, match=r"pip install 'ottla\[spark\]'"), built(described):
        pytest.fail("there is no Spark")
