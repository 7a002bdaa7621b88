"""`ottla format`: give the data directories of a node to a cluster, before its first start."""

from typing import Annotated

import typer

from ottla.cli.failures import Failure
from ottla.cli.output import say, show_json
from ottla.cli.session import AsJson


def format(  # noqa: A001 - the verb that Kafka's storage tool has
    config: Annotated[str, typer.Option(help="The node's settings file, in Kafka's .properties form.")],
    cluster_id: Annotated[
        str | None, typer.Option(help="The id all nodes of the cluster share (default: a new one, which is printed).")
    ] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="This node votes alone at first; others can join it while it runs.")
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            metavar="ID@HOST:PORT:DIRECTORY,…", help="These vote at first; others can join them while they run."
        ),
    ] = None,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", help="Leave directories alone that belong to this node already.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Prepare a node of a cluster; a node that is its whole cluster needs no such step.

    ottla format --config node-1.properties
    ottla format --config node-2.properties --cluster-id 4L6g3nShT-eMCtK--X86sw
    ottla format --config node-1.properties --standalone
    ottla format --config node-1.properties --json | jq -r .cluster_id
    """
    from ottla.log.files import World
    from ottla.node.formatting import Wishes, format_directories
    from ottla.node.options import Options, StartFailure, resolve
    from ottla.runtime.disk import RealDisk
    from ottla.runtime.world import RealClock, RealRandom

    try:
        values = resolve(Options(config=config))
        wishes = Wishes(cluster_id, ignore_formatted, standalone, initial_controllers)
        cluster, directories = format_directories(World(RealDisk(), RealClock(), RealRandom()), values, wishes)
    except StartFailure as failure:
        raise Failure(str(failure)) from None
    node = values.integer("node.id")
    if as_json:
        found = [{"path": directory.path, "formatted": directory.new} for directory in directories]
        show_json({"node_id": node, "cluster_id": cluster, "directories": found})
        return
    for directory in directories:
        what = "formatted" if directory.new else "left as it is"
        say(f"{directory.path}: {what} (node {node}, cluster {cluster})\n")
