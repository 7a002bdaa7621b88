"""The key hash is Java's, bit for bit."""

from ottla.client.partitioner import partition_for_key


def test_every_length_of_a_key_hashes_to_some_partition_and_always_to_the_same() -> None:
    keys = [bytes(range(length)) for length in range(64)]
    placed = [partition_for_key(key, 7) for key in keys]
    assert placed == [partition_for_key(key, 7) for key in keys]
    assert set(placed) == set(range(7))


def test_a_negative_hash_gives_the_partition_java_gives() -> None:
    assert partition_for_key(b"21", 10) == (-973932308 & 0x7FFFFFFF) % 10
