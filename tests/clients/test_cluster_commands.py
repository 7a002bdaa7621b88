"""`ottla cluster …` and `ottla partition …` on a cluster: what is shown is so, what is ordered is done."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kit.brokers.cluster_processes import ClusterProcesses
from kit.brokers.command_line import Ottla
from kit.brokers.processes import free_port, until
from ottla import TopicPartition, blocking
from ottla import testing as ottla_testing
from ottla.admin import NewTopic, Partition, Resource, ResourceKind
from ottla.client.admin.brokers import FOLLOWER_RATE, FOLLOWER_THROTTLED, LEADER_THROTTLED
from ottla.errors import BrokerError, ErrorCode

TOPIC, BROKER = ResourceKind.TOPIC, ResourceKind.BROKER
SECONDS = 60.0
OTTLA = str(Path(sys.executable).with_name("ottla"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("commands"), 4, {"auto.leader.rebalance.enable": "false"}) as running:
        yield running


def ottla(cluster: ClusterProcesses, *arguments: str, code: int = 0) -> str:
    """What a command prints; standard error when it is to fail."""
    answer = Ottla(cluster.bootstrap).attempt(*arguments)
    assert answer.returncode == code, answer
    return (answer.stderr if code else answer.stdout).decode()


def status(cluster: ClusterProcesses) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ottla(cluster, "cluster", "status", "--json"))
    return found


def replicas(cluster: ClusterProcesses, topic: str, index: int = 0) -> list[int]:
    return list(cluster.partition(topic, index)["replica_nodes"])


def until_every_node(
    cluster: ClusterProcesses, topic: str, is_so: Callable[[dict[str, Any]], bool], index: int = 0
) -> None:
    """What a command has done is known where it asked; the next command may ask another node."""

    def sees(number: int) -> bool:
        answer = cluster.metadata(number, topic)
        rows = answer["topics"][0]["partitions"] if answer else ()
        return any(is_so(row) for row in rows if row["partition_index"] == index)

    until(lambda: all(map(sees, cluster.nodes)), f"every node knows of {topic}:{index}", SECONDS)


def fill(cluster: ClusterProcesses, topic: str, size: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "log_level": 0})
    for _ in range(size // 10_000):
        producer.produce(topic, b"x" * 10_000, partition=0)
        producer.poll(0)
    assert producer.flush(SECONDS) == 0


def test_status_shows_a_missing_broker_and_what_it_leaves_behind(cluster: ClusterProcesses, topic: str) -> None:
    cluster.create_topic(topic, 2)

    def is_whole() -> bool:
        """What one node knows another may hear of a moment later, and on a busy machine the controller changes."""
        shown = status(cluster)
        voters, observers = ([each["id"] for each in shown["quorum"][role]] for role in ("voters", "observers"))
        known = (shown["controller"] == cluster.controller(), voters, observers, shown["under_replicated"])
        return known == (True, [1, 2, 3], [4], [])

    def is_broken() -> bool:
        shown = status(cluster)
        under = [(row["topic"], row["partition"]) for row in shown["under_replicated"]]
        fenced = gone not in [broker["id"] for broker in shown["brokers"] if not broker["fenced"]]
        return fenced and (topic, 0) in under

    until(is_whole, "everything is in order", SECONDS)
    gone = replicas(cluster, topic)[0]
    cluster.stop(gone)
    until(is_broken, "one broker and its replicas are missing", SECONDS)
    assert "under-replicated" in ottla(cluster, "cluster", "status")
    cluster.start(gone)
    cluster.heal()
    until(is_whole, "everything is in order again", SECONDS)


def test_elect_gives_leadership_back(cluster: ClusterProcesses, topic: str) -> None:
    cluster.create_topic(topic)
    preferred = replicas(cluster, topic)[0]
    cluster.restart(preferred)
    cluster.heal()
    assert cluster.leader(topic) != preferred
    assert f"elected a leader for {topic}:0" in ottla(cluster, "partition", "elect", f"{topic}:0")
    until_every_node(cluster, topic, lambda row: row["leader_id"] == preferred)
    assert "led as it should be" in ottla(cluster, "partition", "elect", topic)
    assert "does not exist" in ottla(cluster, "partition", "elect", f"{topic}-not", code=1)


def test_reassign_moves_bounds_shows_and_cancels(cluster: ClusterProcesses, topic: str) -> None:
    cluster.create_topic(topic, copies=2)
    fill(cluster, topic, 3_000_000)
    before = replicas(cluster, topic)
    target = [broker for broker in cluster.nodes if broker not in before]
    order = f"{topic}:0={','.join(map(str, target))}"
    assert "moving 1 partition" in ottla(cluster, "partition", "reassign", order, "--throttle", "10KB", "--no-wait")
    (move,) = json.loads(ottla(cluster, "partition", "reassign", "--status", "--json"))
    assert sorted(move["adding"]) == sorted(target)
    assert 0 <= move["copied"] < move["size"]
    assert "cancelled 1 partition" in ottla(cluster, "partition", "reassign", "--cancel", topic)
    until_every_node(cluster, topic, lambda row: sorted(row["replica_nodes"]) == sorted(before))
    assert "no partition is being moved" in ottla(cluster, "partition", "reassign", "--status")
    done = json.loads(ottla(cluster, "partition", "reassign", order, "--json"))
    assert (done["moved"], done["partitions"][0]["replicas"]) == (True, target)
    until_every_node(cluster, topic, lambda row: row["replica_nodes"] == target and row["leader_id"] == target[0])
    assert "no such broker" in ottla(cluster, "partition", "reassign", f"{topic}:0=77", code=1).replace("\n", " ")


def test_balance_shows_its_plan_and_carries_it_out_when_told_to(cluster: ClusterProcesses, topic: str) -> None:
    cluster.create_topic(topic, 4, 1)
    for index in range(4):
        ottla(cluster, "partition", "reassign", f"{topic}:{index}=1")
        until_every_node(cluster, topic, lambda row: row["replica_nodes"] == [1], index)
    shown = ottla(cluster, "partition", "balance", topic)
    assert "add --yes to carry this plan out" in shown
    assert [replicas(cluster, topic, index) for index in range(4)] == [[1]] * 4
    assert "moved 3 partitions" in ottla(cluster, "partition", "balance", topic, "--yes")

    def spread(number: int) -> bool:
        answer = cluster.metadata(number, topic)
        rows = answer["topics"][0]["partitions"] if answer else ()
        return sorted(row["replica_nodes"] for row in rows) == [[1], [2], [3], [4]]

    until(lambda: all(map(spread, cluster.nodes)), "a partition on each node, in the eyes of every node", SECONDS)
    assert "nothing to do" in ottla(cluster, "partition", "balance", topic)


def test_an_observer_gets_a_vote_and_loses_it(tmp_path: Path) -> None:
    """Voters that can change: the first node votes alone, the second follows its log until it is told to vote."""
    files = [tmp_path / f"node-{number}.properties" for number in (1, 2)]
    brokers = [free_port(), free_port()]
    controllers = [free_port(), free_port()]
    for number, file in enumerate(files, start=1):
        file.write_text(
            f"node.id={number}\nprocess.roles=broker,controller\ncontroller.listener.names=CONTROLLER\n"
            f"listeners=PLAINTEXT://127.0.0.1:{brokers[number - 1]},CONTROLLER://127.0.0.1:{controllers[number - 1]}\n"
            f"controller.quorum.bootstrap.servers=127.0.0.1:{controllers[0]}\nlog.dirs={tmp_path / f'data-{number}'}\n"
        )
    cluster_id = "4L6g3nShT-eMCtK--X86sw"
    for file, more in zip(files, (["--standalone"], []), strict=True):
        formatting = [OTTLA, "format", "--config", str(file), "--cluster-id", cluster_id, *more]
        subprocess.run(formatting, check=True, capture_output=True, timeout=60)
    command = Ottla(f"127.0.0.1:{brokers[0]}")

    def roles() -> tuple[list[int], list[int]]:
        """Who votes and who observes; nobody while the quorum does not answer."""
        answer = command.attempt("cluster", "quorum", "--json")
        document = json.loads(answer.stdout) if answer.returncode == 0 else {"voters": [], "observers": []}
        return [row["id"] for row in document["voters"]], [row["id"] for row in document["observers"]]

    with contextlib.ExitStack() as stack:
        for number, file in enumerate(files, start=1):
            log = stack.enter_context((tmp_path / f"log-{number}").open("wb"))
            node = subprocess.Popen([OTTLA, "serve", "--config", str(file)], stdout=log, stderr=log)
            stack.callback(node.wait)
            stack.callback(node.kill)
        until(lambda: roles() == ([1], [2]), "one votes and one follows", 60)
        listener = f"CONTROLLER://127.0.0.1:{controllers[1]}"
        assert command.lines("cluster", "add-voter", "2", "--listener", listener) == ["added voter '2'"]
        until(lambda: roles() == ([1, 2], []), "two vote", 60)
        assert command.lines("cluster", "remove-voter", "2") == ["removed voter '2'"]
        until(lambda: roles() == ([1], [2]), "one votes and one follows", 60)
        (added,) = command.json("cluster", "add-voter", "--config", str(files[1]))
        assert (added["voter"], added["added"]) == ("2", True)
        until(lambda: roles() == ([1, 2], []), "two vote", 60)


def test_an_admin_moves_bounds_and_elects_on_several_nodes() -> None:
    """What the commands are made of, on a cluster in this process."""
    with (
        ottla_testing.cluster(3, auto_leader_rebalance_enable=False) as nodes,
        blocking.Admin(bootstrap_servers=nodes.bootstrap) as admin,
    ):
        place = TopicPartition("moved", 0)
        (created,) = admin.create_topics([NewTopic("moved", assignments={0: [1, 2]})]).values()
        assert created.error == ErrorCode.NONE

        def partition() -> Partition | None:
            topic = admin.describe_topics(["moved"])["moved"]
            return None if isinstance(topic, BrokerError) else topic.partitions[0]

        def replicas() -> tuple[int, ...]:
            found = partition()
            return found.replicas if found is not None and found.leader >= 0 else ()

        def leader() -> int:
            found = partition()
            return -1 if found is None else found.leader

        def setting(kind: ResourceKind, name: str, wanted: str) -> str | None:
            configs = admin.describe_configs(Resource(kind, name))
            return next((config.value for config in configs if config.name == wanted), None)

        until(lambda: replicas() == (1, 2), "the topic is where it was put", SECONDS)
        admin.throttle({place: ((1, 2), (3,))}, 1_000_000)
        until(lambda: setting(TOPIC, "moved", LEADER_THROTTLED) == "0:1,0:2", "a bound for who sends", SECONDS)
        until(lambda: setting(TOPIC, "moved", FOLLOWER_THROTTLED) == "0:3", "a bound for who receives", SECONDS)
        until(lambda: setting(BROKER, "3", FOLLOWER_RATE) == "1000000", "the bound itself", SECONDS)
        assert admin.reassign({place: [9]})[place].error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert admin.reassign({place: [3, 1]})[place].error == ErrorCode.NONE
        until(lambda: not admin.reassignments([place]) and replicas() == (3, 1), "the end of the move", SECONDS)
        assert admin.reassign({place: None})[place].error == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        admin.unthrottle(["moved"], [1, 2, 3])
        until(lambda: not setting(TOPIC, "moved", LEADER_THROTTLED), "no bound", SECONDS)
        elected = admin.elect_leaders([place])[place]
        assert elected.error in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
        until(lambda: leader() == 3, "the first replica leads", SECONDS)
        assert admin.elect_leaders([place])[place].error == ErrorCode.ELECTION_NOT_NEEDED

        def holders() -> list[int]:
            return [node for node, (only,) in admin.log_directories().items() if place in only.replicas]

        until(lambda: holders() == [1, 3], "nothing is left where it came from", SECONDS)
        assert sorted(node for node, found in admin.replica_sizes().items() if place in found) == [1, 3]
        fixed = admin.remove_voter(2, bytes(16))
        assert fixed.error == ErrorCode.UNSUPPORTED_VERSION  # the voters of this cluster are fixed
