"""Broker settings of a cluster that ZooKeeper coordinates, with the names and defaults of Kafka 3.x.

They are hidden: a cluster with a quorum, as Kafka has since 4.0, does not speak of them.
"""

from ottla.base.settings.bounds import OneOf, Range
from ottla.base.settings.kinds import Setting, ValueKind
from ottla.base.settings.reasons import JAVA, JVM

BOOLEAN = ValueKind.BOOLEAN
STRING = ValueKind.STRING
INT = ValueKind.INT
LIST = ValueKind.LIST
PASSWORD = ValueKind.PASSWORD

# One setting a declaration, its facts first, its sentence below.
# fmt: off
ZOOKEEPER_SETTINGS: tuple[Setting, ...] = (
    Setting("zookeeper.connect", STRING, None,
            "The ZooKeeper servers, as `host:port,host:port/chroot`. With it ZooKeeper coordinates the cluster instead "
            "of a quorum: `process.roles` and `controller.quorum.voters` are not set then, and nothing is formatted.",
            hidden=True),
    Setting("zookeeper.session.timeout.ms", INT, "18000",
            "How long ZooKeeper waits for a sign of life before it takes a broker, or the controller, for gone.",
            check=Range(1), hidden=True),
    Setting("zookeeper.connection.timeout.ms", INT, None,
            "How long a start waits for ZooKeeper, and a question for its answer; otherwise as long as a session.",
            check=Range(1), hidden=True),
    Setting("zookeeper.max.in.flight.requests", INT, "10",
            "How many requests to ZooKeeper may be under way at a time.", check=Range(1), hidden=True),
    Setting("broker.id.generation.enable", BOOLEAN, "true",
            "Whether a broker without `broker.id` gets a number from ZooKeeper at its first start, above "
            "`reserved.broker.max.id`; its data directories keep it.", hidden=True),
    Setting("reserved.broker.max.id", INT, "1000",
            "The highest number that settings files may give while others are taken from ZooKeeper.",
            check=Range(0), hidden=True),
    Setting("zookeeper.set.acl", BOOLEAN, "false",
            "Whether only brokers that prove the same name may change the znodes this one creates.", hidden=True),
    Setting("control.plane.listener.name", STRING, None,
            "With ZooKeeper, the listener at which the controller serves the other brokers; otherwise the one of "
            "`controller.listener.names`, and without any a free port of the first listener's address.", hidden=True),
    Setting("ottla.zookeeper.sasl.mechanism", STRING, None,
            "How this node proves to ZooKeeper who it is, instead of Java's login file.",
            check=OneOf("DIGEST-MD5", "GSSAPI"), hidden=True),
    Setting("ottla.zookeeper.sasl.username", STRING, None, "The name it proves.", hidden=True),
    Setting("ottla.zookeeper.sasl.password", PASSWORD, None, "The password that proves it.", hidden=True),
    Setting("zookeeper.ssl.client.enable", BOOLEAN, "false",
            "Whether the connection to ZooKeeper speaks TLS.", hidden=True),
    Setting("zookeeper.ssl.keystore.location", STRING, None,
            "A PEM file with this node's certificate and its key, where ZooKeeper wants one.", hidden=True),
    Setting("zookeeper.ssl.keystore.password", PASSWORD, None, "The password of the key.", hidden=True),
    Setting("zookeeper.ssl.keystore.type", STRING, "PEM",
            "The form of the file with the certificate; Java's own forms cannot be read.",
            check=OneOf("PEM"), hidden=True),
    Setting("zookeeper.ssl.truststore.location", STRING, None,
            "A PEM file with the certificates that ZooKeeper's servers are trusted by.", hidden=True),
    Setting("zookeeper.ssl.truststore.password", PASSWORD, None,
            "A password of that file, which PEM files do not need.", hidden=True, no_effect=JVM),
    Setting("zookeeper.ssl.truststore.type", STRING, "PEM",
            "The form of the file with the trusted certificates; Java's own forms cannot be read.",
            check=OneOf("PEM"), hidden=True),
    Setting("zookeeper.ssl.endpoint.identification.algorithm", STRING, "HTTPS",
            "Whether a server's certificate has to name its host; empty for not.", hidden=True),
    Setting("zookeeper.ssl.protocol", STRING, "TLSv1.2",
            "The TLS version Kafka begins with; here the newest that both sides speak is taken.",
            hidden=True, no_effect=JVM),
    Setting("zookeeper.ssl.enabled.protocols", LIST, None, "The TLS versions allowed.", hidden=True, no_effect=JVM),
    Setting("zookeeper.ssl.cipher.suites", LIST, None, "The TLS ciphers allowed.", hidden=True, no_effect=JVM),
    Setting("zookeeper.ssl.crl.enable", BOOLEAN, "false",
            "Whether lists of revoked certificates are asked.", hidden=True, no_effect=JVM),
    Setting("zookeeper.ssl.ocsp.enable", BOOLEAN, "false",
            "Whether an issuer is asked if a certificate is revoked.", hidden=True, no_effect=JVM),
    Setting("zookeeper.clientCnxnSocket", STRING, None,
            "The Java class of the connection; here it follows from `zookeeper.ssl.client.enable`.",
            hidden=True, no_effect=JAVA),
)
# fmt: on
