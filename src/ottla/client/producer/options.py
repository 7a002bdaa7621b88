"""A producer's settings in the shapes that its parts take.

Owns: which setting goes where, and the words for serializers and partitioners. Never knows: how settings were given.
"""

from collections.abc import Callable, Sequence
from typing import cast

from ottla.base.ports import Random
from ottla.client.errors import InvalidSetting
from ottla.client.producer.accumulator import BufferLimits
from ottla.client.producer.encoding import BatchForm
from ottla.client.producer.partitioners import Chance, KeyOrChance, Partitioner, RoundRobin
from ottla.client.producer.routes import Choice
from ottla.client.producer.sender import Sending
from ottla.client.producer.serializers import WORDS, Serialization
from ottla.client.producer.topics import Ages
from ottla.client.retry import Pauses
from ottla.client.settings import Settings
from ottla.records.compression import Compression

_LEVELS = {Compression.GZIP, Compression.LZ4, Compression.ZSTD}


def limits_of(settings: Settings) -> BufferLimits:
    return BufferLimits(
        batch_bytes=settings.integer("batch.size"),
        buffer_bytes=settings.integer("buffer.memory"),
        linger=settings.seconds("linger.ms"),
        delivery=settings.seconds("delivery.timeout.ms"),
    )


def sending_of(settings: Settings) -> Sending:
    acks = settings.text("acks")
    compression = Compression[settings.text("compression.type").upper()]
    level = settings.integer(f"compression.{compression.name.lower()}.level") if compression in _LEVELS else None
    transactional_id = settings.text_or_none("transactional.id")
    return Sending(
        acks=-1 if acks == "all" else int(acks),
        form=BatchForm(compression, level, transactional_id is not None),
        request_bytes=settings.integer("max.request.size"),
        in_flight=settings.integer("max.in.flight.requests.per.connection"),
        retries=settings.integer("retries"),
        request_seconds=settings.seconds("request.timeout.ms"),
        reconnect=Pauses(settings.seconds("reconnect.backoff.ms"), settings.seconds("reconnect.backoff.max.ms")),
        transactional_id=transactional_id,
        transaction_ms=settings.integer("transaction.timeout.ms"),
    )


def ages_of(settings: Settings) -> Ages:
    return Ages(
        old=settings.seconds("metadata.max.age.ms"),
        idle=settings.seconds("metadata.max.idle.ms"),
        question=settings.seconds("request.timeout.ms"),
    )


def choice_of(settings: Settings, random: Random) -> Choice:
    return Choice(
        random,
        _partitioner(settings, random),
        ignore_keys=settings.boolean("partitioner.ignore.keys"),
        adaptive=settings.boolean("partitioner.adaptive.partitioning.enable"),
        available_seconds=settings.seconds("partitioner.availability.timeout.ms"),
    )


def serialization_of(settings: Settings, name: str) -> Serialization:
    given = settings.known(name, settings.get(name), WORDS)
    return Serialization(name, given, dict(settings))


class _Function:
    """A plain function as a partitioner."""

    def __init__(self, choose: Callable[..., int]) -> None:
        self._choose = choose

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: int, available: Sequence[int]
    ) -> int:
        return self._choose(topic, key, value, partitions, available)


def _partitioner(settings: Settings, random: Random) -> Partitioner | None:
    name = "partitioner.class"
    given = settings.get(name)
    if given is None:
        return None
    words: dict[str, Callable[[], Partitioner]] = {
        "round_robin": RoundRobin,
        "random": lambda: Chance(random),
        "murmur2_random": lambda: KeyOrChance(random),
    }
    word = isinstance(given, str)
    found = settings.known(name, given, words)
    made = cast("Callable[[], object]", found)() if word or isinstance(found, type) else found
    if hasattr(made, "partition"):
        return cast(Partitioner, made)
    if callable(made):
        return _Function(made)
    raise InvalidSetting(name, f"{name} is no partitioner: give an object, a class, a function or {', '.join(words)}")
