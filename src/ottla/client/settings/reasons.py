"""Why some of Kafka's client settings have no effect here."""

JMX = "there is no JMX; `metrics()` answers with plain numbers"
PROVIDERS = "values come from Python"
SAMPLES = "metrics are plain counters, without samples"
SHARE = "share groups are not offered"
TELEMETRY = "clients send their metrics nowhere"
