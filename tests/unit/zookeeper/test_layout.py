"""Kafka's znodes, byte for byte where Kafka's tools look, and in the older forms that trees of older clusters have."""

import json
from typing import Any

import pytest

from ottla.base.vocabulary import identity_text
from ottla.metadata.image import PartitionImage, ResourceType, TopicImage
from ottla.zookeeper import layout
from ottla.zookeeper.layout import Assigned, BadZnode, Chosen, Presence

TOPIC_ID = bytes(range(16))


def said(data: bytes) -> Any:
    return json.loads(data)


def test_a_broker_says_where_it_listens_in_kafkas_version_5() -> None:
    presence = Presence(
        {"PLAINTEXT": ("host", 9092), "INSIDE": ("::1", 9093)},
        {"PLAINTEXT": 0, "INSIDE": 3},
        "rack-1",
        {"metadata.version": (1, 30)},
        77,
    )
    data = layout.presence_znode(presence, 1234)
    assert said(data) == {
        "version": 5,
        "host": "host",
        "port": 9092,
        "jmx_port": -1,
        "timestamp": "1234",
        "endpoints": ["PLAINTEXT://host:9092", "INSIDE://[::1]:9093"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT", "INSIDE": "SASL_SSL"},
        "features": {"metadata.version": {"min_version": 1, "max_version": 30}},
        "rack": "rack-1",
        "ottla": {"epoch": 77},
    }
    assert layout.read_presence(3, data) == presence


def test_a_broker_without_an_open_listener_names_no_host_to_old_clients() -> None:
    presence = Presence({"SECURE": ("host", 9093)}, {"SECURE": 1}, None, {}, 1)
    content = said(layout.presence_znode(presence, 0))
    assert (content["host"], content["port"]) == (None, -1)
    assert "rack" not in content


def test_a_broker_of_an_older_kafka_is_read() -> None:
    first = b'{"version":1,"host":"old","port":9092,"jmx_port":-1,"timestamp":"1"}'
    assert layout.read_presence(1, first) == Presence({"PLAINTEXT": ("old", 9092)}, {"PLAINTEXT": 0}, None, {}, -1)
    fourth = (
        b'{"version":4,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1","endpoints":["A://h:9092"],'
        b'"listener_security_protocol_map":{"A":"SSL"},"rack":"r"}'
    )
    assert layout.read_presence(1, fourth) == Presence({"A": ("h", 9092)}, {"A": 1}, "r", {}, -1)


def test_the_controller_is_named_as_kafka_names_it_and_where_it_listens_beside() -> None:
    data = layout.controller_znode(3, ("host", 4711), 99)
    content = said(data)
    assert content.pop("ottla") == {"host": "host", "port": 4711}
    assert content == {"version": 2, "brokerid": 3, "timestamp": "99", "kraftControllerEpoch": -1}
    assert layout.read_controller(data) == Chosen(3, ("host", 4711))
    assert layout.read_controller(b'{"version":1,"brokerid":5,"timestamp":"1"}') == Chosen(5, None)


def test_a_topic_says_who_holds_its_partitions_and_who_comes_and_goes() -> None:
    moving = PartitionImage((1, 2, 3), (1, 2), 1, 4, 9, adding=(3,), removing=(1,))
    topic = TopicImage("orders", TOPIC_ID, (PartitionImage((1, 2), (1,), 1, 0, 0), moving))
    data = layout.topic_znode(topic)
    assert said(data) == {
        "version": 3,
        "topic_id": identity_text(TOPIC_ID),
        "partitions": {"0": [1, 2], "1": [1, 2, 3]},
        "adding_replicas": {"1": [3]},
        "removing_replicas": {"1": [1]},
    }
    assert layout.read_topic("orders", data) == Assigned(TOPIC_ID, {0: ((1, 2), (), ()), 1: ((1, 2, 3), (3,), (1,))})
    assert layout.read_topic("old", b'{"version":1,"partitions":{"0":[7]}}') == Assigned(None, {0: ((7,), (), ())})


def test_the_state_of_a_partition_is_kafkas_and_its_version_is_the_partitions_epoch() -> None:
    plain = PartitionImage((1, 2), (2,), 2, 5, 8)
    data = layout.state_znode(plain, 6)
    assert data == b'{"version":1,"leader":2,"leader_epoch":5,"controller_epoch":6,"isr":[2]}'
    assert layout.read_state("path", data, 8, ((1, 2), (), ())) == plain


def test_what_kafka_keeps_only_in_a_quorum_stands_beside_the_state() -> None:
    whole = PartitionImage((1, 2), (), -1, 5, 8, (TOPIC_ID, bytes(16)), (), (), (2,), (1,), True)
    content = said(layout.state_znode(whole, 6))
    assert content["leader_recovery_state"] == 1
    assert content["ottla"] == {
        "directories": [identity_text(TOPIC_ID), identity_text(bytes(16))],
        "eligible_leader_replicas": [2],
        "last_known_elr": [1],
    }
    data = layout.state_znode(whole, 6)
    assert layout.read_state("path", data, 8, ((1, 2), (), ())) == whole
    reassigned = layout.read_state("path", data, 8, ((1, 2, 3), (), ()))
    assert reassigned.directories == (), "another program changed who holds it"


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        (ResourceType.TOPIC, "orders", "/config/topics/orders"),
        (ResourceType.BROKER, "", "/config/brokers/<default>"),
        (ResourceType.BROKER, "3", "/config/brokers/3"),
        (ResourceType.GROUP, "a/b", "/config/groups/a%2Fb"),
    ],
)
def test_settings_have_a_place_for_each_resource(kind: ResourceType, name: str, path: str) -> None:
    assert layout.config_path(kind, name) == path
    assert layout.entity_name(path.rpartition("/")[2]) == name
    change = layout.config_change_znode(kind, name)
    assert said(change) == {"version": 2, "entity_path": path.removeprefix("/config/")}
    assert layout.read_config_change("change", change) == (kind, name)


