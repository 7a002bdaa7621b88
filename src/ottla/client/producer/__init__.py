"""Producing. The producer for programs is `ottla.client.producer.producer.Producer`; the command line still stands on
the plain one of `simple`, whose names are here until it has moved.
"""

from ottla.client.producer.simple import Producer, ProducerSettings, Totals

__all__ = ["Producer", "ProducerSettings", "Totals"]
