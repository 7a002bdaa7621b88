"""`ottla pipeline …` as people use it: one pipeline from its start in the background to its end, and mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.brokers.brokers import Broker
from kit.brokers.processes import until
from kit.others.pipelines import Sent, Shared, committed, make_topics, run_of, run_once, send, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # PySpark leaves sockets to the collector
    pytest.mark.timeout(900),
]

Command = Callable[..., subprocess.CompletedProcess[str]]

BACKGROUND = """
name: background
sources:
  lines: {topic: "${TOPIC}", options: {maxOffsetsPerTrigger: 1000}}
steps:
  louder: SELECT key, upper(CAST(value AS STRING)) AS value FROM lines
  counts: SELECT CAST(key AS STRING) AS name, count(*) AS count FROM lines GROUP BY key
sinks:
  louder: {from: louder, topic: "${TOPIC}-louder", format: raw}
  counts: {from: counts, topic: "${TOPIC}-counts", key: name, mode: update}
"""


@pytest.fixture
def command(tmp_path: Path, broker: Broker) -> Command:
    """Runs `ottla pipeline …` with a state directory of the test's own."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}

    def run(*arguments: str, bootstrap: bool = True) -> subprocess.CompletedProcess[str]:
        program = Path(sys.executable).with_name("ottla")
        more = ["--bootstrap", f"{broker.host}:{broker.port}", "--timeout", "120"] if bootstrap else []
        return subprocess.run(
            [str(program), "pipeline", *arguments, *more],
            check=False,
            capture_output=True,
            text=True,
            env=environment,
            timeout=600,
        )

    return run


