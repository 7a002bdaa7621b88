"""The pytest plugin: `ottla_broker`, `ottla_cluster`, `ottla_topic`, and fresh ones for a test alone.

Owns: fixtures, their scope and what is put right between tests. Never knows: the inside of a broker. Invariants: pytest
pays for a broker only when a test asks for one; every process of a parallel run has its own; a fault that a test leaves
behind reaches no other test.
"""

import re
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TypeVar, cast
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from ottla.testing import Broker, Cluster
    from ottla.testing.embedded import System

S = TypeVar("S", bound="System")

LONGEST_SENTENCE = 80

_shared: "pytest.StashKey[list[System]]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("ottla_scope", "scope of ottla_broker and ottla_cluster: session or function", default="session")
    parser.addini("ottla_settings", "settings of every broker, one name=value a line", type="linelist", default=[])
    parser.addini("ottla_nodes", "how many nodes ottla_cluster has", default="3")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_shared] = []
    if config.getini("ottla_scope") not in ("session", "package", "module", "class", "function"):
        raise pytest.UsageError(f"ottla_scope is a scope of pytest, not {config.getini('ottla_scope')!r}")


def _scope(fixture_name: str, config: pytest.Config) -> Literal["session", "function"]:
    # A word of pytest's own, checked when it was configured; the two are those that people use.
    return cast('Literal["session", "function"]', config.getini("ottla_scope"))


def _settings(config: pytest.Config) -> dict[str, object]:
    settings: dict[str, object] = {}
    for line in config.getini("ottla_settings"):
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"ottla_settings has lines of the form name=value, not {line!r}")
        settings[name.strip()] = value.strip()
    return settings


def _broker(config: pytest.Config) -> "Iterator[Broker]":
    from ottla.testing.embedded import broker

    with broker(_settings(config)) as running:
        yield from _share(config, running)


def _cluster(config: pytest.Config) -> "Iterator[Cluster]":
    from ottla.testing.embedded import cluster

    with cluster(int(config.getini("ottla_nodes")), _settings(config)) as running:
        yield from _share(config, running)


def _share(config: pytest.Config, running: S) -> Iterator[S]:
    config.stash[_shared].append(running)
    yield running
    config.stash[_shared].remove(running)


@pytest.fixture(scope=_scope)
def ottla_broker(pytestconfig: pytest.Config) -> "Iterator[Broker]":
    """A real broker in this process, shared by the session's tests (see ottla_scope)."""
    yield from _broker(pytestconfig)


@pytest.fixture(scope=_scope)
def ottla_cluster(pytestconfig: pytest.Config) -> "Iterator[Cluster]":
    """A cluster of three nodes in this process, shared by the session's tests (see ottla_scope)."""
    yield from _cluster(pytestconfig)


@pytest.fixture
def ottla_fresh_broker(pytestconfig: pytest.Config) -> "Iterator[Broker]":
    """A broker for this test alone."""
    yield from _broker(pytestconfig)


@pytest.fixture
def ottla_fresh_cluster(pytestconfig: pytest.Config) -> "Iterator[Cluster]":
    """A cluster for this test alone."""
    yield from _cluster(pytestconfig)


@pytest.fixture
def ottla_topic(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a new topic with one partition, on whichever broker or cluster the test asks for; a shared broker
    where it asks for none."""
    from ottla.client.errors import BrokerError

    names = ("ottla_fresh_cluster", "ottla_cluster", "ottla_fresh_broker")
    chosen = next((name for name in names if name in request.fixturenames), "ottla_broker")
    system: System = request.getfixturevalue(chosen)
    sentence = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")
    topic = system.create_topic(f"{sentence[:LONGEST_SENTENCE]}-{uuid4().hex[:8]}")
    yield topic
    system.recover()
    with suppress(BrokerError):  # the test may have done so
        system.delete_topic(topic)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    outcome = yield
    for system in item.config.stash[_shared]:
        system.recover()
    return outcome
