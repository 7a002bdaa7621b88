"""What `ottla config` shows follows from what the cluster told."""

import pytest
import typer

from ottla.cli.config import Kind, resource_of
from ottla.cli.config_views import chosen, configs_json, configs_table, resources_json, resources_table
from ottla.cli.output import plain
from ottla.client.admin.topics import Config, ConfigSource, ConfigSynonym, Resource, ResourceKind

TOPIC = Resource(ResourceKind.TOPIC, "t")
OWN = Config(
    "retention.ms", "1000", ConfigSource.TOPIC, False, False, None,
    (
        ConfigSynonym("retention.ms", "1000", ConfigSource.TOPIC),
        ConfigSynonym("log.retention.ms", "5000", ConfigSource.STATIC_BROKER),
        ConfigSynonym("log.retention.hours", "168", ConfigSource.DEFAULT),
    ),
)  # fmt: skip
USUAL = Config("cleanup.policy", "delete", ConfigSource.DEFAULT, True, False, None)
SECRET = Config("password", None, ConfigSource.DYNAMIC_BROKER, False, True, None)


def test_settings_are_shown_with_where_they_come_from_and_what_else_would_hold() -> None:
    assert plain(configs_table([OWN, USUAL, SECRET])) == (
        "SETTING         VALUE     SOURCE   DYNAMIC  OTHERWISE\n"
        "retention.ms    1000      topic    yes      5000 (settings file)\n"
        "cleanup.policy  delete    default  no       -\n"
        "password        (secret)  broker   yes      -\n"
    )


def test_those_are_shown_that_somebody_has_set_unless_all_or_some_are_asked_for() -> None:
    every = [USUAL, OWN]
    assert chosen(TOPIC, every, (), every=False) == [OWN]
    assert chosen(TOPIC, every, (), every=True) == every
    assert chosen(TOPIC, every, ("cleanup.policy",), every=False) == [USUAL]
    assert chosen(Resource(ResourceKind.BROKER, "1"), [SECRET, USUAL], (), every=False) == [SECRET]


def test_programs_get_every_place_that_says_something() -> None:
    document = configs_json(TOPIC, [OWN])
    assert (document["kind"], document["name"]) == ("topic", "t")
    assert document["configs"][0]["synonyms"][1] == {
        "name": "log.retention.ms", "value": "5000", "source": "static_broker",
    }  # fmt: skip


def test_what_holds_for_all_brokers_has_a_name() -> None:
    everybody = resource_of(Kind.BROKER, "default")
    assert everybody == Resource(ResourceKind.BROKER, "")
    assert plain(resources_table([everybody, TOPIC])) == "KIND    NAME\nbroker  default\ntopic   t\n"
    assert resources_json([everybody]) == [{"kind": "broker", "name": "default"}]
    assert resource_of(Kind.TOPIC, "default") == Resource(ResourceKind.TOPIC, "default")
    with pytest.raises(typer.BadParameter, match="number"):
        resource_of(Kind.BROKER, "one")
