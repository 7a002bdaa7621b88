"""Running a pipeline from the command line: here, or in the background.

Owns: Spark's session of the command, signals, the process in the background and its log. Never knows: options of the
command, how queries live (`spark.pipelines.running`). Invariants: a pipeline runs once on a machine; the first signal
lets batches end, the second ends at once; what goes wrong is one sentence.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.failures import Failure, explain
from ottla.cli.output import say, show_json_line
from ottla.client.errors import ClientError
from ottla.runtime.world import RealClock
from ottla.spark.pipelines.definition import BadPipeline, Definition
from ottla.spark.pipelines.files import Program
from ottla.spark.pipelines.places import PipelineDirectory
from ottla.spark.pipelines.registry import ALIVE, Board, missing_topics

if TYPE_CHECKING:
    from ottla.spark.pipelines.building import Pipeline
    from ottla.spark.pipelines.running import Run

_START_SECONDS = 180.0
_UTC = {"spark.sql.session.timeZone": "UTC"}


class RunRequest(NamedTuple):
    """What the command line asked for."""

    file: str
    described: Definition | Program
    assignments: list[str]
    master: str | None
    checkpoint: str | None
    once: bool
    seconds: float
    as_json: bool = False

    @property
    def name(self) -> str:
        return self.described.frame.name

    @property
    def servers(self) -> str:
        return self.described.frame.client["bootstrap.servers"]


class _Signals:
    """Ctrl-C and SIGTERM, once Spark is up: PySpark has its own way with them, which would cancel batches."""

    def __init__(self) -> None:
        self.asked = False
        self._run: Run | None = None

    def install(self) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, self._handle)

    def attach(self, run: "Run") -> None:
        """From here on a signal stops the run."""
        self._run = run
        if self.asked:
            run.stop()

    def _handle(self, _number: int, _frame: object) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.default_int_handler)
        self.asked = True
        if self._run is not None:
            self._run.stop()


@contextmanager
def built(
    described: Definition | Program, master: str | None = None, started: Callable[[], None] = lambda: None
) -> "Iterator[Pipeline]":
    """A pipeline on a session of its own; `started` is called when that is up."""
    try:
        from ottla.spark import start_session
        from ottla.spark.pipelines.building import build
    except ImportError as problem:
        raise Failure(f"pipelines run on Spark, and {problem.name} is missing: pip install 'ottla[spark]'") from None
    from ottla.spark.errors import NoJava

    frame = described.frame
    try:
        spark = start_session(f"ottla pipeline {frame.name}", master, _UTC | dict(frame.spark))
    except NoJava as problem:
        raise Failure(str(problem)) from None
    started()
    try:
        yield build(spark, described)
    except BadPipeline as problem:
        raise Failure("; ".join(problem.problems)) from problem
    finally:
        spark.stop()


def _tell(as_json: bool, sentence: str, event: str, **content: object) -> None:
    """Say what happened: a sentence, or for programs an object."""
    if as_json:
        show_json_line({"event": event, **content})
    else:
        say(sentence + "\n")


def run_here(wanted: RunRequest, logged: bool) -> None:
    """Run until the end."""
    place = PipelineDirectory(wanted.name)
    _check_free(wanted, place)
    place.claim(os.getpid(), "starting")
    try:
        _run(wanted, place, logged)
    finally:
        place.release()


def _run(wanted: RunRequest, place: PipelineDirectory, logged: bool) -> None:
    checkpoint = wanted.checkpoint or str(place.checkpoint)
    signals = _Signals()
    with built(wanted.described, wanted.master, signals.install) as pipeline:
        problems = pipeline.check()
        if problems:
            raise BadPipeline(problems)
        from ottla.spark.pipelines.running import Order, QueryFailed, Run, RunEvent
        from ottla.spark.pipelines.sentences import sentence_of

        def started() -> None:
            place.claim(os.getpid(), "running")
            queries = [output.sink.name for output in pipeline.outputs]
            until = "" if wanted.once else f"; stop it with 'ottla pipeline stop {wanted.name}'"
            sentence = f"pipeline {wanted.name} runs: {', '.join(queries)}; checkpoint {checkpoint}{until}"
            whole = {"pipeline": wanted.name, "queries": queries, "checkpoint": checkpoint, "pid": os.getpid()}
            _tell(wanted.as_json, sentence, "running", **whole)

        def heard(told: RunEvent) -> None:
            if told.batch is None:
                _tell(wanted.as_json, told.line, "note", pipeline=wanted.name, text=told.line)
            else:
                _tell(wanted.as_json, told.line, "batch", **told.batch)

        order = Order(os.path.abspath(wanted.file), checkpoint, wanted.once, str(place.log) if logged else "")
        run = Run(pipeline, order, heard, started)
        signals.attach(run)
        from pyspark.errors import PySparkException

        try:
            state = run.run()
        except ClientError as problem:
            raise Failure(explain(problem, wanted.servers)) from problem
        except QueryFailed as problem:
            raise Failure(str(problem)) from problem
        except PySparkException as problem:
            raise Failure(sentence_of(problem)) from problem
        _tell(wanted.as_json, f"pipeline {wanted.name} has {state}", "ended", pipeline=wanted.name, state=state)


def run_detached(wanted: RunRequest) -> None:
    """Start it in the background, wait until it runs, and say where it is."""
    place = PipelineDirectory(wanted.name)
    _check_free(wanted, place)
    place.make()
    command = [sys.executable, "-P", "-m", "ottla.cli.main", "pipeline", "run", wanted.file, "--logged"]
    command += ["--bootstrap", wanted.servers, "--timeout", str(wanted.seconds)]
    for assignment in wanted.assignments:
        command += ["--set", assignment]
    for option, value in (("--master", wanted.master), ("--checkpoint", wanted.checkpoint)):
        command += [option, value] if value else []
    command += ["--once"] if wanted.once else []
    with place.log.open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    deadline = RealClock().monotonic() + _START_SECONDS
    while RealClock().monotonic() < deadline:
        try:
            code = process.wait(0.1)
        except subprocess.TimeoutExpired:
            found = place.process()
            if found is not None and found["pid"] == process.pid and found["state"] == "running":
                whole = {"pipeline": wanted.name, "pid": process.pid, "log": str(place.log)}
                sentence = f"pipeline {wanted.name} runs in process {process.pid}; its log: {place.log}"
                _tell(wanted.as_json, sentence, "running", **whole)
                return
            continue
        if code == 0:
            whole = {"pipeline": wanted.name, "state": "finished", "log": str(place.log)}
            sentence = f"pipeline {wanted.name} has ended already; its log: {place.log}"
            _tell(wanted.as_json, sentence, "ended", **whole)
            return
        raise Failure(f"pipeline {wanted.name} did not start: {_last_words(place)} (log: {place.log})")
    raise Failure(f"pipeline {wanted.name} has not started within {_START_SECONDS:g} s; see {place.log}")


def _last_words(place: PipelineDirectory) -> str:
    lines = [line for line in place.log.read_text(errors="replace").splitlines() if line.startswith("ottla: ")]
    return lines[-1].removeprefix("ottla: ") if lines else "it said nothing"


def _check_free(wanted: RunRequest, place: PipelineDirectory) -> None:
    """Nobody runs it already, and the cluster is there: both are known before Spark is started."""
    mine = place.process()
    advice = f"stop it with 'ottla pipeline stop {wanted.name}', or give this one another name"
    if mine is not None and mine["pid"] != os.getpid():
        raise Failure(f"pipeline {wanted.name} runs already, in process {mine['pid']}; {advice}")
    client = {**wanted.described.frame.client, "default.api.timeout.ms": str(int(wanted.seconds * 1000))}
    try:
        if isinstance(wanted.described, Definition):
            _check_topics(client, wanted.described, wanted.seconds)
        with Board(client, wanted.seconds) as board:
            found = board.pipelines().get(wanted.name)
    except ClientError as problem:
        raise Failure(explain(problem, wanted.servers)) from problem
    from ottla.cli.pipeline_views import condition, now_ms

    if found is not None and condition(found, now_ms()) in ALIVE:
        raise Failure(f"pipeline {wanted.name} runs already, on {found['host']}; {advice}")


def _check_topics(client: Mapping[str, str], definition: Definition, seconds: float) -> None:
    named = [source for source in definition.sources if not source.option("subscribePattern")]
    names = {name.strip() for source in named for name in source.topics.split(",")}
    missing = missing_topics(client, sorted(names), seconds)
    if missing:
        raise Failure(f"topic {missing[0]!r} does not exist; 'ottla topic create {missing[0]}' makes it")
