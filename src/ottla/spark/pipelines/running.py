"""A pipeline at work: its queries, what they tell the world, and how they end.

Owns: starting and stopping queries, publishing progress, listening to requests, dead letters batch after batch. Never
knows: the command line. Invariants: one thread; a stop lets the batches that run end; when one query fails, the others
are stopped and the pipeline has failed, with one sentence; whatever the end, the registry hears of it.
"""

import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.errors import PySparkException

from ottla.client.errors import ClientError
from ottla.runtime.world import RealClock
from ottla.spark.pipelines.building import Output, Pipeline
from ottla.spark.pipelines.dead_letters import Desk
from ottla.spark.pipelines.lag import Ages
from ottla.spark.pipelines.progress import behind, document, dropped, line_of, undecodable
from ottla.spark.pipelines.registry import (
    FAILED,
    FINISHED,
    PIPELINES,
    PROGRESS,
    REQUEST,
    RUNNING,
    STARTING,
    STOP,
    STOPPED,
    Board,
    Document,
    Publisher,
    create_topics,
    read_notes,
)
from ottla.spark.pipelines.sentences import sentence_of
from ottla.spark.pipelines.workers import ATTEMPTS, is_late_worker, patiently

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_SECONDS = 0.25
_HEARTBEAT_SECONDS = 5.0
_START_SECONDS = 60.0
_END_SECONDS = 120.0
"""How long a batch may take to end after a request to stop."""


class Order(NamedTuple):
    """How a pipeline is to run."""

    file: str
    checkpoint: str
    once: bool
    log: str
    """Where its log is on this machine; empty when it goes to a terminal."""


class RunEvent(NamedTuple):
    """Something that happened: a line for people, and what the registry hears where it is a batch."""

    line: str
    batch: Document | None = None


class _Running:
    """One query."""

    def __init__(self, output: Output, start: "Callable[[], StreamingQuery]", desk: Desk | None) -> None:
        self.name = output.sink.name
        self._start = start
        self.query = start()
        self.starts = 1
        self.desk = desk
        self.batch = -1
        self.moment = ""
        self.last: Document | None = None

    def start_again(self) -> None:
        """From the checkpoint."""
        self.query = self._start()
        self.starts += 1

    def is_reading(self) -> bool:
        """Its sources are up, or it has ended."""
        status = self.query.status
        initializing = str(status["message"]).startswith("Initializing")
        return bool(status["isTriggerActive"]) or not initializing or not self.query.isActive

    def news(self) -> list[dict[str, Any]]:
        """Progress that was not seen yet; of batches between two looks none is left out."""
        last: Any = self.query.lastProgress
        if last is None or (last["batchId"], last["timestamp"]) == (self.batch, self.moment):
            return []
        found: list[Any] = [last]
        if last["batchId"] > self.batch + 1:
            found = [each for each in self.query.recentProgress if each["batchId"] > self.batch] or found
        self.batch, self.moment = last["batchId"], last["timestamp"]
        return [json.loads(each.json) for each in found]


