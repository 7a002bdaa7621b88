"""Proves for random keyed histories that compaction keeps the last value of every key and every reader whole."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.disks.compacting import append, compact, compactor, latest_values, manual_world, open_log, read_from
from ottla.log.cleaning import CleanerLimits
from ottla.log.settings import LogSettings
from ottla.records.record import Record

KEYS = [b"a", b"b", b"c", b"d", b"e"]
PAIR = st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), st.binary(max_size=6)))
BATCH = st.tuples(
    st.lists(PAIR, min_size=1, max_size=6),
    st.integers(0, 4),  # compression
    st.sampled_from([None, 1, 2]),  # producer
    st.booleans(),  # roll afterwards
)
STEP = st.one_of(BATCH, st.integers(0, 3000))  # a batch, or so many milliseconds and a compaction


@settings(deadline=None, max_examples=60)
@given(steps=st.lists(STEP, min_size=1, max_size=25), map_keys=st.integers(8, 40), small=st.booleans())
def test_the_last_values_offsets_and_reads_are_the_same_after_compaction(
    steps: list[tuple[list[tuple[bytes, bytes | None]], int, int | None, bool] | int], map_keys: int, small: bool
) -> None:
    with TemporaryDirectory() as directory:
        world, clock = manual_world()
        log = open_log(
            world,
            Path(directory) / "log",
            LogSettings(
                cleanup_compact=True,
                cleanup_delete=False,
                min_cleanable_ratio=0.0,
                delete_retention_ms=2000,
                segment_bytes=600 if small else 1 << 20,
                index_interval_bytes=64,
            ),
        )
        work = compactor(world, CleanerLimits(map_bytes=24 * map_keys, buffer_bytes=256))
        written: dict[int, Record] = {}
        sequences = {1: 0, 2: 0}
        for step in [*steps, 0]:
            if isinstance(step, int):
                clock.now += step
                log.roll()
                compact(work, log, world)
                check(read_from(log, 0), written)
                for offset in range(log.end_offset):
                    assert read_from(log, offset) == [record for record in read_from(log, 0) if record.offset >= offset]
                continue
            pairs, compression, producer, rolls = step
            identity = (-1, -1, -1)
            if producer is not None:
                identity = (producer, 0, sequences[producer])
                sequences[producer] += len(pairs)
            base = append(log, pairs, compression=compression, timestamp=clock.now, producer=identity)
            for slot, (key, value) in enumerate(pairs):
                written[base + slot] = Record(base + slot, clock.now + slot, key, value)
            if rolls:
                log.roll()
        for producer, sequence in sequences.items():
            state = log.producers.state(producer)
            assert (state.last_sequence + 1 if state else 0) == sequence
        log.close()


def check(kept: list[Record], written: dict[int, Record]) -> None:
    """Nothing invented, nothing changed, no last value lost."""
    assert all(written[record.offset] == record for record in kept)
    assert [record.offset for record in kept] == sorted({record.offset for record in kept})
    assert latest_values(kept) == latest_values(written.values())
