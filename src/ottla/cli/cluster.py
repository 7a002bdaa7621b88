"""`ottla cluster …`: a cluster on this machine, and how any cluster is.

Owns: the commands and their options. Never knows: processes (`node.local_processes`), requests (`client.admin`)
layout (`cluster_views`, `quorum_views`, `log_dir_views`), who a voter is (`voters`).
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.output import Column, Table, say, show, show_json
from ottla.cli.session import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_SECONDS,
    AsJson,
    AsJsonLines,
    Bootstrap,
    Seconds,
    with_cluster,
)

if TYPE_CHECKING:
    from ottla.cli.cluster_views import Status
    from ottla.client.admin.brokers import Quorum
    from ottla.client.admin.nodes import Feature, LogDirectory
    from ottla.client.admin.part import Outcome
    from ottla.client.cluster import Cluster

app = typer.Typer(help="Run a cluster on this machine; see how a cluster is.", no_args_is_help=True)


class Coordination(StrEnum):
    """Who keeps a cluster's metadata."""

    QUORUM = "quorum"
    ZOOKEEPER = "zookeeper"


@app.command()
def start(
    brokers: Annotated[
        int | None, typer.Option(min=1, help="How many nodes (default 3, or as many as there are in DIR).")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of the first node; the others follow (default 9092).")
    ] = None,
    data: Annotated[
        str, typer.Option(metavar="DIR", help="Directory of the cluster: node k has its files in DIR/node-k.")
    ] = "./ottla-cluster",
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="One setting for all nodes, this time; repeat for more."),
    ] = None,
    coordination: Annotated[
        Coordination | None,
        typer.Option(help="Who keeps the metadata: the nodes' own quorum (default), or ZooKeeper servers beside them."),
    ] = None,
    zookeeper_servers: Annotated[
        int | None, typer.Option(min=1, max=7, help="How many ZooKeeper servers (default 1); only at the first start.")
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port for /metrics, /healthz and /readyz of node 1; the others follow."),
    ] = None,
    as_json: AsJsonLines = False,
) -> None:
    """Run a cluster on this machine, in the foreground, until Ctrl-C, SIGTERM or the end of its terminal.

    The first start writes a settings file a node, DIR/node-k/server.properties; later starts use what is there. With
    more --brokers than there are, new nodes join. A node that ends is not started again.

    \b
    ottla cluster start
    ottla cluster start --brokers 5 --port 19092 --data /var/lib/ottla
    ottla cluster start --metrics-port 9404
    ottla cluster start --coordination zookeeper --zookeeper-servers 3 --data ./classic
    ottla cluster start --json | jq --unbuffered -r .event
    """
    from ottla.node.local_processes import ClusterRequest, run

    chosen = None if coordination is None else coordination.value
    if zookeeper_servers is not None and chosen == Coordination.QUORUM:
        raise typer.BadParameter("a quorum has no ZooKeeper servers", param_hint="--zookeeper-servers")
    wanted = ClusterRequest(data, brokers, port, assignments or (), chosen, zookeeper_servers, metrics_port, as_json)
    raise typer.Exit(run(wanted))


