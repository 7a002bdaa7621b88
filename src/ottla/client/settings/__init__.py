"""Every setting of Kafka 4.3's clients under Kafka's name.

`load` makes `Settings` of what a user wrote; the tables are `producer`, `consumer`, `admin` and `every_client`. This
page is the door: other packages import from here.
"""

from ottla.client.settings.keywords import AdminKeywords, ConsumerKeywords, ProducerKeywords
from ottla.client.settings.load import load
from ottla.client.settings.tables import ADMIN, CONSUMER, KINDS, PRODUCER, ClientKind
from ottla.client.settings.values import Settings

__all__ = [
    "ADMIN",
    "CONSUMER",
    "KINDS",
    "PRODUCER",
    "AdminKeywords",
    "ClientKind",
    "ConsumerKeywords",
    "ProducerKeywords",
    "Settings",
    "load",
]
