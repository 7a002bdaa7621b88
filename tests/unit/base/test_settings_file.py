"""Settings as people write them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.settings import InvalidSetting, check_static, merge, parse_properties


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("# a comment\n! another\n\n  \t\n", {}),
        ("a=1", {"a": "1"}),
        ("a = 1 \n", {"a": "1 "}),
        ("a: 1\nb 2\nc\n", {"a": "1", "b": "2", "c": ""}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("list=x,\\\n     y,\\\n     z", {"list": "x,y,z"}),
        ("a=1\\\n", {"a": "1"}),
        ("a=ends with \\\\\nb=2", {"a": "ends with \\", "b": "2"}),
        ("path=C:\\\\logs\nurl=PLAINTEXT://:9092", {"path": "C:\\logs", "url": "PLAINTEXT://:9092"}),
        ("a\\ b\\=c=\\t\\n\\r\\f\\u00e9\\q", {"a b=c": "\t\n\r\fé" + "q"}),
        ("a==b", {"a": "=b"}),
        ("a=#no comment", {"a": "#no comment"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, values: dict[str, str]) -> None:
    assert parse_properties(text) == values


def test_an_unfinished_unicode_escape_is_told() -> None:
    with pytest.raises(InvalidSetting, match="four hexadecimal digits, not by '12'"):
        parse_properties("a=\\u12")


@given(st.text())
def test_any_text_is_properties_or_an_invalid_setting(text: str) -> None:
    with contextlib.suppress(InvalidSetting):
        parse_properties(text)


def test_assignments_win_over_the_file_and_later_ones_over_earlier() -> None:
    assert merge({"a": "1", "b": "2"}, ["a=3", "c=x=y", "a=4"]) == {"a": "4", "b": "2", "c": "x=y"}


@pytest.mark.parametrize("assignment", ["a", "=1", ""])
def test_an_assignment_without_name_or_value_is_told(assignment: str) -> None:
    with pytest.raises(InvalidSetting, match="name=value"):
        merge({}, [assignment])


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"num.partition": "1"}, "There is no setting 'num.partition'; did you mean 'num.partitions'?"),
        ({"something": "1"}, "There is no setting 'something'."),
        ({"num.partitions": "x"}, "Invalid value x for configuration num.partitions: Not a number of type INT"),
        ({"node.id": "1", "broker.id": "2"}, "You must set `node.id` to the same value as `broker.id`."),
        (
            {"zookeeper.connect": "z:2181", "process.roles": "broker"},
            "process.roles belongs to a cluster with a quorum: set either it or zookeeper.connect.",
        ),
        (
            {"zookeeper.connect": "z:2181", "controller.quorum.voters": "1@h:9093"},
            "controller.quorum.voters belongs to a cluster with a quorum: set either it or zookeeper.connect.",
        ),
        (
            {"zookeeper.connect": "z:2181,,y:2181"},
            "zookeeper.connect names an empty server; write it as host:port,host:port/chroot.",
        ),
        (
            {"zookeeper.connect": "z:2181", "zookeeper.set.acl": "true"},
            "zookeeper.set.acl needs a name to guard znodes by: set ottla.zookeeper.sasl.mechanism too.",
        ),
        (
            {"zookeeper.connect": "z:2181", "ottla.zookeeper.sasl.mechanism": "DIGEST-MD5"},
            "ottla.zookeeper.sasl.mechanism=DIGEST-MD5 needs ottla.zookeeper.sasl.username and .password.",
        ),
        (
            {"control.plane.listener.name": "CONTROLLER"},
            "control.plane.listener.name is only for clusters with ZooKeeper: a quorum has controller.listener.names.",
        ),
        (
            {"zookeeper.connect": "z:2181", "control.plane.listener.name": "INSIDE", "listeners": "PLAINTEXT://:1"},
            "control.plane.listener.name is INSIDE, which is none of the listeners.",
        ),
        ({"log.retention.ms": "0"}, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ({"log.cleaner.threads": "0"}, "log.cleaner.threads must be greater than or equal to 1"),
        (
            {"queued.max.request.bytes": "5"},
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        ),
        (
            {"cordoned.log.dirs": "/x", "log.dirs": "/y"},
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : /x",
        ),
        (
            {"cordoned.log.dirs": "*,/y", "log.dirs": "/y"},
            "When cordoned.log.dirs is set to *, it must not contain other values",
        ),
        ({"authorizer.class.name": "a.B"}, "This version cannot authorize: remove authorizer.class.name."),
        (
            {"remote.log.storage.system.enable": "true"},
            "Tiered storage is not offered: remove remote.log.storage.system.enable.",
        ),
        (
            {"create.topic.policy.class.name": "a.B"},
            "Invalid value a.B for configuration create.topic.policy.class.name: Class a.B could not be found.",
        ),
    ],
)
def test_a_wrong_setting_ends_the_start_with_one_sentence(values: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        check_static(values)
    assert str(refused.value) == sentence


NEITHER = "This version speaks neither TLS nor SASL"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "listeners=SSL://:9092",
            "the listener SSL (listeners) would be served in the clear although it is to speak SSL",
        ),
        ("listeners=PLAINTEXT://:9092,SASL_PLAINTEXT://:9093", "the listener SASL_PLAINTEXT (listeners)"),
        ("listeners=PLAINTEXT://:9092\nlistener.security.protocol.map=PLAINTEXT:SSL", "the listener PLAINTEXT"),
        ("listeners=out://:9092\nlistener.security.protocol.map=OUT:sasl_ssl", "it is to speak SASL_SSL"),
        ("listeners=P://:1\nadvertised.listeners=SSL://:9092", "the listener SSL (advertised.listeners)"),
        (
            "process.roles=broker\nlisteners=P://:1\ncontroller.listener.names=C\nlistener.security.protocol.map=C:SSL",
            "the listener C (controller.listener.names)",
        ),
        ("inter.broker.listener.name=SASL_SSL", "the listener SASL_SSL (inter.broker.listener.name)"),
        ("security.inter.broker.protocol=SSL", "brokers cannot speak SSL to each other"),
        ("ssl.keystore.location=/etc/kafka/server.keystore.jks", "remove ssl.keystore.location."),
        ("ssl.client.auth=required", "remove ssl.client.auth."),
        ("sasl.enabled.mechanisms=SCRAM-SHA-512", "remove sasl.enabled.mechanisms."),
        (
            "listener.name.internal.plain.sasl.jaas.config=x",
            "remove listener.name.internal.plain.sasl.jaas.config.",
        ),
        ("listener.name.internal.ssl.keystore.location=x", "remove listener.name.internal.ssl.keystore.location."),
    ],
)
def test_protection_that_this_version_does_not_have_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        check_static(parse_properties(text))
    assert str(refused.value).startswith(NEITHER)
    assert sentence in str(refused.value)


def test_how_to_reach_zookeeper_is_another_matter() -> None:
    check_static(
        {
            "zookeeper.connect": "z:2181",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.truststore.location": "/etc/ca.pem",
            "ottla.zookeeper.sasl.mechanism": "DIGEST-MD5",
            "ottla.zookeeper.sasl.username": "ann",
            "ottla.zookeeper.sasl.password": "hush",
        }
    )


def test_a_file_made_for_kafka_is_accepted() -> None:
    text = """\
        process.roles=broker,controller
        node.id=1
        controller.quorum.voters=1@localhost:9093
        listeners=PLAINTEXT://:9092,CONTROLLER://:9093
        inter.broker.listener.name=PLAINTEXT
        advertised.listeners=PLAINTEXT://localhost:9092
        controller.listener.names=CONTROLLER
        listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL
        num.network.threads=3
        num.io.threads=8
        socket.send.buffer.bytes=102400
        log.dirs=/data
        num.partitions=1
        offsets.topic.replication.factor=1
        log.retention.hours=168
        log.segment.bytes=1073741824
        listener.name.plaintext.max.connections=5
        security.inter.broker.protocol=PLAINTEXT
        sasl.enabled.mechanisms=GSSAPI
        ssl.client.auth=none
        config.providers.file.class=x
        """
    check_static(parse_properties(text))
