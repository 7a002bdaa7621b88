"""`ottla config …` on ottla and on a real Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from kit.brokers.brokers import Broker
from kit.brokers.command_line import Ottla
from kit.brokers.processes import until

SECONDS = 60.0


def setting(ottla: Ottla, kind: str, name: str, wanted: str) -> dict[str, Any]:
    document = ottla.json("config", "describe", kind, name, wanted)
    found: dict[str, Any] = next((row for row in document["configs"] if row["name"] == wanted), {})
    return found


def test_a_topics_settings_are_shown_changed_and_given_back(ottla: Ottla, made: str) -> None:
    assert "nobody has set anything" in ottla("config", "describe", "topic", made).decode()
    altered = ottla.lines("config", "alter", "topic", made, "retention.ms=3600000", "segment.bytes=1048576")
    assert altered == [f"altered topic {made!r}: retention.ms=3600000, segment.bytes=1048576"]
    until(lambda: setting(ottla, "topic", made, "retention.ms")["source"] == "topic", "the new value", SECONDS)
    heading, *rows = [line.split() for line in ottla.lines("config", "describe", "topic", made)]
    assert heading == ["SETTING", "VALUE", "SOURCE", "DYNAMIC", "OTHERWISE"]
    assert rows == [
        ["retention.ms", "3600000", "topic", "yes", "-"],
        ["segment.bytes", "1048576", "topic", "yes", "1073741824", "(default)"],
    ]
    every = {row["name"]: row for row in ottla.json("config", "describe", "topic", made, "--all")["configs"]}
    assert every["cleanup.policy"]["source"] == "default"
    assert len(every) > 20
    ottla("config", "alter", "topic", made, "cleanup.policy=compact", "--delete", "segment.bytes")
    gone = ottla.json("config", "delete", "topic", made, "retention.ms")
    assert gone == {"kind": "topic", "name": made, "set": {}, "deleted": ["retention.ms"]}

    def own() -> list[str]:
        return [row["name"] for row in ottla.json("config", "describe", "topic", made)["configs"]]

    until(lambda: own() == ["cleanup.policy"], "two settings given back, one changed", SECONDS)
    assert {"kind": "topic", "name": made} in ottla.json("config", "list", "topic")


def test_a_brokers_setting_is_its_own_or_that_of_all(ottla: Ottla) -> None:
    name = "log.cleaner.delete.retention.ms"
    try:
        ottla("config", "alter", "broker", "default", f"{name}=111000")
        until(lambda: setting(ottla, "broker", "1", name)["source"] == "dynamic_default_broker", "that of all", SECONDS)
        ottla("config", "alter", "broker", "1", f"{name}=222000")
        until(lambda: setting(ottla, "broker", "1", name)["value"] == "222000", "its own", SECONDS)
        own = setting(ottla, "broker", "1", name)
        assert [row["source"] for row in own["synonyms"]] == [
            "dynamic_broker", "dynamic_default_broker", "default",
        ]  # fmt: skip
        (shown,) = [line for line in ottla.lines("config", "describe", "broker", "1") if line.startswith(name)]
        assert shown.split()[1:] == ["222000", "broker", "yes", "111000", "(all", "brokers)"]
        assert setting(ottla, "broker", "default", name)["value"] == "111000"
    finally:
        ottla("config", "delete", "broker", "1", name)
        ottla("config", "delete", "broker", "default", name)
    until(lambda: setting(ottla, "broker", "1", name)["source"] == "default", "the default", SECONDS)
    assert not setting(ottla, "broker", "1", "log.dirs")["dynamic"]


def test_a_group_has_settings_of_its_own(ottla: Ottla, topic: str) -> None:
    name = "consumer.session.timeout.ms"
    ottla("config", "alter", "group", topic, f"{name}=50000")
    until(lambda: setting(ottla, "group", topic, name)["source"] == "group", "the group's own value", SECONDS)
    assert {"kind": "group", "name": topic} in ottla.json("config", "list", "group")
    ottla("config", "delete", "group", topic, name)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("alter", "topic", "{topic}", "no.such=1"), "was given a setting that is not valid"),
        (("alter", "topic", "{topic}-not", "retention.ms=1"), "does not exist"),
        (("describe", "topic", "{topic}-not"), "does not exist"),
        (("describe", "topic", "{topic}", "no.such"), "a topic has no setting 'no.such'"),
        (("describe", "broker", "77"), "there is no broker 77"),
    ],
)
def test_a_failure_is_a_sentence(ottla: Ottla, made: str, arguments: tuple[str, ...], sentence: str) -> None:
    answer = ottla.attempt("config", *(argument.format(topic=made) for argument in arguments))
    assert (answer.returncode, sentence in answer.stderr.decode()) == (1, True), answer


@pytest.mark.parametrize(
    "arguments",
    [("describe", "topic"), ("describe", "broker", "one"), ("alter", "topic", "t"), ("describe", "moon", "t")],
)
def test_wrong_usage_is_exit_code_2(broker: Broker, arguments: tuple[str, ...]) -> None:
    assert Ottla(broker.bootstrap).attempt("config", *arguments).returncode == 2


def test_quotas_are_set_listed_and_taken_away_where_brokers_have_them(
    ottla: Ottla, any_broker: Broker, topic: str
) -> None:
    if any_broker.name == "ottla":
        answer = ottla.attempt("quota", "list")
        assert (answer.returncode, b"has no quotas for clients" in answer.stderr) == (1, True)
        return
    user = f"user-{topic}"
    said = ottla.lines("quota", "set", "producer_byte_rate=1048576", "--user", user, "--client", "default")
    assert said == [f"set producer_byte_rate=1048576 for user {user!r} client-id 'default'"]
    (found,) = until(lambda: ottla.json("quota", "list", "--user", user), "the quota", SECONDS)
    assert found == {
        "entity": {"user": user, "client-id": "default"},
        "quotas": {"producer_byte_rate": 1048576},
    }
    assert "producer_byte_rate" in ottla("quota", "list").decode()
    wrong = ottla.attempt("quota", "set", "no.such=1", "--user", user)
    assert (wrong.returncode, b"no.such" in wrong.stderr) == (1, True)
    ottla("quota", "delete", "producer_byte_rate", "--user", user, "--client", "default")
    until(lambda: ottla.json("quota", "list", "--user", user) == [], "nothing left", SECONDS)
    assert ottla.attempt("quota", "set", "producer_byte_rate=1").returncode == 2


def test_features_are_shown_and_refused_with_a_reason(ottla: Ottla) -> None:
    levels = {row["feature"]: row for row in ottla.json("cluster", "features")}
    version = levels["metadata.version"]
    assert version["lowest"] <= version["level"] <= version["highest"]
    assert ottla.lines("cluster", "features")[0].split() == ["FEATURE", "LEVEL", "LOWEST", "HIGHEST"]
    same = f"group.version={levels['group.version']['level']}"
    assert ottla.lines("cluster", "set-feature", same, "--dry-run") == ["settable feature 'group.version'"]
    answer = ottla.attempt("cluster", "set-feature", "no.such=7")
    assert (answer.returncode, b"no.such" in answer.stderr) == (1, True)
    for number, sentence in (("1", b"is up"), ("77", b"not currently registered")):
        answer = ottla.attempt("cluster", "unregister", number)
        assert (answer.returncode, sentence in answer.stderr) == (1, True)
