"""The key hash is Java's, bit for bit, and the choices without key do what their names say."""

from collections import Counter

from ottla.client.partitioner import RoundRobin, Sticky, partition_for_key


class CountingRandom:
    """Draws 0, 1, 2… of the range, in turn."""

    def __init__(self) -> None:
        self.draws = 0

    def identity(self) -> bytes:
        return bytes(16)

    def uniform(self, low: float, high: float) -> float:
        self.draws += 1
        return low + (self.draws - 1) % (high - low)


def test_every_length_of_a_key_hashes_to_some_partition_and_always_to_the_same() -> None:
    keys = [bytes(range(length)) for length in range(64)]
    placed = [partition_for_key(key, 7) for key in keys]
    assert placed == [partition_for_key(key, 7) for key in keys]
    assert set(placed) == set(range(7))


def test_a_negative_hash_gives_the_partition_java_gives() -> None:
    assert partition_for_key(b"21", 10) == (-973932308 & 0x7FFFFFFF) % 10


def test_sticky_stays_until_its_batch_leaves_and_then_moves() -> None:
    choice = Sticky(CountingRandom())
    first = choice.choose("t", [0, 1, 2])
    assert [choice.choose("t", [0, 1, 2]) for _ in range(5)] == [first] * 5
    choice.batch_left("t", first + 1)
    assert choice.choose("t", [0, 1, 2]) == first
    choice.batch_left("t", first)
    assert choice.choose("t", [0, 1, 2]) != first


def test_sticky_leaves_a_partition_that_lost_its_leader() -> None:
    choice = Sticky(CountingRandom())
    first = choice.choose("t", [0, 1])
    assert choice.choose("t", [1 - first]) == 1 - first


def test_round_robin_gives_each_partition_its_share_topic_by_topic() -> None:
    choice = RoundRobin()
    assert Counter(choice.choose("t", [0, 2, 5]) for _ in range(9)) == {0: 3, 2: 3, 5: 3}
    assert choice.choose("u", [0, 2, 5]) == 0
