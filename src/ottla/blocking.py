"""The client for threads and scripts: the names of `ottla`, each call waiting for its outcome.

Ctrl-C ends a wait, no wait holds the interpreter, a fork is refused with a clear error, and leaving a `with` block
closes everything. One event loop in one background thread serves all clients of a process.
"""

from ottla.base.vocabulary import TopicPartition
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.inbox import Delivery
from ottla.client.blocking.producer import Pending, Producer
from ottla.client.consumer import ConsumedRecord
from ottla.client.producer import Placed, Record

__all__ = [
    "Admin",
    "ConsumedRecord",
    "Consumer",
    "Delivery",
    "Pending",
    "Placed",
    "Producer",
    "Record",
    "TopicPartition",
]
