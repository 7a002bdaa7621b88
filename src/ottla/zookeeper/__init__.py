"""Coordination by a ZooKeeper ensemble, as Kafka's classic architecture had it: the second way to keep the metadata."""