class Run:
    """A pipeline from its start to its end.

    `tell` hears of what happens; `started` is called when all queries run.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        order: Order,
        tell: Callable[[RunEvent], None],
        started: Callable[[], None] = lambda: None,
    ) -> None:
        self._pipeline = pipeline
        self._order = order
        self._tell = tell
        self._when_started = started
        self._clock = RealClock()
        self._name = pipeline.frame.name
        self._running: list[_Running] = []
        self._stopping = threading.Event()
        self._started_ms = self._clock.now_ms()
        self._heartbeat = 0.0
        self._state = STARTING

    def stop(self) -> None:
        """Let the batches that run end, then end; from any thread, or a signal's handler."""
        self._stopping.set()

    def run(self) -> str:
        """Run until the end and return how it ended; a failure is raised after the registry heard of it."""
        client = self._pipeline.frame.client
        places = [output.sink.place for output in self._pipeline.outputs if output.sink.kind == "topic"]
        create_topics(client, filter(None, [*places, self._pipeline.frame.dead_letters]))
        with ExitStack() as cleanup:
            self._publisher = cleanup.enter_context(Publisher(client))
            self._board = cleanup.enter_context(Board(client))
            self._ages = Ages(client)
            cleanup.callback(self._ages.close)
            self._publisher.put(PIPELINES, f"{self._name}/{REQUEST}", None)
            self._register(STARTING)
            try:
                self._start()
                self._register(RUNNING)
                self._when_started()
                state = self._live()
            except (PySparkException, ClientError, QueryFailed) as problem:
                self._end_all()
                self._finish(FAILED, sentence_of(problem))
                raise
            except BaseException:
                self._end_all()
                self._finish(FAILED, "it was interrupted")
                raise
            self._finish(state, "")
            return state

    # --- beginning ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        places = [f"{self._order.checkpoint.rstrip('/')}/{each.sink.name}" for each in self._pipeline.outputs]
        for output, checkpoint, desk in zip(self._pipeline.outputs, places, self._desks(places), strict=True):
            writer = self._pipeline.writer(output, checkpoint, self._order.once)
            running = _Running(output, lambda writer=writer: patiently(writer.start), desk)  # type: ignore[misc]
            self._running.append(running)
            self._until_reading(running)

    def _desks(self, checkpoints: list[str]) -> list[Desk | None]:
        """Of a source that several queries read, the first tells what cannot be decoded."""
        if not self._pipeline.frame.dead_letters:
            return [None for _ in checkpoints]
        told: set[str] = set()
        desks: list[Desk | None] = []
        for output, checkpoint in zip(self._pipeline.outputs, checkpoints, strict=True):
            mine = {name for name in output.views if name in self._pipeline.sources} - told
            told |= mine
            desks.append(Desk(self._pipeline, output, checkpoint, frozenset(mine)))
        notes = read_notes(self._pipeline.frame.client)  # after each desk has ended what its forerunner left open
        for desk in filter(None, desks):
            desk.recover(notes.get(desk.key))
        return desks

    def _until_reading(self, running: _Running) -> None:
        """One after the other: each source is a new process, and many at once are late."""
        pause = threading.Event()
        deadline = self._clock.monotonic() + _START_SECONDS
        while not running.is_reading() and self._clock.monotonic() < deadline and not self._stopping.is_set():
            self._stay_in_touch()
            pause.wait(0.05)

    # --- living -------------------------------------------------------------------------------------------------------

    def _live(self) -> str:
        pause = threading.Event()
        while True:
            active = any(each.query.isActive for each in self._running)
            for each in self._running:
                self._look_at(each)
            if not self._check() and not active:
                return FINISHED
            self._board.refresh(0)
            if self._stopping.is_set() or self._is_asked_to_stop():
                self._tell(RunEvent(f"stopping {self._name}: the batches that run come to their end"))
                self._end_gently()
                return STOPPED
            self._stay_in_touch()
            pause.wait(_LOOK_SECONDS)

    def _stay_in_touch(self) -> None:
        """Be heard of, also while there is nothing to tell."""
        if self._clock.monotonic() - self._heartbeat > _HEARTBEAT_SECONDS:
            self._register(self._state)

    def _look_at(self, each: _Running) -> None:
        for progress in each.news():
            self._see_to_dead_letters(each, progress)
            waiting = behind(progress)
            age = self._ages.oldest_seconds(waiting)
            each.last = document(self._name, each.name, progress, age, self._clock.now_ms())
            each.last["dead_letters"] = each.desk.written if each.desk else None
            self._publisher.put(PROGRESS, f"{self._name}/{each.name}", each.last)
            if each.last["input_rows"]:
                self._tell(RunEvent(line_of(each.last), each.last))

    def _see_to_dead_letters(self, each: _Running, progress: dict[str, Any]) -> None:
        if each.desk is not None:
            each.desk.hear_of(progress["batchId"], bool(dropped(progress) or undecodable(progress)))

    def _check(self) -> bool:
        """Whether a query had to be started again; QueryFailed when one cannot be."""
        again = False
        for each in self._running:
            problem = each.query.exception()
            if is_late_worker(problem) and each.starts < ATTEMPTS:
                self._tell(RunEvent(f"{each.name}: a Python worker of Spark was late; starting the query again"))
                each.start_again()
                self._until_reading(each)
                again = True
            elif problem is not None:
                raise QueryFailed(f"query {each.name}: {sentence_of(problem)}")
        return again

    def _is_asked_to_stop(self) -> bool:
        request = self._board.request(self._name)
        return request is not None and request.get("request") == STOP and request.get("time", 0) >= self._started_ms

    # --- ending -------------------------------------------------------------------------------------------------------

    def _end_gently(self) -> None:
        """Each query ends when the batch that it runs now is done."""
        waiting = {each: each.batch for each in self._running if each.query.status["isTriggerActive"]}
        deadline = self._clock.monotonic() + _END_SECONDS
        pause = threading.Event()
        for each in self._running:
            if each not in waiting:
                each.query.stop()
        while waiting and self._clock.monotonic() < deadline:
            self._stay_in_touch()
            for each, batch in list(waiting.items()):
                self._look_at(each)
                busy = each.query.isActive and each.query.status["isTriggerActive"]
                if each.batch > batch or not busy:
                    each.query.stop()
                    del waiting[each]
            pause.wait(0.02)
        self._end_all()
        for each in self._running:
            self._look_at(each)

    def _end_all(self) -> None:
        for each in self._running:
            if each.query.isActive:
                each.query.stop()

    def _finish(self, state: str, problem: str) -> None:
        for each in self._running:
            if each.desk is not None:
                if state != FAILED:
                    each.desk.catch_up()
                    each.desk.remember()
                each.desk.close()
            if each.last is not None:
                ended = {**each.last, "state": state, "time": self._clock.now_ms()}
                self._publisher.put(PROGRESS, f"{self._name}/{each.name}", ended)
        self._register(state, problem)
        self._publisher.flush()

    def _register(self, state: str, problem: str = "") -> None:
        self._state = state
        self._heartbeat = self._clock.monotonic()
        self._publisher.put(
            PIPELINES,
            self._name,
            {
                "name": self._name,
                "state": state,
                "problem": problem or None,
                "time": self._clock.now_ms(),
                "started": self._started_ms,
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "file": self._order.file,
                "checkpoint": self._order.checkpoint,
                "log": self._order.log or None,
                "master": self._pipeline.spark.sparkContext.master,
                "once": self._order.once,
                "queries": [output.sink.name for output in self._pipeline.outputs],
                "dead_letters": self._pipeline.frame.dead_letters or None,
            },
        )
        self._publisher.flush()


class QueryFailed(Exception):
    """A query ended by itself; the sentence says which and why."""