def documents(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_a_pipeline_in_the_background_is_watched_and_stopped(
    tmp_path: Path, broker: Broker, command: Command, topic: str
) -> None:
    servers = f"{broker.host}:{broker.port}"
    make_topics(servers, [topic])
    file = tmp_path / "background.yaml"
    file.write_text(BACKGROUND)
    started = command("run", str(file), "--detach", "--set", f"TOPIC={topic}", "--master", "local[2]")
    assert started.returncode == 0, started.stderr
    assert "pipeline background runs in process" in started.stdout
    try:
        send(servers, (Sent(topic, b"k%d" % (each % 2), b"v%d" % each, 1_700_000_000_000) for each in range(10)))

        def rows_are_told() -> bool:
            found = documents(command("status", "background", "--json"))[0]
            batches = {query["query"]: query["batch"] for query in found["queries"]}
            return found["state"] == "running" and batches.keys() == {"louder", "counts"}

        until(rows_are_told, "progress of both queries", 400)
        table = command("status", "background")
        assert table.returncode == 0
        assert table.stdout.splitlines()[0].split()[:3] == ["PIPELINE", "STATE", "QUERY"]
        assert {line.split()[2] for line in table.stdout.splitlines()[1:3]} == {"louder", "counts"}
        again = command("run", str(file), "--set", f"TOPIC={topic}")
        assert again.returncode == 1
        assert "pipeline background runs already, in process" in again.stderr
        until(lambda: len(values_of(servers, f"{topic}-louder")) >= 10, "what it wrote", 240)
        until(lambda: counted(servers, topic) == {"k0": 5, "k1": 5}, "what it counted", 240)
        listed = {each["name"]: each for each in documents(command("list", "--json"))}
        assert listed["background"]["state"] == "running"
    finally:
        stopped = command("stop", "background")
    assert stopped.stdout == "pipeline background has stopped\n", stopped.stderr
    assert sorted(values_of(servers, f"{topic}-louder")) == [f"V{each}" for each in range(10)]
    assert counted(servers, topic) == {"k0": 5, "k1": 5}
    listed = {each["name"]: each for each in documents(command("list", "--json"))}
    assert listed["background"]["state"] == "stopped"
    followed = command("status", "background", "--follow")
    assert "background/louder: batch" in followed.stdout
    logs = command("logs", "background", "--follow")
    assert "pipeline background runs: louder, counts; checkpoint" in logs.stdout
    assert logs.stdout.endswith("pipeline background has stopped\n")
    assert command("stop", "background").stdout == "pipeline background does not run: it is stopped\n"


def counted(servers: str, topic: str) -> dict[str, int]:
    """The newest count of each name."""
    return {row["name"]: row["count"] for row in values(servers, f"{topic}-counts")}


def values_of(servers: str, topic: str) -> list[str]:
    return [(record.value or b"").decode() for record in committed(servers, topic)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stop", "nobody"], "no pipeline 'nobody' has run on this cluster"),
        (["status", "nobody"], "no pipeline 'nobody' has run on this cluster"),
        (["logs", "nobody"], "no pipeline 'nobody' has run on this cluster"),
    ],
)
def test_an_unknown_pipeline_is_a_sentence(command: Command, arguments: list[str], said: str) -> None:
    done = command(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_mistakes_in_a_file_are_told_before_spark_is_started(tmp_path: Path, command: Command) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("sources: {a: {topic: t}}\nsinks: {out: {from: b, topic: t, mod: append}}\n")
    done = command("check", str(file), bootstrap=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"ottla: {file} has 2 problems:",
        "  sink out has no key 'mod'; did you mean mode?",
        "  sink out is made from b, which is no source, table or step",
    ]
    assert command("run", str(file), "--set", "X").returncode == 2


def test_a_topic_that_is_not_there_is_told_before_spark_is_started(tmp_path: Path, command: Command) -> None:
    file = tmp_path / "missing.yaml"
    file.write_text("sources: {a: {topic: nowhere-at-all}}\nsinks: {out: {from: a, screen: true}}\n")
    done = command("run", str(file))
    assert done.returncode == 1
    assert done.stderr == "ottla: topic 'nowhere-at-all' does not exist; 'ottla topic create nowhere-at-all' makes it\n"


def test_the_plan_of_a_file_is_drawn_without_spark_or_broker(tmp_path: Path, command: Command) -> None:
    file = tmp_path / "background.yaml"
    file.write_text(BACKGROUND)
    drawn = command("plan", str(file), "--set", "TOPIC=t", bootstrap=False)
    assert drawn.stdout.splitlines() == [
        "sink louder: topic t-louder, raw, append, exactly-once",
        "└─ step louder: SQL",
        "   └─ source lines: topic t",
        "sink counts: topic t-counts, json, update, at-least-once",
        "└─ step counts: SQL",
        "   └─ source lines: topic t",
    ]
    nodes = json.loads(command("plan", str(file), "--set", "TOPIC=t", "--json", bootstrap=False).stdout)["nodes"]
    assert [node["name"] for node in nodes] == ["lines", "louder", "counts", "louder", "counts"]


# --- in one process, on the session that the tests share --------------------------------------------------------------


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def inside(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process: its exit code, and what it printed or failed with."""
    import typer

    import ottla.spark
    from ottla.cli import pipeline
    from ottla.cli.failures import Failure

    monkeypatch.setattr(ottla.spark, "start_session", lambda *_: Shared(spark))

    def run(*arguments: str) -> tuple[int, str]:
        try:
            typer.main.get_command(pipeline.app)(list(arguments), standalone_mode=False)
        except Failure as problem:
            return 1, str(problem)
        return 0, capsys.readouterr().out

    return run


TYPED = """
sources:
  orders:
    topic: orders
    format: json
    schema: id STRING, cents BIGINT, time TIMESTAMP
    watermark: {{column: time, delay: 1 minute}}
steps:
  totals: {sql}
sinks:
  out: {{from: totals, topic: out}}
"""


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT id, cents FROM orders", "is fine: 1 sources and tables, 1 sinks"),
        ("SELECT centz FROM orders", "step totals: A column, variable, or function parameter with name `centz`"),
        ("SELECT id FROM order", "step totals: The table or view `order` cannot be found"),
        ("SELEC id FROM orders", "step totals: Syntax error at or near 'SELEC'"),
        ("SELECT id, sum(cents) AS s FROM orders GROUP BY id", "sink out: Invalid streaming output mode: append"),
    ],
)
def test_sql_is_checked_against_the_schemas_without_a_broker(tmp_path: Path, inside: Run, sql: str, said: str) -> None:
    file = tmp_path / "typed.yaml"
    file.write_text(TYPED.format(sql=sql))
    code, told = inside("check", str(file))
    assert said in told
    assert code == (0 if "fine" in said else 1)


def test_with_a_cluster_named_check_also_looks_for_the_topics(tmp_path: Path, inside: Run, broker: Broker) -> None:
    file = tmp_path / "typed.yaml"
    file.write_text(TYPED.format(sql="SELECT id FROM orders").replace("topic: orders", "topic: nowhere-at-all"))
    code, told = inside("check", str(file), "--bootstrap", f"{broker.host}:{broker.port}")
    assert (code, "topic 'nowhere-at-all' does not exist" in told) == (1, True)


IN_PYTHON = """
from pyspark.sql import functions

PIPELINE = {"trigger": "1 second"}


def build(p):
    orders = p.source(
        "orders", topic="orders", format="json", schema="id STRING, customer STRING", select=["id", "customer"]
    )
    customers = p.table(
        "customers", topic="people", format="json", schema="customer STRING, city STRING", select=["customer", "city"]
    )
    joined = p.step("joined", orders.join(customers, "customer"))
    louder = p.step("louder", p.sql("SELECT id, upper(city) AS city FROM joined"))
    p.sink("out", louder.where(functions.col("city").isNotNull()), topic="out", key="id")
"""


def test_a_pipeline_in_python_is_planned_and_checked(tmp_path: Path, inside: Run) -> None:
    file = tmp_path / "in_python.py"
    file.write_text(IN_PYTHON)
    code, told = inside("plan", str(file))
    assert told.splitlines() == [
        "sink out: topic out, json, append, exactly-once",
        "└─ step louder: Python",
        "   └─ step joined: Python",
        "      ├─ table customers: topic people, json",
        "      └─ source orders: topic orders, json",
    ]
    assert code == 0
    assert inside("check", str(file)) == (0, f"{file} is fine: 2 sources and tables, 1 sinks\n")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("orders.nothing()", "build(p): "),
        ("undefined", "build(p): line 6: NameError: name 'undefined' is not defined"),
        ("p.sink('x', orders, topik='t')", "sink x has no key 'topik'; did you mean topic?"),
        ("p.source('orders', topic='t')", "orders is there twice"),
    ],
)
def test_mistakes_in_python_are_sentences_with_their_line(tmp_path: Path, inside: Run, line: str, said: str) -> None:
    file = tmp_path / "mistaken.py"
    file.write_text(f"# a pipeline\n\n\ndef build(p):\n    orders = p.source('orders', topic='o')\n    {line}\n")
    code, told = inside("check", str(file))
    assert code == 1
    assert said in told
    assert len(told.splitlines()) == 1


SLOW_STEP = """
import threading
from pathlib import Path


def wait_for_a_sign(frame):
    place = Path(__file__).parent

    def work(batches):
        for batch in batches:
            (place / "begun").touch()
            pause = threading.Event()
            for _ in range(2400):
                if (place / "go").exists():
                    break
                pause.wait(0.1)
            yield batch

    return frame.mapInArrow(work, frame.schema)
"""

SLOW = """
name: slow
sources:
  lines: {topic: "${TOPIC}", select: [value]}
steps:
  slowly: {from: lines, python: "slow_step_of_pipeline:wait_for_a_sign"}
sinks:
  out: {from: slowly, parquet: "${FILES}"}
"""


def test_a_stop_lets_the_batch_that_runs_come_to_its_end(
    spark: SparkSession, broker: Broker, tmp_path: Path, topic: str
) -> None:
    servers = f"{broker.host}:{broker.port}"
    make_topics(servers, [topic])
    (tmp_path / "slow_step_of_pipeline.py").write_text(SLOW_STEP)
    file = tmp_path / "slow.yaml"
    file.write_text(SLOW)
    send(servers, [Sent(topic, b"k", b"v", 1)])
    given = {"TOPIC": topic, "FILES": str(tmp_path / "files")}
    run = run_of(spark, file, servers, tmp_path / "checkpoint", once=False, **given)
    with ThreadPoolExecutor(1) as threads:
        ended = threads.submit(run.run)
        try:
            until(lambda: (tmp_path / "begun").exists() or ended.done(), "the first batch", 240)
        finally:
            run.stop()
            (tmp_path / "go").touch()
        assert ended.result(240) == "stopped"
    assert [bytes(row.value) for row in spark.read.parquet(str(tmp_path / "files")).collect()] == [b"v"]


FRAGILE = """
name: fragile
dead_letters: ${TOPIC}-dead
sources:
  numbers: {topic: "${TOPIC}", format: json, schema: n BIGINT, select: [n]}
sinks:
  out: {from: numbers, parquet: "${FILES}"}
"""


LATE_STEP = """
from pathlib import Path


def late_once(frame):
    place = Path(__file__).parent

    def work(batches):
        if not (place / "late").exists():
            (place / "late").touch()
            raise RuntimeError("Python worker failed to connect back.")  # as Spark says it on a busy machine
        yield from batches

    return frame.mapInArrow(work, frame.schema)
"""


def test_dead_letters_of_a_batch_after_which_the_process_died_are_written_at_the_next_start(
    spark: SparkSession, broker: Broker, tmp_path: Path, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ottla.spark.pipelines.dead_letters import Desk

    class Killed(BaseException):
        """The process ended here."""

    def die(desk: Desk, batch: int) -> None:
        raise Killed

    servers = f"{broker.host}:{broker.port}"
    make_topics(servers, [topic])
    (tmp_path / "late_step_of_pipeline.py").write_text(LATE_STEP)
    file = tmp_path / "fragile.yaml"
    late = 'steps:\n  late: {from: numbers, python: "late_step_of_pipeline:late_once"}\nsinks:'
    file.write_text(FRAGILE.replace("sinks:", late).replace("from: numbers, parquet", "from: late, parquet"))
    given = {"TOPIC": topic, "FILES": str(tmp_path / "files")}
    send(servers, [Sent(topic, b"k", value, 1) for value in (b'{"n": 1}', b'{"n": ', b'{"n": 2}')])
    with monkeypatch.context() as dying:
        dying.setattr(Desk, "look_at", die)
        with pytest.raises(Killed):
            run_once(spark, file, servers, tmp_path / "checkpoint", **given)
    assert (tmp_path / "late").exists(), "a worker was late, and the query was started again"
    assert values_of(servers, f"{topic}-dead") == []
    for _ in range(2):
        assert run_once(spark, file, servers, tmp_path / "checkpoint", **given) == "finished"
        assert values_of(servers, f"{topic}-dead") == ['{"n": ']
    assert sorted(row.n for row in spark.read.parquet(str(tmp_path / "files")).collect()) == [1, 2]


def test_without_dead_letters_what_cannot_be_decoded_ends_the_pipeline_with_a_sentence(
    spark: SparkSession, broker: Broker, tmp_path: Path, topic: str
) -> None:
    from ottla.spark.pipelines.running import QueryFailed

    servers = f"{broker.host}:{broker.port}"
    make_topics(servers, [topic])
    file = tmp_path / "strict.yaml"
    file.write_text(FRAGILE.replace("dead_letters: ${TOPIC}-dead\n", "").replace("fragile", "strict"))
    send(servers, [Sent(topic, b"k", b'{"n": ', 1)])
    with pytest.raises(QueryFailed, match=r"query out: .*mode=PERMISSIVE") as failure:
        run_once(spark, file, servers, tmp_path / "checkpoint", TOPIC=topic, FILES=str(tmp_path / "files"))
    assert "\n" not in str(failure.value)
