"""The partition of a key, equal to the Java client's so that every client puts a key into the same one.

Owns: the hash and its remainder. Never knows: records without key (`client.producer.partitioners`).
"""

from ottla.records.codec import murmur2

_POSITIVE = 0x7FFFFFFF


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of a key among so many."""
    return (murmur2(key) & _POSITIVE) % partitions
