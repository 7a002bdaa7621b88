"""`ottla cluster …`: a cluster on this machine, and how any cluster is.

Owns: the commands and their options. Never knows: processes (`node.local_processes`), requests (`client.admin`)
and layout (`cluster_views`).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.output import say, show, show_json
from ottla.cli.session import DEFAULT_BOOTSTRAP, DEFAULT_SECONDS, AsJson, Bootstrap, Seconds, with_cluster

if TYPE_CHECKING:
    from ottla.cli.cluster_views import Status
    from ottla.client.cluster import Cluster

app = typer.Typer(help="Run a cluster on this machine; see how a cluster is.", no_args_is_help=True)


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
) -> None:
    """Run a cluster on this machine, in the foreground, until Ctrl-C or SIGTERM.

    The first start writes a settings file a node, DIR/node-k/server.properties; later starts use what is there. With
    more --brokers than there are, new nodes join. A node that ends is not started again.

    \b
    ottla cluster start
    ottla cluster start --brokers 5 --port 19092 --data /var/lib/ottla
    """
    from ottla.node.local_processes import Wanted, run

    raise typer.Exit(run(Wanted(data, brokers, port, assignments or ())))


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
    from ottla.cli.cluster_views import brokers_table, quorum_table, status_json, summary, trouble_table

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
    trouble = trouble_table(found)
    if trouble.rows:
        say("\n")
        show(trouble)


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
