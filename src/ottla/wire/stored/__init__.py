"""Messages that Kafka stores in logs and files."""
