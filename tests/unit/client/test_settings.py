"""Settings of clients: Kafka's names in either form, checked, with errors that help."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from ottla.base.settings.kinds import Setting
from ottla.client.errors import InvalidSetting
from ottla.client.settings import (
    ADMIN,
    CONSUMER,
    KINDS,
    PRODUCER,
    AdminKeywords,
    ClientKind,
    ConsumerKeywords,
    ProducerKeywords,
    Settings,
    load,
)

ROOT = Path(__file__).resolve().parents[3]
SERVERS = {"bootstrap.servers": "localhost:9092"}


def producer(**keywords: object) -> Settings:
    return load(PRODUCER, SERVERS, keywords)


def consumer(**keywords: object) -> Settings:
    return load(CONSUMER, SERVERS, keywords)


def refused(kind: ClientKind, **keywords: object) -> InvalidSetting:
    with pytest.raises(InvalidSetting) as raised:
        load(kind, SERVERS, keywords)
    return raised.value


def test_names_may_be_kafkas_or_keywords_and_a_keyword_wins() -> None:
    settings = load(PRODUCER, {**SERVERS, "linger.ms": "7", "batch_size": 100}, {"linger_ms": 9, "acks": None})
    assert settings.integer("linger.ms") == 9
    assert settings.seconds("linger.ms") == 0.009
    assert settings.integer("batch.size") == 100
    assert settings.text("acks") == "all"
    assert settings.given == {"bootstrap.servers", "linger.ms", "batch.size"}


def test_values_may_be_pythons_or_text() -> None:
    same = [producer(enable_idempotence="false", retries="3"), producer(enable_idempotence=False, retries=3)]
    assert [(each.boolean("enable.idempotence"), each.integer("retries")) for each in same] == [(False, 3)] * 2
    assert [str(each) for each in load(ADMIN, {}, {"bootstrap_servers": ["a:1", "b"]}).addresses()] == ["a:1", "b:9092"]


def test_an_unknown_name_is_answered_with_the_nearest_in_the_form_it_was_written() -> None:
    assert str(refused(PRODUCER, linger_sm=1)) == "linger_sm is no setting of producer; did you mean linger_ms?"
    with pytest.raises(InvalidSetting, match=r"compresion\.type is no setting .* did you mean compression\.type\?"):
        load(PRODUCER, {**SERVERS, "compresion.type": "gzip"}, {})
    assert refused(PRODUCER, linger_sm=1).nearest == "linger.ms"
    assert str(refused(PRODUCER, group_id="g")) == "group_id is no setting of producer; it is one of consumer"
    assert str(refused(ADMIN, qqqq=1)) == "qqqq is no setting of admin"


@pytest.mark.parametrize(
    ("kind", "name", "value", "allowed"),
    [
        (PRODUCER, "linger_ms", -1, "a whole number, at least 0"),
        (PRODUCER, "linger_ms", 1.5, "a whole number, at least 0"),
        (PRODUCER, "retries", True, "a whole number, 0 to 2147483647"),
        (PRODUCER, "compression_type", "zst", "`none`, `gzip`, `snappy`, `lz4`, `zstd`"),
        (PRODUCER, "compression_zstd_level", 23, "a whole number, -131072 to 22"),
        (PRODUCER, "enable_idempotence", 1, "true or false"),
        (CONSUMER, "auto_offset_reset", "by_duration:x", "`earliest`, `latest`, `none` or `by_duration:`"),
        (ADMIN, "security_protocol", "SSL", "`PLAINTEXT`"),
        (ADMIN, "bootstrap_servers", "host:port", "`host:port`"),
        (ADMIN, "bootstrap_servers", 9092, "`host:port`"),
    ],
)
def test_a_wrong_value_is_answered_with_what_is_allowed(
    kind: ClientKind, name: str, value: object, allowed: str
) -> None:
    message = str(refused(kind, **{name: value}))
    assert message.startswith(f"{name.replace('_', '.')} cannot be {value!r}: allowed is ")
    assert allowed in message


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (ADMIN, "ssl.truststore.location", "/ca.pem"),
        (PRODUCER, "sasl.mechanism", "PLAIN"),
        (CONSUMER, "sasl.jaas.config", "hush"),
    ],
)
def test_protection_that_this_version_does_not_have_is_refused(kind: ClientKind, name: str, value: str) -> None:
    with pytest.raises(InvalidSetting) as raised:
        load(kind, {**SERVERS, name: value}, {})
    assert str(raised.value) == f"{name} cannot be set: this version speaks neither TLS nor SASL"


def test_what_security_is_without_a_word_may_be_said() -> None:
    given = {"security.protocol": "PLAINTEXT", "sasl.mechanism": "GSSAPI", "ssl.protocol": "TLSv1.3"}
    assert load(PRODUCER, {**SERVERS, **given}, {}).given >= given.keys()


def test_a_secret_is_not_repeated() -> None:
    assert "hunter2" not in str(refused(ADMIN, ssl_key_password=["hunter2"]))


def test_without_servers_there_is_no_client() -> None:
    with pytest.raises(InvalidSetting, match="name a broker to ask"):
        load(ADMIN, None, {})


def test_idempotence_gives_way_to_what_was_asked_for_but_not_to_itself() -> None:
    assert producer().boolean("enable.idempotence")
    assert not producer(acks=1).boolean("enable.idempotence")
    assert not producer(max_in_flight_requests_per_connection=6).boolean("enable.idempotence")
    assert producer(acks=-1).text("acks") == "all"
    assert "enable.idempotence needs acks=all" in str(refused(PRODUCER, acks=0, enable_idempotence=True))
    assert "transactional.id needs retries" in str(refused(PRODUCER, retries=0, transactional_id="t"))
    assert "idempotent" in str(refused(PRODUCER, enable_idempotence=False, transactional_id="t"))


def test_a_delivery_outlasts_its_requests() -> None:
    assert producer(request_timeout_ms=200_000).integer("delivery.timeout.ms") == 200_005
    message = str(refused(PRODUCER, delivery_timeout_ms=100))
    assert "at least linger.ms + request.timeout.ms, which is 30005" in message


def test_a_two_phase_commit_has_no_time_out() -> None:
    given = {"bootstrap.servers": "a:1", "transactional.id": "x", "transaction.two.phase.commit.enable": "true"}
    assert load(PRODUCER, given, {}).boolean("transaction.two.phase.commit.enable")
    with pytest.raises(InvalidSetting, match="there is no time-out"):
        load(PRODUCER, {**given, "transaction.timeout.ms": "1000"}, {})


def test_a_group_and_its_protocol_agree() -> None:
    assert not consumer().boolean("enable.auto.commit")
    assert consumer(group_id="g").boolean("enable.auto.commit")
    assert consumer(group_protocol="Consumer").text("group.protocol") == "CONSUMER"
    assert "need a group.id" in str(refused(CONSUMER, enable_auto_commit=True))
    assert "the broker decides it" in str(refused(CONSUMER, group_protocol="consumer", session_timeout_ms=10_000))
    assert "group.protocol=consumer" in str(refused(CONSUMER, group_remote_assignor="uniform"))
    assert "less than session.timeout.ms" in str(refused(CONSUMER, heartbeat_interval_ms=45_000))


def test_objects_are_passed_through_and_words_are_looked_up() -> None:
    thing = object()
    settings = producer(value_serializer=thing, interceptor_classes=[thing])
    assert settings.get("value.serializer") is thing
    assert settings.things("interceptor.classes") == (thing,)
    words = {"bytes": 1, "string": 2}
    assert settings.known("key.serializer", "string", words) == 2
    assert settings.known("key.serializer", thing, words) is thing
    with pytest.raises(InvalidSetting, match="did you mean 'string'"):
        settings.known("key.serializer", "strng", words)


def test_settings_do_not_change() -> None:
    with pytest.raises(AttributeError):
        producer().given = frozenset()


@pytest.mark.parametrize(
    ("kind", "keywords"), [(PRODUCER, ProducerKeywords), (CONSUMER, ConsumerKeywords), (ADMIN, AdminKeywords)]
)
def test_the_keywords_for_type_checkers_are_those_of_the_tables(kind: ClientKind, keywords: type) -> None:
    assert {name.replace(".", "_") for name in kind.settings} == set(keywords.__annotations__)


EVERY = {setting.name: setting for kind in KINDS for setting in kind.settings.values()}


@pytest.mark.parametrize("setting", EVERY.values(), ids=list(EVERY))
def test_every_setting_has_a_sentence(setting: Setting) -> None:
    assert setting.documentation.endswith(".")
    assert "|" not in setting.documentation


def test_the_tables_are_as_long_as_kafkas() -> None:
    """ProducerConfig, ConsumerConfig (without its one internal name) and AdminClientConfig of Kafka 4.3, and ours."""
    kafkas = [[name for name in kind.settings if not name.startswith("ottla.")] for kind in KINDS]
    assert [len(names) for names in kafkas] == [113, 115, 91]


def test_the_reference_is_what_the_tables_say() -> None:
    path = ROOT / "scripts" / "generate_settings_reference.py"
    specification = importlib.util.spec_from_file_location("generate_settings_reference", path)
    assert specification is not None
    assert specification.loader is not None
    script = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(script)
    assert (ROOT / "docs/reference/client-settings.md").read_text(encoding="utf-8") == script.client_reference()
