"""The last offset of each key, in a fixed budget of memory.

Owns: an open-addressing table of 24-byte entries (MD5 of the key, offset) in one buffer. Never knows: records, logs.
Invariants: the buffer never grows; nothing is ever removed; keys are told apart by their digest alone, as Kafka's
cleaner does (two keys with the same 128 bits would be taken for one).
"""

from hashlib import md5
from struct import Struct

ENTRY_SIZE = 24
DIGEST_SIZE = 16
RANDOM_PROBES = 16  # after so many jumps a crowded table is searched slot by slot, so every free slot is found

_EMPTY = bytes(DIGEST_SIZE)
_HALVES = Struct(">QQ")
_OFFSET = Struct(">q")


class OffsetMap:
    """Key → offset for up to `capacity` keys."""

    __slots__ = ("_slots", "_table", "capacity", "size")

    def __init__(self, capacity: int, load_factor: float = 0.9) -> None:
        assert 0 < load_factor <= 1
        self.capacity = max(capacity, 1)
        self.size = 0
        # One slot more than keys, so that looking for an absent key always ends at a free one.
        self._slots = int(self.capacity / load_factor) + 1
        self._table = bytearray(self._slots * ENTRY_SIZE)

    @staticmethod
    def affordable(memory: int, load_factor: float) -> int:
        """How many keys fit in so many bytes."""
        return int((memory // ENTRY_SIZE - 1) * load_factor)

    def put(self, key: bytes, offset: int) -> bool:
        """Remember the offset; False when the key is new and the map is full."""
        digest = md5(key, usedforsecurity=False).digest()
        table = self._table
        position = _HALVES.unpack(digest)[0] % self._slots * ENTRY_SIZE
        if table[position : position + DIGEST_SIZE] != digest:
            position, found = self._probe(digest)
            if not found:
                if self.size == self.capacity:
                    return False
                self.size += 1
                table[position : position + DIGEST_SIZE] = digest
        _OFFSET.pack_into(table, position + DIGEST_SIZE, offset)
        return True

    def get(self, key: bytes) -> int:
        """The offset last put for the key, or -1."""
        digest = md5(key, usedforsecurity=False).digest()
        table = self._table
        position = _HALVES.unpack(digest)[0] % self._slots * ENTRY_SIZE
        if table[position : position + DIGEST_SIZE] != digest:
            position, found = self._probe(digest)
            if not found:
                return -1
        return _OFFSET.unpack_from(table, position + DIGEST_SIZE)[0]  # type: ignore[no-any-return]

    def _probe(self, digest: bytes) -> tuple[int, bool]:
        """Where the digest is (True) or belongs (False)."""
        table = self._table
        slots = self._slots
        slot, step = _HALVES.unpack(digest)
        attempt = 0
        while True:
            slot %= slots
            position = slot * ENTRY_SIZE
            entry = table[position : position + DIGEST_SIZE]
            if entry == digest:
                return position, True
            if entry == _EMPTY:
                return position, False
            attempt += 1
            slot += step if attempt < RANDOM_PROBES else 1