@app.command()
def status(
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Show brokers, controller, metadata quorum, partitions in trouble and how evenly leaders are spread.

    \b
    ottla cluster status
    ottla cluster status --json | jq .offline
    """
    from ottla.cli.cluster_views import brokers_table, status_json, summary, trouble_table, troubles
    from ottla.cli.quorum_views import quorum_table

    async def work(cluster: "Cluster") -> "Status":
        return await _status(cluster, seconds)

    found = with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json(status_json(found))
        return
    say(summary(found) + "\n")
    show(brokers_table(found))
    if found.quorum is not None:
        say("\n")
        show(quorum_table(found.quorum))
    trouble = trouble_table(troubles(found))
    if trouble.rows:
        say("\n")
        show(trouble)


@app.command()
def quorum(
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Show who keeps the metadata log: leader, epoch, voters and observers, and how far each is behind.

    \b
    ottla cluster quorum
    ottla cluster quorum --json | jq '.voters[].lag'
    """
    from ottla.cli.quorum_views import places_table, quorum_json, quorum_summary

    async def work(cluster: "Cluster") -> "Quorum":
        return await _quorum(cluster, seconds)

    found = with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json(quorum_json(found))
        return
    say(quorum_summary(found) + "\n")
    show(places_table(found))


@app.command("add-voter")
def add_voter(
    node: Annotated[
        int | None, typer.Argument(metavar="NODE", min=0, help="The number of a controller that runs.")
    ] = None,
    listener: Annotated[
        list[str] | None,
        typer.Option("--listener", metavar="NAME://HOST:PORT", help="Where its controller listens; repeat for more."),
    ] = None,
    directory_id: Annotated[
        str | None, typer.Option("--directory-id", metavar="ID", help="Its directory; else as the quorum sees it.")
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="The node's settings file instead, on its machine.")
    ] = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Let a controller vote that follows the metadata log; the quorum's voters must be ones that can change.

    \b
    ottla cluster add-voter --config node-4.properties
    ottla cluster add-voter 4 --listener CONTROLLER://four.example:9093
    """
    from ottla.cli.outcomes import report
    from ottla.cli.voters import voter_named, voter_of_file
    from ottla.client.admin.nodes import NodeAdmin

    if (config is None) != bool(node is not None and listener):
        raise typer.BadParameter("say who shall vote: NODE with --listener, or --config FILE")
    of_file = None if config is None else voter_of_file(config)

    async def work(cluster: "Cluster") -> "tuple[int, Outcome]":
        voter = of_file
        if voter is None and node is not None:
            voter = voter_named(node, directory_id, listener or (), await _quorum(cluster, seconds))
        assert voter is not None, "the options were checked"
        added = NodeAdmin(cluster).add_voter(voter.node_id, voter.directory_id, voter.listeners, seconds)
        return voter.node_id, await added

    number, outcome = with_cluster(bootstrap, seconds, work)
    report("voter", {str(number): outcome}, "added", as_json=as_json)


@app.command("remove-voter")
def remove_voter(
    node: Annotated[int, typer.Argument(metavar="NODE", min=0, help="The number of a voter.")],
    directory_id: Annotated[
        str | None, typer.Option("--directory-id", metavar="ID", help="Only if it votes with this directory.")
    ] = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Take a controller's vote away; it goes on as an observer.

    \b
    ottla cluster remove-voter 4
    """
    from ottla.cli.outcomes import report
    from ottla.cli.voters import voter_to_remove
    from ottla.client.admin.nodes import NodeAdmin

    async def work(cluster: "Cluster") -> "Outcome":
        voter = voter_to_remove(node, directory_id, await _quorum(cluster, seconds))
        return await NodeAdmin(cluster).remove_voter(voter.node_id, voter.directory_id, seconds)

    report("voter", {str(node): with_cluster(bootstrap, seconds, work)}, "removed", as_json=as_json)


@app.command("log-dirs")
def log_dirs(
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPIC…", help="Only these topics; none: all.")] = None,
    broker: Annotated[
        list[int] | None, typer.Option("--broker", metavar="ID", min=0, help="Only this broker; repeat for more.")
    ] = None,
    partitions: Annotated[bool, typer.Option("--partitions", help="Show every replica instead of sums.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Show what the brokers' log directories hold: sizes by directory and topic, free space, directories offline.

    \b
    ottla cluster log-dirs
    ottla cluster log-dirs orders --partitions
    ottla cluster log-dirs --broker 1 --json | jq '.[].size'
    """
    from ottla.cli import log_dir_views as views
    from ottla.cli.failures import Failure
    from ottla.client.admin.nodes import NodeAdmin

    async def work(cluster: "Cluster") -> "dict[int, tuple[LogDirectory, ...]]":
        missing = sorted(set(broker or ()) - set(cluster.brokers))
        if missing:
            raise Failure(f"there is no broker {missing[0]}; 'ottla cluster status' shows who is there")
        return await NodeAdmin(cluster).log_directories(broker or None, seconds)

    found = views.of_topics(with_cluster(bootstrap, seconds, work), topics or ())
    if as_json:
        show_json(views.directories_json(found))
    elif partitions:
        show(views.replicas_table(found))
    else:
        show(views.directories_table(found))
        say("\n")
        show(views.topics_table(found))


@app.command()
def features(
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Show the features of the cluster: the level that is on, and those its brokers can do.

    \b
    ottla cluster features
    """
    from ottla.client.admin.nodes import NodeAdmin

    async def work(cluster: "Cluster") -> "dict[str, Feature]":
        return await NodeAdmin(cluster).features(seconds)

    found = sorted(with_cluster(bootstrap, seconds, work).items())
    if as_json:
        show_json([{"feature": name, **feature._asdict()} for name, feature in found])
        return
    columns = [Column("FEATURE"), Column("LEVEL", True), Column("LOWEST", True), Column("HIGHEST", True)]
    show(Table(columns, [[name, *map(str, feature)] for name, feature in found]))


@app.command("set-feature")
def set_feature(
    levels: Annotated[
        list[str], typer.Argument(metavar="FEATURE=LEVEL…", help="The level a feature shall have; 0 turns it off.")
    ],
    downgrade: Annotated[bool, typer.Option("--downgrade", help="The level is lower, and nothing gets lost.")] = False,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="The level is lower, and metadata may get lost.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say whether it could be done.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Set the level of features: all of what is asked for, or nothing.

    \b
    ottla cluster set-feature metadata.version=27 --dry-run
    ottla cluster set-feature transaction.version=1 --downgrade
    """
    from ottla.cli.named import whole_number
    from ottla.cli.outcomes import report
    from ottla.cli.topic import parse_settings
    from ottla.client.admin.nodes import FeatureChange, NodeAdmin

    wanted = {name: whole_number(level, name) for name, level in parse_settings(levels, "FEATURE=LEVEL").items()}
    lower = FeatureChange.UNSAFE_DOWNGRADE if unsafe else FeatureChange.SAFE_DOWNGRADE
    change = lower if downgrade or unsafe else FeatureChange.UPGRADE

    async def work(cluster: "Cluster") -> "dict[str, Outcome]":
        return await NodeAdmin(cluster).update_features(wanted, change, seconds, validate_only=dry_run)

    report("feature", with_cluster(bootstrap, seconds, work), "settable" if dry_run else "set", as_json=as_json)


@app.command()
def unregister(
    node: Annotated[int, typer.Argument(metavar="BROKER", min=0, help="The number of a broker that is gone.")],
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Forget a broker that will not come back; move its replicas to others first.

    \b
    ottla cluster unregister 4
    """
    from ottla.cli.failures import Failure
    from ottla.cli.outcomes import report
    from ottla.client.admin.brokers import BrokerAdmin
    from ottla.client.admin.nodes import NodeAdmin

    async def work(cluster: "Cluster") -> "Outcome":
        known = (await BrokerAdmin(cluster).describe_cluster(seconds)).brokers
        if any(broker.node_id == node and not broker.fenced for broker in known):
            raise Failure(f"broker {node} is up, and would go on as one that nobody knows; stop it first")
        return await NodeAdmin(cluster).unregister_broker(node, seconds)

    report("broker", {str(node): with_cluster(bootstrap, seconds, work)}, "unregistered", as_json=as_json)


async def _quorum(cluster: "Cluster", seconds: float) -> "Quorum":
    from ottla.base.errors import ErrorCode
    from ottla.cli.failures import Failure
    from ottla.client.admin.brokers import BrokerAdmin
    from ottla.client.errors import BrokerError, UnsupportedRequest

    try:
        return await BrokerAdmin(cluster).describe_quorum(seconds)
    except (UnsupportedRequest, BrokerError) as problem:
        if isinstance(problem, BrokerError) and problem.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        raise Failure(
            "this cluster has no quorum that keeps its metadata, as one with ZooKeeper has none; "
            "'ottla cluster status' shows its controller"
        ) from problem


async def _status(cluster: "Cluster", seconds: float) -> "Status":
    from ottla.cli.cluster_views import MIN_IN_SYNC, Status
    from ottla.client.admin.brokers import BrokerAdmin
    from ottla.client.admin.topics import TopicAdmin
    from ottla.client.errors import ClientError

    admin, operator = TopicAdmin(cluster), BrokerAdmin(cluster)
    state = await operator.describe_cluster(seconds)
    topics = await admin.topics(seconds)
    try:
        quorum = await operator.describe_quorum(seconds)
    except ClientError:
        quorum = None  # not every cluster has one, and not every one tells us
    least = await admin.topic_setting([topic.name for topic in topics], MIN_IN_SYNC, seconds)
    return Status(state, quorum, topics, {name: int(value) for name, value in least.items()})
