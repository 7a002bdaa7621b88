"""Tables sent as batches, without a Python object per row.

Owns: naming the columns, handing batches over as room appears, and the outcome of a whole table. Never knows: requests.
Needs pyarrow, which is an extra. Invariants: rows of one partition keep their order; the event loop is never held for
longer than it takes to make one batch.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.errors import BadRecord, BufferFull, RecordTooLarge
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.delivery import ProducerBatch
from ottla.client.producer.routes import Route
from ottla.client.producer.sender import Sender, Sending
from ottla.records.column_batches import BadColumns, Encoded, Format, Placement, encode_batches

if TYPE_CHECKING:
    import pyarrow as pa

LARGE_BATCH = 256 * 1024
"""All rows are there already, so nothing is won by small batches."""


class Columns(NamedTuple):
    """The table's names for what records have; None leaves it out."""

    key: str | None
    value: str | None
    timestamp: str | None
    headers: str | None
    partition: str | None


class PlacedRows(NamedTuple):
    """Rows of a table that stand one behind the other in a partition."""

    topic: str
    partition: int
    offset: int
    rows: int


class TableDelivery:
    """A table on its way. Await it for the places of its rows, or for the first error."""

    __slots__ = ("_batches", "rows")

    def __init__(self, batches: list[ProducerBatch], rows: int) -> None:
        self._batches = batches
        self.rows = rows

    def __await__(self) -> Generator[Any, None, tuple[PlacedRows, ...]]:
        placed: list[PlacedRows] = []
        waiting = list(reversed(self._batches))
        while waiting:
            batch = waiting.pop()
            if batch.moved is not None:
                parts = list(dict.fromkeys(part for part, _ in batch.moved))
                waiting.extend(reversed(parts))
            elif batch.done:
                where = batch.placed(0)
                placed.append(PlacedRows(where.topic, where.partition, where.offset, batch.count))
            else:
                waiter = asyncio.get_running_loop().create_future()
                batch.waiters.append(waiter)
                waiting.append(batch)
                yield from waiter
        return tuple(placed)


def named(table: "pa.Table | pa.RecordBatch", columns: Columns) -> "pa.Table | pa.RecordBatch":
    """The table with the columns that become records, under their own names."""
    found = [(wanted, given) for wanted, given in zip(Columns._fields, columns, strict=True) if given is not None]
    present = [(wanted, given) for wanted, given in found if given in table.schema.names]
    missing = [given for wanted, given in found if given != wanted and given not in table.schema.names]
    if missing or not present:
        names = ", ".join(table.schema.names) or "no columns"
        raise BadRecord(f"the table has no column {', '.join(missing) or 'of a record'}; it has {names}")
    chosen = table.select([given for _, given in present])
    return chosen.rename_columns([wanted for wanted, _ in present])


class Means(NamedTuple):
    """What of a producer a table needs."""

    accumulator: Accumulator
    sender: Sender
    sending: Sending
    now_ms: int
    block_seconds: float
    check: Callable[[], None]
    """Raises when nothing can be sent now."""


async def send_table(means: Means, route: Route, table: "pa.Table | pa.RecordBatch", columns: Columns) -> TableDelivery:
    """Hand over every row; returns when the last one is in the buffer."""
    accumulator, sender, sending = means.accumulator, means.sender, means.sending
    loop = asyncio.get_running_loop()
    largest = max(accumulator.limits.batch_bytes, min(LARGE_BATCH, accumulator.limits.buffer_bytes // 4))
    form = Format(min(largest, sending.request_bytes), sending.form.compression, sending.form.level)
    keyless = _turns(route)
    batches: list[ProducerBatch] = []
    try:
        encoded = encode_batches(named(table, columns), Placement(route.count, keyless), form, now=means.now_ms)
        for made in encoded:
            if len(made.data) > min(sending.request_bytes, accumulator.limits.buffer_bytes):
                raise RecordTooLarge(f"row {made.first_row} is larger than max.request.size")
            await _room(means, made)
            batch = accumulator.add_made(route.queues[made.partition], loop.time(), made.data, made.records_count)
            batches.append(batch)
            sender.wake()
            await asyncio.sleep(0)
    except BadColumns as problem:
        raise BadRecord(str(problem)) from None
    return TableDelivery(batches, table.num_rows)


def _turns(route: Route) -> list[int]:
    """Partitions for rows without key, beginning with the one whose turn it is."""
    available = list(route.available)
    first = route.sticky.number if route.sticky is not None else available[0]
    place = available.index(first) if first in available else 0
    return available[place:] + available[:place]


async def _room(means: Means, made: Encoded) -> None:
    deadline = asyncio.get_running_loop().time() + means.block_seconds
    while means.accumulator.free < len(made.data):
        means.sender.wake()
        if not await means.sender.progress(deadline):
            raise BufferFull(f"no room in buffer.memory for {means.block_seconds:g} seconds")
        means.check()