def test_settings_and_their_changes_in_older_forms_are_read() -> None:
    assert layout.config_znode({"retention.ms": "5"}) == b'{"version":1,"config":{"retention.ms":"5"}}'
    assert layout.read_config("path", b"") == {}
    assert layout.read_config("path", b'{"version":1,"config":{}}') == {}
    first = b'{"version":1,"entity_type":"topics","entity_name":"orders"}'
    assert layout.read_config_change("change", first) == (ResourceType.TOPIC, "orders")
    assert layout.read_config_change("change", b'{"version":2,"entity_path":"users/u"}') is None


def test_the_rest_is_as_kafka_writes_it() -> None:
    assert said(layout.producer_ids_znode(2, 3000)) == {
        "version": 1,
        "broker": 2,
        "block_start": "2000",
        "block_end": "2999",
    }
    assert layout.read_producer_ids(layout.producer_ids_znode(2, 3000)) == 3000
    assert said(layout.feature_znode({"group.version": 1})) == {
        "version": 2,
        "status": 1,
        "features": {"group.version": {"max_version_level": 1}},
    }
    assert said(layout.cluster_id_znode("abc")) == {"version": "1", "id": "abc"}
    assert said(layout.partitions_znode([("orders", 2)])) == {
        "version": 1,
        "partitions": [{"topic": "orders", "partition": 2}],
    }
    wanted = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
    assert layout.read_reassignment(wanted) == [("t", 0, (1, 2))]
    assert layout.reassignment_znode([layout.Move("t", 0, (1, 2))]) == wanted


@pytest.mark.parametrize("data", [b"", b"nonsense", b"[]", b"{}", b'{"version":1}', b'{"partitions":3}', b"\xff"])
def test_what_is_no_such_znode_is_refused_with_its_path(data: bytes) -> None:
    for read in (
        lambda: layout.read_topic("orders", data),
        lambda: layout.read_state("/brokers/topics/orders/partitions/0/state", data, 0, ((1,), (), ())),
        lambda: layout.read_controller(data),
        lambda: layout.read_registration(1, data),
        lambda: layout.read_reassignment(data),
        lambda: layout.read_producer_ids(data),
        lambda: layout.read_cluster_id(data),
        lambda: layout.read_number(layout.CONTROLLER_EPOCH, data),
    ):
        with pytest.raises(BadZnode, match="/"):
            read()
