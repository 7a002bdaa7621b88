"""A query's own record of its batches: what each took from its sources, and the watermark it ran with.

Owns: the form of the files below a checkpoint's `offsets`, and reading them wherever Spark keeps checkpoints. Never
knows: what is done with it. Invariants: a batch whose form is not known is an error that says so, never a guess.
"""

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VERSION = "v1"


class UnknownForm(Exception):
    """This Spark keeps its batches in another form."""


class BatchOffsets(NamedTuple):
    """Where a batch ended, source by source, and the watermark of the query while it ran."""

    watermark_ms: int
    ends: tuple[dict[str, Any] | None, ...]


def parse_batch(text: str) -> BatchOffsets:
    """A file of `offsets`: its version, the query's state, and a line for each source (`-` when it has none)."""
    lines = text.strip().splitlines()
    if len(lines) < 2 or lines[0].strip() != _VERSION:
        raise UnknownForm(f"the checkpoint's offsets have the form {lines[0] if lines else 'of nothing'!r}")
    told = [None if line.strip() == "-" else json.loads(line) for line in lines[2:]]
    ends = tuple(each if isinstance(each, dict) else None for each in told)  # a source of Spark's own may count rows
    return BatchOffsets(int(json.loads(lines[1])["batchWatermarkMs"]), ends)


class OffsetLog:
    """The batches of one checkpoint."""

    def __init__(self, spark: "SparkSession", checkpoint: str) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        self._batches: dict[int, BatchOffsets] = {}

    def batch(self, number: int) -> BatchOffsets | None:
        """None for one that is not there, or no longer."""
        if number not in self._batches:
            text = self._text(f"offsets/{number}")
            if text is None:
                return None
            self._batches = {key: each for key, each in self._batches.items() if key >= number - 2}
            self._batches[number] = parse_batch(text)
        return self._batches[number]

    def query_id(self) -> str:
        """What tells this query from others that had the same place; empty before its first start."""
        text = self._text("metadata")
        return "" if text is None else str(json.loads(text)["id"])

    def last_committed(self) -> int:
        """The newest batch that is done; -1 when there is none."""
        files, folder = self._folder("commits")
        if not files.exists(folder):
            return -1
        names = [status.getPath().getName() for status in files.listStatus(folder)]
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def _folder(self, name: str) -> tuple[Any, Any]:
        jvm = self._spark._jvm
        assert jvm is not None, "a session has a JVM"
        path = jvm.org.apache.hadoop.fs.Path(f"{self._checkpoint}/{name}")
        return path.getFileSystem(self._spark._jsc.hadoopConfiguration()), path

    def _text(self, name: str) -> str | None:
        files, path = self._folder(name)
        if not files.exists(path):
            return None
        jvm = self._spark._jvm
        assert jvm is not None, "a session has a JVM"
        stream = files.open(path)
        try:
            text: str = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return text
