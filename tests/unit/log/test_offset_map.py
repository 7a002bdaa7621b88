"""Proves that the offset map remembers the last offset of each key within the memory it was given."""

from ottla.log.offset_map import ENTRY_SIZE, OffsetMap


def test_the_last_offset_of_each_key_is_found() -> None:
    offsets = OffsetMap(1000)
    for offset in range(3000):
        assert offsets.put(b"key-%d" % (offset % 1000), offset)
    assert offsets.size == 1000
    assert [offsets.get(b"key-%d" % number) for number in range(1000)] == list(range(2000, 3000))


def test_an_unknown_key_has_no_offset_even_in_a_full_map() -> None:
    offsets = OffsetMap(50, load_factor=1.0)
    for offset in range(50):
        offsets.put(b"%d" % offset, offset)
    assert all(offsets.get(b"x%d" % number) == -1 for number in range(200))


def test_a_full_map_refuses_new_keys_and_still_takes_known_ones() -> None:
    offsets = OffsetMap(2)
    assert offsets.put(b"a", 0)
    assert offsets.put(b"b", 1)
    assert not offsets.put(b"c", 2)
    assert offsets.put(b"a", 3)
    assert (offsets.get(b"a"), offsets.get(b"b"), offsets.get(b"c"), offsets.size) == (3, 1, -1, 2)


def test_an_empty_key_is_a_key_and_offset_zero_an_offset() -> None:
    offsets = OffsetMap(2)
    offsets.put(b"", 0)
    assert offsets.get(b"") == 0
    assert offsets.get(b"\0") == -1


def test_what_memory_affords_fits_in_it() -> None:
    capacity = OffsetMap.affordable(4096, 0.9)
    offsets = OffsetMap(capacity, 0.9)
    assert 140 < capacity < 4096 / ENTRY_SIZE
    assert len(offsets._table) <= 4096
