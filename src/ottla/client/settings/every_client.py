"""Settings that every client has: where the cluster is, connections, metadata, retries, metrics, security."""

from ottla.base.settings.bounds import ListOf, OneOf, Range
from ottla.base.settings.broker_security import SECURITY_SETTINGS as OF_BROKERS
from ottla.base.settings.kinds import Setting, ValueKind
from ottla.base.settings.reasons import JAVA, LOOP, OAUTH, SASL, TLS
from ottla.client.settings.checks import Addresses, PlainOnly
from ottla.client.settings.reasons import JMX, PROVIDERS, SAMPLES, TELEMETRY

BOOLEAN = ValueKind.BOOLEAN
STRING = ValueKind.STRING
INT = ValueKind.INT
LONG = ValueKind.LONG
LIST = ValueKind.LIST
PASSWORD = ValueKind.PASSWORD

# One setting a declaration, its facts first, its sentence below.
# fmt: off
COMMON_SETTINGS: tuple[Setting, ...] = (
    Setting("bootstrap.servers", LIST, None,
            "Brokers to ask first, as `host:port`; one that answers is enough to find the others.", check=Addresses()),
    Setting("client.id", STRING, "", "The name brokers see in their logs and quotas; empty means `ottla`."),
    Setting("client.dns.lookup", STRING, "use_all_dns_ips",
            "How a name with several addresses is tried; every address of a name is tried in turn.",
            check=OneOf("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"), no_effect=LOOP),
    Setting("request.timeout.ms", INT, "30000",
            "How long one request may wait for its answer before the connection is given up.", check=Range(0)),
    Setting("retry.backoff.ms", LONG, "100", "The first pause before a request is tried again.", check=Range(0)),
    Setting("retry.backoff.max.ms", LONG, "1000",
            "The longest pause between two tries; each pause is twice the one before, within a fifth by chance.",
            check=Range(0)),
    Setting("reconnect.backoff.ms", LONG, "50",
            "The first pause before a producer tries a broker again that it could not reach; others wait as above.",
            check=Range(0)),
    Setting("reconnect.backoff.max.ms", LONG, "1000",
            "The longest pause before a producer tries such a broker again.", check=Range(0)),
    Setting("socket.connection.setup.timeout.ms", LONG, "10000",
            "How long opening a connection may take, its first questions included."),
    Setting("socket.connection.setup.timeout.max.ms", LONG, "30000",
            "How long that may take at most after failures.", no_effect="every attempt gets the same time"),
    Setting("connections.max.idle.ms", LONG, "540000",
            "How long an unused connection is kept.", no_effect="a connection is kept until the broker closes it"),
    Setting("send.buffer.bytes", INT, "131072",
            "The system's buffer for sending; -1 leaves it to the system.", check=Range(-1), no_effect=LOOP),
    Setting("receive.buffer.bytes", INT, "65536",
            "The system's buffer for receiving; -1 leaves it to the system.", check=Range(-1), no_effect=LOOP),
    Setting("metadata.max.age.ms", LONG, "300000",
            "How old knowledge of topics and leaders may become before it is asked for again; an admin always asks.",
            check=Range(0)),
    Setting("metadata.recovery.strategy", STRING, "rebootstrap",
            "Whether a client that reaches none of the brokers it knows begins again with `bootstrap.servers`.",
            check=OneOf("REBOOTSTRAP", "NONE", any_case=True), no_effect="it always begins again"),
    Setting("metadata.recovery.rebootstrap.trigger.ms", LONG, "300000",
            "How long no broker may answer before it does.", check=Range(0), no_effect="it does so at once"),
    Setting("metric.reporters", LIST, "", "Classes that take metrics elsewhere.", no_effect=JMX),
    Setting("metrics.num.samples", INT, "2", "Samples behind a metric.", check=Range(1), no_effect=SAMPLES),
    Setting("metrics.sample.window.ms", LONG, "30000",
            "How long one sample lasts.", check=Range(0), no_effect=SAMPLES),
    Setting("metrics.recording.level", STRING, "INFO",
            "Which metrics are kept.", check=OneOf("INFO", "DEBUG", "TRACE"), no_effect=SAMPLES),
    Setting("enable.metrics.push", BOOLEAN, "true",
            "Whether the broker may ask for this client's metrics.", no_effect=TELEMETRY),
    Setting("config.providers", LIST, "", "Classes that look values up elsewhere.", no_effect=PROVIDERS),
    Setting("security.protocol", STRING, "PLAINTEXT", "How brokers are spoken to.", check=PlainOnly()),
    Setting("security.providers", STRING, None, "Classes that add security algorithms to the JVM.", no_effect=JAVA),
    Setting("sasl.mechanism", STRING, "GSSAPI", "How the client proves who it is.", no_effect=SASL),
    Setting("sasl.jaas.config", PASSWORD, None, "User and secret, in JAAS syntax.", no_effect=SASL),
    Setting("sasl.oauthbearer.header.urlencode", BOOLEAN, "false",
            "Whether id and secret are encoded for URLs when a token is asked for.", no_effect=OAUTH),
    Setting("ssl.keystore.location", STRING, None,
            "The file with the client's key and certificates.", no_effect=TLS),
    Setting("ssl.keystore.key", PASSWORD, None, "The client's private key as PEM text.", no_effect=TLS),
    Setting("ssl.keystore.certificate.chain", PASSWORD, None,
            "The client's certificates as PEM text.", no_effect=TLS),
    Setting("ssl.endpoint.identification.algorithm", STRING, "https",
            "How a broker's certificate is checked against its host name; empty skips it.", no_effect=TLS),
    Setting("ssl.cipher.suites", LIST, "",
            "The cipher suites offered; empty means the library's own choice.", check=ListOf(), no_effect=TLS),
)
# fmt: on

_OF_BROKERS_ONLY = frozenset(
    {
        "sasl.enabled.mechanisms",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.mechanism.controller.protocol",
        "sasl.mechanism.inter.broker.protocol",
        "sasl.server.callback.handler.class",
        "sasl.server.max.receive.size",
        "ssl.allow.dn.changes",
        "ssl.allow.san.changes",
        "ssl.client.auth",
        "ssl.principal.mapping.rules",
    }
)
_SAID_ABOVE = frozenset(setting.name for setting in COMMON_SETTINGS)

SECURITY_SETTINGS: tuple[Setting, ...] = tuple(
    setting
    for setting in OF_BROKERS
    if setting.name.startswith(("sasl.", "ssl.")) and setting.name not in _OF_BROKERS_ONLY | _SAID_ABOVE
)
"""What a client declares as a broker does."""
