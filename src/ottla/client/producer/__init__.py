"""Producing: what programs import is here, loaded with the package."""

from ottla.client.producer.delivery import Delivery
from ottla.client.producer.producer import Producer
from ottla.client.producer.record import Placed, Record

__all__ = ["Delivery", "Placed", "Producer", "Record"]
