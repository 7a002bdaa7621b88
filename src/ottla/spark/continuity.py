"""Whether a stream can go on where its checkpoint says it was.

Owns: telling a topic that was made again, a log that was cut and a partition that is gone from one that simply has more
to read, and where reading goes on then. Pure. Never knows: clusters, Spark, whether the user allows for loss.
Invariants: every partition of the checkpoint is judged; one that can go on is not among the breaks.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.spark.positions import Reached


class Onwards(Enum):
    """Where reading goes on when the user lets it."""

    WAIT = "at the same offset, should the partition come back"
    NOWHERE = "there is no such partition in the new topic"
    BEGINNING = "at the beginning of the log: it is another one"
    END = "at the end of the log, as Spark's Kafka source does: what is before it was read"


class Break(NamedTuple):
    """A partition that cannot go on where it was."""

    partition: TopicPartition
    said: str
    onwards: Onwards


# Which breaks there are, and what each means for the stream: design/0027.
def find_breaks(
    reached: Reached, ends: Mapping[TopicPartition, int], written: Mapping[TopicPartition, int], ids: Mapping[str, str]
) -> list[Break]:
    """What is wrong with going on. `written` is where logs end that end below their offset, open transactions included:
    a stream that reads committed records only may have read further before."""
    breaks = []
    for partition, offset in reached.offsets.items():
        was, now = reached.ids.get(partition.topic), ids.get(partition.topic)
        remade = was is not None and now is not None and was != now
        if partition not in ends:
            said = f"partition {partition} is gone, or no longer chosen; it was read up to {offset}"
            breaks.append(Break(partition, said, Onwards.NOWHERE if remade else Onwards.WAIT))
        elif remade:
            said = (
                f"topic {partition.topic} was made again, or the checkpoint is of another cluster: its id is {now} and "
                f"was {was}; {partition} was read up to {offset}, and the new one ends at {ends[partition]}"
            )
            breaks.append(Break(partition, said, Onwards.BEGINNING))
        elif written.get(partition, offset) < offset:
            said = (
                f"partition {partition} ends at {written[partition]}; it was read up to {offset}: it was cut or made "
                "again, or the checkpoint is of another cluster"
            )
            # without an id nobody knows which of it: rather twice than never
            breaks.append(Break(partition, said, Onwards.BEGINNING if was is None else Onwards.END))
    return breaks
