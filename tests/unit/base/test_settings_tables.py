"""The tables of settings are whole: documented, parseable, and told in the reference."""

import importlib.util
from pathlib import Path

import pytest

from ottla.base.settings import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    Scope,
    Setting,
    ValueKind,
    parse,
    text_of,
)
from ottla.base.settings.broker import BROKER_TABLES, LISTENER_ONLY
from ottla.base.settings.broker_zookeeper import ZOOKEEPER_SETTINGS
from ottla.base.settings.group import BROKER_NAME_OF_GROUP
from ottla.base.settings.topic import BROKER_NAME_OF_TOPIC

ROOT = Path(__file__).resolve().parents[3]
EVERY = [
    *BROKER_SETTINGS.values(),
    *TOPIC_SETTINGS.values(),
    *GROUP_SETTINGS.values(),
    *CLIENT_METRICS_SETTINGS.values(),
]


@pytest.mark.parametrize("setting", EVERY, ids=lambda setting: f"{setting.scope.name}:{setting.name}")
def test_every_setting_has_a_sentence_and_a_default_that_it_would_accept(setting: Setting) -> None:
    assert setting.documentation.endswith(".")
    assert "|" not in setting.documentation
    assert "\n" not in setting.documentation
    assert text_of(setting, parse(setting, setting.default)) == setting.default


def test_no_broker_setting_is_declared_twice() -> None:
    assert sum(len(table) for table in BROKER_TABLES.values()) == len(BROKER_SETTINGS)


def test_the_tables_hold_all_of_kafka_and_our_own() -> None:
    ours = [name for name in BROKER_SETTINGS if name.startswith("ottla.")]
    assert ours == [
        "ottla.log.format",
        "ottla.log.level",
        "ottla.slow.request.ms",
        "ottla.metrics.port",
        "ottla.metrics.host",
        "ottla.zookeeper.sasl.mechanism",
        "ottla.zookeeper.sasl.username",
        "ottla.zookeeper.sasl.password",
    ]
    # 360 in KafkaConfig of 4.3, 3 more that can only be set dynamically, and what 3.x had for ZooKeeper
    of_zookeeper = [setting for setting in ZOOKEEPER_SETTINGS if not setting.name.startswith("ottla.")]
    assert len(of_zookeeper) == 22
    assert len(BROKER_SETTINGS) - len(ours) - len(of_zookeeper) == 363
    assert (len(TOPIC_SETTINGS), len(GROUP_SETTINGS), len(CLIENT_METRICS_SETTINGS)) == (34, 17, 3)


def test_dynamic_scopes_are_as_many_as_kafkas() -> None:
    scopes = [setting.scope for name, setting in BROKER_SETTINGS.items() if not name.startswith("ottla.")]
    assert scopes.count(Scope.PER_BROKER) == 37
    assert scopes.count(Scope.CLUSTER_WIDE) == 65
    assert all(BROKER_SETTINGS[name].scope is Scope.PER_BROKER for name in LISTENER_ONLY)


def test_every_default_of_a_topic_or_group_agrees_with_the_broker_setting_behind_it() -> None:
    for settings, origins in ((TOPIC_SETTINGS, BROKER_NAME_OF_TOPIC), (GROUP_SETTINGS, BROKER_NAME_OF_GROUP)):
        for name, broker_name in origins.items():
            default = BROKER_SETTINGS[broker_name].default
            # The coarser settings of a chain hold the default of the finer one.
            assert default is None or default == settings[name].default, name


def test_secrets_are_the_passwords() -> None:
    assert {setting.name for setting in EVERY if setting.sensitive} == {
        setting.name for setting in EVERY if setting.kind is ValueKind.PASSWORD
    }
    assert BROKER_SETTINGS["sasl.jaas.config"].sensitive


def test_the_reference_is_what_the_script_writes() -> None:
    path = ROOT / "scripts" / "generate_settings_reference.py"
    spec = importlib.util.spec_from_file_location("generate_settings_reference", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    written = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    assert written == script.reference(), "run scripts/generate_settings_reference.py"
