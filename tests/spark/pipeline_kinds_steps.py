"""The step of pipeline_kinds.yaml that is written in Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle


class Totals(StatefulProcessor):
    """How many records of a name there were, and what they add up to."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._totals = handle.getValueState("totals", "count BIGINT, total BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        count, total = self._totals.get() or (0, 0)
        for row in rows:
            count, total = count + 1, total + row["amount"]
        self._totals.update((count, total))
        yield Row(name=key[0], count=count, total=total)

    def close(self) -> None:
        """Nothing is held."""


def running_totals(facts: DataFrame) -> DataFrame:
    output = "name STRING, count BIGINT, total BIGINT"
    return facts.groupBy("name").transformWithState(Totals(), output, "Append", "None")
