"""What a node does and whom it agrees with."""

import pytest

from ottla.base.settings.values import BrokerValues
from ottla.node.listeners import Address
from ottla.node.options import Options, StartFailure, resolve
from ottla.node.roles import NO_DIRECTORY, Roles, quorum_identity, roles_of, split_listeners, stands_alone

BROKER = Address("PLAINTEXT", "h", 9092)
CONTROLLER = Address("CONTROLLER", "h", 9093)
VOTERS = "controller.quorum.voters=1@a:9093,2@b:9093,3@[::1]:9093"


def values_with(*assignments: str) -> BrokerValues:
    return resolve(Options(assignments=assignments))


def test_a_node_that_names_nobody_is_its_whole_cluster() -> None:
    values = values_with()
    assert stands_alone(values)
    assert roles_of(values) == Roles(broker=True, controller=True)
    assert split_listeners(values, [BROKER]) == ([BROKER], [])
    identity = quorum_identity(values, "c", b"d" * 16, None)
    assert [(voter.voter_id, voter.directory_id, voter.endpoints) for voter in identity.voters] == [
        (1, NO_DIRECTORY, ())
    ]
    assert identity.can_vote


def test_voters_are_reached_where_the_setting_says() -> None:
    values = values_with(VOTERS, "node.id=2")
    identity = quorum_identity(values, "c", b"d" * 16, CONTROLLER)
    assert [(voter.voter_id, *voter.endpoints[0][1:]) for voter in identity.voters] == [
        (1, "a", 9093),
        (2, "b", 9093),
        (3, "::1", 9093),
    ]
    assert identity.endpoints[0].port == 9093


def test_a_broker_alone_follows_the_voters_without_a_vote() -> None:
    values = values_with(VOTERS, "node.id=4", "process.roles=broker")
    assert not quorum_identity(values, "c", b"d" * 16, None).can_vote
    assert split_listeners(values, [BROKER]) == ([BROKER], [])


def test_bootstrap_servers_are_taken_apart() -> None:
    values = values_with("controller.quorum.bootstrap.servers=a:1,b:2")
    assert quorum_identity(values, "c", b"d" * 16, CONTROLLER).bootstrap == (("a", 1), ("b", 2))


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        ((VOTERS, "node.id=7"), "does not name this node"),
        ((VOTERS, "node.id=1", "process.roles=broker"), "which is no controller"),
        (("process.roles=broker",), "needs controller.quorum.voters"),
        (("controller.quorum.voters=1@a:1,1@b:1",), "names a node twice"),
    ],
)
def test_roles_that_do_not_fit_the_voters_are_refused(assignments: tuple[str, ...], message: str) -> None:
    with pytest.raises(StartFailure, match=message):
        quorum_identity(values_with(*assignments), "c", b"d" * 16, CONTROLLER)


@pytest.mark.parametrize(
    ("assignments", "addresses", "message"),
    [
        (("process.roles=controller",), [BROKER, CONTROLLER], "this node is no broker"),
        (("process.roles=broker", VOTERS), [BROKER, CONTROLLER], "this node is none"),
        ((VOTERS,), [BROKER], "none for controllers"),
        ((), [CONTROLLER], "none for clients"),
    ],
)
def test_listeners_that_do_not_fit_the_roles_are_refused(
    assignments: tuple[str, ...], addresses: list[Address], message: str
) -> None:
    with pytest.raises(StartFailure, match=message):
        split_listeners(values_with(*assignments), addresses)
