"""Dead letters in portions, and at places that queries had before."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.brokers.brokers import Broker
from kit.others.pipelines import Sent, committed, headers_of, make_topics, run_once, send
from ottla.spark.pipelines import dead_letters
from ottla.spark.pipelines.dead_letters import Desk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # PySpark leaves sockets to the collector
    pytest.mark.timeout(900),
]

PIPELINE = """
name: portions
dead_letters: ${TOPIC}-dead
sources:
  numbers: {topic: "${TOPIC}", format: json, schema: "n DECIMAL(4,2)", select: [n], starting: latest}
sinks:
  out: {from: numbers, parquet: "${FILES}"}
"""


class Killed(BaseException):
    """The process ended here."""


def test_dead_letters_are_written_portion_by_portion_each_once_and_never_those_of_a_query_before(
    spark: SparkSession, broker: Broker, tmp_path: Path, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = f"{broker.host}:{broker.port}"
    make_topics(servers, [topic])
    file = tmp_path / "portions.yaml"
    file.write_text(PIPELINE)
    given = {"TOPIC": topic, "FILES": str(tmp_path / "files")}
    checkpoint = tmp_path / "checkpoint"

    def put(*values: bytes) -> None:
        send(servers, [Sent(topic, b"k", value, 1) for value in values])

    def letters() -> list[bytes | None]:
        return [record.value for record in committed(servers, f"{topic}-dead")]

    def run() -> str:
        return run_once(spark, file, servers, checkpoint, **given)

    put(b"before the first query")
    assert run() == "finished"
    shutil.rmtree(checkpoint)
    put(b"between two queries")
    assert run() == "finished"
    assert letters() == [], "neither query has read any of these"

    wrong = [b"wrong %d" % each for each in range(5)]
    put(*wrong, b'{"n": 1.5}', b'{"n": 100}', b"wrong 6")
    wrong += [b'{"n": 100}', b"wrong 6"]
    monkeypatch.setattr(dead_letters, "_MOST_RECORDS", 3)
    write = Desk._write
    sizes: list[int] = []

    def dying(desk: Desk, batch: int, rows: list[Any], within: Any = None) -> None:
        if sizes:
            raise Killed
        sizes.append(len(rows))
        write(desk, batch, rows, within)

    with monkeypatch.context() as patched:
        patched.setattr(Desk, "_write", dying)
        with pytest.raises(Killed):
            run()
    assert 0 < sizes[0] <= 3
    assert letters() == wrong[: sizes[0]]
    for _ in range(2):
        assert run() == "finished"
        assert letters() == wrong
    assert {headers_of(record)["dead-letter.batch"] for record in committed(servers, f"{topic}-dead")} == {"1"}
