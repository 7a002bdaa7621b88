"""Brokers: who is part of the cluster and where it can be reached.

Owns: the facts of a registration. Never knows: heartbeats; a quorum of one has one broker, which lives as it does.
Invariant: the epoch of a registration is the offset of its fact, so a later registration always has a greater one.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.metadata.facts import Fact
from ottla.metadata.features import SUPPORTED
from ottla.metadata.image import ClusterImage
from ottla.wire.stored.metadata import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)

UNFENCE = -1


class Listener(NamedTuple):
    """Where clients find a broker by one of its listeners."""

    host: str
    port: int
    security_protocol: int = 0
    """Kafka's number: PLAINTEXT 0, SSL 1, SASL_PLAINTEXT 2, SASL_SSL 3."""


class Registration(NamedTuple):
    """What a broker says of itself when it starts."""

    broker_id: int
    incarnation_id: bytes
    """New with every start of the process."""
    listeners: Mapping[str, Listener]
    directories: Sequence[bytes]
    rack: str | None = None


def register(registration: Registration, epoch: int) -> list[Fact]:
    """The broker is there, and since it is the one that asks, it also lives."""
    return [
        RegisterBrokerRecord(
            broker_id=registration.broker_id,
            incarnation_id=registration.incarnation_id,
            broker_epoch=epoch,
            end_points=[
                BrokerEndpoint(name=name, host=host, port=port, security_protocol=protocol)
                for name, (host, port, protocol) in registration.listeners.items()
            ],
            features=[
                BrokerFeature(name=name, min_supported_version=first, max_supported_version=last)
                for name, (first, last) in SUPPORTED.items()
            ],
            rack=registration.rack,
            fenced=True,
            log_dirs=sorted(registration.directories),
        ),
        BrokerRegistrationChangeRecord(broker_id=registration.broker_id, broker_epoch=epoch, fenced=UNFENCE),
    ]


def is_current(broker_id: int, epoch: int, image: ClusterImage) -> bool:
    """Whether this is the registration that counts."""
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.epoch == epoch
